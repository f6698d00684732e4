"""Messages through packetizer and mailbox: the envelope of each MPI message, and short payloads in
it.

The facade carries the frames; here they are written, checked and read, and what that costs the CPU.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pagewire.native import ffi, lib
from pagewire.transport.node.clock import CpuClock
from pagewire.transport.node.engine import Engine

KIND_EAGER = 1
KIND_RENDEZVOUS = 2
ENVELOPE_BYTES = int(lib.PW_ENVELOPE_BYTES)


class Envelope(NamedTuple):
    """What a message announces; num_bytes is the message's length, riding along or not."""

    kind: int
    source: int
    num_bytes: int
    address: int
    key: int
    arrival_ns: int


class Messages:
    """Frames are given by their address, which must stay that of the same buffer."""

    def __init__(self, engine: Engine, clock: CpuClock) -> None:
        self._ni = engine.ni
        self._clock = clock
        self._frames: dict[int, Any] = {}

    def _frame(self, address: int) -> Any:
        frame = self._frames.get(address)
        if frame is None:
            pointer = ffi.cast("uint8_t *", address)
            frame = self._frames[address] = (pointer, ffi.cast("pw_envelope *", address))
        return frame

    def write(
        self, frame_address: int, peer: int, kind: int, address: int, num_bytes: int, key: int
    ) -> int:
        """Write the envelope, and the payload behind it when eager; returns the frame's bytes."""
        payload_bytes = num_bytes if kind == KIND_EAGER else 0
        clock = self._clock
        clock.now_ns = lib.pw_ni_message_write(
            self._ni,
            peer,
            kind,
            address,
            num_bytes,
            key,
            payload_bytes,
            clock.now_ns,
            self._frame(frame_address)[0],
        )
        return ENVELOPE_BYTES + payload_bytes

    def read(self, frame_address: int, frame_bytes: int) -> Envelope:
        """What a frame announces. ValueError when it is malformed."""
        pointer, envelope = self._frame(frame_address)
        if lib.pw_ni_message_check(self._ni, pointer, frame_bytes):
            raise ValueError(
                f"malformed message of {frame_bytes} bytes: "
                "is the sender's facade of another version?"
            )
        return Envelope(
            envelope.kind,
            envelope.source_node,
            envelope.num_bytes,
            envelope.address,
            envelope.key,
            envelope.arrival_ns,
        )

    def land(self, frame_address: int, address: int, capacity_bytes: int, posted_ns: int) -> int:
        """Copy the payload out; returns the virtual time of completion."""
        landed: int = lib.pw_ni_message_land(
            self._ni, self._frame(frame_address)[0], address, capacity_bytes, posted_ns
        )
        return landed

    def take(
        self,
        frame_address: int,
        frame_bytes: int,
        address: int,
        capacity_bytes: int,
        posted_ns: int,
    ) -> int:
        """`read` and `land` in one, for a short message that fits; -1 for any other."""
        pointer = self._frame(frame_address)[0]
        taken: int = lib.pw_ni_message_take(
            self._ni, pointer, frame_bytes, address, capacity_bytes, posted_ns
        )
        return taken
