"""Pictures of docs/pictures/ become part of the page, so that they have the page's colors, and are
drawn anew for it. A committed picture that says something else than the new one is a warning.

A diagram in mermaid, which GitHub draws, would need a program from a network: in its place stands
the picture of the same table.
"""

from __future__ import annotations

import functools
import html
import pathlib

from docutils import nodes
from draw.all import FOLDER, draw_all
from draw.paper import inline, words
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

MERMAID_PICTURE = "states"
_logger = logging.getLogger(__name__)


@functools.cache
def pictures() -> dict[str, str]:
    return draw_all()


class Draw(SphinxTransform):
    """Before Sphinx collects the images of a page."""

    default_priority = 50

    def apply(self, **kwargs: object) -> None:
        for image in list(self.document.findall(nodes.image)):
            path = pathlib.PurePosixPath(image["uri"])
            if path.parent.name == FOLDER.name and path.suffix == ".svg":
                image.replace_self(self._drawn(path.stem, image.get("alt", ""), image))
        for block in list(self.document.findall(nodes.literal_block)):
            if block.get("language") == "mermaid":
                text = "States of a block, and the events that lead from one to another"
                block.replace_self(self._drawn(MERMAID_PICTURE, text, block))

    def _drawn(self, name: str, alternative: str, place: nodes.Element) -> nodes.Node:
        if name not in pictures():
            _logger.warning("no picture is drawn as '%s'", name, location=place)
            return nodes.paragraph()
        committed = FOLDER / f"{name}.svg"
        text = pictures()[name]
        if not committed.is_file() or words(committed.read_text(encoding="utf-8")) != words(text):
            _logger.warning(
                "%s does not say what the engine does: ./mpirun.sh docs --draw makes it anew",
                committed,
                location=place,
            )
        if not alternative:
            _logger.warning("picture '%s' has no words for who cannot see it", name, location=place)
        label = html.escape(alternative, quote=True)
        return nodes.raw(
            "",
            f'<div class="drawn" role="img" aria-label="{label}">{inline(text)}</div>',
            format="html",
        )


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(Draw)
    return {"parallel_read_safe": True}
