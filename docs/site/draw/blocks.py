"""How a write is cut: blocks at 16 KiB boundaries of the destination, packets of 256 B."""

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from draw.paper import BLUE, GREEN, GREY, ORANGE, sheet
from pagewire.lab import Lab

_BLOCK, _PACKET, _PAGE = 16384, 256, 4096
_NUM_BYTES = 40 * 1024
_COLORS = (BLUE, ORANGE, GREEN)


def draw() -> Figure:
    counted = Lab(max_size="64KiB").write(_NUM_BYTES).counters
    cuts = list(range(0, _NUM_BYTES, _BLOCK))
    blocks = [min(_BLOCK, _NUM_BYTES - start) for start in cuts]
    packets = [num_bytes // _PACKET for num_bytes in blocks]
    # The picture's cuts are the rule's; what the engine counted says whether that is the rule.
    assert (len(blocks), sum(packets)) == (counted["blocks"], counted["packets"])

    figure, plot = sheet(7.2, 2.5)
    num_pages = 3 * _BLOCK // _PAGE
    for page in range(num_pages):
        plot.add_patch(
            Rectangle((page * _PAGE, 0), _PAGE, 1, facecolor="none", edgecolor=GREY, lw=0.8)
        )
    for start, num_bytes, count, color in zip(cuts, blocks, packets, _COLORS, strict=True):
        plot.add_patch(Rectangle((start, 1.6), num_bytes, 1, facecolor=color + "30", ec=color))
        text = f"block of {num_bytes // 1024} KiB\n{count} packets"
        plot.text(start + num_bytes / 2, 2.1, text, ha="center", va="center")
        plot.add_patch(Rectangle((start, 0), num_bytes, 1, facecolor=color + "30", ec="none"))
        for packet in range(count):
            left = start + packet * _PACKET
            plot.plot([left, left], [2.9, 3.3], color=color, lw=0.6)
    for start in (*cuts, 3 * _BLOCK):
        plot.plot([start, start], [-0.3, 2.75], color=GREY, lw=0.8, ls=":")
        plot.text(start, -0.4, f"{start // 1024} KiB", ha="center", va="top")
    plot.text(-800, 0.5, "destination,\npages of 4 KiB", ha="right", va="center")
    plot.text(-800, 2.1, f"write of {_NUM_BYTES // 1024} KiB", ha="right", va="center")
    plot.text(-800, 3.1, "on the link", ha="right", va="center")
    plot.set_xlim(-13500, 3 * _BLOCK + 1200)
    plot.set_ylim(-1.1, 3.5)
    return figure
