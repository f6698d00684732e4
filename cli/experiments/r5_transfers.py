"""R5 figures 5.1 to 5.8: latency and throughput over size; read against write; user against
kernel."""

from collections.abc import Callable, Sequence
from functools import partial

from pagewire.cli.experiments.part_transfers import SIZE
from pagewire.cli.experiments.r5_bench import NUM_OUTSTANDING, READ, WRITE, Bench
from pagewire.cli.experiments.result import (
    Column,
    Options,
    Panel,
    Result,
    Series,
    powers_of_two,
)
from pagewire.native.settings import ConfigError
from pagewire.transport.settings.platform import Comparison

LATENCY_NOTE = (
    "Latency: virtual time from the user's call (the first word of the descriptor) until the "
    "completion notification is in the receiver's memory; the receiver's poll is not in it. One "
    "transfer at a time, all pages resident, TLBs warm."
)
THROUGHPUT_NOTE = (
    f"Throughput: payload of a stream of equal transfers, {NUM_OUTSTANDING} of them on their way "
    "at a time, each posted by the user's CPU when a channel is free; from the first call to the "
    "last completion at the initiator."
)
ONE_HOP_NOTE = "One hop: two nodes on one link."
LOOPBACK_NOTE = "Loopback: a node to itself, through its own NI and link port, without a hop."

Line = tuple[str, str, Callable[[int], float], bool]
"""Key, title, what a size gives, and whether it is drawn dashed."""


def sizes(options: Options) -> list[int]:
    """16 B to 4 MiB."""
    return powers_of_two(16, 4 << 20)[:: options.pick(6, 1)]


