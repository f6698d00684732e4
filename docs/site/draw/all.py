"""Every picture by name; as a program, it writes them to docs/pictures/."""

from __future__ import annotations

import pathlib
import sys

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from draw import blocks, lifeline, machine, policies, states, translation
from draw.paper import paper, svg

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "pictures"
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
    for name, text in draw_all().items():
        path = FOLDER / f"{name}.svg"
        path.write_text(text, encoding="utf-8")
        print(path)
