"""Traces of liballprof (PMPI), a file a rank: `FUNCTION:T0:ARGUMENTS:T1`, times in us.

They have what no other such format has: the addresses of buffers. Regions are the stretches of
pages that buffers lie in. The program has filled what it sends; what it has touched before it
receives nobody knows, so that the first message into a page finds it absent. Between calls the
program computes; what a call took is left behind.
"""

import bisect
import os
import re
from collections.abc import Callable, Iterator, Sequence

from pagewire.native import lib
from pagewire.replay import collectives
from pagewire.replay.formats.problems import Problems
from pagewire.replay.program import PAGE_BYTES, Buffer, Program
from pagewire.replay.records import Pages, TraceError

_FIRST_REGION = 4
"""Those below are the program's own."""
_PRESENT = int(lib.PW_PAGE_PRESENT)
_ADDRESS_END = 1 << 47
_REQUEST_BYTES = (8, 4)
"""Of Open MPI, of MPICH: requests of a vector stand so far from each other."""
_LOCAL = (
    "MPI_Init", "MPI_Init_thread", "MPI_Initialized", "MPI_Finalize", "MPI_Comm_rank",
    "MPI_Comm_size", "MPI_Comm_group", "MPI_Comm_free", "MPI_Group_incl", "MPI_Group_free",
    "MPI_Get_count", "MPI_Get_processor_name", "MPI_Wtime", "MPI_Wtick", "MPI_Type_commit",
    "MPI_Type_contiguous", "MPI_Type_vector", "MPI_Type_free", "MPI_Type_size", "MPI_Op_create",
    "MPI_Comm_dup", "MPI_Comm_split", "MPI_Comm_create", "MPI_Comm_set_errhandler",
    "MPI_Errhandler_set", "MPI_Attr_get", "MPI_Pcontrol", "MPI_Request_free",
)  # fmt: skip
"""Without a message, or, where they make communicators, with none that is seen."""
_TESTS = ("MPI_Test", "MPI_Testall", "MPI_Testany", "MPI_Testsome", "MPI_Iprobe")


class Call:
    """A line, split."""

    def __init__(self, text: str, place: str) -> None:
        self.place = place
        self.name, *fields = text.split(":")
        if len(fields) < 2 or not self.name.startswith("MPI_"):
            raise TraceError(f"{place}: a line is FUNCTION:T0:ARGUMENTS:T1")
        self._fields = [each.strip() for each in fields]
        self.begin_us, self.end_us = self._time(0), self._time(-1)

    def _time(self, at: int) -> float | None:
        try:
            return None if self._fields[at] == "-" else float(self._fields[at])
        except ValueError:
            raise self.error(f"'{self._fields[at]}' is no time") from None

    def number(self, at: int) -> int:
        """An argument, counted from 1."""
        return self.numbers(at)[0]

    def numbers(self, at: int) -> list[int]:
        try:
            return [int(each) for each in self._fields[at].split(",")]
        except (IndexError, ValueError):
            raise self.error(f"argument {at} is no number") from None

    def span(self, at: int) -> tuple[int, int]:
        """Address and bytes of buffer, count and datatype."""
        address, count = self.number(at), self.number(at + 1)
        size = (self.numbers(at + 2) + [1])[1] if len(self.numbers(at + 2)) > 1 else -1
        if count < 0 or size < 0 or address < 0:
            raise self.error("buffer, count or datatype cannot be")
        return address, count * size

    @property
    def num_arguments(self) -> int:
        return len(self._fields) - 2

    def error(self, text: str) -> TraceError:
        return TraceError(f"{self.place}: {self.name}: {text}")


def files_of(path: str) -> list[str]:
    """Those of all ranks; the name of rank 0's has one `-0`."""
    name = os.path.basename(path)
    places = [match.start() for match in re.finditer(r"-0(?!\d)", name)]
    if len(places) != 1:
        raise TraceError(f"'{path}': the name of rank 0's file has one `-0`, which is its rank")
    begin, end = name[: places[0] + 1], name[places[0] + 2 :]
    found = [path]
    while os.path.exists(
        following := os.path.join(os.path.dirname(path), f"{begin}{len(found)}{end}")
    ):
        found.append(following)
    return found


def calls_of(path: str) -> Iterator[Call]:
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.startswith("#") and line.strip():
                    yield Call(line.strip(), f"'{path}', line {number}")
    except UnicodeDecodeError:
        raise TraceError(f"'{path}' is no text") from None
    except OSError as error:
        raise TraceError(f"'{path}' cannot be read: {error.strerror}") from None


_BUFFERS = {
    **dict.fromkeys(("MPI_Send", "MPI_Ssend", "MPI_Rsend", "MPI_Bsend", "MPI_Isend", "MPI_Issend",
                     "MPI_Irsend", "MPI_Ibsend", "MPI_Recv", "MPI_Irecv", "MPI_Bcast"), (1,)),
    "MPI_Sendrecv": (1, 6),
}  # fmt: skip
"""Where buffer, count and datatype stand, of one message each."""


