"""What replays cost: a halo on many nodes in one process, with and without page faults. Each row is
measured in a process of its own, whose memory it shows."""

import concurrent.futures
import multiprocessing
import pathlib

from pagewire.cli.checks.bench.group import Column, Conditions, Goal, Group, Layout, Row, Rows
from pagewire.cli.kit.guard import guarded_folder

_NODES, _NODES_QUICK = (64, 512, 4096), (8,)
_STEPS, _STEPS_QUICK = 10, 2
_KINDS = {"no faults": ("pretouch", 0.0), "every receive faults": ("part", 1.0)}
_EVENTS_PER_S, _BLOCKS_PER_S = 1e6, 300e3
_RSS_BYTES = float(1 << 30)
"""Of 4,096 nodes."""


def _replay(path: str, memory: str) -> Row:
    """Of the trace: a process's only work."""
    from pagewire.replay.replay import replay_file

    _, _, outcome = replay_file(path, [f"run.memory={memory}"])
    done = outcome.performance
    blocks = sum(int(rank["blocks"]) for rank in outcome.per_rank)
    return {
        "nodes": done.ranks,
        "virtual_s": done.virtual_s,
        "wall_s": done.wall_s,
        "events_per_s": done.rate,
        "blocks_per_s": blocks / done.wall_s,
        "rss_bytes": done.rss_bytes,
    }


def _measure(conditions: Conditions) -> Rows:
    from pagewire.replay import patterns

    steps = _STEPS_QUICK if conditions.quick else _STEPS
    context = multiprocessing.get_context("spawn")
    rows = []
    with guarded_folder("pagewire-bench-") as folder:
        path = str(pathlib.Path(folder, "halo.pwt"))
        for num_nodes in _nodes(conditions.quick):
            for kind, (memory, fresh) in _KINDS.items():
                conditions.begin_step(f"replay, {num_nodes:,} nodes, {kind}")
                shape = patterns.Shape(num_bytes=16384, steps=steps, fresh=fresh)
                patterns.synthesize("halo3d:26", num_nodes, shape, path)
                with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
                    row = pool.submit(_replay, path, memory).result()
                rows.append({"kind": kind, **row})
    return rows


def _nodes(quick: bool) -> tuple[int, ...]:
    return _NODES_QUICK if quick else _NODES


def _goals(rows: Rows) -> list[Goal]:
    goals = []
    for row in rows:
        name = f"{row['nodes']:,} nodes, {row['kind']}"
        events, blocks = row["events_per_s"], row["blocks_per_s"]
        goals.append(Goal(f"records, events/s, {name}", _EVENTS_PER_S, events, at_least=True))
        if row["kind"] == "no faults":
            goals.append(Goal(f"blocks/s, {name}", _BLOCKS_PER_S, blocks, at_least=True))
        if row["nodes"] == _NODES[-1]:
            goals.append(Goal(f"RSS in bytes, {name}", _RSS_BYTES, float(row["rss_bytes"])))
    return goals


GROUP = Group(
    "replay",
    Layout(
        "replay of a halo of 26 neighbours, faces of 16 KiB",
        Column("nodes", "nodes", 0),
        Column("kind", "pages"),
        Column("wall_s", "wall\n(s)", 2),
        Column("virtual_s", "virtual\n(ms)", 2, 1e3),
        Column("events_per_s", "records,\nevents/s", 0),
        Column("blocks_per_s", "blocks/s", 0),
        Column("rss_bytes", "RSS\n(MiB)", 0, 2**-20),
    ),
    measure=_measure,
    goals=_goals,
    num_steps=lambda quick, transport: len(_KINDS) * len(_nodes(quick)),
)
