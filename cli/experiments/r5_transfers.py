"""R5 figures 5.1 to 5.8: latency and throughput over size; read against write; user against
kernel.

Two figures at a time are the same transfers, so an experiment measures both quantities; a figure
alone is the experiment with one of them.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from pagewire.cli.experiments.r5_bench import NUM_OUTSTANDING, READ, WRITE, Bench
from pagewire.cli.kit.numbers import powers_of_two
from pagewire.cli.kit.result import SIZE, Column, Options, Panel, Result, Series

ONE_HOP_NOTE = "One hop: two nodes on one link."
LOOPBACK_NOTE = "Loopback: a node to itself, through its own NI and link port, without a hop."


@dataclasses.dataclass(frozen=True, slots=True)
class Quantity:
    """What is measured of transfers: a figure's panel."""

    name: str
    unit: str
    suffix: str
    """of its columns' keys beside another quantity"""
    note: str

    def key(self, key: str, quantities: Sequence["Quantity"]) -> str:
        """Of a column, in the table of these quantities."""
        return key + self.suffix if len(quantities) > 1 else key

    def panel(
        self, rows: Sequence[Mapping[str, float]], lines: Sequence[tuple[str, str, bool]]
    ) -> Panel:
        """lines: key, title, and whether it is drawn dashed."""
        series = [
            Series.of(title, rows, "num_bytes", key, dashed=dashed) for key, title, dashed in lines
        ]
        return Panel.over_bytes("transfer size", f"{self.name} ({self.unit})", series)


LATENCY = Quantity(
    "latency",
    "us",
    "",
    "Latency: virtual time from the user's call (the first word of the descriptor) until the "
    "completion notification is in the receiver's memory; the receiver's poll is not in it. One "
    "transfer at a time, all pages resident, TLBs warm.",
)
THROUGHPUT = Quantity(
    "throughput",
    "Gb/s",
    "_gbps",
    f"Throughput: payload of a stream of equal transfers, {NUM_OUTSTANDING} of them on their way "
    "at a time, each posted by the user's CPU when a channel is free; from the first call to the "
    "last completion at the initiator.",
)
BOTH = (LATENCY, THROUGHPUT)


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """One line of a panel."""

    key: str
    title: str
    once: Callable[[int], float]
    """what a size gives"""
    dashed: bool = False


Lines = Mapping[Quantity, Sequence[Line]]


def sizes(options: Options) -> list[int]:
    """16 B to 4 MiB."""
    return powers_of_two(16, 4 << 20)[:: options.pick(6, 1)]


