"""What a translation lookup costs on this host, for `pagewire bench`.

Wall time of the emulator, not virtual time of what it emulates. The compiled kinds are measured
inside C by cli/native/bench_lookup.c; the Python dict is measured by a Python loop, which is what a
caller pays.
"""

from random import Random
from time import perf_counter
from typing import Any

from pagewire.native import check, lib

KINDS = {
    "L1 TLB hit, 128 ways": lib.PW_BENCH_L1_HIT,
    "L1 miss, L2 TLB hit, 4 x 512": lib.PW_BENCH_L2_HIT,
    "miss in both": lib.PW_BENCH_MISS,
    "C hash table, 2048 pages": lib.PW_BENCH_HASH,
    "C tree (tfind), 2048 pages": lib.PW_BENCH_TREE,
}
NUM_PAGES = 2048
FIRST_PAGE = 0x7F0000000


def python_dict_ns(num_lookups: int) -> float:
    """ns per lookup of a dict keyed by (pdid, page), median of 5 rounds, loop included."""
    table = {(7, FIRST_PAGE + i): i for i in range(NUM_PAGES)}
    random = Random(1)
    keys = [(7, FIRST_PAGE + random.randrange(NUM_PAGES)) for _ in range(num_lookups)]
    rounds = []
    for _ in range(5):
        start = perf_counter()
        for key in keys:
            table.get(key)
        rounds.append((perf_counter() - start) / num_lookups * 1e9)
    return sorted(rounds)[2]


def lookup_table(num_lookups: int = 1_000_000) -> list[dict[str, Any]]:
    """Rows {name, ns_per_lookup}, quickest kind of cache first, the Python dict last."""
    rows: list[dict[str, Any]] = []
    for name, which in KINDS.items():
        ns = lib.pw_bench_lookup_ns(which, num_lookups)
        check(min(int(ns), 0), f"benchmark of {name}")
        rows.append({"name": name, "ns_per_lookup": ns})
    ns = python_dict_ns(max(1, num_lookups // 10))
    rows.append({"name": "Python dict, 2048 pages", "ns_per_lookup": ns})
    return rows
