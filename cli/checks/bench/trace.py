"""What a timeline costs: where there is none, the branch at each record; where there is one, the
ranks that record and the launcher that writes the file.

Fault-free sends of two ranks: nothing but the emulator takes time there, so no program's share is
larger. Runs without and with a trace alternate, and the quickest of each counts.
"""

import pathlib

from pagewire.cli.checks.bench.group import (
    NUM_BYTES,
    Column,
    Conditions,
    Goal,
    Group,
    Layout,
    Row,
    Rows,
    run_module,
)
from pagewire.cli.kit.guard import guarded_folder
from pagewire.native import check, lib

_RUNS, _ROUNDS = ((4 << 20, 16), (16 << 20, 40), (16 << 20, 160)), 3
"""Bytes of a message, messages: 0.05, 1 and 4 million events."""
_RUNS_QUICK, _ROUNDS_QUICK = ((1 << 20, 2),), 1
_BRANCHES, _BRANCHES_QUICK = 20_000_000, 100_000
_OFF_SHARE, _ON_RATIO = 0.01, 2.0


def _record_ns(is_on: bool, num_records: int) -> float:
    record_ns = float(lib.pw_bench_trace_ns(is_on, num_records))
    check(min(int(record_ns), 0), "benchmark of the trace")
    return record_ns


def _run(
    conditions: Conditions, size_bytes: int, num_messages: int, trace: str
) -> tuple[float, float]:
    """Wall time of the sends, and of the whole command."""
    words = (str(size_bytes), str(num_messages))
    found, command_s = run_module(conditions, 2, "stream", *words, trace=trace)
    return found["wall_s"], command_s


def _num_events(path: pathlib.Path) -> int:
    """Packets of the file: fields of one number, each with its length in front."""
    data, at, count = path.read_bytes(), 0, 0
    while at < len(data):
        at += 1
        length, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        at += length
        count += 1
    return count


def _measure(conditions: Conditions) -> Rows:
    num_records = _BRANCHES_QUICK if conditions.quick else _BRANCHES
    off_ns, on_ns = (_record_ns(is_on, num_records) for is_on in (False, True))
    runs = _RUNS_QUICK if conditions.quick else _RUNS
    return [_measure_run(conditions, *run, off_ns=off_ns, on_ns=on_ns) for run in runs]


def _measure_run(
    conditions: Conditions, size_bytes: int, num_messages: int, *, off_ns: float, on_ns: float
) -> Row:
    plain, traced = [], []
    with guarded_folder("pagewire-bench-") as directory:
        trace = pathlib.Path(directory, "run.pftrace")
        for i in range(_ROUNDS_QUICK if conditions.quick else _ROUNDS):
            conditions.begin_step(f"timeline, {num_messages} messages, turn {i + 1}")
            plain.append(_run(conditions, size_bytes, num_messages, ""))
            traced.append(_run(conditions, size_bytes, num_messages, str(trace)))
        num_events = _num_events(trace)
    (plain_s, plain_command_s), (traced_s, traced_command_s) = (
        tuple(min(each) for each in zip(*runs, strict=True)) for runs in (plain, traced)
    )
    return {
        "num_bytes": size_bytes,
        "num_messages": num_messages,
        "num_events": num_events,
        "off_ns": off_ns,
        "off_share": num_events * off_ns * 1e-9 / plain_s,
        "on_ns": on_ns,
        "plain_s": plain_s,
        "traced_s": traced_s,
        "ratio": traced_s / plain_s,
        "plain_command_s": plain_command_s,
        "traced_command_s": traced_command_s,
        "command_ratio": traced_command_s / plain_command_s,
    }


def _name(row: Row) -> str:
    return f"{row['num_events'] / 1e6:.2f} M events"


def _goals(rows: Rows) -> list[Goal]:
    return [
        goal
        for row in rows
        for goal in (
            Goal(f"timeline off, share of {_name(row)}", _OFF_SHARE, row["off_share"]),
            Goal(f"timeline on, ranks / without, {_name(row)}", _ON_RATIO, row["ratio"]),
            Goal(f"timeline on, command / without, {_name(row)}", _ON_RATIO, row["command_ratio"]),
        )
    ]


GROUP = Group(
    "timeline",
    Layout(
        "timeline (--trace) of 2 ranks, sends without faults",
        NUM_BYTES,
        Column("num_messages", "mess-\nages", 0),
        Column("num_events", "events", 0),
        Column("off_ns", "off,\nns a\nrecord"),
        Column("off_share", "off,\nshare of\nthe run", 5),
        Column("on_ns", "on,\nns a\nrecord"),
        Column("plain_s", "ranks,\noff (s)"),
        Column("traced_s", "ranks,\non (s)"),
        Column("ratio", "on/\noff"),
        Column("plain_command_s", "com-\nmand,\noff (s)"),
        Column("traced_command_s", "com-\nmand,\non (s)"),
        Column("command_ratio", "on/\noff"),
    ),
    measure=_measure,
    goals=_goals,
    num_steps=lambda quick, transport: _ROUNDS_QUICK if quick else _ROUNDS * len(_RUNS),
)
