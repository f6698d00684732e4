"""One replay over several processes: each has a part of the nodes, the ranks of one MPI program.

All go on by windows as long as the least latency between two nodes: within one, no part can feel
what another does. Between two of them bursts that crossed are handed over. Nothing is ever rolled
back, and nothing comes out otherwise than in one process.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from pagewire.native import ffi, lib
from pagewire.native.settings import ConfigError
from pagewire.ni.engine_view import NEVER

Value = TypeVar("Value")

_FAILED = 1
_BYTES_FROM = 3
"""What a part says of its window: when it goes on, whether groups meet, _FAILED or 0, and how many
bytes each part is to have."""
_TAG = 1


class Parts:
    """The parts of each replay that this process makes while they are `divided`."""

    def __init__(self, comm: Any) -> None:
        """comm: an mpi4py communicator, whose ranks have a part each."""
        self.comm = comm
        self.own: int = comm.Get_rank()
        self.count: int = comm.Get_size()
        self.failure = ""

    def ends(self, num_ranks: int, together: int) -> list[int]:
        """Of each part the rank behind its last; ranks of one node stay together. Raises
        ConfigError."""
        num_nodes = -(-num_ranks // together)
        if num_nodes < self.count:
            raise ConfigError(
                f"--split over {self.count} processes: the run has {num_nodes} nodes; take as many "
                "processes at most"
            )
        return [
            min(num_nodes * (part + 1) // self.count * together, num_ranks)
            for part in range(self.count)
        ]

    def fail_alike(self, do: Callable[[], None]) -> None:
        """Do it in each part; where one fails, all raise: that one what it failed with, the others
        ConfigError."""
        failure: Exception | None = None
        try:
            do()
        except Exception as error:  # noqa: BLE001, raised below
            failure = error
        said = self.everywhere(failure and str(failure))
        if failure is not None:
            raise failure
        for part, why in enumerate(said):
            if why is not None:
                raise ConfigError(f"part {part} of {self.count}: {why}")

    def gathered(self, own: Value) -> list[Value]:
        """What each part has, in their order: on the first part; nothing on the others."""
        return self.comm.gather(own) or []

    def everywhere(self, own: Value) -> list[Value]:
        """What each part has, in their order."""
        return list(self.comm.allgather(own))

    def run(self, many: Any) -> int:
        """All windows of a pw_many, until nothing can go on: 0; or the code of the first part that
        has failed, with its reason in `failure`."""
        state = ffi.new("pw_many_window *")
        size = ffi.new("uint64_t *")
        own = ffi.new("int64_t[]", _BYTES_FROM + self.count)
        width = _BYTES_FROM + self.count
        all_of = ffi.new("int64_t[]", width * self.count)
        code = 0
        while True:
            lib.pw_many_window_read(many, state)
            own[0], own[1], own[2] = state.next_ns, state.num_meeting, _FAILED if code < 0 else 0
            for part in range(self.count):
                lib.pw_many_tells(many, part, size)
                own[_BYTES_FROM + part] = size[0]
            self.comm.Allgather(ffi.buffer(own), ffi.buffer(all_of))
            said = [all_of[part * width : (part + 1) * width] for part in range(self.count)]
            failed = next((part for part, each in enumerate(said) if each[2]), None)
            if failed is not None:
                why = ffi.string(lib.pw_many_reason(many)).decode(errors="replace")
                code, self.failure = self.comm.bcast((code, why), failed)
                return int(code)
            code = self._hand_over(many, said)
            next_ns = min(each[0] for each in said)
            if next_ns == NEVER:
                return min(self.everywhere(int(code)))
            length_ns = 1 if any(each[1] for each in said) else state.reach_ns
            if code >= 0:
                code = lib.pw_many_run_window(many, next_ns + length_ns)

    def _hand_over(self, many: Any, said: Sequence[Any]) -> int:
        """Letters to all parts, and those of all others, in their order."""
        size = ffi.new("uint64_t *")
        requests, received = [], []
        for part in range(self.count):
            if num_bytes := said[part][_BYTES_FROM + self.own]:
                received.append(ffi.new("uint8_t[]", num_bytes))
                requests.append(self.comm.Irecv(ffi.buffer(received[-1]), part, _TAG))
            if said[self.own][_BYTES_FROM + part]:
                told = lib.pw_many_tells(many, part, size)
                requests.append(self.comm.Isend(ffi.buffer(told, size[0]), part, _TAG))
        for request in requests:
            request.Wait()
        lib.pw_many_has_told(many)
        code = 0
        for letters in received:
            if code >= 0:
                code = lib.pw_many_hear(many, letters, len(letters))
        return int(code)


_divided: list[Parts] = []


def divided() -> Parts | None:
    """The parts that replays of this process are divided into; None: they are not."""
    return _divided[-1] if _divided else None


@contextlib.contextmanager
def dividing(comm: Any) -> Iterator[Parts]:
    """Within it, every replay is divided over the ranks of comm, which all make it."""
    _divided.append(Parts(comm))
    try:
        yield _divided[-1]
    finally:
        _divided.pop()
