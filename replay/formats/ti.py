"""SimGrid's time-independent traces (TI): one action a line, `RANK ACTION ARGS...`.

Read as SMPI's replay reads them: a file of actions, or a list of file names, one for all ranks or
one a rank. Collectives are MPI_COMM_WORLD's and become the messages of replay/collectives.py. One
flop is a time, as `ns_per_flop` says.
"""

import collections
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from pagewire.native.output import replacing
from pagewire.replay import collectives
from pagewire.replay.formats.plain import Calc, Operation, Sent, Waited
from pagewire.replay.formats.problems import Problems
from pagewire.replay.program import Buffer, Program
from pagewire.replay.records import UNSIZED, Receive, Sleep, TraceError

_MOST_RANKS = 1 << 20
_UNSIZED_BYTES = 1 << 30
_TYPE_BYTES = {
    0: 8, 1: 4, 2: 1, 3: 2, 4: 8, 5: 4, 6: 1, 7: 8, 8: 1, 9: 1, 10: 2, 11: 4, 12: 8, 13: 8, 14: 16,
    16: 1, 17: 1, 18: 2, 19: 4, 20: 8, 21: 1, 22: 2, 23: 4, 24: 8, 25: 8, 26: 16, 28: 8, 38: 4,
    39: 4, 40: 8, 47: 4, 57: 1,
}  # fmt: skip
"""Bytes of an element, by SMPI's number of the datatype."""
_DOUBLE, _BYTE = 0, 6
ANY_SOURCE, ANY_TAG, PROC_NULL = -555, -444, -666
"""Of SMPI; other negative numbers are any, too."""
_IGNORED = ("finalize", "comm_size", "comm_split", "comm_dup", "location")
_SYNCHRONOUS = ("ssend", "issend")


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    rank: int
    action: str
    arguments: list[str]
    place: str


def _files_of(path: str) -> list[str]:
    """The files of actions that a file is, or names."""
    first = next(_rows(path), (0, []))[1]
    if len(first) > 1 and first[0].isdecimal():
        return [path]
    folder = os.path.dirname(path)
    names = [row[0] for _, row in _rows(path) if len(row) == 1]
    if not names:
        raise TraceError(f"'{path}' has neither actions nor names of files")
    return [os.path.join(folder, name) for name in names]


def _rows(path: str) -> Iterator[tuple[int, list[str]]]:
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.startswith("#") and (row := line.split()):
                    yield number, row
    except UnicodeDecodeError:
        raise TraceError(f"'{path}' is no text") from None
    except OSError as error:
        raise TraceError(f"'{path}' cannot be read: {error.strerror}") from None


def read_lines(path: str) -> Iterator[Line]:
    """All actions of all files."""
    files = _files_of(path)
    for idx, name in enumerate(files):
        for number, row in _rows(name):
            place = f"'{name}', line {number}"
            if not row[0].isdecimal() or len(row) < 2 or int(row[0]) >= _MOST_RANKS:
                raise TraceError(f"{place}: an action is RANK ACTION ARGUMENTS")
            line = Line(int(row[0]), row[1].lower(), row[2:], place)
            if len(files) == 1 or line.rank == idx:
                yield line


def count_ranks(path: str) -> int:
    return 1 + max((line.rank for line in read_lines(path)), default=0)


