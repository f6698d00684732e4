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
from pagewire.native.settings import ConfigError
from pagewire.run.settings.platform import Comparison

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


def _bench(options: Options, *, loopback: bool = False) -> Bench:
    return Bench(options.settings(), max(sizes(options)), loopback=loopback)


def writes(
    options: Options, quantities: Sequence[Quantity] = BOTH, *, loopback: bool = False
) -> Result:
    """Writes over one hop (figures 5.3, 5.4), or in loopback (5.1, 5.2)."""
    bench = _bench(options, loopback=loopback)
    lines = {
        LATENCY: [
            Line(
                "notified",
                "notification at the receiver",
                partial(measure, options, bench, LATENCY),
            ),
            Line(
                "acknowledged",
                "last ACK at the initiator",
                lambda size: bench.transfer(size).done_ns / 1e3,
                dashed=True,
            ),
        ],
        THROUGHPUT: [
            Line("stream", "stream of transfers", partial(measure, options, bench, THROUGHPUT)),
            Line(
                "single",
                "one at a time: size / latency",
                lambda size: size * 8 / bench.transfer(size).notified_ns,
                dashed=True,
            ),
        ],
    }
    notes = [LOOPBACK_NOTE if loopback else ONE_HOP_NOTE, *(each.note for each in quantities)]
    if THROUGHPUT in quantities:
        notes.append(_payload_note(bench))
    return lay_out(options, quantities, lines, notes)


def _payload_note(bench: Bench) -> str:
    costs = bench.platform.costs
    coded_mbps = costs.link_mbps * costs.link_coding_permille / 1000
    rate = coded_mbps * 256 / (256 + costs.packet_header_bytes)
    return (
        f"The link carries {rate / 1e3:.2f} Gb/s of payload in full packets "
        f"({costs.link_mbps / 1e3:g} Gb/s, line code, {costs.packet_header_bytes} B of header)."
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


def _comparison(bench: Bench) -> Comparison:
    if bench.platform.comparison is None:
        raise ConfigError(
            f"platform '{bench.platform.name}' has no [comparison]: what RDMA costs that the "
            "kernel initiates is not known; take exanest-10g"
        )
    return bench.platform.comparison


KERNEL_NOTE = (
    "Kernel-initiated: an input and arithmetic, not a mechanism: start and rate are the platform "
    "file's (11 us, at most 3 Gb/s [R5 5]); latency = start + size / rate + both NIs and one hop, "
    "throughput = size / (start + size / rate), one transfer at a time."
)


def kernel(options: Options, quantities: Sequence[Quantity] = BOTH) -> Result:
    """The user's writes against the kernel's over one hop (figures 5.7, 5.8)."""
    bench = _bench(options)
    theirs, costs = _comparison(bench), bench.platform.costs
    hardware_ns = costs.ni_send_ns + costs.hop_ns + costs.ni_receive_ns
    by_kernel: Mapping[Quantity, Callable[[int], float]] = {
        LATENCY: lambda size: (theirs.duration_ns(size) + hardware_ns) / 1e3,
        THROUGHPUT: lambda size: size * 8 / theirs.duration_ns(size),
    }
    lines = {
        each: [
            Line("user", "user-level", partial(measure, options, bench, each)),
            Line("kernel", "kernel-initiated (input)", by_kernel[each], dashed=True),
        ]
        for each in quantities
    }
    notes = [KERNEL_NOTE, ONE_HOP_NOTE, *(each.note for each in quantities)]
    return lay_out(options, quantities, lines, notes)
