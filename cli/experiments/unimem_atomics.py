"""What GSAS operations take: one at a time and by many threads, by distance; and what a counter
that everybody adds to does."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pagewire.cli.kit.numbers import mean, powers_of_two
from pagewire.cli.kit.result import Column, Options, Panel, Result, Series
from pagewire.native import EngineError, lib
from pagewire.native.settings import ConfigError
from pagewire.unimem.machine import Machine
from pagewire.unimem.thread import Thread

Operation = Callable[[Thread, int], object]
"""Done to the page of an address."""

OPERATIONS: Mapping[str, Operation] = {
    "read8": Thread.read8,
    "read32": Thread.read32,
    "read64": Thread.read64,
    "read4k": Thread.read4k,
    "write8": lambda thread, page: thread.write8(page, 1),
    "write32": lambda thread, page: thread.write32(page, 1),
    "write64": lambda thread, page: thread.write64(page, 1),
    "write128": lambda thread, page: thread.write128(page, 1, 2),
    "cas": lambda thread, page: thread.cas(page, 0, 1),
    "faa": lambda thread, page: thread.faa(page, 1),
    "swap": lambda thread, page: thread.swap(page, 1),
    "alloc": lambda thread, page: thread.alloc(node=page >> 48),
    "free": Thread.free,
    "fork": lambda thread, page: thread.fork(_child, node=page >> 48),
}

NUMBERS = "virtual times of the machine's threads, from the component costs of the platform file"
ASSUMED_NOTE = (
    "D3.6 measures none of this: what the atomic service costs (costs.atomic_*) is assumed, and "
    "the platform file says so at each value."
)
ORDER_NOTE = (
    "Each thread has a core of its own and does one operation after the other; each owner's atomic "
    "service has one core, which does one request after the other."
)


def _child(thread: Thread) -> None:
    """What a fork starts: nothing to do."""


def _prepare(thread: Thread, owner: int, count: int) -> list[int]:
    """So many pages of the owner, an allocation each."""
    return [thread.alloc(node=owner) for _ in range(count)]


def _repeat(thread: Thread, operation: Operation, pages: Sequence[int]) -> tuple[int, int]:
    """The operation on each page in turn; when that began and when it ended."""
    begin_ns = thread.now_ns
    for page in pages:
        operation(thread, page)
    return begin_ns, thread.now_ns


PAUSE_NS = 1_000_000
"""Without requests, after which an atomic service sleeps."""

HOPS = {0: "local", 1: "1 hop", 2: "2 hops"}
"""Between the thread and the pages' owner."""


def _owners(options: Options) -> dict[int, int]:
    """By hops from node 0: itself, the QFDB's next node, the next QFDB's second."""
    nodes_per_qfdb = options.platform().costs.nodes_per_qfdb
    if nodes_per_qfdb < 2:
        raise ConfigError(
            f"costs.nodes_per_qfdb = {nodes_per_qfdb}: one hop needs a QFDB of two nodes"
        )
    return {0: 0, 1: 1, 2: nodes_per_qfdb + 1}


def _measure(
    machine: Machine, operation: Operation, owner: int, num_threads: int, times: int
) -> float:
    """Time in us by operation when so many threads of node 0 do it `times` times each, one after
    the other, to pages of their own."""
    (pages,) = machine.run((0, _prepare, owner, num_threads * times))
    shares = (pages[i * times : (i + 1) * times] for i in range(num_threads))
    spans = machine.run(*((0, _repeat, operation, share) for share in shares))
    return _duration_ns(spans) / (num_threads * times) / 1e3


def _measure_asleep(machine: Machine, operation: Operation) -> float:
    """Time in us of an operation at thread and owner node 0, whose service has fallen asleep."""

    def after_a_pause(thread: Thread) -> int:
        (page,) = _prepare(thread, 0, 1)
        thread.compute(PAUSE_NS)
        begin_ns, end_ns = _repeat(thread, operation, [page])
        return end_ns - begin_ns

    return int(machine.run((0, after_a_pause))[0]) / 1e3


def _duration_ns(spans: Sequence[tuple[int, int]]) -> int:
    return max(end_ns for _, end_ns in spans) - min(begin_ns for begin_ns, _ in spans)


def _row(options: Options, name: str, num_threads: int) -> dict[str, float]:
    times = 1 if name == "fork" else options.pick(2, 6)
    operation = OPERATIONS[name]
    owners = _owners(options)
    row: dict[str, float] = {}
    with Machine(max(owners.values()) + 1, settings=options.settings()) as machine:
        for hops, owner in owners.items():
            row[f"latency_{hops}"] = _measure(machine, operation, owner, 1, times)
            each_us = _measure(machine, operation, owner, num_threads, times)
            row[f"rate_{hops}"] = 1e3 / each_us
        row["asleep"] = _measure_asleep(machine, operation)
    return row


