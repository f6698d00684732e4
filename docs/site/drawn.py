"""Pictures that the engine draws while the pages are built, so that they say what it does and have
the page's colors.

pagewire-picture NAME, with words for who cannot see it: what a page shows where no site is built.
README.md has a file of one of them; when it says something else than the new picture, that is a
warning.
"""

from __future__ import annotations

import functools
import html

from docutils import nodes
from draw.all import COMMITTED, README_PICTURE, draw_all
from draw.paper import inline, words
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

_logger = logging.getLogger(__name__)


@functools.cache
def pictures() -> dict[str, str]:
    return draw_all()


class Picture(SphinxDirective):
    """The drawing stands in the page itself."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        (name,) = self.arguments
        if name not in pictures():
            raise self.error(f"no picture is drawn as '{name}'")
        if not self.content:
            raise self.error(f"picture '{name}' has no words for who cannot see it")
        label = html.escape(" ".join(self.content), quote=True)
        head = f'<div class="drawn" role="img" aria-label="{label}">'
        return [nodes.raw("", f"{head}{inline(pictures()[name])}</div>", format="html")]


def compare(app: Sphinx) -> None:
    """The README's picture with the one that is drawn now."""
    kept = COMMITTED.read_text(encoding="utf-8") if COMMITTED.is_file() else ""
    if words(kept) != words(pictures()[README_PICTURE]):
        _logger.warning(
            "%s does not say what the engine does: ./mpirun.sh docs --draw makes it anew", COMMITTED
        )


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("pagewire-picture", Picture)
    app.connect("builder-inited", compare)
    return {"parallel_read_safe": True}
