"""What do the faults of one process cost the others that share its NI? [PART 6.2: threads and
processes of a node; PSI 3.2.2.2: process index of an entry]"""

from functools import partial
from typing import Any

from pagewire.cli.kit.numbers import mean
from pagewire.cli.kit.result import Column, Options, Panel, Result, Series
from pagewire.lab import Lab, Transfer
from pagewire.lab.lab import PROCESSES_MAX

SIZE_BYTES = 64 << 10


def part_processes(options: Options) -> Result:
    """Latency of each process's write, by the number of processes and by who meets faults."""
    counts = options.pick([2, 4], [2, 4, 8, PROCESSES_MAX])
    found = options.points.measure(
        {f"{each} processes": partial(_row, options, each) for each in counts}
    )
    rows = list(found.values())
    return Result(
        columns=[
            Column("processes", "processes"),
            Column("none_us", "no faults", "us", 1),
            Column("faulting_us", "0 faults", "us", 1),
            Column("others_us", "the others", "us", 1),
            Column("all_us", "all fault", "us", 1),
            Column("fifo_pushed", "FIFO entries"),
            Column("timeouts", "timeouts"),
        ],
        rows=rows,
        panels=[
            Panel(
                "processes of a node",
                "latency (us)",
                [
                    Series.of("no faults", rows, "processes", "none_us"),
                    Series.of("others, while 0 faults", rows, "processes", "others_us"),
                    Series.of("all fault", rows, "processes", "all_us"),
                ],
            )
        ],
        notes="""
            Each process of node 0 writes 64 KiB to its process of node 1, all at the same time;
            mean latencies. They share link, R5, SMMU, FIFO and the driver's core; each has a page
            of channels and a context bank of its own. "0 faults", "the others": only the pages of
            process 0's destination are absent. FIFO entries and timeouts are of "all fault".

            The others do not wait for process 0: while its blocks wait for their pages, the link is
            theirs. Where all fault, the pages come in one after the other on one core. Where that
            takes longer than the timeout, blocks are sent again, and fault again.
        """,
    )


def _row(options: Options, count: int) -> dict[str, Any]:
    lab = Lab(settings=options.settings(), processes=count, max_size=SIZE_BYTES)
    faulting = {"none": (), "one": (0,), "all": range(count)}
    outcomes = {
        which: lab.together(
            Transfer(size=SIZE_BYTES, process=each, absent="all" if each in processes else None)
            for each in range(count)
        )
        for which, processes in faulting.items()
    }
    latencies = {which: [each.latency_us for each in them] for which, them in outcomes.items()}
    counters = outcomes["all"][0].counters
    return {
        "processes": count,
        "none_us": mean(latencies["none"]),
        "others_us": mean(latencies["one"][1:]),
        "faulting_us": latencies["one"][0],
        "all_us": mean(latencies["all"]),
        "fifo_pushed": counters["fifo_pushed"],
        "timeouts": counters["timeouts"],
    }
