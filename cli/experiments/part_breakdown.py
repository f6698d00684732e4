"""PART figures 10 and 13: where the time of a write with a fault goes, by the engine's trace."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pagewire.cli.experiments import components
from pagewire.cli.experiments.part_transfers import LATENCY_NOTE
from pagewire.cli.kit.numbers import powers_of_two, size_text
from pagewire.cli.kit.result import SIZE, Column, Options, Panel, Result
from pagewire.lab import Lab
from pagewire.lab.nodes import INITIATOR, TARGET
from pagewire.ni.engine_view import TraceRecord
from pagewire.run.settings.platform import Costs

PARTS = {
    "start": "user's call, R5, NI, wire",
    "handler": "interrupt handler",
    "tasklet": "tasklet: FIFO, other work",
    "page_in": "page-in (get_user_pages)",
    "netlink": "Netlink message",
    "interrupts": "interrupts in the tasklet",
    "wakeup": "wake-up of the library",
    "err": "ERR sent and received",
    "restart": "R5 starts the block again",
    "retransmit": "block again, to the ACK",
}
"""Components of a write with one fault at the destination, in order of time."""


CHAIN = (
    ("block_started", INITIATOR),
    ("fault_destination", TARGET),
    ("handler", TARGET),
    ("tasklet_entry", TARGET),
    ("page_in_done", TARGET),
    ("netlink_sent", TARGET),
    ("err_sent", TARGET),
    ("err", INITIATOR),
)
"""Steps from the first fault at the destination to its ERR, in the trace, and where each is."""

Chain = Mapping[str, TraceRecord]
"""The first fault's, by step; times from the user's call."""


def first_chain(trace: tuple[TraceRecord, ...], costs: Costs) -> Chain:
    """An ERR that comes after the transfer's end leaves no record at the source: it is given the
    time that its way takes."""
    found: dict[str, TraceRecord] = {}
    since_ns = 0
    for kind, node in CHAIN:
        records = (r for r in trace if (r.kind, r.node) == (kind, node) and r.time_ns >= since_ns)
        record = next(records, None)
        if record is None:
            assert kind == "err", f"no {kind} in the trace of a transfer with a fault"
            way_ns = costs.ni_send_ns + costs.hop_ns + costs.ni_receive_ns + costs.r5_ack_read_ns
            record = found["err_sent"]._replace(time_ns=since_ns + way_ns)
        found[kind], since_ns = record, record.time_ns
    return found


def driver_parts(chain: Chain, costs: Costs) -> dict[str, int]:
    """What is before the chain, and the driver's and the library's parts of it, which sum up to the
    chain's length.

    Within the tasklet FIFO, other work, page-in and Netlink are the platform's costs; what the
    trace shows beyond these are handlers that interrupted it.
    """
    at = {kind: record.time_ns for kind, record in chain.items()}
    page_in = costs.page_in_fixed_ns + chain["page_in_done"].b * costs.page_in_page_ns
    tasklet = 2 * costs.core_register_read_ns + costs.tasklet_other_ns
    in_tasklet = at["netlink_sent"] - at["tasklet_entry"]
    return {
        "start": at["handler"],
        "handler": at["tasklet_entry"] - at["handler"],
        "tasklet": tasklet,
        "page_in": page_in,
        "netlink": costs.netlink_ns,
        "interrupts": in_tasklet - tasklet - page_in - costs.netlink_ns,
        "wakeup": at["err_sent"] - at["netlink_sent"] - costs.err_send_ns,
        "err": at["err"] - at["err_sent"] + costs.err_send_ns,
    }


def figure_10(options: Options) -> Result:
    """One write of a page to an absent destination, cut into its components."""
    lab = Lab(settings=options.settings(), policy="page", memory="part", max_size=4096)
    plain_us = lab.write(4096).latency_us
    outcome = lab.write(4096, absent=[0], traced=True)
    chain = first_chain(outcome.trace, lab.platform.costs)
    err_ns = chain["err"].time_ns
    again_ns = next(
        r.time_ns for r in outcome.trace if r.kind == "block_started" and r.time_ns > err_ns
    )
    parts = {
        **driver_parts(chain, lab.platform.costs),
        "restart": again_ns - err_ns,
        "retransmit": outcome.latency_ns - again_ns,
    }
    total_us = outcome.latency_ns / 1e3
    return Result(
        columns=components.COLUMNS,
        rows=components.rows_of(PARTS, parts, outcome.latency_ns),
        panels=[
            Panel(
                "",
                "latency (us)",
                categories=["write of 4 KiB"],
                stacks=[(PARTS[key], [parts[key] / 1e3]) for key in PARTS],
                marks=[("measured total", [total_us])],
            )
        ],
        notes=f"""
            Measured total {total_us:.3f} us; at the receiver (notification)
            {outcome.arrival_ns / 1000.0:.3f} us; the same write without fault {plain_us:.3f} us;
            the fault adds {total_us - plain_us:.3f} us.

            PART gives about 38 us for a page fault of 4 KB. The sum of its components as they stand
            in the platform file is what comes out here; nothing was fitted.

            {outcome.counters["fault_interrupts"]} handler invocations: packets of the block that
            keep arriving raise the interrupt again once the handler has cleared FSR.

            Boundaries are the trace's time stamps; within the tasklet FIFO, other work, page-in and
            Netlink are the platform's costs, and the rest are handlers that interrupted it.

            {LATENCY_NOTE}
        """,
        varied={"run.policy": "page"},
    )


STACK = {
    **{key: title for key, title in PARTS.items() if key not in ("restart", "retransmit")},
    "start": "call, R5, NI, wire to the fault",
    "page_in": "page-in of all pages, G(n)",
    "idle": "idle: tasklet at later entries",
    "transfer": "transfer of all pages, T(n)",
}
"""Components of a write with policy all: the first fault's chain, the time in which nothing moves
because the tasklet is still at entries whose pages are in, and the transfer."""


def idle_ns(trace: tuple[TraceRecord, ...], chain: Chain) -> int:
    """Time between the first ERR and that of the window's other blocks with no block under way.

    The tasklet reads an entry for each faulted page, so the second block of the window gets its ERR
    late; blocks behind the first fill a part of that time.
    """
    paged_in_ns, err_ns = chain["page_in_done"].time_ns, chain["err"].time_ns
    faulted = {r.b for r in trace if r.kind == "fault_destination" and r.time_ns < paged_in_ns}
    outstanding = faulted - {chain["netlink_sent"].b}
    waiting = [
        r.time_ns for r in trace if r.kind == "err" and r.a in outstanding and r.time_ns > err_ns
    ]
    end_ns = min(waiting, default=err_ns)
    return end_ns - err_ns - covered_ns(trace, err_ns, end_ns)


def covered_ns(trace: tuple[TraceRecord, ...], begin_ns: int, end_ns: int) -> int:
    """How much of a span of time the initiator has a block under way."""
    covered, reached, begun = 0, begin_ns, {}
    for record in trace:
        if record.node != INITIATOR:
            continue
        if record.kind == "block_started":
            begun[record.a] = record.time_ns
        elif record.kind in ("ack", "nack") and record.a in begun:
            begin, done = max(begun.pop(record.a), reached), min(record.time_ns, end_ns)
            if done > begin:
                covered += done - begin
                reached = done
    return covered


def row_all(lab: Lab, num_bytes: int, timeout: str) -> dict[str, Any]:
    """One row of figure 13: components and totals in us."""
    plain = lab.write(num_bytes, traced=True)
    begin_ns = next(r.time_ns for r in plain.trace if r.kind == "block_started")
    outcome = lab.write(num_bytes, absent="all", traced=True)
    chain = first_chain(outcome.trace, lab.platform.costs)
    parts = {
        **driver_parts(chain, lab.platform.costs),
        "idle": idle_ns(outcome.trace, chain),
        "transfer": plain.latency_ns - begin_ns,
    }
    sum_ns, total_ns = sum(parts.values()), outcome.latency_ns
    driver = [parts[key] for key in STACK if key not in ("start", "page_in", "transfer")]
    return {
        "timeout": timeout,
        "num_bytes": num_bytes,
        **{key: value / 1e3 for key, value in parts.items()},
        "driver": sum(driver) / 1e3,
        "sum": sum_ns / 1e3,
        "total": total_ns / 1e3,
        "difference": 100 * (sum_ns - total_ns) / total_ns,
        "timeouts": outcome.counters["timeouts"],
    }


def _rows_all(
    options: Options, name: str, settings: Sequence[str], sizes: Sequence[int]
) -> list[dict[str, Any]]:
    lab = Lab(settings=options.settings(*settings), memory="part", max_size=max(sizes))
    return [row_all(lab, num_bytes, name) for num_bytes in sizes]


def stacked_panels(rows: Sequence[dict[str, Any]]) -> list[Panel]:
    """The components on top of each other, in two panels by size."""
    return [
        Panel(
            "transfer size",
            "latency (us)",
            categories=[size_text(row["num_bytes"]) for row in part],
            stacks=[(text, [row[key] for row in part]) for key, text in STACK.items()],
            marks=[("measured total", [row["total"] for row in part])],
            title=title,
        )
        for title, part in (
            ("up to 64 KiB", [row for row in rows if row["num_bytes"] <= 64 << 10]),
            ("above", [row for row in rows if row["num_bytes"] > 64 << 10]),
        )
        if part
    ]


def figure_13(options: Options) -> Result:
    """Writes with policy all: the components on top of each other beside the measured total."""
    sizes = powers_of_two(4096, options.pick(64 << 10, 4 << 20))
    lines = {
        "timeout 1 ms": ("run.policy=all",),
        "none (NTO)": ("run.policy=all", "run.nack_cancels_timer=true"),
    }
    found = options.points.measure(
        {name: partial(_rows_all, options, name, each, sizes) for name, each in lines.items()}
    )
    rows = [row for some in found.values() for row in some]
    nto = [abs(row["difference"]) for row in rows if row["timeout"] == "none (NTO)"]
    without = ""  # of a part that has none of them
    if nto:
        without = (
            f"Without timeouts (no overlap) the largest deviation is {max(nto):.1f} %; the rest is "
            "the window: while one of its two blocks waits, the others go one at a time.\n\n"
        )
    return Result(
        columns=[
            Column("timeout", "timeout"),
            SIZE,
            Column("start", "start", "us"),
            Column("driver", "driver, library", "us"),
            Column("page_in", "G(n)", "us"),
            Column("transfer", "T(n)", "us"),
            Column("sum", "sum", "us"),
            Column("total", "total", "us"),
            Column("difference", "sum - total", "%", 1),
            Column("timeouts", "time- outs"),
        ],
        rows=rows,
        panels=stacked_panels([row for row in rows if row["timeout"] == "timeout 1 ms"]),
        notes=f"""
            driver, library = handler, tasklet without page-in, Netlink, interrupts, wake-up and ERR
            of the first fault, and the time in which no block is under way because the tasklet
            still reads entries whose pages are in; the JSON file has each of them.

            The sum puts these and the fault-free transfer one after the other. Where the total is
            well below, page-in and transfer overlap: a timeout sends blocks again before all pages
            are in.

            {without}{LATENCY_NOTE}
        """,
        varied={"run.policy": "all", "run.nack_cancels_timer": "false, true"},
    )
