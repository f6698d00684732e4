"""A page of `--html`, read back."""

import json
import pathlib
import re
from xml.etree import ElementTree


class Page:
    """The page as a tree: it parses as XML, so that it is well-formed."""

    def __init__(self, path: pathlib.Path) -> None:
        self.text = path.read_text(encoding="utf-8")
        assert self.text.startswith("<!DOCTYPE html>\n")
        self.root = ElementTree.fromstring(self.text.partition("\n")[2])

    def section(self, name: str, within: ElementTree.Element | None = None) -> ElementTree.Element:
        top = self.root if within is None else within
        found = [each for each in top.iter("section") if each.get("data-section") == name]
        assert len(found) == 1, (name, len(found))
        return found[0]

    def sections(self) -> list[str]:
        return [each.get("data-section", "") for each in self.root.iter("section")]

    def runs(self) -> dict[str, ElementTree.Element]:
        """Of a comparison: each run's part, by name."""
        return {
            each.get("data-run", ""): each
            for each in self.root.iter("details")
            if each.get("data-run")
        }


def values(part: ElementTree.Element, tag: str = "") -> list[float]:
    """The figures of a part, in their order."""
    return [
        json.loads(each.get("data-value", ""))
        for each in part.iter()
        if each.get("data-value") is not None and tag in ("", each.tag)
    ]


def text_of(part: ElementTree.Element) -> str:
    return " ".join("".join(part.itertext()).split())


def check_self_contained(text: str) -> None:
    """Nothing in it makes a browser ask anybody."""
    assert not re.search(r"(?i)<(script|link|img|iframe|object|embed|base|form|image|use)\b", text)
    assert not re.search(r"(?i)\b(src|href|srcset|action|data|background)\s*=\s*[\"']", text)
    assert not re.search(r"(?i)https?:|url\(|@import|@font-face", text)
