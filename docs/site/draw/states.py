"""The life of a block at its source, from the firmware's own table."""

import textwrap

from matplotlib.figure import Figure

from draw.paper import BLUE, GREEN, GREY, INK, ORANGE, RED, box
from pagewire.r5sched.protocol import STATES, TRANSITIONS

# Where a state stands, and its color.
_PLACES = {
    "free": (0.0, 3.0, GREY),
    "issued": (4.6, 3.0, BLUE),
    "acked": (2.3, 5.6, GREEN),
    "nacked": (9.2, 3.0, RED),
    "retransmitted": (6.9, 0.0, ORANGE),
}
_WIDTH, _HEIGHT = 1.7, 0.6


def draw() -> Figure:
    assert set(_PLACES) == set(STATES)
    events: dict[tuple[str, str], list[str]] = {}
    for (state, event), transition in TRANSITIONS.items():
        events.setdefault((state, transition.next), []).append(event)
    figure = Figure(figsize=(7.2, 6.0), layout="constrained")
    plot, legend = figure.subplots(2, 1, height_ratios=(3.4, 2.6))
    for each in (plot, legend):
        each.set_axis_off()
    centers = {name: (x + _WIDTH / 2, y + _HEIGHT / 2) for name, (x, y, _) in _PLACES.items()}
    numbers: list[str] = []
    for idx, ((of, to), found) in enumerate(sorted(events.items()), 1):
        numbers.append(f"{idx}  {of} to {to}: {', '.join(found)}")
        start, end = centers[of], centers[to]
        if of == to:
            plot.text(start[0], start[1] - 0.48, f"{idx} (stays)", ha="center", va="top", size=8)
            continue
        bend = 0.18
        plot.annotate(
            "",
            xy=end,
            xytext=start,
            arrowprops={
                "arrowstyle": "-|>",
                "color": INK,
                "shrinkA": 24,
                "shrinkB": 26,
                "connectionstyle": f"arc3,rad={bend}",
            },
        )
        # The middle of the arc that annotate draws: a bit outside of it.
        across = (end[1] - start[1], start[0] - end[0])
        x = (start[0] + end[0]) / 2 + across[0] * bend * 0.62
        y = (start[1] + end[1]) / 2 + across[1] * bend * 0.62
        plot.text(x, y, str(idx), ha="center", va="center", size=8, weight="bold")
    for name, (x, y, color) in _PLACES.items():
        box(plot, x, y, _WIDTH, _HEIGHT, name, color)
    plot.set_xlim(-0.1, 11.0)
    plot.set_ylim(-0.6, 6.3)
    lines = [
        line for each in numbers for line in textwrap.wrap(each, 88, subsequent_indent="\u2003")
    ]
    legend.text(0.0, 1.0, "\n".join(lines), va="top", size=8, linespacing=1.4)
    return figure
