"""A rank's graph as a sequence, and a sequence as a graph.

A rank of a trace does one thing after the other. A graph is such a sequence when each wait that
must come next is one that everything behind it requires: then both say the same. Where a graph lets
two things happen side by side, there is no such sequence, and it is told.
"""

import heapq
from collections.abc import Iterable

from pagewire.replay.formats.goal import ANY, CALC, RECEIVE, SEND, Graph
from pagewire.replay.formats.plain import Calc, Operation, Received, Sent, Waited
from pagewire.replay.formats.problems import Problems
from pagewire.replay.program import Program
from pagewire.replay.records import TraceError


class _Sequence:
    """Emits a graph's nodes into a program: whatever can begin without waiting first."""

    def __init__(self, graph: Graph, program: Program, problems: Problems) -> None:
        self._graph, self._program, self._problems = graph, program, problems
        count = len(graph)
        self._outs: list[list[int]] = [[] for _ in range(count)]
        self._starts: list[list[int]] = [[] for _ in range(count)]
        for node in range(count):
            for other in graph.requires[node]:
                self._outs[other].append(node)
            for other in graph.irequires[node]:
                self._starts[other].append(node)
        self._unseen = [
            len(a) + len(b) for a, b in zip(graph.requires, graph.irequires, strict=True)
        ]
        """Of those that a node depends on: how many are not in the sequence."""
        self._needs: list[set[int]] = [set() for _ in range(count)]
        """Messages under way that must end first."""
        self._ready: list[tuple[bool, int]] = []
        self._blocked: set[int] = set()
        self._operations: dict[int, int] = {}
        """Messages under way, in the order of beginning: the program's numbers."""

    def run(self) -> None:
        for node, count in enumerate(self._unseen):
            if count == 0:
                self._release(node)
        num_left = len(self._unseen)
        while num_left:
            if not self._ready:
                self._wait_for_next(num_left)
                continue
            _, node = heapq.heappop(self._ready)
            self._emit(node)
            num_left -= 1
        for operation in list(self._operations.values()):
            self._program.wait(operation)

    def _release(self, node: int) -> None:
        if self._needs[node]:
            self._blocked.add(node)
        else:
            # A message begins in an instant, and a calculation would keep it waiting.
            heapq.heappush(self._ready, (self._graph.kinds[node] == CALC, node))

    def _emit(self, node: int) -> None:
        is_message = self._begin(node)
        for other in self._outs[node]:
            if is_message:
                self._needs[other].add(node)
            self._see(other)
        for other in self._starts[node]:
            self._see(other)

    def _see(self, node: int) -> None:
        self._unseen[node] -= 1
        if self._unseen[node] == 0:
            self._release(node)

    def _begin(self, node: int) -> bool:
        graph, program = self._graph, self._program
        size = graph.sizes[node]
        for what, number in (("cpu", graph.cpus[node]), ("nic", graph.nics[node])):
            if number:
                self._tell(f"operations on {what} {number}: a rank of a trace has one", node)
        if graph.kinds[node] == CALC:
            program.compute(size)
            return False
        tag = graph.tags[node]
        if graph.kinds[node] == SEND:
            peer = graph.peers[node]
            if tag == ANY:
                self._tell("sends with any tag", node)
            operation = program.isend(peer, program.filled((peer, tag), size), tag)
        else:
            source = None if graph.peers[node] == ANY else graph.peers[node]
            buffer = program.landing((source, tag), size)
            operation = program.irecv(source, buffer, None if tag == ANY else tag)
        self._operations[node] = operation
        return True

    def _wait_for_next(self, num_left: int) -> None:
        """Nothing can begin: wait for a message that all that could come next require."""
        if not self._blocked:
            raise TraceError(
                f"rank {self._program.rank}: {num_left} operations depend on each other in a circle"
            )
        first, *others = sorted(self._blocked)
        common = set(self._needs[first])
        for other in others:
            if not common & self._needs[other]:
                self._tell("operations beside each other, of which a trace does one first", first)
                break
            common &= self._needs[other]
        message = min(common)
        self._program.wait(self._operations.pop(message))
        for node in self._outs[message]:
            self._needs[node].discard(message)
            if node in self._blocked and not self._needs[node]:
                self._blocked.remove(node)
                self._release(node)

    def _tell(self, what: str, node: int) -> None:
        self._problems.add(what, f"rank {self._program.rank} operation {node + 1}")


def write_sequence(graph: Graph, program: Program, problems: Problems) -> None:
    """Do in a program what a graph says."""
    _Sequence(graph, program, problems).run()


def graph_of(operations: Iterable[Operation], problems: Problems) -> Graph:
    """The graph of a sequence. A message has at least 1 byte, since GOAL counts from the second."""
    graph = Graph()
    messages: list[int] = []
    requires: list[int] = []
    irequires: list[int] = []
    for each in operations:
        if isinstance(each, Waited):
            requires.append(messages[each.operation])
            continue
        if isinstance(each, Calc):
            node = graph.add(CALC, each.ns)
        elif isinstance(each, Sent):
            node = graph.add(SEND, max(1, each.num_bytes), each.peer, each.tag)
            if each.is_synchronous:
                problems.note("synchronous sends, which GOAL takes as any")
        else:
            node = graph.add(RECEIVE, max(1, each.num_bytes or 0), *_from(each))
        graph.requires[node] += sorted(set(requires))
        graph.irequires[node] += irequires
        if isinstance(each, Calc):
            requires, irequires = [node], []
        else:
            messages.append(node)
            requires, irequires = [], [node]
            if each.num_bytes == 0:
                problems.note("messages of 0 bytes, which have 1 in GOAL")
    return graph


def _from(each: Received) -> tuple[int, int]:
    return ANY if each.peer is None else each.peer, ANY if each.tag is None else each.tag
