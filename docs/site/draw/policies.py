"""What a fault costs under each policy, and what touching or pinning before the transfer costs."""

from matplotlib.figure import Figure

from draw.paper import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, sheet
from pagewire.lab import Lab

_SIZES = ("4KiB", "16KiB", "64KiB", "256KiB", "1MiB")
_LINES = (
    ("part", "page", BLUE, "-"),
    ("part", "block", GREEN, ":"),  # lies on the one before
    ("part", "all", PURPLE, "-"),
    ("pretouch", "page", ORANGE, "-"),
    ("pin", "page", RED, "-"),
)


def draw() -> Figure:
    lab = Lab(max_size=_SIZES[-1])
    positions = range(len(_SIZES))
    figure, plot = sheet(7.2, 3.4, axes=True)
    for memory, policy, color, style in _LINES:
        name = f"part, policy {policy}" if memory == "part" else memory
        latencies = [
            lab.write(size, absent="all", memory=memory, policy=policy).latency_us
            for size in _SIZES
        ]
        plot.plot(positions, latencies, marker="o", ms=4, color=color, ls=style, lw=2, label=name)
    there = [lab.write(size).latency_us for size in _SIZES]
    plot.plot(positions, there, marker="o", ms=4, color=GREY, ls="--", label="every page is there")
    plot.set_yscale("log")
    plot.set_ylabel("latency of a write (us)")
    plot.set_xticks(list(positions), list(_SIZES))
    plot.legend(fontsize=8)
    return figure
