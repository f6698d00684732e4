"""Allreduce, Bcast and Alltoall of all ranks over size.

num_bytes is what a rank gives: the vector of doubles of Allreduce, Bcast's buffer, and in Alltoall
what goes to each single rank. Bcast's root goes round, so that no rank runs ahead of the others.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagewire.cli.bench.ranks.in_turns import Contest, Work, require, run
from pagewire.transport import MPI
from pagewire.transport.node.patching import native

Array = NDArray[np.float64]
_DOUBLE_BYTES = 8


def _allreduce(contest: Contest, num_bytes: int) -> tuple[Work, Work, Array, Array]:
    mine = np.full(num_bytes // _DOUBLE_BYTES, contest.rank + 1.0)
    by_plain, by_facade = np.zeros_like(mine), np.zeros_like(mine)
    method = native(MPI.Comm, "Allreduce")

    def plain(times: int) -> None:
        for _ in range(times):
            method(contest.plain, mine, by_plain)

    def facade(times: int) -> None:
        for _ in range(times):
            contest.world.Allreduce(mine, by_facade)

    return plain, facade, by_plain, by_facade


def _bcast(contest: Contest, num_bytes: int) -> tuple[Work, Work, Array, Array]:
    by_plain = np.full(num_bytes // _DOUBLE_BYTES, contest.rank + 1.0)
    by_facade = by_plain.copy()
    method = native(MPI.Comm, "Bcast")

    def plain(times: int) -> None:
        for i in range(times):
            method(contest.plain, by_plain, i % contest.num_ranks)

    def facade(times: int) -> None:
        for i in range(times):
            contest.world.Bcast(by_facade, i % contest.num_ranks)

    return plain, facade, by_plain, by_facade


def _alltoall(contest: Contest, num_bytes: int) -> tuple[Work, Work, Array, Array]:
    num_doubles = num_bytes // _DOUBLE_BYTES * contest.num_ranks
    mine = np.arange(num_doubles) + contest.rank * float(num_doubles)
    by_plain, by_facade = np.zeros_like(mine), np.zeros_like(mine)
    method = native(MPI.Comm, "Alltoall")

    def plain(times: int) -> None:
        for _ in range(times):
            method(contest.plain, mine, by_plain)

    def facade(times: int) -> None:
        for _ in range(times):
            contest.world.Alltoall(mine, by_facade)

    return plain, facade, by_plain, by_facade


_OPERATIONS = {"Allreduce": _allreduce, "Bcast": _bcast, "Alltoall": _alltoall}


def _row(contest: Contest, operation: str, num_bytes: int) -> dict[str, Any]:
    plain, facade, by_plain, by_facade = _OPERATIONS[operation](contest, num_bytes)
    figures = contest.measure(plain, facade)
    require(np.array_equal(by_plain, by_facade), f"{operation} of {num_bytes} bytes: wrong data")
    return {
        "operation": operation,
        "num_ranks": contest.num_ranks,
        "num_bytes": num_bytes,
        "plain_s": figures.plain_s,
        "facade_s": figures.facade_s,
        "ratio": figures.facade_s / figures.plain_s,
        "virtual_s": figures.virtual_s,
    }


def measure(contest: Contest, spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each operation and size."""
    return [
        _row(contest, operation, num_bytes)
        for operation in spec["operations"]
        for num_bytes in spec["sizes_bytes"]
    ]


if __name__ == "__main__":
    raise SystemExit(run(measure))