def operations(options: Options) -> Result:
    """Latency of each operation by one thread, and how many a second threads together get done."""
    num_threads = options.pick(8, 16)
    measures = {name: partial(_row, options, name, num_threads) for name in OPERATIONS}
    rows: list[dict[str, Any]] = [
        {"operation": name, **row} for name, row in options.points.measure(measures).items()
    ]
    return Result(
        columns=[
            Column("operation", "operation"),
            *(Column(f"latency_{hops}", text, "us", 3) for hops, text in HOPS.items()),
            Column("asleep", "local, asleep", "us", 3),
            *(Column(f"rate_{hops}", f"rate, {text}", "k/s", 1) for hops, text in HOPS.items()),
        ],
        rows=rows,
        panels=[
            Panel(
                "hops to the owner",
                label,
                [
                    Series(row["operation"], [*HOPS], [row[f"{key}_{hops}"] for hops in HOPS])
                    for row in rows
                ],
                log_y=True,
            )
            for key, label in (("latency", "latency (us)"), ("rate", "rate (k/s)"))
        ],
        notes=f"""
            Latency: one thread of node 0, from the call to its return, mean of some one behind the
            other. Rate: {num_threads} threads of node 0 at one owner, each with pages of its own,
            from the first call to the last return. Asleep: the local latency after
            {PAUSE_NS // 1000:,} us without a request, when the service sleeps (D3.6 2.2.4).

            A fork is what the library does: a page at the target, its description word by word, the
            request, and the page goes again; until the caller knows the child's id.

            {ORDER_NOTE}

            {ASSUMED_NOTE}
        """,
        numbers=NUMBERS,
    )


NUM_NODES = 8
"""Whose threads add to counters: thread i runs on node i modulo this."""

PLACES: Mapping[str, str] = {
    "one_word": "one word",
    "one_owner": "a word each, one owner",
    "all_owners": "a word each, at the next node",
}


def _places(pages: Sequence[int], num_threads: int, kind: str) -> list[int]:
    """The word of each thread."""
    if kind == "one_word":
        return [pages[0]] * num_threads
    if kind == "one_owner":
        return [pages[0] + 8 * i for i in range(num_threads)]
    return [pages[(i + 1) % NUM_NODES] + 8 * (i // NUM_NODES) for i in range(num_threads)]


def _count(options: Options, num_threads: int, kind: str) -> dict[str, float]:
    """Mean and longest latency in us, and additions a us."""
    times = options.pick(3, 10)
    with Machine(NUM_NODES, settings=options.settings()) as machine:
        pages = machine.run(*((node, Thread.alloc) for node in range(NUM_NODES)))
        words = _places(pages, num_threads, kind)
        spans = machine.run(
            *((i % NUM_NODES, _repeat, OPERATIONS["faa"], [word] * times)
              for i, word in enumerate(words))
        )  # fmt: skip
        (totals,) = machine.run((0, lambda thread: [thread.read64(word) for word in set(words)]))
    if sum(totals) != num_threads * times:
        raise EngineError(
            int(lib.PW_ERR_HOST), f"{num_threads * times} additions of 1 gave {sum(totals)}"
        )
    durations_us = [(end_ns - begin_ns) / times / 1e3 for begin_ns, end_ns in spans]
    return {
        "latency": mean(durations_us),
        "slowest": max(durations_us),
        "rate": num_threads * times * 1e3 / _duration_ns(spans),
    }


def contention(options: Options) -> Result:
    """Fetch-and-add by 1 to 64 threads: one word, words of one owner, words of all owners."""
    counts = powers_of_two(1, 64)[:: options.pick(3, 1)]
    labels = {f"{PLACES[kind]}, threads: {count}": (count, kind) for kind in PLACES
              for count in counts}  # fmt: skip
    measures = {label: partial(_count, options, *case) for label, case in labels.items()}
    rows = [
        {"words": PLACES[labels[label][1]], "threads": labels[label][0], **row}
        for label, row in options.points.measure(measures).items()
    ]
    return Result(
        columns=[
            Column("words", "words"),
            Column("threads", "threads"),
            Column("latency", "latency", "us", 3),
            Column("slowest", "slowest thread", "us", 3),
            Column("rate", "rate", "M/s", 3),
        ],
        rows=rows,
        panels=[
            Panel(
                "threads", label, Series.by("words", rows, "threads", key), log_x=True, log_y=True
            )
            for key, label in (("latency", "latency (us)"), ("rate", "rate (M/s)"))
        ],
        notes=f"""
            Thread i runs on node i modulo {NUM_NODES}; each adds 1 again and again. One word: of
            node 0. A word each, one owner: words of one page of node 0. At the next node: thread
            i's word is node (i + 1)'s. Sums are checked.

            Latency: mean over threads of each one's mean; slowest: that of the slowest thread.

            {ORDER_NOTE}

            {ASSUMED_NOTE}
        """,
        numbers=NUMBERS,
    )
