"""What replays cost: long messages between two nodes, where nothing contends; a halo on many nodes
in one process, with and without page faults, and divided over two. Each row is measured in
processes of its own, whose memory it shows."""

import concurrent.futures
import json
import multiprocessing
import pathlib
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from pagewire.cli.checks.bench.group import (
    Column,
    Conditions,
    Goal,
    Group,
    Layout,
    Row,
    Rows,
    check_outcome,
    rank_environ,
)
from pagewire.cli.kit.guard import guarded_folder
from pagewire.cli.launch import launch
from pagewire.cli.launch.witness import STARTER

_NODES, _NODES_QUICK = (64, 512, 4096), (8,)
_STEPS, _STEPS_QUICK = 10, 2
_KINDS = {"no faults": ("pretouch", 0.0), "every receive faults": ("part", 1.0)}
_LONG = "8 MiB to each other"
_LONG_STEPS, _LONG_STEPS_QUICK = 100, 2
_EVENTS_PER_S, _BLOCKS_PER_S = 1e6, 300e3
_RSS_BYTES = float(1 << 30)
"""Of 4,096 nodes."""
_TWO_FASTER = 1.6
"""Two processes than one, at 4,096 nodes."""


def _replay(path: str, memory: str) -> Row:
    """Of the trace: a process's only work."""
    from pagewire.replay.replay import replay_file

    _, _, outcome = replay_file(path, [f"run.memory={memory}"])
    done = outcome.performance
    blocks = sum(int(rank["blocks"]) for rank in outcome.per_rank)
    return _row(1, done._asdict(), blocks)


def _replay_split(path: str, memory: str, conditions: Conditions) -> Row:
    """The same over two processes."""
    found = pathlib.Path(path).with_name("split.json")
    words = ["replay", path, "--memory", memory, "--split", "--json", str(found)]
    command = [STARTER, sys.executable, "-P", "-m", "pagewire", *words]
    environ = rank_environ(conditions)
    outcome = launch.launch_command(
        2, command, environ, program="replay --split", stdout=subprocess.DEVNULL
    )
    check_outcome(outcome, "replay --split")
    result = json.loads(found.read_text(encoding="utf-8"))
    blocks = sum(int(rank["blocks"]) for rank in result["reports"][0]["ranks"])
    return _row(2, result["replay"]["performance"], blocks)


def _row(num_processes: int, done: Mapping[str, Any], blocks: int) -> Row:
    return {
        "processes": num_processes,
        "nodes": done["ranks"],
        "virtual_s": done["virtual_s"],
        "wall_s": done["wall_s"],
        "events_per_s": (done["records"] + done["events"]) / done["wall_s"],
        "blocks_per_s": blocks / done["wall_s"],
        "rss_bytes": done["rss_bytes"],
    }


def _measure(conditions: Conditions) -> Rows:
    from pagewire.replay import patterns

    steps = _STEPS_QUICK if conditions.quick else _STEPS
    context = multiprocessing.get_context("spawn")
    rows = []

    def measure(pattern: str, num_nodes: int, kind: str, memory: str, **shape: Any) -> None:
        conditions.begin_step(f"replay, {num_nodes:,} nodes, {kind}")
        patterns.synthesize(pattern, num_nodes, patterns.Shape(**shape), path)
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            rows.append({"kind": kind, **pool.submit(_replay, path, memory).result()})

    with guarded_folder("pagewire-bench-") as folder:
        path = str(pathlib.Path(folder, "pattern.pwt"))
        long_steps = _LONG_STEPS_QUICK if conditions.quick else _LONG_STEPS
        measure("allreduce:ring", 2, _LONG, "pretouch", num_bytes=16 << 20, steps=long_steps)
        for num_nodes in _nodes(conditions.quick):
            for kind, (memory, fresh) in _KINDS.items():
                shape = {"num_bytes": 16384, "steps": steps, "fresh": fresh}
                measure("halo3d:26", num_nodes, kind, memory, **shape)
                if num_nodes == _nodes(conditions.quick)[-1]:
                    row = _replay_split(path, memory, conditions)
                    rows.append({"kind": kind, **row})
    return rows


def _nodes(quick: bool) -> tuple[int, ...]:
    return _NODES_QUICK if quick else _NODES


def _goals(rows: Rows) -> list[Goal]:
    goals = []
    one = {(row["nodes"], row["kind"]): row for row in rows if row["processes"] == 1}
    for row in rows:
        if row["processes"] > 1:
            faster = one[row["nodes"], row["kind"]]["wall_s"] / row["wall_s"]
            name = f"two processes, {row['nodes']:,} nodes, {row['kind']}, times as fast as one"
            goals.append(Goal(name, _TWO_FASTER, faster, at_least=True))
            continue
        name = f"{row['nodes']:,} nodes, {row['kind']}"
        events, blocks = row["events_per_s"], row["blocks_per_s"]
        if row["kind"] == _LONG:
            goals.append(Goal(f"blocks/s, {name}", _BLOCKS_PER_S, blocks, at_least=True))
            continue
        goals.append(Goal(f"records, events/s, {name}", _EVENTS_PER_S, events, at_least=True))
        if row["nodes"] == _NODES[-1]:
            goals.append(Goal(f"RSS in bytes, {name}", _RSS_BYTES, float(row["rss_bytes"])))
    return goals


GROUP = Group(
    "replay",
    Layout(
        "replay of long messages, and of a halo of 26 neighbours with faces of 16 KiB",
        Column("nodes", "nodes", 0),
        Column("kind", "pages"),
        Column("processes", "pro-\ncesses", 0),
        Column("wall_s", "wall\n(s)", 2),
        Column("virtual_s", "virtual\n(ms)", 2, 1e3),
        Column("events_per_s", "records,\nevents/s", 0),
        Column("blocks_per_s", "blocks/s", 0),
        Column("rss_bytes", "RSS\n(MiB)", 0, 2**-20),
    ),
    measure=_measure,
    goals=_goals,
    num_steps=lambda quick, transport: 1 + len(_KINDS) * len(_nodes(quick)),
)
