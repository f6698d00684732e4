"""One-sided writes and reads of rank 0: the RDMA library against a window of MPI's own.

MPI's is the quickest that it has on one host: a window that it allocated, which MPICH puts in
memory that the ranks share, locked once, each operation followed by a flush. Rank 1 waits in a
barrier, where its NI works.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pagewire.cli.checks.bench.ranks.in_turns import Contest, Work, require, run
from pagewire.transport import MPI, rdma
from pagewire.transport.facade import native

_TARGET = 1


def _repeated(contest: Contest, transfer: Callable[[], object]) -> Work:
    def work(times: int) -> None:
        if contest.rank != _TARGET:
            for _ in range(times):
                transfer()

    return work


class _Window:
    """MPI's own one-sided communication."""

    def __init__(self, contest: Contest, num_bytes: int) -> None:
        self.local = np.full(num_bytes, 1 + contest.rank, np.uint8)
        self._window = native(MPI.Win, "Allocate")(num_bytes, 1, comm=contest.plain)
        self.target = np.frombuffer(self._window, np.uint8)
        self.target[:] = 3 + contest.rank
        self._put, self._get = native(MPI.Win, "Put"), native(MPI.Win, "Get")
        self._flush = native(MPI.Win, "Flush")
        native(MPI.Comm, "Barrier")(contest.plain)
        native(MPI.Win, "Lock_all")(self._window)

    def put(self) -> None:
        self._put(self._window, self.local, _TARGET)
        self._flush(self._window, _TARGET)

    def get(self) -> None:
        self._get(self._window, self.local, _TARGET)
        self._flush(self._window, _TARGET)

    def close(self) -> None:
        native(MPI.Win, "Unlock_all")(self._window)
        del self.target
        native(MPI.Win, "Free")(self._window)


class _Library:
    """The RDMA library."""

    def __init__(self, contest: Contest, num_bytes: int) -> None:
        self._num_bytes = num_bytes
        self._near, self._far = rdma.Buffer(num_bytes), rdma.Buffer(num_bytes)
        self.local, self.target = self._near.array, self._far.array
        self.local[:] = 1 + contest.rank
        self.target[:] = 3 + contest.rank
        self._remote = contest.world.allgather(self._far.remote)[_TARGET]
        self._writes, self._reads = rdma.Channel(), rdma.ReadChannel()

    def put(self) -> None:
        self._writes.insert(self._near, self._remote, self._num_bytes)
        self._writes.trigger()
        self._finish(self._writes)

    def get(self) -> None:
        self._reads.insert(self._remote, self._near, self._num_bytes)
        self._reads.trigger()
        self._finish(self._reads)

    def _finish(self, channel: rdma.Channel | rdma.ReadChannel) -> None:
        if channel.wait() is not rdma.Status.FINISHED:
            require(False, f"one-sided: {channel.error}")

    def close(self) -> None:
        self._writes.close()
        del self.local, self.target
        for buffer in (self._near, self._far):
            buffer.free()


def _row(contest: Contest, operation: str, num_bytes: int) -> dict[str, Any]:
    window, library = _Window(contest, num_bytes), _Library(contest, num_bytes)
    times = contest.measure(
        _repeated(contest, getattr(window, operation)),
        _repeated(contest, getattr(library, operation)),
    )
    # After a put rank 1's memory holds rank 0's 1, after a get rank 0's holds rank 1's 4.
    for side in (window, library):
        if operation == "put" and contest.rank == _TARGET:
            require(bool((side.target == 1).all()), f"put of {num_bytes} bytes: wrong data")
        if operation == "get" and contest.rank != _TARGET:
            require(bool((side.local == 4).all()), f"get of {num_bytes} bytes: wrong data")
        side.close()
    return {
        "operation": operation,
        "num_bytes": num_bytes,
        "plain_s": times.plain_s,
        "rdma_s": times.ni_s,
        "ratio": times.ni_s / times.plain_s,
        "virtual_s": times.virtual_s,
        "wall_per_virtual": times.ni_s / times.virtual_s,
    }


def measure(contest: Contest, spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each operation and size."""
    require(contest.num_ranks == 2, "one-sided needs 2 ranks")
    return [
        _row(contest, operation, num_bytes)
        for operation in ("put", "get")
        for num_bytes in spec["sizes_bytes"]
    ]


if __name__ == "__main__":
    raise SystemExit(run(measure))
