"""Two nodes and the way of a write between them."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from draw.paper import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, arrow, box, sheet

_PARTS = (
    ("program, MPI", GREY),
    ("R5: firmware", BLUE),
    ("NI: send, receive", GREEN),
    ("SMMU: TLBs, page walks", PURPLE),
    ("memory: its pages", GREY),
)
_WIDTH, _HEIGHT, _STEP = 2.6, 0.5, 0.8


def draw() -> Figure:
    figure, plot = sheet(7.2, 3.9)
    _node(plot, 0.0, "source")
    _node(plot, 5.4, "destination")
    box(plot, 5.4 + _WIDTH + 0.35, 1.2, 1.5, 1.3, "driver:\nhandler,\ntasklet,\nlibrary", ORANGE)
    arrow(plot, (5.4 + _WIDTH, 1.05), (5.4 + _WIDTH + 0.5, 1.2), ORANGE)
    plot.text(5.4 + _WIDTH + 0.45, 0.85, "5 interrupt", ha="left", va="center")

    middle = 2 * _STEP + _HEIGHT / 2
    _down(plot, 0.4, 4, 3, "1 descriptor")
    _down(plot, 0.4, 3, 2, "2 blocks")
    _down(plot, 0.4, 2, 0, "3 read")
    arrow(plot, (_WIDTH, middle + 0.1), (5.4, middle + 0.1), GREEN)
    plot.text(4.0, middle + 0.2, "4 packets of 256 B", ha="center", va="bottom")
    arrow(plot, (5.4, middle - 0.1), (_WIDTH, middle - 0.1), INK)
    plot.text(4.0, middle - 0.2, "6 ACK, NACK or ERR", ha="center", va="top")
    _down(plot, 5.8, 2, 0, "5 write")
    plot.set_xlim(-0.05, 10.0)
    plot.set_ylim(-0.1, 4.2)
    return figure


def _node(plot: Axes, x: float, name: str) -> None:
    for idx, (text, color) in enumerate(reversed(_PARTS)):
        box(plot, x, idx * _STEP, _WIDTH, _HEIGHT, text, color)
    plot.text(x + _WIDTH / 2, len(_PARTS) * _STEP - 0.2, name, ha="center", weight="bold")


def _down(plot: Axes, x: float, start: int, end: int, text: str) -> None:
    """From one part of a node to one below; past those between."""
    for each in range(start, end, -1):
        arrow(plot, (x, each * _STEP), (x, (each - 1) * _STEP + _HEIGHT))
    plot.text(x + 0.1, start * _STEP - (_STEP - _HEIGHT) / 2, text, va="center")
