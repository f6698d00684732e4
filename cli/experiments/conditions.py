"""What the sources say of each experiment's numbers.

Sentences that we know, each once. Where a sentence has no number the bounds are ours, and its words
stand beside them. "Our input": the platform file has the number or was made from it, so that
holding it tests only that nothing is lost on the way.
"""

from collections.abc import Mapping, Sequence

from pagewire.cli.kit.conditions import Bounds, Condition, about, at, difference, ratio, total

MORE = Bounds(1.01, None, "x")
LESS = Bounds(None, 0.99, "x")

_PIN = ("pin_resident", "pin_absent")
_R5_STARTS = (
    *("R5 notices the transfer", "look at the high queue", "transaction id from the ticket queue"),
    *("transaction table", "timeout list", "three words to the logic, round trip"),
    "completion message",
)
"""Components of r5-fig3.8."""

_KERNELS = "Water-nsquared", "Water-spatial", "FFT", "Radix", "LU", "Ocean", "Volrend", "Raytrace"
_BELOW_20_US = {
    "4.6": (85.72, 97.71, 97.5, 83.15, 85.38, 71.23, 75.47, 90.98),
    "4.7": (15.22, 1.27, 66.12, 43.11, 23.13, 26.61, 30.59, 53.91),
}
"""By table of MINI: of each kernel's misses so many per cent."""


def _of_misses(quantity: str, table: str) -> list[Condition]:
    return [
        Condition(
            f"{kernel}: {quantity} below 20 us",
            about(share, "%"),
            f"[MINI table {table}]",
            total(at("10us", kernel=kernel), at("20us", kernel=kernel)),
        )
        for kernel, share in zip(_KERNELS, _BELOW_20_US[table], strict=True)
    ]


def _without_miss(what: str, latency_us: int, where: str) -> list[Condition]:
    """Base costs of MINI's table 4.2. where: title of the rows."""
    source, row = "our input [MINI table 4.2]", {"where": where, "bytes": 4096, "made": 0.0}
    return [
        Condition(f"{what}, no miss", about(latency_us, "us"), source, at("latency_us", **row)),
        Condition("bandwidth, no miss", about(118, "MB/s"), source, at("mbps", **row)),
    ]


def _of_application(one_node: Bounds | None = None) -> list[Condition]:
    """Of a table of pre-touch against PART. one_node: its rate on one rank."""
    found = [
        Condition("time under PART over pre-touch, 16 ranks", Bounds(None, 1, "%"),
                  '"no performance degradation" in 16 nodes [PART abstract]',
                  at("own_slowdown", ranks=16, memory="PART"))
    ]  # fmt: skip
    if one_node:
        rate = at("rate", ranks=1, memory="pre-touch")
        found.append(Condition("rate on one rank", one_node, "our input [PART 6.2.3]", rate))
    return found


