"""The bench of the R5 thesis's experiments: single transfers and streams by the user's interface.

Two engines in one process, or one that talks to itself (loopback: both NIs' costs, no hop). A write
goes through a channel with descriptor and notification, a read by a request with a notification in
the reader's memory. Buffers are resident, begin at a 16 KB border, and the TLBs know them.
"""

import contextlib
import dataclasses
from typing import Any

from pagewire.cli.kit.numbers import content
from pagewire.lab.bench import TRACE_RECORDS
from pagewire.lab.buffer import Buffer
from pagewire.lab.nodes import Nodes
from pagewire.native import EngineError, check, ffi, impairments, lib
from pagewire.native.settings import ConfigError
from pagewire.ni.engine_view import PDID, TraceRecord
from pagewire.node.strategies import host as memory_host
from pagewire.node.strategies.pages import Pages
from pagewire.node.strategies.strategy import Access
from pagewire.run.settings.config import Config
from pagewire.run.settings.platform import load as load_platform

WRITE, READ = "write", "read"
NO_LOSS = "0:1:0"
NUM_OUTSTANDING = 8
"""Transfers of a stream that are on their way at a time."""
_REST_NS = 100_000_000
_NOTIFICATION_BYTES = int(lib.PW_NOTIFICATION_BYTES)
_WORDS = (0x0123456789ABCDEF, 0xFEDCBA9876543210)


@dataclasses.dataclass(frozen=True, slots=True)
class Times:
    """One transfer, in ns from the user's call."""

    notified_ns: int
    """until the notification's words are in the receiver's memory"""
    done_ns: int
    """until the initiator's R5 has everything: a write's last acknowledgement, a read's last
    byte"""
    trace: tuple[TraceRecord, ...]
    counters: dict[str, int]