def num_transfers(options: Options, num_bytes: int) -> int:
    """Length of a stream: enough to be steady, not so much that it takes long."""
    most_bytes: int = options.pick(8 << 20, 64 << 20)
    most: int = options.pick(32, 256)
    return max(NUM_OUTSTANDING, min(most, most_bytes // num_bytes))


def latency_line(bench: Bench, key: str, title: str, operation: str = WRITE) -> Line:
    """Latency in us by the bench."""
    return (key, title, lambda size: bench.transfer(size, operation).notified_ns / 1e3, False)


def stream_line(
    options: Options, bench: Bench, key: str, title: str, operation: str = WRITE
) -> Line:
    """Throughput in Gb/s of a stream by the bench."""

    def rate(size: int) -> float:
        return bench.stream_gbps(size, operation, num_transfers(options, size))

    return (key, title, rate, False)


def _rows(options: Options, lines: Sequence[Line]) -> list[dict[str, float]]:
    rows: list[dict[str, float]] = []
    for num_bytes in sizes(options):
        rows.append({"num_bytes": num_bytes})
        for key, _, once, _ in lines:
            rows[-1][key] = once(num_bytes)
    return rows


def lay_out(options: Options, unit: str, lines: Sequence[Line], *notes: str) -> Result:
    """Every line at every size, in one panel; both axes logarithmic for latencies."""
    # Of one bench, whose state goes on from transfer to transfer: one point.
    rows = options.points.take("transfers of all sizes", partial(_rows, options, lines))
    series = [
        Series.of(title, rows, "num_bytes", key, dashed=dashed) for key, title, _, dashed in lines
    ]
    quantity = "latency" if unit == "us" else "throughput"
    return Result(
        columns=[SIZE, *(Column(key, title, unit, 3) for key, title, _, _ in lines)],
        rows=rows,
        panels=[
            Panel(
                "transfer size",
                f"{quantity} ({unit})",
                series,
                log_x=True,
                log_y=True,
                x_is_bytes=True,
            )
        ],
        notes=notes,
    )


def _bench(options: Options, *, loopback: bool = False) -> Bench:
    return Bench(options.settings(), max(sizes(options)), loopback=loopback)


def _latency(options: Options, *, loopback: bool) -> Result:
    bench = _bench(options, loopback=loopback)
    acknowledged: Line = (
        "acknowledged",
        "last ACK at the initiator",
        lambda size: bench.transfer(size).done_ns / 1e3,
        True,
    )
    lines = [latency_line(bench, "notified", "notification at the receiver"), acknowledged]
    return lay_out(options, "us", lines, LOOPBACK_NOTE if loopback else ONE_HOP_NOTE, LATENCY_NOTE)


def _throughput(options: Options, *, loopback: bool) -> Result:
    bench = _bench(options, loopback=loopback)
    single: Line = (
        "single",
        "one at a time: size / latency",
        lambda size: size * 8 / bench.transfer(size).notified_ns,
        True,
    )
    lines = [stream_line(options, bench, "stream", "stream of transfers"), single]
    return lay_out(
        options,
        "Gb/s",
        lines,
        LOOPBACK_NOTE if loopback else ONE_HOP_NOTE,
        THROUGHPUT_NOTE,
        _payload_note(bench),
    )


def _payload_note(bench: Bench) -> str:
    costs = bench.platform.costs
    coded_mbps = costs.link_mbps * costs.link_coding_permille / 1000
    rate = coded_mbps * 256 / (256 + costs.packet_header_bytes)
    return (
        f"The link carries {rate / 1e3:.2f} Gb/s of payload in full packets "
        f"({costs.link_mbps / 1e3:g} Gb/s, line code, {costs.packet_header_bytes} B of header)."
    )


def figure_5_1(options: Options) -> Result:
    """Latency of writes in loopback."""
    return _latency(options, loopback=True)


def figure_5_2(options: Options) -> Result:
    """Throughput of writes in loopback."""
    return _throughput(options, loopback=True)


def figure_5_3(options: Options) -> Result:
    """Latency of writes over one hop."""
    return _latency(options, loopback=False)


def figure_5_4(options: Options) -> Result:
    """Throughput of writes over one hop."""
    return _throughput(options, loopback=False)


READ_NOTE = (
    "A read begins with a request through the packetizer, which the target's R5 reads word by "
    "word; then it is served like a write, and notifies in the reader's memory."
)


def figure_5_5(options: Options) -> Result:
    """Latency of reads against writes over one hop."""
    bench = _bench(options)
    lines = [
        latency_line(bench, "write", "write"),
        latency_line(bench, "read", "read", READ),
    ]
    return lay_out(options, "us", lines, ONE_HOP_NOTE, READ_NOTE, LATENCY_NOTE)


def figure_5_6(options: Options) -> Result:
    """Throughput of reads against writes over one hop."""
    bench = _bench(options)
    lines = [
        stream_line(options, bench, "write", "write"),
        stream_line(options, bench, "read", "read", READ),
    ]
    return lay_out(options, "Gb/s", lines, ONE_HOP_NOTE, READ_NOTE, THROUGHPUT_NOTE)


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


def figure_5_7(options: Options) -> Result:
    """Latency of the user's writes against the kernel's over one hop."""
    bench = _bench(options)
    kernel, costs = _comparison(bench), bench.platform.costs
    hardware_ns = costs.ni_send_ns + costs.hop_ns + costs.ni_receive_ns

    def by_kernel(size: int) -> float:
        return (kernel.duration_ns(size) + hardware_ns) / 1e3

    lines: list[Line] = [
        latency_line(bench, "user", "user-level"),
        ("kernel", "kernel-initiated (input)", by_kernel, True),
    ]
    return lay_out(options, "us", lines, KERNEL_NOTE, ONE_HOP_NOTE, LATENCY_NOTE)


def figure_5_8(options: Options) -> Result:
    """Throughput of the user's writes against the kernel's over one hop."""
    bench = _bench(options)
    kernel = _comparison(bench)

    def by_kernel(size: int) -> float:
        return size * 8 / kernel.duration_ns(size)

    lines: list[Line] = [
        stream_line(options, bench, "user", "user-level"),
        ("kernel", "kernel-initiated (input)", by_kernel, True),
    ]
    return lay_out(options, "Gb/s", lines, KERNEL_NOTE, ONE_HOP_NOTE, THROUGHPUT_NOTE)