# fmt: off
CONDITIONS: Mapping[str, Sequence[Condition]] = {
    "part-fig9": [
        Condition("pin resident over transfer, 64 KiB", about(2, "x"),
                  '"nearly doubling", our input [PART 5.1]',
                  ratio("pin_resident", "transfer", num_bytes=64 << 10)),
        Condition("pin resident over pin absent, 16 KiB", MORE, "our input [PART 5.1]",
                  ratio(*_PIN, num_bytes=16 << 10)),
        Condition("the same, 32 KiB", MORE, "our input [PART 5.1]",
                  ratio(*_PIN, num_bytes=32 << 10)),
        Condition("the same, 64 KiB", LESS, "our input [PART 5.1]",
                  ratio(*_PIN, num_bytes=64 << 10)),
    ],
    "part-fig10": [
        Condition("a fault of 4 KiB", about(38, "us"), "[PART 5.2]",
                  at("time_us", component="measured total")),
        Condition("call until the first packet is there", about(4, "us"), "[PART 4.2]",
                  at("time_us", component="user's call, R5, NI, wire")),
        Condition("sent again, R5 and wire", about(6, "us"), "[PART 5.2]",
                  total(at("time_us", component="R5 starts the block again"),
                        at("time_us", component="block again, to the ACK"))),
    ],
    "part-fig11": [
        Condition("a fault of 4 KiB, by the ERR", about(38, "us"), "[PART 5.2]",
                  at("err", num_bytes=4096)),
    ],
    "part-fig14": [
        Condition("absent pages of 4 KiB at 80 %", Bounds(0, 0), "s f < 1 [PART 6.1.1]",
                  at("absent", num_bytes=4096, percent=80)),
        Condition("slowdown of 4 KiB at 80 %", Bounds(0.99, 1.01, "x"),
                  '"virtually identical" [PART 6.1.1]',
                  at("slowdown", num_bytes=4096, percent=80)),
        Condition("slowdown of 4 KiB at 100 %", MORE, "faults [PART 6.1.1]",
                  at("slowdown", num_bytes=4096, percent=100)),
    ],
    "part-fig15": [
        Condition("100 us over none: speedup over formula (1), 1 MiB", about(1, "x"),
                  "[PART (1)]", ratio("speedup", "formula", num_bytes=1 << 20)),
        Condition("the same, 4 MiB", about(1, "x"),
                  "[PART (1)]", ratio("speedup", "formula", num_bytes=4 << 20)),
    ],
    "part-table2": _of_application(),  # the paper's rate is of a size that it does not give
    "part-table3": _of_application(about(3.12, "GFLOP/s")),
    "part-table3-fresh": _of_application(about(3.12, "GFLOP/s")),
    "part-table4": _of_application(about(0.11, "GFLOP/s")),
    "part-table5": [
        Condition(f"{app}: {what} a step and rank, 16 ranks", about(number, unit),
                  "table over steps and processes [PART table 5]", at(key, app=app, ranks=16))
        for app in ("lammps", "LAMMPS")
        for what, number, unit, key in (
            ("sends", 82, "", "calls_a_step"),
            ("sent", 1.27, "MiB", "mib_a_step"),
        )
    ],
    "psi-fig2.3": [
        Condition("unpins a put, M + MAXVICTIM pages", Bounds(None, 0.05), "the knee [PSI 2.2]",
                  at("unpins", pages=96)),
        Condition("the same, twice as many pages", Bounds(0.5, None), "the knee [PSI 2.2]",
                  at("unpins", pages=192)),
    ],
    "psi-fig4.3": [
        Condition(f"latency by touch at 1 ms, {4 * pages} KiB",
                  Bounds(1e3 * pages, 1.1e3 * pages, "us"), "a timeout a page [PSI 4]",
                  at("touch_a_page_1ms", num_bytes=4096 * pages))
        for pages in (1, 4, 16)
    ],
    "psi-fig4.4": [
        Condition(f"latency by touch at 1 ms, {4 * pages} KiB", Bounds(1e3, 2e3, "us"),
                  "one timeout in all [PSI 4]",
                  at("touch_a_page_1ms", num_bytes=4096 * pages))
        for pages in (4, 16)
    ],
    "psi-fig4.6": [
        *(Condition(f"timeouts by touch, source only, {pages} pages", Bounds(pages, pages),
                    "one a page [PSI 4]",
                    at("source_1", way="Touch-A-Page", num_bytes=4096 * pages))
          for pages in (4, 16)),
        *(Condition(f"timeouts by touch, both ends, {pages} pages", Bounds(1, 1),
                    "[PSI 4]", at("both_1", way="Touch-A-Page", num_bytes=4096 * pages))
          for pages in (4, 16)),
    ],
    "psi-fig4.7": [
        Condition(f"driver, Touch-Ahead over touch, destination, {kib} KiB", MORE,
                  '"costs more time" [PSI 4]',
                  ratio("touch_ahead_time", "touch_a_page_time",
                        faults="destination", num_bytes=kib << 10))
        for kib in (4, 8, 16, 64)
    ],
    "r5-fig3.8": [
        Condition("R5's part of a start, 4 KiB", about(3, "us"), "[PART 4.1]",
                  total(*(at("time_us", size="4 KiB", component=each) for each in _R5_STARTS))),
        Condition("NIs and network, 256 B", Bounds(None, 1, "us"), "[PART 4.1]",
                  total(*(at("time_us", size="256 B", component=each)
                          for each in ("first packet: NIs and wire", "the block's other packets",
                                       "SMMU, data and notification written")))),
    ],
    "r5-fig5.1-2": [
        Condition("throughput in loopback, 4 MiB", about(10, "Gb/s"),
                  '"the link capacity" [R5 5.1]', at("stream_gbps", num_bytes=4 << 20)),
    ],
    "r5-fig5.3-4": [
        Condition("throughput at one hop, 4 MiB", Bounds(8, None, "Gb/s"), "[R5 5.2]",
                  at("stream_gbps", num_bytes=4 << 20)),
    ],
    "r5-fig5.5-6": [
        Condition(f"read over write, {size} B", MORE, "slower below 16 KB [R5 5]",
                  ratio("read", "write", num_bytes=size))
        for size in (16, 8192)
    ],
    "r5-fig5.7-8": [
        Condition("the kernel's, 16 B", about(11, "us"), "to start [R5 5.7]",
                  at("kernel", num_bytes=16)),
        *(Condition(f"the kernel's by {title}, 4 MiB", Bounds(None, 3, "Gb/s"), "[R5 5.8]",
                    at(key, num_bytes=4 << 20))
          for key, title in (("kernel_gbps", "FRDMA"), ("kernel_zdma_gbps", "ZDMA"))),
    ],
    "r5-fig5.9-10": [
        Condition(f"what the {title} saves, 16 B", about(saved_us, "us"), "our input [R5 3.3]",
                  difference(key, "all_on", num_bytes=16))
        for key, title, saved_us in (("fast_path", "fast path", 0.2), ("bypass", "bypass", 0.3),
                                     ("ticket_queue", "ticket queue", 0.2))
    ],
    "r5-livelock": [
        Condition("blocks: sent over payload, 0.1 % loss", about(1.07, "x"),
                  "only failing blocks again [R5 3.4]",
                  at("sent", unit="blocks of 16 KiB", loss=0.1)),
    ],
    "mini-fig4.1": _without_miss("write of 4 KB", 52, "page misses on sending (write)"),
    "mini-fig4.4": _without_miss("read of 4 KB", 81, "buffer misses at the owner (read)"),
    "mini-table4.6": _of_misses("delay", "4.6"),
    "mini-table4.7": _of_misses("work", "4.7"),
}
# fmt: on
"""By name of the experiment."""

WITHOUT: Mapping[str, str] = {
    "psi-fig4.2": "a sentence without a number [PSI 4]",
    "psi-table4.1": "its numbers are our inputs",
    **dict.fromkeys(
        ("mini-table1.1", "mini-fig4.2", "mini-fig4.3", "mini-table4.5"),
        "left out of our notes, so that nothing is fitted to it",
    ),
}
"""By name: why there are no conditions, other than that our notes have no number."""
