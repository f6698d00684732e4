"""Writes Perfetto's protobuf track events: tracks, spans, instants, arrows and counters.

Packets go to the file as they come; nothing but the tracks' names is kept. Spans of a track must
come in the order of their starts and not overlap, which the viewer would take for nesting.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, Any, NamedTuple

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    Trace,
    TracePacket,
    TrackDescriptor,
    TrackEvent,
)

from pagewire.transport.timeline.request import Group

_PACKETS_AT_ONCE = 4096


class Flow(NamedTuple):
    """An arrow's number, and whether it ends here."""

    number: int
    is_last: bool = False


class PerfettoFile:
    """One run's packets. `file` is open for writing bytes."""

    def __init__(self, file: IO[bytes], group: Group) -> None:
        self._file = file
        self._group = group
        self._trace = Trace()
        self._num_tracks = 0
        self._num_flows = 0
        self._sequence = group.number * 8192 + 1

    def close(self) -> None:
        """Write what waits."""
        self._file.write(self._trace.SerializeToString())
        self._trace = Trace()

    def flow(self) -> int:
        """A number for an arrow that no other has."""
        self._num_flows += 1
        return self._group.number << 40 | self._num_flows

    def _packet(self) -> Any:
        packets = self._trace.packet
        if len(packets) >= _PACKETS_AT_ONCE:
            self.close()
            packets = self._trace.packet
        packet = packets.add()
        packet.trusted_packet_sequence_id = self._sequence
        return packet

    def _describe(self) -> Any:
        packet = self._packet()
        if not self._num_tracks:
            packet.sequence_flags = TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        self._num_tracks += 1
        packet.track_descriptor.uuid = self._group.number << 40 | self._num_tracks
        return packet.track_descriptor

    def process(self, rank: int) -> int:
        """A rank's group of tracks; returns its number."""
        track = self._describe()
        label = f"{self._group.label} " if self._group.label else ""
        track.process.pid = self._group.number * 8192 + rank + 1
        track.process.process_name = f"{label}rank {rank}"
        track.child_ordering = TrackDescriptor.EXPLICIT
        return int(track.uuid)

    def track(self, parent: int, name: str, order: int) -> int:
        """A track of spans and instants."""
        track = self._describe()
        track.parent_uuid = parent
        track.name = name
        track.sibling_order_rank = order
        return int(track.uuid)

    def counter(self, parent: int, name: str, unit: str, order: int) -> int:
        """A track of values."""
        track = self._describe()
        track.parent_uuid = parent
        track.name = name
        track.sibling_order_rank = order
        track.counter.unit_name = unit
        return int(track.uuid)

    def _event(self, track: int, time_ns: int, kind: int) -> Any:
        packet = self._packet()
        packet.timestamp = time_ns
        event = packet.track_event
        event.track_uuid = track
        event.type = kind
        return event

    def span(
        self,
        track: int,
        start_ns: int,
        end_ns: int,
        name: str,
        flows: Iterable[Flow] = (),
    ) -> None:
        """A span, or an instant when start and end are one."""
        is_span = end_ns > start_ns
        kind = TrackEvent.TYPE_SLICE_BEGIN if is_span else TrackEvent.TYPE_INSTANT
        event = self._event(track, start_ns, kind)
        event.name = name
        for flow in flows:
            (event.terminating_flow_ids if flow.is_last else event.flow_ids).append(flow.number)
        if is_span:
            self._event(track, end_ns, TrackEvent.TYPE_SLICE_END)

    def value(self, track: int, time_ns: int, value: int) -> None:
        """A counter's value from then on."""
        self._event(track, time_ns, TrackEvent.TYPE_COUNTER).counter_value = value
