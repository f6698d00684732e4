"""Reads a timeline back: spans, instants, values and arrows, by process and track."""

import collections
import pathlib
from typing import NamedTuple

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent


class Span(NamedTuple):
    """Of a track; an instant ends where it begins. Arrows: those that go on, those that end."""

    start_ns: int
    end_ns: int
    name: str
    flows: tuple[int, ...]
    ended_flows: tuple[int, ...]

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.start_ns


class Timeline:
    """By (process, track name): spans in the order of their starts; points of counters."""

    def __init__(self, path: pathlib.Path) -> None:
        names: dict[int, tuple[str, str]] = {}
        processes: dict[int, str] = {}
        events: dict[int, list[tuple[int, TrackEvent]]] = collections.defaultdict(list)
        for packet in Trace.FromString(path.read_bytes()).packet:
            if packet.HasField("track_descriptor"):
                track = packet.track_descriptor
                assert track.uuid not in names and track.uuid not in processes
                if track.HasField("process"):
                    processes[track.uuid] = track.process.process_name
                else:
                    names[track.uuid] = (processes[track.parent_uuid], track.name)
            else:
                event = packet.track_event
                events[event.track_uuid].append((packet.timestamp, event))
        self.processes = list(processes.values())
        self.values: dict[tuple[str, str], list[tuple[int, int]]] = {}
        self._spans: dict[tuple[str, str], list[Span]] = collections.defaultdict(list)
        for uuid, found in events.items():
            if found[0][1].type == TrackEvent.TYPE_COUNTER:
                self.values[names[uuid]] = [(at, event.counter_value) for at, event in found]
            else:
                self._spans[names[uuid]] += _spans(found)

    def spans(self, process: str, track: str) -> list[Span]:
        """Of all tracks of that name."""
        return sorted(self._spans.get((process, track), []))

    def tracks(self) -> list[tuple[str, str]]:
        """Those that have spans or instants."""
        return list(self._spans)


def _spans(events: list[tuple[int, TrackEvent]]) -> list[Span]:
    """Of one track, which must have each span's end behind its beginning and before the next."""
    spans: list[Span] = []
    now_ns, begun = 0, None
    for time_ns, event in events:
        assert time_ns >= now_ns, "events of a track go back in time"
        now_ns = time_ns
        if event.type == TrackEvent.TYPE_SLICE_END:
            assert begun is not None, "an end without a beginning"
            spans.append(begun._replace(end_ns=time_ns))
            begun = None
            continue
        assert begun is None, "a span begins within another"
        span = Span(
            time_ns, time_ns, event.name, (*event.flow_ids,), (*event.terminating_flow_ids,)
        )
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            begun = span
        else:
            assert event.type == TrackEvent.TYPE_INSTANT
            spans.append(span)
    assert begun is None, "a span without an end"
    return spans