def num_transfers(options: Options, num_bytes: int) -> int:
    """Length of a stream: enough to be steady, not so much that it takes long."""
    most_bytes: int = options.pick(8 << 20, 64 << 20)
    most: int = options.pick(32, 256)
    return max(NUM_OUTSTANDING, min(most, most_bytes // num_bytes))


def measure(
    options: Options, bench: Bench, quantity: Quantity, size: int, op: str = WRITE
) -> float:
    """One size's latency in us, or a stream's throughput in Gb/s."""
    if quantity == LATENCY:
        return bench.transfer(size, op).notified_ns / 1e3
    return bench.stream_gbps(size, op, num_transfers(options, size))


def lay_out(
    options: Options, quantities: Sequence[Quantity], lines: Lines, notes: Sequence[str]
) -> Result:
    """Every line at every size, a panel a quantity."""

    def keyed() -> Iterator[tuple[Quantity, str, Line]]:
        for quantity in quantities:
            for line in lines[quantity]:
                yield quantity, quantity.key(line.key, quantities), line

    def rows_of_all() -> list[dict[str, float]]:
        return [
            {"num_bytes": size, **{key: line.once(size) for _, key, line in keyed()}}
            for size in sizes(options)
        ]

    # Of one bench, whose state goes on from transfer to transfer: one point.
    rows = options.points.take("transfers of all sizes", rows_of_all)
    panels = [
        each.panel(
            rows, [(key, line.title, line.dashed) for own, key, line in keyed() if own == each]
        )
        for each in quantities
    ]
    return Result(
        columns=[SIZE, *(Column(key, line.title, own.unit, 3) for own, key, line in keyed())],
        rows=rows,
        panels=panels,
        notes=notes,
    )


def _bench(options: Options, *, loopback: bool = False, is_zdma: bool = False) -> Bench:
    config = options.settings()
    if is_zdma:
        config = dataclasses.replace(config, ni=dataclasses.replace(config.ni, engine="zdma"))
    return Bench(config, max(sizes(options)), loopback=loopback)


def _one_at_a_time(bench: Bench, size: int) -> float:
    """Gb/s when each write waits for the notification of the one before it."""
    return size * 8 / bench.transfer(size).notified_ns


ZDMA_NOTE = (
    "ZDMA (ni.engine = zdma): 8 channels, packets of 64 B of which a channel has 6 outstanding, "
    "the notification a round trip behind the data [PSI 1.3.2]; its stream uses all channels."
)


def writes(
    options: Options, quantities: Sequence[Quantity] = BOTH, *, loopback: bool = False
) -> Result:
    """Writes over one hop (figures 5.3, 5.4), or in loopback (5.1, 5.2)."""
    bench = _bench(options, loopback=loopback)
    zdma = _bench(options, loopback=loopback, is_zdma=True)
    lines = {
        LATENCY: [
            Line(
                "notified",
                "notified at the receiver",
                partial(measure, options, bench, LATENCY),
            ),
            Line(
                "acknowledged",
                "last ACK at the initiator",
                lambda size: bench.transfer(size).done_ns / 1e3,
                dashed=True,
            ),
            Line("zdma", "ZDMA: notified", partial(measure, options, zdma, LATENCY)),
        ],
        THROUGHPUT: [
            Line("stream", "stream of transfers", partial(measure, options, bench, THROUGHPUT)),
            Line(
                "single",
                "one at a time: size / latency",
                partial(_one_at_a_time, bench),
                dashed=True,
            ),
            Line("zdma", "ZDMA: stream", partial(measure, options, zdma, THROUGHPUT)),
            Line(
                "zdma_single",
                "ZDMA: one at a time",
                partial(_one_at_a_time, zdma),
                dashed=True,
            ),
        ],
    }
    way = LOOPBACK_NOTE if loopback else ONE_HOP_NOTE
    notes = [way, *(each.note for each in quantities), ZDMA_NOTE]
    if THROUGHPUT in quantities:
        notes.append(_payload_note(bench, loopback))
    return lay_out(options, quantities, lines, notes)


def _payload_note(bench: Bench, loopback: bool) -> str:
    costs = bench.platform.costs
    header = costs.packet_header_bytes
    mbps = costs.link_mbps if loopback else costs.link_mbps * costs.link_coding_permille / 1000
    rates = [mbps * size / (size + header) / 1e3 for size in (256, costs.zdma_packet_bytes)]
    way, coding = ("The loopback", "no") if loopback else ("The link", "with")
    return (
        f"{way} carries {rates[0]:.2f} Gb/s of payload in full packets, {rates[1]:.2f} in ZDMA's "
        f"({costs.link_mbps / 1e3:g} Gb/s, {coding} line code, {header} B of header)."
    )


READ_NOTE = (
    "A read begins with a request through the packetizer, which the target's R5 reads word by "
    "word; then it is served like a write, and notifies in the reader's memory."
)


def reads(options: Options, quantities: Sequence[Quantity] = BOTH) -> Result:
    """Reads against writes over one hop (figures 5.5, 5.6)."""
    bench = _bench(options)
    lines = {
        each: [
            Line("write", "write", partial(measure, options, bench, each)),
            Line("read", "read", partial(measure, options, bench, each, op=READ)),
        ]
        for each in quantities
    }
    notes = [ONE_HOP_NOTE, READ_NOTE, *(each.note for each in quantities)]
    return lay_out(options, quantities, lines, notes)


KERNEL_NOTE = (
    "Kernel-initiated (run.memory = kernel): a system call, get_user_pages of the source and the "
    "descriptor by the kernel; the process sleeps until the interrupt of the end, so that there is "
    "one transfer at a time. The sources do not say which engine the kernel drove [R5 5.7, 5.8]."
)


def kernel(options: Options, quantities: Sequence[Quantity] = BOTH) -> Result:
    """The user's writes against the kernel's over one hop (figures 5.7, 5.8)."""
    bench, zdma = _bench(options), _bench(options, is_zdma=True)

    def by_kernel(quantity: Quantity, driven: Bench, size: int) -> float:
        notified_ns, awake_ns = driven.transfer_by_kernel(size)
        return notified_ns / 1e3 if quantity == LATENCY else size * 8 / awake_ns

    lines = {
        each: [
            Line("user", "user-level", partial(measure, options, bench, each)),
            Line("kernel", "by the kernel", partial(by_kernel, each, bench)),
            Line("kernel_zdma", "by the kernel, ZDMA", partial(by_kernel, each, zdma)),
        ]
        for each in quantities
    }
    notes = [KERNEL_NOTE, ONE_HOP_NOTE, *(each.note for each in quantities)]
    return lay_out(options, quantities, lines, notes)