class Memory:
    """The regions of a rank: what its buffers' pages are without gaps."""

    def __init__(self, path: str, num_ranks: int) -> None:
        spans: set[tuple[int, int]] = set()
        for call in calls_of(path):
            spans.update(call.span(at) for at in _BUFFERS.get(call.name, ()))
            spans.update(_spans_of_blocks(call, num_ranks))
        self.bases: list[int] = []
        self._ends: list[int] = []
        for address, num_bytes in sorted(spans):
            if not num_bytes or address >= _ADDRESS_END:  # MPI_IN_PLACE
                continue
            first = address - address % PAGE_BYTES
            end = -(-(address + num_bytes) // PAGE_BYTES) * PAGE_BYTES
            if self._ends and first <= self._ends[-1]:
                self._ends[-1] = max(end, self._ends[-1])
            else:
                self.bases.append(first)
                self._ends.append(end)

    def buffer(self, address: int, num_bytes: int) -> Buffer:
        idx = bisect.bisect_right(self.bases, address) - 1
        if not num_bytes or idx < 0 or address >= self._ends[idx]:
            return Buffer(0, 0, num_bytes)
        return Buffer(_FIRST_REGION + idx, address - self.bases[idx], num_bytes)

    def regions(self) -> dict[int, int]:
        return {_FIRST_REGION + idx: base for idx, base in enumerate(self.bases)}


def _spans_of_blocks(call: Call, num_ranks: int) -> list[tuple[int, int]]:
    """Of collectives with a block for each rank; a buffer that MPI does not look at is none."""
    times = {"MPI_Allgather": (1, num_ranks), "MPI_Alltoall": (num_ranks, num_ranks)}.get(call.name)
    if call.name in ("MPI_Gather", "MPI_Scatter"):
        is_root = call.numbers(8)[1:2] == [call.number(7)]
        all_blocks = num_ranks if is_root else 0
        times = (1, all_blocks) if call.name == "MPI_Gather" else (all_blocks, 1)
    if times is None:
        return []
    (sent, sent_bytes), (received, received_bytes) = call.span(1), call.span(4)
    return [(sent, sent_bytes * times[0]), (received, received_bytes * times[1])]


class Importer:
    """One rank: does in a program what the calls say. memory: None where the program has its own
    buffers."""

    def __init__(self, program: Program, problems: Problems, memory: Memory | None) -> None:
        self._program, self._problems, self._memory = program, problems, memory
        self._world = collectives.world(program)
        self._before_us: float | None = None
        self._requests: dict[int, int] = {}
        """Operations under way, by the address of the request."""
        self._told: set[tuple[int, int, int]] = set()

    def do(self, call: Call) -> None:
        """One call."""
        if self._before_us is not None and call.begin_us is not None:
            self._program.compute(max(0, round((call.begin_us - self._before_us) * 1000)))
        self._before_us = call.end_us
        if call.name in _LOCAL:
            return
        if call.name in _TESTS:
            self._problems.note("tests and probes, which are waits where the trace waits")
            return
        action = _ACTIONS.get(call.name)
        if action is None:
            self._problems.add(call.name, call.place)
        else:
            action(self, call)

    def end(self) -> None:
        self._program.waitall(sorted(self._requests.values()))
        self._program.end()

    # ---- arguments

    def _is_world(self, call: Call, at: int) -> bool:
        """Whose ranks are those of the trace."""
        _, rank, size = (call.numbers(at) + [-1, -1])[:3]
        if (rank, size) == (self._program.rank, self._program.size):
            return True
        what = "calls on a communicator whose ranks are not those of the trace"
        self._problems.add(f"{what}: rank {rank} of {size}", call.place)
        return False

    def _peer(self, call: Call, at: int) -> int:
        peer = call.number(at)
        if not 0 <= peer < self._program.size:
            raise call.error(f"rank {peer}: the trace has {self._program.size} ranks")
        return peer

    def _source(self, call: Call, at: int) -> int | None:
        """-1 is any, as for Open MPI and in Schedgen."""
        return None if call.number(at) == -1 else self._peer(call, at)

    def _filled(self, call: Call, at: int, key: object, times: int = 1) -> Buffer:
        address, num_bytes = call.span(at)
        num_bytes *= times
        if self._memory is None:
            return self._program.filled(("sent", key), num_bytes)
        buffer = self._memory.buffer(address, num_bytes)
        first, last = buffer.offset // PAGE_BYTES, (buffer.offset + num_bytes - 1) // PAGE_BYTES
        pages = buffer.region, first, last - first + 1
        if num_bytes and pages not in self._told:
            self._told.add(pages)
            self._program.record(Pages(*pages, _PRESENT))
        return buffer

    def _landing(self, call: Call, at: int, key: object, times: int = 1) -> Buffer:
        address, num_bytes = call.span(at)
        num_bytes *= times
        if self._memory is None:
            return self._program.landing(("received", key), num_bytes)
        return self._memory.buffer(address, num_bytes)

    # ---- messages

    def _send(self, call: Call) -> None:
        if self._is_world(call, 6):
            peer, tag = self._peer(call, 4), call.number(5)
            buffer = self._filled(call, 1, (peer, tag))
            is_synchronous = call.name in ("MPI_Ssend", "MPI_Issend")
            if call.name.startswith("MPI_I"):
                operation = self._program.isend(peer, buffer, tag, is_synchronous=is_synchronous)
                self._requests[call.number(7)] = operation
            else:
                self._program.send(peer, buffer, tag, is_synchronous=is_synchronous)

    def _receive(self, call: Call) -> None:
        if self._is_world(call, 6):
            source, tag = self._source(call, 4), call.number(5)
            buffer = self._landing(call, 1, (source, tag))
            if call.name == "MPI_Recv":
                self._program.recv(source, buffer, None if tag < 0 else tag)
            else:
                operation = self._program.irecv(source, buffer, None if tag < 0 else tag)
                self._requests[call.number(7)] = operation

    def _sendrecv(self, call: Call) -> None:
        if self._is_world(call, 11):
            dest, source = self._peer(call, 4), self._source(call, 9)
            tag = call.number(10)
            sent = self._filled(call, 1, (dest, call.number(5)))
            received = self._landing(call, 6, (source, tag))
            program = self._program
            with program.call(call.name):
                incoming = program.post_receive(source, received, None if tag < 0 else tag)
                program.finish([program.post_send(dest, sent, call.number(5)), incoming])

    def _wait(self, call: Call) -> None:
        operation = self._requests.pop(call.number(1), None)
        if operation is not None:
            self._program.wait(operation)

    def _waitall(self, call: Call) -> None:
        """The requests lie one behind the other; of which length shows in which there are."""
        count, first = call.number(1), call.number(2)
        ways = [[first + idx * length for idx in range(count)] for length in _REQUEST_BYTES]
        wanted = max(ways, key=lambda way: sum(each in self._requests for each in way))
        found = [self._requests.pop(each) for each in wanted if each in self._requests]
        if found:
            self._program.waitall(found)

    # ---- collectives

    def _barrier(self, call: Call) -> None:
        if self._is_world(call, 1):
            collectives.barrier(self._world)

    def _bcast(self, call: Call) -> None:
        if self._is_world(call, 5):
            root = self._peer(call, 4)
            take = self._filled if root == self._program.rank else self._landing
            collectives.broadcast(self._world, take(call, 1, "bcast"), root)

    def _reduce(self, call: Call) -> None:
        if self._is_world(call, 7):
            collectives.reduce(self._world, call.span(2)[1], self._peer(call, 6))

    def _allreduce(self, call: Call) -> None:
        if self._is_world(call, 6):
            collectives.allreduce(self._world, call.span(2)[1])

    def _scan(self, call: Call) -> None:
        if self._is_world(call, 6):
            collectives.scan(self._world, call.span(2)[1], name=call.name)

    def _parts(self, whole: Buffer) -> list[Buffer]:
        size = self._program.size
        length = whole.num_bytes // size
        return [whole.part(rank * length, length) for rank in range(size)]

    def _allgather(self, call: Call) -> None:
        if self._is_world(call, 7):
            whole = self._landing(call, 4, "allgather", self._program.size)
            collectives.allgather(self._world, self._parts(whole))

    def _alltoall(self, call: Call) -> None:
        if self._is_world(call, 7):
            size = self._program.size
            sent = self._parts(self._filled(call, 1, "alltoall", size))
            received = self._parts(self._landing(call, 4, "alltoall", size))
            collectives.alltoall(self._world, sent, received)

    def _gather(self, call: Call) -> None:
        if self._is_world(call, 8):
            root, size = self._peer(call, 7), self._program.size
            sent, blocks = self._filled(call, 1, "gather"), None
            if root == self._program.rank:
                blocks = self._parts(self._landing(call, 4, "gather all", size))
            collectives.gather(self._world, sent, blocks, root)

    def _scatter(self, call: Call) -> None:
        if self._is_world(call, 8):
            root, size = self._peer(call, 7), self._program.size
            received, blocks = self._landing(call, 4, "scatter"), None
            if root == self._program.rank:
                blocks = self._parts(self._filled(call, 1, "scatter all", size))
            collectives.scatter(self._world, blocks, received, root)


_SENDS: Sequence[str] = [name for name in _BUFFERS if name.lower().endswith("send")]
_ACTIONS: dict[str, Callable[[Importer, Call], None]] = {
    **dict.fromkeys(_SENDS, Importer._send),
    "MPI_Recv": Importer._receive,
    "MPI_Irecv": Importer._receive,
    "MPI_Sendrecv": Importer._sendrecv,
    "MPI_Wait": Importer._wait,
    "MPI_Waitall": Importer._waitall,
    "MPI_Barrier": Importer._barrier,
    "MPI_Bcast": Importer._bcast,
    "MPI_Reduce": Importer._reduce,
    "MPI_Allreduce": Importer._allreduce,
    "MPI_Scan": Importer._scan,
    "MPI_Exscan": Importer._scan,
    "MPI_Allgather": Importer._allgather,
    "MPI_Alltoall": Importer._alltoall,
    "MPI_Gather": Importer._gather,
    "MPI_Scatter": Importer._scatter,
}
