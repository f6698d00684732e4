"""What a timeline costs: where there is none, the branch at each record; where there is one, the
ranks that record and the launcher that writes the file.

Fault-free sends of two ranks: nothing but the emulator takes time there, so no program's share is
larger. Runs without and with a trace alternate, and the quickest of each counts.
"""

import json
import pathlib
import subprocess
import time

from pagewire.cli import launch
from pagewire.cli.bench.group import (
    Column,
    Conditions,
    Goal,
    Group,
    Layout,
    Rows,
    check_outcome,
    rank_environ,
)
from pagewire.cli.guard import guarded_folder
from pagewire.cli.program import Program
from pagewire.native import check, lib

_SIZE_BYTES, _MESSAGES, _ROUNDS = 16 << 20, 40, 3
_SIZE_BYTES_QUICK, _MESSAGES_QUICK, _ROUNDS_QUICK = 1 << 20, 2, 1
_BRANCHES, _BRANCHES_QUICK = 20_000_000, 100_000
_OFF_SHARE, _ON_RATIO = 0.01, 2.0


def _record_ns(is_on: bool, num_records: int) -> float:
    record_ns = float(lib.pw_bench_trace_ns(is_on, num_records))
    check(min(int(record_ns), 0), "benchmark of the trace")
    return record_ns


def _run(conditions: Conditions, trace: str) -> tuple[float, float]:
    """Wall time of the sends, and of the whole command."""
    size_bytes = _SIZE_BYTES_QUICK if conditions.quick else _SIZE_BYTES
    num_messages = _MESSAGES_QUICK if conditions.quick else _MESSAGES
    with guarded_folder("pagewire-bench-") as directory:
        path = pathlib.Path(directory, "times.json")
        words = (str(path), str(size_bytes), str(num_messages))
        chosen = Program("module", "pagewire.cli.bench.ranks.stream", words)
        environ = {**rank_environ(conditions), "PAGEWIRE_RUN_TRACE": trace}
        start_s = time.perf_counter()
        outcome = launch.launch(2, chosen, environ, stdout=subprocess.DEVNULL)
        command_s = time.perf_counter() - start_s
        check_outcome(outcome, "stream")
        ranks_s: float = json.loads(path.read_text(encoding="utf-8"))["wall_s"]
    return ranks_s, command_s


def _num_events(path: pathlib.Path) -> int:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

    return len(Trace.FromString(path.read_bytes()).packet)


def _measure(conditions: Conditions) -> Rows:
    from pagewire.transport.timeline import request

    request.check_installed()
    plain, traced = [], []
    with guarded_folder("pagewire-bench-") as directory:
        trace = pathlib.Path(directory, "run.pftrace")
        for i in range(_ROUNDS_QUICK if conditions.quick else _ROUNDS):
            conditions.begin_step(f"timeline, turn {i + 1}")
            plain.append(_run(conditions, ""))
            traced.append(_run(conditions, str(trace)))
        num_events = _num_events(trace)
    num_records = _BRANCHES_QUICK if conditions.quick else _BRANCHES
    off_ns, on_ns = (_record_ns(is_on, num_records) for is_on in (False, True))
    (plain_s, plain_command_s), (traced_s, traced_command_s) = (
        tuple(min(each) for each in zip(*runs, strict=True)) for runs in (plain, traced)
    )
    return [
        {
            "num_events": num_events,
            "off_ns": off_ns,
            "off_share": num_events * off_ns * 1e-9 / plain_s,
            "on_ns": on_ns,
            "plain_s": plain_s,
            "traced_s": traced_s,
            "ratio": traced_s / plain_s,
            "plain_command_s": plain_command_s,
            "traced_command_s": traced_command_s,
        }
    ]


def _goals(rows: Rows) -> list[Goal]:
    return [
        goal
        for row in rows
        for goal in (
            Goal("timeline off, share of a run", _OFF_SHARE, row["off_share"]),
            Goal("timeline on, ranks / without", _ON_RATIO, row["ratio"]),
            Goal(
                "timeline on, command / without",
                _ON_RATIO,
                row["traced_command_s"] / row["plain_command_s"],
            ),
        )
    ]


GROUP = Group(
    "timeline",
    (
        Layout(
            "timeline (--trace) of 2 ranks, sends without faults",
            (
                Column("num_events", "events", 0),
                Column("off_ns", "off, ns\na record"),
                Column("off_share", "off, share\nof the run", 5),
                Column("on_ns", "on, ns\na record"),
                Column("plain_s", "ranks,\noff (s)"),
                Column("traced_s", "ranks,\non (s)"),
                Column("ratio", "on/\noff"),
                Column("plain_command_s", "command,\noff (s)"),
                Column("traced_command_s", "command,\non (s)"),
            ),
        ),
    ),
    _measure,
    _goals,
    lambda quick: _ROUNDS_QUICK if quick else _ROUNDS,
)
