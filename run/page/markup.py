"""Elements of a page as text that is well-formed XML too; whatever is no element is escaped."""

import re
from collections.abc import Iterable
from typing import Any
from xml.sax.saxutils import escape, quoteattr

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Names of programs and files may hold any byte."""


class Html(str):
    """Text that is markup already."""


def element(name: str, /, *children: Any, **attributes: Any) -> Html:
    """An element; a None child or attribute is left out. class_ is class, data_x is data-x."""
    words = [name]
    for key, value in attributes.items():
        if value is not None:
            words.append(f"{key.rstrip('_').replace('_', '-')}={quoteattr(_plain(value))}")
    head = " ".join(words)
    if name in ("meta", "br", "input"):
        return Html(f"<{head}/>")
    return Html(f"<{head}>{join(*children)}</{name}>")


def join(*children: Any) -> Html:
    """Children one behind the other."""
    return Html("".join(_child(each) for each in children if each is not None))


def table(heads: Iterable[Any], rows: Iterable[Iterable[Any]], /, **attributes: Any) -> Html:
    """A table with a row of heads; a head or a cell that is no element becomes one."""

    def row_of(name: str, cells: Iterable[Any]) -> Html:
        made = (cell if isinstance(cell, Html) else element(name, cell) for cell in cells)
        return element("tr", *made)

    made = [row_of("th", heads), *(row_of("td", row) for row in rows)]
    return element("table", *made, **attributes)


def figure(value: int) -> Html:
    """The cell of a figure, with the figure as it was counted."""
    return element("td", f"{value:,}", data_value=value)


def note(text: str) -> Html:
    """A sentence beside a picture."""
    return element("p", text, class_="dim")


def _child(value: Any) -> str:
    return value if isinstance(value, Html) else escape(_plain(value))


def _plain(value: Any) -> str:
    return _NOT_XML.sub("\ufffd", str(value))
