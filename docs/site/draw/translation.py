"""The way of one address through the SMMU, with the costs of the platform and what two writes
count."""

from matplotlib.figure import Figure

from draw.paper import GREEN, ORANGE, PURPLE, RED, arrow, box, sheet
from pagewire.lab import Lab

_SIZE = "64KiB"


def draw() -> Figure:
    lab = Lab(policy="page", max_size=_SIZE)
    costs = lab.platform.costs
    absent = lab.write(_SIZE, absent="all").counters
    present = lab.write(_SIZE).counters
    clock_ns = costs.smmu_clock_ps / 1e3

    steps = (
        ("L1 TLB", f"hit: {costs.tlb_l1_hit_clocks * clock_ns:.0f} ns", "l1_hits", GREEN),
        ("L2 TLB", f"hit: {costs.tlb_l2_hit_clocks * clock_ns:.0f} ns more", "l2_hits", GREEN),
        ("page walk", f"{costs.walk_ns} ns at most", "walks", PURPLE),
        ("absent", "translation fault", "translation_faults_destination", RED),
    )
    figure, plot = sheet(7.2, 2.7)
    plot.text(0.0, 2.75, "an access of the NI", va="center", weight="bold")
    arrow(plot, (0.75, 2.6), (0.75, 2.2))
    for idx, (name, cost, counter, color) in enumerate(steps):
        x = idx * 2.3
        box(plot, x, 1.3, 1.5, 0.9, f"{name}\n{cost}", color)
        if idx:
            arrow(plot, (x - 0.8, 1.75), (x, 1.75))
            word = "miss" if idx < 3 else "no page"
            plot.text(x - 0.4, 1.85, word, ha="center", va="bottom", size=8)
        if idx < 3:
            arrow(plot, (x + 0.75, 1.3), (x + 0.75, 0.85), GREEN)
        counts = f"{absent[counter]} / {present[counter]}"
        plot.text(x + 0.75, 0.25, counts, ha="center", va="center", color=color, weight="bold")
    plot.text(3.05, 0.65, "address found: the packet's data go to memory", ha="center", va="center")
    box(plot, 6.9, 2.45, 1.5, 0.6, "driver pages in", ORANGE)
    arrow(plot, (7.65, 2.2), (7.65, 2.45), ORANGE)
    plot.text(
        0.0,
        -0.15,
        f"a write of {_SIZE}, all pages of the destination absent / the same write again",
        va="center",
        size=8,
    )
    plot.set_xlim(-0.05, 8.6)
    plot.set_ylim(-0.4, 3.1)
    return figure
