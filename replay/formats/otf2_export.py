"""Writes OTF2 archives: a replay with the recorded settings, with its virtual times.

Each call is a region. A message is one event where it was sent, and one at the end of the call in
which it was over and the receiver could know; its tag is its number between the two ranks, so that
each finds its other side. Attributes: of a call's end the pages that came in meanwhile; of a
message received the pages that its blocks have met absent, and where its buffer lies.
"""

import bisect
import collections
import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

from pagewire.native import lib
from pagewire.replay.formats.otf2_archive import package
from pagewire.replay.formats.problems import Problems
from pagewire.replay.records import TraceError
from pagewire.replay.replay import Replay, Settings, Trace
from pagewire.replay.told import LIBRARY, Node, Operation, Told

_ONE_SIDED = (lib.PW_OPERATION_READ, lib.PW_OPERATION_WRITE, lib.PW_OPERATION_ATOMIC)

Make = Callable[[int], Any]
"""An event of a time."""


def told_by(trace: Trace) -> tuple[list[Node], list[int]]:
    """What the nodes tell of a replay with the recorded settings, and when each was over."""
    with Replay(trace, Settings.of(trace.meta())) as replay:
        told = Told(replay)
        replay.run()
        ends = replay.times_ns()
        return told.finish(), ends


def check(nodes: Sequence[Node], problems: Problems) -> None:
    """What has no place in an archive."""
    for node in nodes:
        for operation in node.operations.values():
            if operation.kind in _ONE_SIDED:
                place = f"rank {node.rank} at {operation.posted_ns} ns"
                problems.add("one-sided operations", place)
        if node.operations and not node.calls:
            problems.add("messages outside of calls", f"rank {node.rank}")


def write(path: str, nodes: Sequence[Node], ends: Sequence[int]) -> None:
    """An archive of that name, which is not there yet. ends: of each rank's program."""
    folder, name = os.path.split(path)
    stem = name.removesuffix(".otf2")
    for each in (path, os.path.join(folder, stem), os.path.join(folder, f"{stem}.def")):
        if os.path.exists(each):
            raise TraceError(f"'{each}' is there already: an archive is not written over another")
    _Archive(folder or ".", stem, nodes, ends).write()