class Importer:
    """One rank: does in a program what the lines say."""

    def __init__(self, program: Program, problems: Problems, ns_per_flop: float) -> None:
        self._program, self._problems, self._ns_per_flop = program, problems, ns_per_flop
        self._default = _BYTE
        self._requests: dict[tuple[int, int, int], collections.deque[int]] = {}
        self._world = collectives.world(program)

    def do(self, line: Line) -> None:
        """One action."""
        name = line.action
        try:
            if name in _IGNORED:
                return
            action: Callable[[Sequence[str]], None] | None = getattr(self, f"_do_{name}", None)
            if name in ("send", "bsend", *_SYNCHRONOUS, "isend", "ibsend"):
                self._send(line.arguments, name)
            elif action is None:
                self._problems.add(f"action {name}", line.place)
            else:
                action(line.arguments)
        except TraceError as error:
            raise TraceError(f"{line.place}: {error}") from None
        except (IndexError, ValueError):
            raise TraceError(
                f"{line.place}: the arguments of {name} are wrong: {' '.join(line.arguments)}"
            ) from None

    # ---- numbers

    def _bytes(self, text: str, arguments: Sequence[str], at: int) -> int:
        """A count of elements, whose type may stand at a place."""
        return _whole(text) * self._element(arguments, at)

    def _element(self, arguments: Sequence[str], at: int) -> int:
        number = int(arguments[at]) if at < len(arguments) else self._default
        if number not in _TYPE_BYTES:
            raise TraceError(f"datatype {number} has no length that is known")
        return _TYPE_BYTES[number]

    def _peer(self, text: str) -> int:
        return self._rank(int(text))

    def _rank(self, rank: int) -> int:
        if not 0 <= rank < self._program.size:
            raise TraceError(f"rank {rank}: the trace has {self._program.size} ranks")
        return rank

    def _root(self, arguments: Sequence[str], at: int) -> int:
        return self._peer(arguments[at]) if at < len(arguments) else 0

    def _compute(self, flops: str) -> None:
        self._program.compute(round(float(flops) * self._ns_per_flop))

    # ---- messages

    def _do_init(self, arguments: Sequence[str]) -> None:
        self._default = _DOUBLE if arguments else _BYTE

    def _do_compute(self, arguments: Sequence[str]) -> None:
        self._compute(arguments[0])

    def _do_sleep(self, arguments: Sequence[str]) -> None:
        self._program.record(Sleep(round(float(arguments[0]) * 1e9)))

    def _send(self, arguments: Sequence[str], name: str) -> None:
        if self._is_nobody(arguments[0]):
            return
        peer, tag = self._peer(arguments[0]), _tag(arguments[1])
        buffer = self._filled((peer, tag), self._bytes(arguments[2], arguments, 3))
        is_synchronous = name in _SYNCHRONOUS
        if name.startswith("i"):
            operation = self._program.isend(peer, buffer, tag, is_synchronous=is_synchronous)
            self._keep(self._program.rank, peer, tag, operation)
        else:
            self._program.send(peer, buffer, tag, is_synchronous=is_synchronous)

    def _is_nobody(self, peer: str) -> bool:
        if int(peer) == PROC_NULL:
            self._problems.note("messages with MPI_PROC_NULL, which are none")
        return int(peer) == PROC_NULL

    def _do_recv(self, arguments: Sequence[str]) -> None:
        if self._is_nobody(arguments[0]):
            return
        peer, tag = self._source(arguments[0]), _tag_or_any(arguments[1])
        if _whole(arguments[2]) < 0:
            self._receive_unsized(peer, tag)
            return
        buffer = self._landing((peer, tag), self._bytes(arguments[2], arguments, 3))
        self._program.recv(peer, buffer, tag)

    def _receive_unsized(self, peer: int | None, tag: int | None) -> None:
        if tag is None:
            raise TraceError("a receive of any tag and of any length")
        with self._program.call("MPI_Recv"):
            record = Receive(peer, 0, tag, peer or 0, _UNSIZED_BYTES, 0, 0, UNSIZED)
            self._program.finish([self._program.post(record)])

    def _do_irecv(self, arguments: Sequence[str]) -> None:
        if self._is_nobody(arguments[0]):
            return
        peer, tag = self._source(arguments[0]), _tag_or_any(arguments[1])
        buffer = self._landing((peer, tag), self._bytes(arguments[2], arguments, 3))
        operation = self._program.irecv(peer, buffer, tag)
        self._keep(int(arguments[0]), self._program.rank, int(arguments[1]), operation)

    def _source(self, text: str) -> int | None:
        return None if int(text) < 0 else self._peer(text)

    def _do_sendrecv(self, arguments: Sequence[str]) -> None:
        dest, source = self._peer(arguments[1]), self._peer(arguments[3])
        sent = self._filled((dest, 0), self._bytes(arguments[0], arguments, 4))
        received = self._landing((source, 0), self._bytes(arguments[2], arguments, 5))
        program = self._program
        with program.call("MPI_Sendrecv"):
            incoming = program.post_receive(source, received)
            program.finish([program.post_send(dest, sent), incoming])

    def _keep(self, source: int, dest: int, tag: int, operation: int) -> None:
        self._requests.setdefault((source, dest, tag), collections.deque()).append(operation)

    def _do_wait(self, arguments: Sequence[str]) -> None:
        """The oldest with this key; one that is gone is ignored."""
        source, dest, tag = (int(each) for each in arguments[:3])
        waiting = self._requests.get((source, dest, tag))
        if waiting:
            self._program.wait(waiting.popleft())

    def _do_test(self, _: Sequence[str]) -> None:
        """Whether it found anything nobody knows; the wait comes all the same, or at the end."""
        self._problems.note("tests, which are waits where the trace waits")

    def _do_waitall(self, _: Sequence[str]) -> None:
        waiting = sorted(each for queue in self._requests.values() for each in queue)
        self._requests.clear()
        self._program.waitall(waiting)

    def end(self) -> None:
        """The program has ended, and with it what nobody has waited for."""
        if any(self._requests.values()):
            self._do_waitall(())
        self._program.end()

    # ---- collectives

    def _filled(self, key: object, num_bytes: int) -> Buffer:
        return self._program.filled(("sent", key), num_bytes)

    def _landing(self, key: object, num_bytes: int) -> Buffer:
        return self._program.landing(("received", key), num_bytes)

    def _parts(self, whole: Buffer, lengths: Sequence[int]) -> list[Buffer]:
        offset, parts = 0, []
        for length in lengths:
            parts.append(whole.part(offset, length))
            offset += length
        return parts

    def _blocks(self, name: str, lengths: Sequence[int], *, is_sent: bool) -> list[Buffer]:
        """A block for each rank, one behind the other."""
        take = self._filled if is_sent else self._landing
        return self._parts(take(name, sum(lengths)), lengths)

    def _do_barrier(self, _: Sequence[str]) -> None:
        collectives.barrier(self._world)

    def _do_bcast(self, arguments: Sequence[str]) -> None:
        num_bytes, root = self._bytes(arguments[0], arguments, 2), self._root(arguments, 1)
        take = self._filled if root == self._program.rank else self._landing
        collectives.broadcast(self._world, take("bcast", num_bytes), root)

    def _do_reduce(self, arguments: Sequence[str]) -> None:
        root = self._root(arguments, 2)
        collectives.reduce(self._world, self._bytes(arguments[0], arguments, 3), root)
        self._compute(arguments[1])

    def _do_allreduce(self, arguments: Sequence[str]) -> None:
        collectives.allreduce(self._world, self._bytes(arguments[0], arguments, 2))
        self._compute(arguments[1])

    def _do_scan(self, arguments: Sequence[str]) -> None:
        self._scan(arguments, "MPI_Scan")

    def _do_exscan(self, arguments: Sequence[str]) -> None:
        self._scan(arguments, "MPI_Exscan")

    def _scan(self, arguments: Sequence[str], name: str) -> None:
        collectives.scan(self._world, self._bytes(arguments[0], arguments, 2), name=name)
        self._compute(arguments[1])

    def _do_reducescatter(self, arguments: Sequence[str]) -> None:
        size = self._program.size
        element = self._element(arguments, size + 1)
        counts = [_whole(each) * element for each in arguments[:size]]
        if len(counts) < size:
            raise IndexError
        collectives.reduce_scatter(self._world, counts)
        self._compute(arguments[size])

    def _do_alltoall(self, arguments: Sequence[str]) -> None:
        size = self._program.size
        sent = self._bytes(arguments[0], arguments, 2)
        received = self._bytes(arguments[1], arguments, 3)
        collectives.alltoall(
            self._world,
            self._blocks("alltoall", [sent] * size, is_sent=True),
            self._blocks("alltoall", [received] * size, is_sent=False),
        )

    def _do_alltoallv(self, arguments: Sequence[str]) -> None:
        size = self._program.size
        element_sent = self._element(arguments, 2 + 2 * size)
        element_received = self._element(arguments, 3 + 2 * size)
        sent = [_whole(each) * element_sent for each in arguments[1 : 1 + size]]
        received = [_whole(each) * element_received for each in arguments[2 + size : 2 + 2 * size]]
        if len(received) < size:
            raise IndexError
        collectives.alltoall(
            self._world,
            self._blocks("alltoallv", sent, is_sent=True),
            self._blocks("alltoallv", received, is_sent=False),
            name="MPI_Alltoallv",
        )

    def _do_allgather(self, arguments: Sequence[str]) -> None:
        received = self._bytes(arguments[1], arguments, 3)
        lengths = [received] * self._program.size
        collectives.allgather(self._world, self._blocks("allgather", lengths, is_sent=False))

    def _do_allgatherv(self, arguments: Sequence[str]) -> None:
        lengths = self._lengths(arguments, 1, 2 + self._program.size)
        blocks = self._blocks("allgatherv", lengths, is_sent=False)
        collectives.allgather(self._world, blocks, name="MPI_Allgatherv")

    def _lengths(self, arguments: Sequence[str], first: int, type_at: int) -> list[int]:
        element = self._element(arguments, type_at)
        found = [_whole(each) * element for each in arguments[first : first + self._program.size]]
        if len(found) < self._program.size:
            raise IndexError
        return found

    def _do_gather(self, arguments: Sequence[str]) -> None:
        root, size = self._root(arguments, 2), self._program.size
        sent = self._filled("gather", self._bytes(arguments[0], arguments, 3))
        received = self._bytes(arguments[1], arguments, 4)
        collectives.gather(self._world, sent, self._at_root(root, [received] * size, False), root)

    def _do_gatherv(self, arguments: Sequence[str]) -> None:
        size = self._program.size
        root = self._root(arguments, 1 + size)
        sent = self._filled("gather", self._bytes(arguments[0], arguments, 2 + size))
        lengths = self._lengths(arguments, 1, 3 + size)
        collectives.gather_each(self._world, sent, self._at_root(root, lengths, False), root)

    def _do_scatter(self, arguments: Sequence[str]) -> None:
        root, size = self._root(arguments, 2), self._program.size
        sent = self._bytes(arguments[0], arguments, 3)
        received = self._landing("scatter", self._bytes(arguments[1], arguments, 4))
        collectives.scatter(self._world, self._at_root(root, [sent] * size, True), received, root)

    def _do_scatterv(self, arguments: Sequence[str]) -> None:
        size = self._program.size
        root = self._root(arguments, 1 + size)
        received = self._landing("scatter", self._bytes(arguments[size], arguments, 3 + size))
        lengths = self._lengths(arguments, 0, 2 + size)
        collectives.scatter_each(self._world, self._at_root(root, lengths, True), received, root)

    def _at_root(self, root: int, lengths: Sequence[int], is_sent: bool) -> list[Buffer] | None:
        if root != self._program.rank:
            return None
        return self._blocks("root", lengths, is_sent=is_sent)


