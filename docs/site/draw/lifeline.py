"""The life of a page fault: one block whose four pages are absent, from the engine's trace."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from draw.paper import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED, sheet
from pagewire.lab import Lab

_LANES = (
    "source: R5",
    "destination: packets",
    "destination: faults",
    "handler",
    "tasklet",
    "library thread",
)
_ROW = {name: len(_LANES) - 1 - idx for idx, name in enumerate(_LANES)}


def draw() -> Figure:
    lab = Lab(policy="page")
    outcome = lab.write("16KiB", absent="all", traced=True)
    handler_us = lab.platform.costs.handler_ns / 1e3
    times: dict[str, list[float]] = {}
    for record in outcome.trace:
        times.setdefault(record.kind, []).append(record.time_ns / 1e3)

    figure, plot = sheet(7.2, 3.4, axes=True)
    for first, last in zip(times["block_first_packet"], times["block_last_packet"], strict=True):
        _span(plot, "destination: packets", first, last, GREEN)
    faults = _ROW["destination: faults"]
    plot.vlines(times["fault_destination"], faults - 0.25, faults + 0.25, color=RED, lw=0.5)
    for time in times["handler"]:
        _span(plot, "handler", time, time + handler_us, ORANGE)
    entries = zip(times["tasklet_entry"], times["page_in_done"], times["netlink_sent"], strict=True)
    for number, (begin, paged_in, sent) in enumerate(entries, 1):
        _span(plot, "tasklet", begin, paged_in, PURPLE)
        _span(plot, "tasklet", paged_in, sent, GREY)
        middle = (begin + sent) / 2
        plot.text(middle, _ROW["tasklet"], f"page {number}", ha="center", va="center", size=8)
    _span(plot, "library thread", times["netlink_sent"][-1], times["err_sent"][0], ORANGE)

    (nack_sent,), (nack,) = times["nack_sent"], times["nack"]
    (err_sent,), (err,) = times["err_sent"], times["err"]
    (ack_sent,), (ack,) = times["ack_sent"], times["ack"]
    starts, arrivals = times["block_started"], times["block_first_packet"]
    for start, arrival, text in zip(starts, arrivals, ("sent", " again"), strict=True):
        _message(plot, "source: R5", start, "destination: packets", arrival, BLUE)
        _label(plot, start, text, color=BLUE, left=text != "sent")
    _message(plot, "destination: packets", nack_sent, "source: R5", nack, RED)
    _label(plot, nack, "NACK", color=RED, left=True)
    _message(plot, "library thread", err_sent, "source: R5", err, GREEN)
    _label(plot, err, "ERR ", color=GREEN, right=True)
    _message(plot, "destination: packets", ack_sent, "source: R5", ack, INK)
    _label(plot, ack, "ACK", left=True)

    plot.set_yticks(list(_ROW.values()), list(_ROW), minor=False)
    plot.tick_params(axis="y", length=0)
    plot.spines["left"].set_visible(False)
    plot.set_ylim(-0.6, len(_LANES) - 0.2)
    plot.set_xlim(0, ack * 1.06)
    plot.set_xlabel(
        f"virtual time (us); {len(times['fault_destination'])} packets meet an absent page,\n"
        f"{outcome.counters['fifo_pushed']} entries in the FIFO, done after {outcome.latency_us} us"
    )
    return figure


def _span(plot: Axes, lane: str, begin: float, end: float, color: str) -> None:
    plot.barh(
        _ROW[lane], end - begin, left=begin, height=0.5, color=color + "50", edgecolor=color, lw=0.6
    )


def _message(plot: Axes, of: str, begin: float, to: str, end: float, color: str) -> None:
    style = {"arrowstyle": "-|>", "color": color, "shrinkA": 0, "shrinkB": 0}
    plot.annotate("", xy=(end, _ROW[to]), xytext=(begin, _ROW[of]), arrowprops=style)


def _label(
    plot: Axes, time: float, text: str, *, color: str = INK, left: bool = False, right: bool = False
) -> None:
    align = "left" if left else "right" if right else "center"
    plot.text(time, _ROW["source: R5"] + 0.15, text, color=color, ha=align, va="bottom", size=8)
