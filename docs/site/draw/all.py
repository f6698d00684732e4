"""Every picture by name; as a program, it writes the README's to its file."""

from __future__ import annotations

import pathlib
import sys

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from draw import blocks, lifeline, machine, policies, states, translation
from draw.paper import paper, svg

README_PICTURE = "lifeline"
COMMITTED = pathlib.Path(__file__).resolve().parents[2] / f"{README_PICTURE}.svg"
_DRAWN = {
    "machine": machine.draw,
    "blocks": blocks.draw,
    "translation": translation.draw,
    "lifeline": lifeline.draw,
    "policies": policies.draw,
    "states": states.draw,
}


def draw_all() -> dict[str, str]:
    """The text of each picture's SVG file."""
    with paper():
        return {name: svg(draw()) for name, draw in _DRAWN.items()}


if __name__ == "__main__":
    COMMITTED.write_text(draw_all()[README_PICTURE], encoding="utf-8")
    print(COMMITTED)
