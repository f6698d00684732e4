"""R5 figure 3.8: where the time of one block goes, by the engine's trace and the platform's
costs."""

from pagewire.cli.experiments import components
from pagewire.cli.experiments.r5_bench import Bench, Times
from pagewire.cli.kit.numbers import size_text
from pagewire.cli.kit.result import Column, Options, Panel, Result

PARTS = {
    "descriptor": "user writes the descriptor",
    "notice": "R5 notices the transfer",
    "bypass": "look at the high queue",
    "ticket": "transaction id from the ticket queue",
    "table": "transaction table",
    "timeouts": "timeout list",
    "start": "three words to the logic, round trip",
    "completion": "completion message",
    "network": "first packet: NIs and wire",
    "packets": "the block's other packets",
    "write": "SMMU, data and notification written",
}
"""Components of a write of one block in order of time."""


def parts_of(bench: Bench, times: Times) -> dict[str, int]:
    """Components in ns; boundaries are the trace's, the R5's own steps the platform's costs."""
    costs = bench.platform.costs
    at: dict[str, int] = {record.kind: record.time_ns for record in times.trace}
    descriptor = 6 * costs.core_register_write_ns
    parts = {
        "descriptor": descriptor,
        "notice": at["transfer_noticed"] - descriptor,
        "bypass": costs.r5_bypass_check_ns,
        "ticket": costs.r5_queue_op_ns,
        "table": costs.r5_queue_op_ns,
        "timeouts": costs.r5_queue_op_ns,
        "start": costs.r5_start_block_ns + costs.r5_logic_round_trip_ns,
    }
    parts["completion"] = at["block_started"] - sum(parts.values())
    parts["network"] = at["block_first_packet"] - at["block_started"]
    parts["packets"] = at["block_last_packet"] - at["block_first_packet"]
    parts["write"] = times.notified_ns - at["block_last_packet"]
    return parts


def figure_3_8(options: Options) -> Result:
    """One block of three sizes, cut into its components."""
    sizes = options.pick([4096], [256, 4096, 16384])
    bench = Bench(options.settings(), max(sizes))
    measured = [bench.transfer(num_bytes, traced=True) for num_bytes in sizes]
    parts = [parts_of(bench, times) for times in measured]
    titles = [size_text(num_bytes) for num_bytes in sizes]
    rows = [
        {"size": title, **row}
        for title, times, own in zip(titles, measured, parts, strict=True)
        for row in components.rows_of(PARTS, own, times.notified_ns)
    ]
    return Result(
        columns=[Column("size", "size"), *components.COLUMNS],
        rows=rows,
        panels=[
            Panel(
                "write of one block, one hop",
                "latency (us)",
                categories=titles,
                stacks=[(title, [own[key] / 1e3 for own in parts]) for key, title in PARTS.items()],
                marks=[("measured total", [times.notified_ns / 1e3 for times in measured])],
            )
        ],
        notes=f"""
            From the user's call until the notification is in the receiver's memory; pages resident,
            TLBs warm, the R5 idle. Boundaries are the trace's; the R5's own steps are the
            platform's costs, and the completion message is what remains of its time.

            The acknowledgement reaches the initiator's R5 {bench.platform.costs.r5_ack_read_ns} ns
            plus NIs and hop behind the write; it is not in the picture.
        """,
    )
