"""The same work by plain mpi4py and by the NI, in turns, in the same ranks.

Plain means the methods that the facade replaced, on a communicator of their own, in the same
processes: so both see the same machine at the same moment. Rounds alternate and the quickest round
of each counts, since noise only adds; a round takes as long as its slowest rank. A first trial,
which warms everything up, gives the number of repetitions, so that starting is in no figure.
"""

import dataclasses
import json
import resource
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from pagewire.cli.checks.bench.group import Times
from pagewire.native import lib
from pagewire.transport import MPI
from pagewire.transport.facade import here, native

Work = Callable[[int], object]
"""Does something so many times."""

_TRIAL_TIMES = 3
_LEAST_TIMES = 3
_MOST_TIMES = 20_000
_NEVER_S = float("inf")


class Contest:
    """The ranks' communicators and how long a round shall take. Made by all ranks together."""

    def __init__(self, *, num_rounds: int, round_s: float) -> None:
        self.world = MPI.COMM_WORLD
        self.plain = native(MPI.Comm, "Dup")(self.world)
        self.rank: int = self.world.Get_rank()
        self.num_ranks: int = self.world.Get_size()
        self._num_rounds = num_rounds
        self._round_s = round_s

    def measure(self, by_plain: Work, by_facade: Work) -> Times:
        """Both in turns, of one repetition in the quickest rounds. Collective; the same on every
        rank."""
        plain_times = self._num_times(self._plain_round(by_plain, _TRIAL_TIMES))
        self._facade_round(by_facade, 1)  # the first one may fault
        facade_times = self._num_times(self._facade_round(by_facade, _TRIAL_TIMES).wall_s)
        plain_s = virtual_s = _NEVER_S
        quickest = _Round(_NEVER_S, _NEVER_S, 0, 0, 0)
        for _ in range(self._num_rounds):
            plain_s = min(plain_s, self._plain_round(by_plain, plain_times))
            this = self._facade_round(by_facade, facade_times)
            virtual_s = min(virtual_s, this.virtual_s)
            quickest = min(quickest, this, key=lambda each: each.wall_s)
        wall_s = quickest.wall_s
        return Times(
            plain_s=plain_s,
            ni_s=wall_s,
            virtual_s=virtual_s,
            blocks_per_s=quickest.blocks / wall_s,
            packets_per_s=quickest.packets / wall_s,
            system_calls=self._system_calls(by_facade, facade_times),
            context_switches=quickest.switches,
        )

    def _num_times(self, trial_s: float) -> int:
        return max(_LEAST_TIMES, min(_MOST_TIMES, int(self._round_s / trial_s)))

    def _plain_round(self, work: Work, times: int) -> float:
        """Seconds a repetition."""
        _barrier(self.plain)
        start_s = time.perf_counter()
        work(times)
        passed_s = time.perf_counter() - start_s
        return float(_reduce(self.plain, passed_s, MPI.MAX)) / times

    def _facade_round(self, work: Work, times: int) -> "_Round":
        self.world.Barrier()
        _barrier(self.plain)
        before = _counted()
        start_s = time.perf_counter()
        work(times)
        passed_s = time.perf_counter() - start_s
        after = _counted()
        self.world.Barrier()  # until here a peer may still need this rank's NI
        spent_ns, blocks, packets, switches = (
            now - then for then, now in zip(before, after, strict=True)
        )
        return _Round(
            wall_s=_reduce(self.plain, passed_s, MPI.MAX) / times,
            virtual_s=_reduce(self.plain, spent_ns, MPI.MAX) / times * 1e-9,
            blocks=_reduce(self.plain, blocks, MPI.SUM) / times,
            packets=_reduce(self.plain, packets, MPI.SUM) / times,
            switches=_reduce(self.plain, switches, MPI.SUM) / times,
        )

    def _system_calls(self, work: Work, times: int) -> float | None:
        """Of a repetition by the facade, in a round of its own: to be counted takes time."""
        self.world.Barrier()
        is_counted = lib.pw_bench_begin_counting() == lib.PW_OK
        work(times)
        num_calls = lib.pw_bench_end_counting() if is_counted else 0
        self.world.Barrier()
        counted = _reduce(self.plain, is_counted, MPI.LAND)
        return _reduce(self.plain, num_calls, MPI.SUM) / times if counted else None

    def close(self) -> None:
        """Free the private communicator."""
        native(MPI.Comm, "Free")(self.plain)


@dataclasses.dataclass(frozen=True, slots=True)
class _Round:
    """Of one repetition."""

    wall_s: float
    virtual_s: float
    blocks: float
    packets: float
    switches: float


def _counted() -> tuple[int, int, int, int]:
    """So far: virtual time in ns but for compute, as Python between the calls is no part of a
    transfer; blocks and packets of this rank's node; context switches of its thread."""
    counted = here.node.counters()
    spent_ns = here.clock.now_ns - here.clock.compute_ns
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    return spent_ns, counted["blocks"], counted["packets"], usage.ru_nvcsw + usage.ru_nivcsw


def _barrier(comm: Any) -> None:
    native(MPI.Comm, "Barrier")(comm)


def _reduce(comm: Any, value: float, operation: Any) -> Any:
    return native(MPI.Comm, "allreduce")(comm, value, op=operation)


def run(measure: Callable[[Contest, Mapping[str, Any]], list[dict[str, Any]]]) -> int:
    """A rank's program: measure what the launcher asks for; rank 0 writes the rows."""
    path, text = sys.argv[1:]
    spec = json.loads(text)
    contest = Contest(num_rounds=spec["num_rounds"], round_s=spec["round_s"])
    rows = measure(contest, spec)
    if contest.rank == 0:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(rows, file)
    contest.close()
    return 0


def require(holds: bool, what: str) -> None:
    """End the ranks: figures of wrong data would mean nothing."""
    if not holds:
        raise AssertionError(what)