def _whole(text: str) -> int:
    """A count, which may be written as 1e6."""
    return int(float(text))


def _tag(text: str) -> int:
    tag = int(text)
    if tag < 0:
        raise TraceError(f"tag {tag} of a send")
    return tag


def _tag_or_any(text: str) -> int | None:
    return None if int(text) < 0 else int(text)


# ---- export


def write(path: str, ranks: Iterable[Iterable[Operation]], problems: Problems) -> None:
    """One file of all ranks; bytes, and 1 flop for a ns."""
    with replacing(path) as file:
        for rank, operations in enumerate(ranks):
            file.write(f"{rank} init\n".encode())
            for text in _actions(rank, operations, problems):
                file.write(f"{rank} {text}\n".encode())
            file.write(f"{rank} finalize\n".encode())


def _actions(rank: int, operations: Iterable[Operation], problems: Problems) -> Iterator[str]:
    """A message that is waited for at once blocks."""
    keys: list[str] = []
    posted: tuple[str, str] | None = None
    """The last message, with its key; nothing has been written of it."""
    for each in operations:
        if posted is not None:
            verb, arguments = posted
            posted = None
            if isinstance(each, Waited) and each.operation == len(keys) - 1:
                yield f"{verb} {arguments}"
                continue
            yield f"i{verb} {arguments}"
        if isinstance(each, Calc):
            yield f"compute {each.ns}"
        elif isinstance(each, Waited):
            yield f"wait {keys[each.operation]}"
        elif isinstance(each, Sent):
            keys.append(f"{rank} {each.peer} {each.tag}")
            if each.is_synchronous:
                problems.note("synchronous sends, which TI's replay takes as any")
            posted = "send", f"{each.peer} {each.tag} {each.num_bytes}"
        else:
            peer = ANY_SOURCE if each.peer is None else each.peer
            tag = ANY_TAG if each.tag is None else each.tag
            keys.append(f"{peer} {rank} {tag}")
            posted = "recv", f"{peer} {tag} {-1 if each.num_bytes is None else each.num_bytes}"
    if posted is not None:
        yield f"i{' '.join(posted)}"
