"""Sphinx's configuration of the documentation: docs/*.md, tables out of the registry, pictures out
of the engine. Nothing is loaded from a network, neither here nor by the pages."""

import importlib.metadata
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

project = "pagewire"
author = "pagewire"
release = importlib.metadata.version("pagewire")
extensions = ["myst_parser", "sphinx.ext.autodoc", "generated", "drawn"]
exclude_patterns = ["site/*"]

myst_heading_anchors = 4  # anchors as on GitHub, where the pages are read too
myst_enable_extensions = ["deflist"]

autoclass_content = "both"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_preserve_defaults = True
default_role = "code"  # `name` in docstrings

html_theme = "furo"
html_title = f"pagewire {release}"
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
pygments_style = "default"
pygments_dark_style = "github-dark"
