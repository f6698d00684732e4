"""PSI figure 2.3: Firehose, messages of 8 bytes to a working set that grows.

The source's figure is of puts. Here the receiver's NI reads messages, so the firehoses are those of
the receiver at the sender's pages, and a put is a message of 8 bytes out of such a page."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from pagewire.cli.experiments import two_ranks
from pagewire.cli.kit.result import Column, Options, Panel, Result, Series
from pagewire.native.settings import ConfigError

PAGE_BYTES = 4096
MAX_PAGES, VICTIM_PAGES = 64, 32
"""M and MAXVICTIM, of two nodes: all firehoses are one peer's."""
SETTINGS = (
    "run.eager_limit=4B",
    f"strategy.firehose_limit={MAX_PAGES * PAGE_BYTES}B",
    f"strategy.firehose_victims={VICTIM_PAGES * PAGE_BYTES}B",
)
OTHERS = ("pin", "ideal")
STRATEGIES = ("firehose", *OTHERS)


def _pages(options: Options) -> list[int]:
    """Of the working sets."""
    knee = MAX_PAGES + VICTIM_PAGES
    quick = [MAX_PAGES // 2, MAX_PAGES, knee, 2 * knee]
    more = [8, 16, 48, MAX_PAGES + 8, MAX_PAGES + 16, knee + 8, knee + 32, 3 * knee, 4 * knee]
    return quick if options.quick else sorted([*quick, *more])


def _run(
    options: Options, memory: str, working_sets: Sequence[int], num_puts: int
) -> tuple[list[float], dict[str, Any]]:
    """us a put by working set, and the run's counters."""
    cases = [(num_pages * PAGE_BYTES, num_puts) for num_pages in working_sets]
    settings = [f"run.memory={memory}", *SETTINGS]
    failure, puts_us, totals = two_ranks.run(options, "put", memory, cases, settings)
    if failure:
        raise ConfigError(f"psi-fig2.3: {memory}: {failure}")
    return puts_us, totals


def _firehose(options: Options, num_pages: int, num_puts: int) -> dict[str, Any]:
    """Of one working set; what its first round took, page by page, is not counted."""
    (put_us,), totals = _run(options, "firehose", [num_pages], num_puts)
    num_moves = totals["firehose_moves"] - num_pages
    # Each move but the first M gives a firehose up, which is an eviction too.
    num_given_up = totals["firehose_moves"] - min(num_pages, MAX_PAGES)
    num_first = max(0, num_pages - MAX_PAGES - VICTIM_PAGES)
    return {
        "pages": num_pages,
        "firehose": put_us,
        "moves": num_moves / num_puts,
        "unpins": (totals["strategy_evictions"] - num_given_up - num_first) / num_puts,
        "pinned": totals["pinned_peak_bytes"] // PAGE_BYTES,
    }


def figure_2_3(options: Options) -> Result:
    """Time of a put over the working set, and round trips and unpins that it takes."""
    num_puts = options.pick(200, 2000)
    working_sets = _pages(options)
    others = {
        memory: options.points.take(memory, partial(_run, options, memory, working_sets, num_puts))
        for memory in OTHERS
    }
    measures = {
        f"firehose, {num_pages} pages": partial(_firehose, options, num_pages, num_puts)
        for num_pages in working_sets
    }
    rows = list(options.points.measure(measures).values())
    for row in rows:
        idx = working_sets.index(row["pages"])
        row |= {memory: puts_us[idx] for memory, (puts_us, _) in others.items()}
    return Result(
        columns=[
            Column("pages", "working set", "pages"),
            *(Column(memory, memory, "us a put") for memory in STRATEGIES),
            Column("moves", "round trips", "a put"),
            Column("unpins", "unpins", "a put"),
            Column("pinned", "pinned at most", "pages"),
        ],
        rows=rows,
        panels=_panels(rows),
        notes=f"""
            {num_puts} messages of 8 bytes, each read out of a page that is drawn from the working
            set; every page was used once before. The receiver holds M = {MAX_PAGES} pages of the
            sender (strategy.firehose_limit), and the sender keeps MAXVICTIM = {VICTIM_PAGES} pages
            pinned that nobody holds (strategy.firehose_victims).

            Up to M no put takes a round trip. Up to M + MAXVICTIM a page that is not held is pinned
            still, so that holding it costs a round trip alone; above, another page is unpinned and
            this one pinned. pin: each put pins its page and unpins it. ideal: nothing ever faults.

            Assumed: pages are drawn evenly (the source does not say in which order they are used).
        """,
        varied={"run.memory": ", ".join(STRATEGIES), **dict(each.split("=") for each in SETTINGS)},
        numbers="MPI.Wtime of the emulated node, from the platform's costs",
    )


def _panels(rows: Sequence[dict[str, Any]]) -> list[Panel]:
    counts = {"moves": "round trips to move a firehose", "unpins": "pages unpinned"}
    return [
        Panel(
            "working set (pages)",
            "time of a put (us)",
            [Series.of(memory, rows, "pages", memory) for memory in STRATEGIES],
            log_x=True,
        ),
        Panel(
            "working set (pages)",
            "count a put",
            [Series.of(title, rows, "pages", key) for key, title in counts.items()],
            log_x=True,
            title=f"knees at M = {MAX_PAGES} and M + MAXVICTIM = {MAX_PAGES + VICTIM_PAGES}",
        ),
    ]
