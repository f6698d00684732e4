"""How far network.model = links is from packets, and what both cost: the same programs on the same
links a block and a packet at a time, beside links of each pair's own."""

import pathlib
import time

from pagewire.cli.checks.bench.group import Column, Conditions, Goal, Group, Layout, Row, Rows
from pagewire.cli.kit.guard import guarded_folder

_PATTERNS = (
    "halo3d:26",
    "halo3d:6",
    "sweep3d",
    "alltoall",
    "allreduce:doubling",
    "transpose",
    "incast",
    "random",
)
_TOPOLOGIES = {
    16: ("torus:4x2x2", "fat-tree:2;4,4;1,2;1,1", "dragonfly:4,1;2,1;1,1;2"),
    64: ("torus:4x4x4", "fat-tree:2;8,8;1,4;1,1", "dragonfly:8,1;2,1;2,1;2"),
    512: ("torus:8x8x8",),
}
"""By nodes. Trees have half of the cables up, dragonflies one between two groups."""
_LARGE = 512
"""From so many nodes on one pattern will do."""
_NUM_BYTES, _STEPS, _ROUNDS = 65536, 3, 3
_OFF, _TIMES = 0.05, 2.0
_MODELS = {
    "private": ("network.model=private",),
    "links": ("network.model=links",),
    "coarse": ("network.model=packets", "network.quantum=2KiB"),
    "packets": ("network.model=packets",),
}
_TIMED = "halo3d:26"
"""The pattern whose wall times are held against a limit."""


def _plan(quick: bool) -> list[tuple[int, str]]:
    if quick:
        return [(16, "incast")]
    return [
        (nodes, pattern)
        for nodes in _TOPOLOGIES
        for pattern in (_PATTERNS if nodes < _LARGE else [_TIMED])
    ]


def _replay(path: str, topology: str, model: str) -> tuple[float, float]:
    """Virtual and wall time, in s."""
    from pagewire.replay.replay import replay_file

    begun_s = time.perf_counter()
    words = ["run.memory=pretouch", f"network.topology={topology}", *_MODELS[model]]
    _, _, outcome = replay_file(path, words)
    return outcome.performance.virtual_s, time.perf_counter() - begun_s


def _row(path: str, nodes: int, pattern: str, topology: str) -> Row:
    """Where wall times count, links and private take turns, and the quickest of each counts."""
    row: Row = {"nodes": nodes, "pattern": pattern, "topology": topology}
    for turn in range(_ROUNDS if pattern == _TIMED else 1):
        for model in list(_MODELS)[: None if turn == 0 else 2]:
            virtual_s, wall_s = _replay(path, topology, model)
            row[f"{model}_s"] = virtual_s
            row[f"{model}_wall_s"] = min(wall_s, row.get(f"{model}_wall_s", wall_s))
    row["time_ratio"] = row["links_s"] / row["packets_s"]
    row["coarse_ratio"] = row["coarse_s"] / row["packets_s"]
    row["wall_ratio"] = row["links_wall_s"] / row["private_wall_s"]
    return row


def _measure(conditions: Conditions) -> Rows:
    from pagewire.replay import patterns

    rows = []
    with guarded_folder("pagewire-bench-") as folder:
        path = str(pathlib.Path(folder, "made.pwt"))
        for nodes, pattern in _plan(conditions.quick):
            shape = patterns.Shape(num_bytes=_NUM_BYTES, steps=_STEPS)
            patterns.synthesize(pattern, nodes, shape, path)
            for topology in _TOPOLOGIES[nodes]:
                conditions.begin_step(f"network, {nodes} nodes, {pattern}, {topology}")
                rows.append(_row(path, nodes, pattern, topology))
    return rows


def _goals(rows: Rows) -> list[Goal]:
    goals = []
    for pattern in dict.fromkeys(row["pattern"] for row in rows):
        for model, ratio in (("links", "time_ratio"), ("packets of 2 KiB", "coarse_ratio")):
            off = max(abs(row[ratio] - 1) for row in rows if row["pattern"] == pattern)
            goals.append(Goal(f"{model} off packets, {pattern}", _OFF, off))
    for row in rows:
        if row["pattern"] == _TIMED and row["nodes"] >= 64:
            name = f"wall of links / private, {row['nodes']} nodes, {row['topology']}"
            goals.append(Goal(name, _TIMES, row["wall_ratio"]))
    return goals


GROUP = Group(
    "network",
    Layout(
        "links a block at a time beside a packet at a time; messages of 64 KiB",
        Column("nodes", "nodes", 0),
        Column("pattern", "pattern"),
        Column("topology", "topology"),
        Column("private_s", "private\n(us)", 0, 1e6),
        Column("links_s", "links\n(us)", 0, 1e6),
        Column("coarse_s", "2 KiB\n(us)", 0, 1e6),
        Column("packets_s", "packets\n(us)", 0, 1e6),
        Column("time_ratio", "links/\npackets", 3),
        Column("coarse_ratio", "2 KiB/\npackets", 3),
        Column("private_wall_s", "wall,\nprivate (s)"),
        Column("links_wall_s", "wall,\nlinks (s)"),
        Column("coarse_wall_s", "wall,\n2 KiB (s)"),
        Column("packets_wall_s", "wall,\npackets (s)"),
        Column("wall_ratio", "wall,\nlinks/\nprivate"),
    ),
    measure=_measure,
    goals=_goals,
    num_steps=lambda quick, transport: sum(len(_TOPOLOGIES[nodes]) for nodes, _ in _plan(quick)),
)
