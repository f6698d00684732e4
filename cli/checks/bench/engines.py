"""What the emulator costs in one process, without MPI: a translation lookup, fault-free writes of
two engines, and a page fault.

As in the experiments, bursts go from one engine to the other at once, so this is the engines' and
their host's share of a ping-pong. All times but the virtual ones are wall time.
"""

import mmap
import random
import statistics
import time
from collections.abc import Sequence

from pagewire.cli.checks.bench.group import (
    MPACKETS_PER_S,
    NUM_BYTES,
    Column,
    Conditions,
    Goal,
    Group,
    Layout,
    Row,
    Rows,
)
from pagewire.cli.kit.numbers import size_text
from pagewire.lab.buffer import Buffer
from pagewire.lab.nodes import Nodes
from pagewire.lab.transfer import all_pages
from pagewire.native import check, lib
from pagewire.run.settings import config, platform

_MEBIBYTE = 1 << 20

_LOOKUPS = {
    "L1 TLB hit, 128 ways": lib.PW_BENCH_L1_HIT,
    "L1 miss, L2 TLB hit, 4 x 512": lib.PW_BENCH_L2_HIT,
    "miss in both": lib.PW_BENCH_MISS,
    "C hash table, 2048 pages": lib.PW_BENCH_HASH,
    "C tree (tfind), 2048 pages": lib.PW_BENCH_TREE,
}
"""Kinds that are measured inside C, by cli/native/bench.c."""
_NUM_LOOKUPS, _NUM_LOOKUPS_QUICK = 1_000_000, 20_000
_NUM_PAGES, _FIRST_PAGE = 2048, 0x7F0000000
_L2_HIT_NS = 20.0


def _python_dict_ns(num_lookups: int) -> float:
    """Of a dict keyed by (pdid, page), by a Python loop: that is what a caller pays."""
    table = {(7, _FIRST_PAGE + i): i for i in range(_NUM_PAGES)}
    draw = random.Random(1)
    keys = [(7, _FIRST_PAGE + draw.randrange(_NUM_PAGES)) for _ in range(num_lookups)]
    rounds = []
    for _ in range(5):
        start_s = time.perf_counter()
        for key in keys:
            table.get(key)
        rounds.append((time.perf_counter() - start_s) / num_lookups * 1e9)
    return statistics.median(rounds)


