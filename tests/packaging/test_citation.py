"""CITATION.cff says what meson.build, pyproject.toml and LICENSE say."""

import pathlib
import re
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
CITATION = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def said(key: str) -> str:
    """The value of a key of the file's own, without what is indented below it."""
    return re.search(rf"^{key}: (.+)$", CITATION, re.MULTILINE)[1]


def test_version_is_that_of_the_build():
    build = (ROOT / "meson.build").read_text(encoding="utf-8")
    assert said("version") == re.search(r"version: '([^']+)'", build)[1]


def test_title_licence_and_abstract_are_the_projects():
    assert said("title") == PROJECT["name"]
    assert said("license") == PROJECT["license"]
    assert PROJECT["description"] in " ".join(CITATION.split())


def test_authors_are_those_of_the_licence():
    holders = re.search(r"Copyright \(c\) (.+)", (ROOT / "LICENSE").read_text(encoding="utf-8"))[1]
    assert re.search(r"^authors:\n  - name: (.+)\n\w", CITATION, re.MULTILINE)[1] == holders
