"""What a page fault costs the emulator: wall time of a transfer whose pages are all absent.

Two NIs in one process, as in the experiments, so that no MPI is in the figures. The cost of a page
should not depend on how many there are.
"""

import mmap
import time
from collections.abc import Sequence

from pagewire.cli.checks.bench.group import (
    NUM_BYTES,
    Column,
    Conditions,
    Goal,
    Group,
    Layout,
    Row,
    Rows,
)
from pagewire.cli.kit.result import size_text
from pagewire.lab.buffer import Buffer
from pagewire.lab.nodes import Nodes
from pagewire.lab.transfer import all_pages
from pagewire.run.settings.config import Config, load
from pagewire.run.settings.platform import Platform
from pagewire.run.settings.platform import load as load_platform

_MEBIBYTE = 1 << 20
_SIZES, _SIZES_QUICK = tuple(_MEBIBYTE << i for i in (0, 2, 4, 8)), (_MEBIBYTE,)
_POLICIES = ("page", "all")
_ROUNDS, _ROUNDS_LARGE, _LARGE_BYTES = 5, 2, 64 * _MEBIBYTE
_GOAL_SIZES = (4 * _MEBIBYTE, 256 * _MEBIBYTE)


def _sizes(quick: bool) -> Sequence[int]:
    return _SIZES_QUICK if quick else _SIZES


def _measure(conditions: Conditions) -> Rows:
    """For each policy and size: wall and virtual time of one write in s, pages, wall us a page."""
    sizes = _sizes(conditions.quick)
    source, destination = Buffer(sizes[-1]), Buffer(sizes[-1])
    source.touch()
    rows = []
    for policy in _POLICIES:
        config = load([f"run.policy={policy}"], environ=conditions.environ)
        platform = load_platform(config.run.platform)
        for num_bytes in sizes:
            conditions.begin_step(f"faults, {size_text(num_bytes)}, policy {policy}")
            num_rounds = _ROUNDS_LARGE if num_bytes >= _LARGE_BYTES else _ROUNDS
            rounds = [
                _write(config, platform, source, destination, num_bytes)
                for _ in range(1 if conditions.quick else num_rounds)
            ]
            rows.append({"policy": policy, **min(rounds, key=lambda row: row["wall_s"])})
    return rows


def _write(
    config: Config, platform: Platform, source: Buffer, destination: Buffer, num_bytes: int
) -> Row:
    nodes = Nodes(config, platform)
    destination.drop(all_pages(num_bytes))
    start_s = time.perf_counter()
    nodes.write(source, destination, num_bytes, 0)
    virtual_s = max(nodes.times().values()) * 1e-9
    wall_s = time.perf_counter() - start_s
    num_pages = num_bytes // mmap.PAGESIZE
    return {
        "num_bytes": num_bytes,
        "num_pages": num_pages,
        "wall_s": wall_s,
        "virtual_s": virtual_s,
        "wall_s_a_page": wall_s / num_pages,
        "virtual_s_a_page": virtual_s / num_pages,
        "wall_per_virtual": wall_s / virtual_s,
    }


def _goals(rows: Rows) -> list[Goal]:
    return [
        Goal(
            f"wall / virtual, {size_text(row['num_bytes'])} absent, policy {row['policy']}",
            1.0,
            row["wall_per_virtual"],
        )
        for row in rows
        if row["num_bytes"] in _GOAL_SIZES
    ]


GROUP = Group(
    "faults",
    (
        Layout(
            "write of two engines to absent pages, no MPI",
            (
                Column("policy", "policy"),
                NUM_BYTES,
                Column("wall_s_a_page", "wall\n(us a page)", 2, 1e6),
                Column("virtual_s_a_page", "virtual\n(us a page)", 2, 1e6),
                Column("wall_per_virtual", "wall/\nvirtual"),
            ),
        ),
    ),
    _measure,
    _goals,
    lambda quick, transport: len(_POLICIES) * len(_sizes(quick)),
)