def _measure_lookups(conditions: Conditions) -> Rows:
    """Quickest kind of cache first, the Python dict last."""
    conditions.begin_step("lookups")
    num_lookups = _NUM_LOOKUPS_QUICK if conditions.quick else _NUM_LOOKUPS
    rows: Rows = []
    for name, which in _LOOKUPS.items():
        ns = lib.pw_bench_lookup_ns(which, num_lookups)
        check(min(int(ns), 0), f"benchmark of {name}")
        rows.append({"name": name, "ns_per_lookup": ns})
    ns = _python_dict_ns(max(1, num_lookups // 10))
    return [*rows, {"name": "Python dict, 2048 pages", "ns_per_lookup": ns}]


def _lookup_goals(rows: Rows) -> list[Goal]:
    l2_ns = next(row["ns_per_lookup"] for row in rows if "L2 TLB hit" in row["name"])
    return [Goal("L2-hit lookup, ns", _L2_HIT_NS, l2_ns)]


def _write(nodes: Nodes, source: Buffer, destination: Buffer, num_bytes: int, at_ns: int) -> Row:
    start_s = time.perf_counter()
    nodes.write(source, destination, num_bytes, at_ns)
    virtual_s = (max(nodes.times().values()) - at_ns) * 1e-9
    wall_s = time.perf_counter() - start_s
    return {
        "num_bytes": num_bytes,
        "wall_s": wall_s,
        "virtual_s": virtual_s,
        "wall_per_virtual": wall_s / virtual_s,
    }


def _quickest(rows: Rows) -> Row:
    return min(rows, key=lambda row: row["wall_s"])


_BYTES, _BYTES_QUICK = 16 * _MEBIBYTE, _MEBIBYTE
_ROUNDS, _ROUNDS_QUICK = 25, 2
_GAP_NS = 20_000_000
"""Virtual rest between two writes."""


def _measure_engine(conditions: Conditions) -> Rows:
    conditions.begin_step("engine")
    num_bytes = _BYTES_QUICK if conditions.quick else _BYTES
    chosen = config.load([], environ=conditions.environ)
    nodes = Nodes(chosen, platform.load(chosen.run.platform))
    source, destination = Buffer(num_bytes), Buffer(num_bytes)
    source.touch()
    destination.touch()
    rounds = []
    at_ns = 0
    for _ in range(1 + (_ROUNDS_QUICK if conditions.quick else _ROUNDS)):
        before = nodes.counters()
        row = _write(nodes, source, destination, num_bytes, at_ns)
        after = nodes.counters()
        for name in ("blocks", "packets"):
            row[f"{name}_per_s"] = (after[name] - before[name]) / row["wall_s"]
        at_ns += round(row["virtual_s"] * 1e9) + _GAP_NS
        rounds.append(row)
    return [_quickest(rounds[1:])]  # the first one fills TLBs and pools


def _engine_goals(rows: Rows) -> list[Goal]:
    what, rate = "million packets/s, two engines without MPI", rows[0]["packets_per_s"] * 1e-6
    return [Goal(what, MPACKETS_PER_S, rate, at_least=True)]


_FAULT_SIZES, _FAULT_SIZES_QUICK = tuple(_MEBIBYTE << i for i in (0, 2, 4, 8)), (_MEBIBYTE,)
_POLICIES = ("page", "all")
_FAULT_ROUNDS, _FAULT_ROUNDS_LARGE, _LARGE_BYTES = 5, 2, 64 * _MEBIBYTE
_GOAL_SIZES = (4 * _MEBIBYTE, 256 * _MEBIBYTE)
_FAULT_LIMITS = {"page": 0.3, "all": 0.8}
"""Wall over virtual time, by policy."""


def _fault_sizes(quick: bool) -> Sequence[int]:
    return _FAULT_SIZES_QUICK if quick else _FAULT_SIZES


def _measure_faults(conditions: Conditions) -> Rows:
    """A write whose pages are all absent. The cost of a page should not depend on how many there
    are."""
    sizes = _fault_sizes(conditions.quick)
    source, destination = Buffer(sizes[-1]), Buffer(sizes[-1])
    source.touch()
    rows = []
    for policy in _POLICIES:
        chosen = config.load([f"run.policy={policy}"], environ=conditions.environ)
        machine = platform.load(chosen.run.platform)
        for num_bytes in sizes:
            conditions.begin_step(f"faults, {size_text(num_bytes)}, policy {policy}")
            num_rounds = _FAULT_ROUNDS_LARGE if num_bytes >= _LARGE_BYTES else _FAULT_ROUNDS
            rounds = []
            for _ in range(1 if conditions.quick else num_rounds):
                nodes = Nodes(chosen, machine)
                destination.drop(all_pages(num_bytes))
                rounds.append(_write(nodes, source, destination, num_bytes, 0))
            row, num_pages = _quickest(rounds), num_bytes // mmap.PAGESIZE
            rows.append({"policy": policy, "num_pages": num_pages, **row})
            for name in ("wall_s", "virtual_s"):
                rows[-1][f"{name}_a_page"] = row[name] / num_pages
    return rows


def _fault_goals(rows: Rows) -> list[Goal]:
    return [
        Goal(
            f"wall / virtual, {size_text(row['num_bytes'])} absent, policy {row['policy']}",
            _FAULT_LIMITS[row["policy"]],
            row["wall_per_virtual"],
        )
        for row in rows
        if row["num_bytes"] in _GOAL_SIZES
    ]


LOOKUPS = Group(
    "lookups",
    Layout(
        "translation lookup (wall time)",
        Column("name", "kind"),
        Column("ns_per_lookup", "ns a lookup", 1),
    ),
    measure=_measure_lookups,
    goals=_lookup_goals,
)
ENGINE = Group(
    "engine",
    Layout(
        "fault-free write of two engines, no MPI",
        NUM_BYTES,
        Column("wall_s", "wall\n(ms)", 2, 1e3),
        Column("virtual_s", "virtual\n(ms)", 2, 1e3),
        Column("wall_per_virtual", "wall/\nvirtual"),
        Column("blocks_per_s", "blocks/s", 0),
        Column("packets_per_s", "packets/s", 0),
    ),
    measure=_measure_engine,
    goals=_engine_goals,
)
FAULTS = Group(
    "faults",
    Layout(
        "write of two engines to absent pages, no MPI",
        Column("policy", "policy"),
        NUM_BYTES,
        Column("wall_s_a_page", "wall\n(us a page)", 2, 1e6),
        Column("virtual_s_a_page", "virtual\n(us a page)", 2, 1e6),
        Column("wall_per_virtual", "wall/\nvirtual"),
    ),
    measure=_measure_faults,
    goals=_fault_goals,
    num_steps=lambda quick, transport: len(_POLICIES) * len(_fault_sizes(quick)),
)