class Bench:
    """One source, one destination with a notification behind it; transfers follow each other at
    rest."""

    def __init__(self, config: Config, max_bytes: int, *, loopback: bool = False) -> None:
        if config.memory_backend.backend != "host":
            raise ConfigError(
                "memory_backend.backend = 'model': these experiments use real pages, use 'host'"
            )
        self.platform = load_platform(config.run.platform)
        # The machine asks a read for its protection domain alone.
        keyless = dataclasses.replace(config.ni, reads_without_key=True, write_keys="optional")
        own = dataclasses.replace(config, ni=keyless)
        self.nodes = Nodes(own, self.platform, 1 if loopback else 2)
        self._initiator, self._target = 0, 0 if loopback else 1
        room = -(-max_bytes // _NOTIFICATION_BYTES) * _NOTIFICATION_BYTES
        self._notification_at = room
        self._source, self._destination = Buffer(max_bytes), Buffer(room + _NOTIFICATION_BYTES)
        self._data = content(max_bytes)
        self._source.fill(self._data)
        self._destination.touch()
        ni = self.nodes.engines[self._initiator].ni
        self._channels = [
            check(lib.pw_ni_open_channel(ni, PDID), "channel") for _ in range(NUM_OUTSTANDING)
        ]
        self._id = ffi.new("uint64_t *")
        self._now_ns = 0
        self._faults = config.impairments

    def transfer(
        self, num_bytes: int, operation: str = WRITE, *, traced: bool = False, loss: str = NO_LOSS
    ) -> Times:
        """One transfer of num_bytes from the user's call on, alone on both nodes.

        loss: packets of it that get lost, as in `impairments.packet_loss`.
        """
        self._transfer(num_bytes, operation, False)  # the TLBs know the buffers from here
        self.lose(loss)
        times = self._transfer(num_bytes, operation, traced)
        self.lose(NO_LOSS)
        return times

    def transfer_by_kernel(self, num_bytes: int) -> tuple[int, int]:
        """A write for which the process asks the kernel: ns from there until the notification's
        words are in the receiver's memory, and until the process runs again."""
        engine = self.nodes.engines[self._initiator]
        pages = Pages(
            engine.memory, self.platform.tables, costs=engine.costs, settings=engine.settings
        )
        with contextlib.closing(memory_host.create("kernel", pages)) as asked:
            lease = asked.acquire(self._source.address, num_bytes, Access.READ)
            times = self.transfer(num_bytes)
            after_ns = sum(asked.release(lease))
        before_ns = sum(lease.cost)
        return before_ns + times.notified_ns, before_ns + times.done_ns + after_ns

    def lose(self, loss: str = NO_LOSS) -> None:
        """Which of the packets that leave the initiator's NI from now on get lost."""
        impairments.plan(
            self.nodes.engines[self._initiator].ni,
            dataclasses.replace(self._faults, packet_loss=loss)
            if loss != NO_LOSS
            else self._faults,
        )

    def arrives_whole(self, num_bytes: int, rest_ns: int) -> bool:
        """Does a write arrive without help? The next one is rest_ns behind this one's call."""
        self._destination.fill(bytes(self._destination.num_bytes))
        call_ns = self._now_ns
        self._post(0, num_bytes, WRITE, call_ns)
        errors: set[int] = set()
        self.nodes.watch(lambda node, event: errors.add(event.error))
        self._now_ns = call_ns + rest_ns
        if errors - {0, lib.PW_ERR_UNRECOVERABLE}:
            check(min(errors), "transfer")
        if any(errors):
            return False
        self._check(num_bytes, WRITE)
        return True

    def _transfer(self, num_bytes: int, operation: str, traced: bool) -> Times:
        nodes = self.nodes
        self._destination.fill(bytes(self._destination.num_bytes))
        if traced:
            nodes.trace_start(TRACE_RECORDS)
        before, call_ns = nodes.counters(), self._now_ns
        self._post(0, num_bytes, operation, call_ns)
        times = nodes.times()
        receiver = self._target if operation == WRITE else self._initiator
        done_kind = lib.PW_HOST_WRITE_DONE if operation == WRITE else lib.PW_HOST_FETCH_DONE
        self._now_ns = max(times.values()) + _REST_NS
        self._check(num_bytes, operation)
        return Times(
            notified_ns=times[receiver, lib.PW_HOST_NOTIFIED] - call_ns,
            done_ns=times[self._initiator, done_kind] - call_ns,
            trace=nodes.trace_since(call_ns) if traced else (),
            counters={name: value - before[name] for name, value in nodes.counters().items()},
        )

    def stream_gbps(self, num_bytes: int, operation: str = WRITE, num_transfers: int = 64) -> float:
        """Rate of num_transfers one behind the other, NUM_OUTSTANDING on their way at a time.

        The user's CPU posts the next one when a channel is free, and posts serially.
        """
        self.transfer(num_bytes, operation)
        self._destination.fill(bytes(self._destination.num_bytes))
        start_ns = end_ns = cpu_ns = self._now_ns
        num_posted = 0
        channels: dict[int, int] = {}
        done_kind = lib.PW_HOST_WRITE_DONE if operation == WRITE else lib.PW_HOST_FETCH_DONE

        def post(channel: int, at_ns: int) -> None:
            nonlocal cpu_ns, num_posted
            cpu_ns = self._post(channel, num_bytes, operation, at_ns)
            channels[self._id[0]] = channel
            num_posted += 1

        def handle(node: int, event: Any) -> None:
            nonlocal end_ns
            check(event.error, "transfer")
            end_ns = max(end_ns, event.time_ns)
            if event.kind == done_kind:
                channel = channels.pop(event.id)
                if num_posted < num_transfers:
                    post(channel, max(cpu_ns, event.time_ns))

        for channel in range(min(NUM_OUTSTANDING, num_transfers)):
            post(channel, cpu_ns)
        self.nodes.watch(handle)
        self._now_ns = end_ns + _REST_NS
        self._check(num_bytes, operation)
        return num_transfers * num_bytes * 8 / (end_ns - start_ns)

    def _post(self, channel: int, num_bytes: int, operation: str, at_ns: int) -> int:
        """Insert and trigger at at_ns; when the CPU has done so."""
        descriptor: Any = ffi.new("pw_descriptor *")
        descriptor.source_address = self._source.address
        descriptor.destination_address = self._destination.address
        notification_address = self._destination.address + self._notification_at
        descriptor.destination_address_notification = notification_address
        descriptor.first_data_notification, descriptor.last_data_notification = _WORDS
        descriptor.transfer_bytes = num_bytes
        ni = self.nodes.engines[self._initiator].ni
        if operation == READ:
            peer = self._target
            posted = lib.pw_ni_read(ni, PDID, peer, descriptor, 0, at_ns, self._id)
            return check(posted, "read")
        number = self._channels[channel]
        posted = lib.pw_ni_insert_descriptor(ni, number, self._target, descriptor, 0, at_ns)
        return check(lib.pw_ni_trigger(ni, number, check(posted, "insert"), self._id), "trigger")

    def _check(self, num_bytes: int, operation: str) -> None:
        seen = self._destination.read()
        words = seen[self._notification_at :][:_NOTIFICATION_BYTES]
        expected = b"".join(word.to_bytes(8, "little") for word in _WORDS)
        if seen[:num_bytes] != self._data[:num_bytes] or words != expected:
            raise EngineError(int(lib.PW_ERR_HOST), f"{operation} of {num_bytes} bytes: wrong data")
        if not self.nodes.is_quiet:
            raise EngineError(int(lib.PW_ERR_HOST), f"{operation} of {num_bytes} bytes: not over")