class _Archive:
    def __init__(self, folder: str, stem: str, nodes: Sequence[Node], ends: Sequence[int]) -> None:
        self._otf2 = otf2 = package()
        self._nodes, self._ends = nodes, ends
        self._trace = otf2.writer.Writer(folder, stem, timer_resolution=1_000_000_000)
        definitions = self._definitions = self._trace.definitions
        root = definitions.system_tree_node("pagewire")
        self._locations = [
            definitions.location(
                "CPU",
                group=definitions.location_group(
                    f"MPI rank {node.rank}",
                    location_group_type=otf2.LocationGroupType.PROCESS,
                    system_tree_parent=root,
                ),
            )
            for node in nodes
        ]
        definitions.group(
            "MPI processes",
            group_type=otf2.GroupType.COMM_LOCATIONS,
            paradigm=otf2.Paradigm.MPI,
            members=self._locations,
        )
        self._world = self._comm("MPI_COMM_WORLD", range(len(nodes)))
        self._regions: dict[str, Any] = {}
        self._attributes = {
            each: definitions.attribute(each, "", otf2.Type.INT64)
            for each in ("page faults", "pages brought in", "buffer region", "buffer offset")
        }
        self._tags = self._number_messages()
        self._groups = self._find_groups()

    def _comm(self, name: str, ranks: Sequence[int]) -> Any:
        group = self._definitions.group(
            name,
            group_type=self._otf2.GroupType.COMM_GROUP,
            paradigm=self._otf2.Paradigm.MPI,
            members=[self._locations[rank] for rank in ranks],
        )
        return self._definitions.comm(name, group)

    def _number_messages(self) -> dict[tuple[int, int, int], int]:
        """By sender, receiver and arrival."""
        numbers: dict[tuple[int, int, int], int] = {}
        for node in self._nodes:
            counts: collections.Counter[int] = collections.Counter()
            for (peer, arrival), _ in sorted(node.sent.items(), key=lambda item: item[1]):
                numbers[node.rank, peer, arrival] = counts[peer]
                counts[peer] += 1
        return numbers

    def _find_groups(self) -> dict[int, Any]:
        """Communicators of those that meet."""
        members: dict[int, list[int]] = collections.defaultdict(list)
        for node in self._nodes:
            for group in dict.fromkeys(group for _, group in node.meetings):
                members[group].append(node.rank)
        return {group: self._comm(f"group {group}", ranks) for group, ranks in members.items()}

    def _region(self, name: str) -> Any:
        if name not in self._regions:
            mpi = self._otf2.Paradigm.MPI
            self._regions[name] = self._definitions.region(name, paradigm=mpi)
        return self._regions[name]

    def _named(self, **values: int) -> dict[Any, int] | None:
        """Attributes, those that are not 0."""
        known = self._attributes
        return {
            known[key.replace("_", " ")]: value for key, value in values.items() if value
        } or None

    def write(self) -> None:
        for node, location in zip(self._nodes, self._locations, strict=True):
            put = self._trace.event_writer_from_location(location)
            inside = self._inside(node)
            program = self._definitions.region("program", paradigm=self._otf2.Paradigm.USER)
            put(self._otf2.events.Enter(0, program))
            for idx, (begin, length, call) in enumerate(node.calls):
                region, end = self._region(node.names.get(call, LIBRARY)), begin + length
                put(self._otf2.events.Enter(begin, region))
                at = begin
                for time, make in sorted(inside.get(idx, ()), key=lambda each: each[0]):
                    at = min(max(time, at), end)
                    put(make(at))
                named = self._named(pages_brought_in=node.num_pages_in(begin, end))
                put(self._otf2.events.Leave(end, region, named))
            put(self._otf2.events.Leave(self._ends[node.rank], program))
        self._trace.close()

    def _inside(self, node: Node) -> dict[int, list[tuple[int, Make]]]:
        """Times and events, by the index of the call that they are in."""
        events = self._otf2.events
        made: dict[int, list[tuple[int, Make]]] = collections.defaultdict(list)
        begins = [call[0] for call in node.calls]
        ends = [call[0] + call[1] for call in node.calls]

        def post(time: int, make: Make) -> int:
            idx = max(bisect.bisect_right(begins, time) - 1, 0)
            made[idx].append((time, make))
            return idx

        def learn(time: int, first: int, make: Make) -> None:
            idx = min(max(bisect.bisect_left(ends, time), first), len(ends) - 1)
            made[idx].append((ends[idx], make))

        eager = dict(node.sent)
        for number, each in node.operations.items():
            if each.kind == lib.PW_OPERATION_SEND:
                arrival = node.arrival_of(each.peer, each.posted_ns)
                if arrival is not None:
                    eager.pop((each.peer, arrival), None)
                    sent = self._sent(node, each.peer, arrival, each.buffer.num_bytes, number)
                    first = post(each.posted_ns, sent)
                    learn(each.complete_ns, first, self._sent_over(number))
            elif each.kind == lib.PW_OPERATION_RECEIVE:
                first = post(each.posted_ns, self._posted(number))
                learn(each.complete_ns, first, self._received(node, each, number))
        for (peer, arrival), time in eager.items():
            post(time, self._sent(node, peer, arrival, node.lengths[peer, arrival], None))
        for time, group in node.meetings:
            idx = min(bisect.bisect_left(ends, time), len(ends) - 1)
            end = functools.partial(self._met, self._groups[group])
            made[idx] += [(time, events.MpiCollectiveBegin), (time, end)]
        return made

    def _sent(
        self, node: Node, peer: int, arrival: int, num_bytes: int, number: int | None
    ) -> Make:
        events, tag = self._otf2.events, self._tags[node.rank, peer, arrival]
        if number is None:
            return lambda at: events.MpiSend(at, peer, self._world, tag, num_bytes)
        return lambda at: events.MpiIsend(at, peer, self._world, tag, num_bytes, number)

    def _posted(self, number: int) -> Make:
        return lambda at: self._otf2.events.MpiIrecvRequest(at, number)

    def _met(self, comm: Any, at: int) -> Any:
        barrier = self._otf2.CollectiveOp.BARRIER
        return self._otf2.events.MpiCollectiveEnd(at, barrier, comm, 0, 0, 0)

    def _sent_over(self, number: int) -> Make:
        return lambda at: self._otf2.events.MpiIsendComplete(at, number)

    def _received(self, node: Node, each: Operation, number: int) -> Make:
        events = self._otf2.events
        tag = self._tags.get((each.peer, node.rank, each.arrival_ns))
        if tag is None:  # it took none
            return lambda at: events.MpiRequestCancelled(at, number)
        blocks = self._nodes[each.peer].blocks_to(node).by_stream.get(each.stream, ())
        faults = {(at_source, page) for one in blocks for _, at_source, page in one.faults}
        named = self._named(
            page_faults=len(faults),
            buffer_region=each.buffer.region,
            buffer_offset=each.buffer.offset,
        )
        num_bytes = each.buffer.num_bytes
        return lambda at: events.MpiIrecv(at, each.peer, self._world, tag, num_bytes, number, named)
