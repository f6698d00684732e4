"""Stream connections between nodes of this process, in virtual time: what sockets over RDMA do
below the programs' calls, for experiments and tests.

The programs are the caller's code. After each `step` one node's CPU has taken what was here for it
first, in the order of virtual time over all nodes; what its program does about it (receive,
compute, send) happens at that CPU's clock. Equal programs take equal times. Not modelled: several
CPUs a node, system calls, and what it takes to wake a program that waits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from pagewire.native import EngineError, ffi, lib
from pagewire.native.closing import Closing
from pagewire.native.settings import ConfigError
from pagewire.run.settings.config import Config

_NONE = int(lib.PW_STREAM_NONE)
_REASON_BYTES = 512


@dataclasses.dataclass(frozen=True, slots=True)
class Stream:
    """One end of a connection; `StreamNodes` makes it."""

    _nodes: StreamNodes
    node: int
    _connection: int

    @property
    def is_open(self) -> bool:
        """False while it is being made, and after its end."""
        return self._is_in(lib.PW_STREAM_OPEN)

    @property
    def is_refused(self) -> bool:
        return self._is_in(lib.PW_STREAM_REFUSED)

    def _is_in(self, state: int) -> bool:
        facts = ffi.new("pw_stream_facts *")
        code = lib.pw_streams_look(self._nodes.streams(self.node), self._connection, facts)
        return bool(code == 0 and facts.state == state)

    def send(self, data: bytes | memoryview) -> int:
        """Copy to the ring what there is room for; how many bytes."""
        sent = 0
        with memoryview(data) as view:
            while sent < len(view):  # the ring's end is one of the ends of a copy
                rest = ffi.from_buffer(view[sent:])
                num_bytes = self._nodes.checked(
                    self.node,
                    lib.pw_stream_nodes_send(
                        self._nodes.all, self.node, self._connection, rest, len(view) - sent
                    ),
                )
                if num_bytes == 0:
                    break
                sent += num_bytes
        return sent

    def receive(self) -> bytes:
        """Copy from the ring all that is here."""
        return b"".join(self.received())

    def received(self) -> Iterator[bytes]:
        """The same in pieces, each the next part of the stream."""
        room = self._nodes.room
        while num_bytes := self._nodes.checked(
            self.node,
            lib.pw_stream_nodes_receive(
                self._nodes.all, self.node, self._connection, room, len(room)
            ),
        ):
            yield bytes(ffi.buffer(room, num_bytes))

    def close(self) -> None:
        """What was sent still arrives."""
        code = lib.pw_streams_close(self._nodes.streams(self.node), self._connection)
        self._nodes.checked(self.node, code)


class StreamNodes(Closing):
    """Nodes joined in this process; a context manager."""

    def __init__(
        self,
        settings: Sequence[Config],
        *,
        num_connections: int,
        ring_bytes: int = 65536,
    ) -> None:
        """settings: of each node. num_connections: at a time, at any node. ring_bytes: a power of
        two; a connection has two rings at each end."""
        self.num_nodes = len(settings)
        if self.num_nodes < 2:
            raise ConfigError(f"{self.num_nodes} nodes: stream connections need at least two")
        texts = [_texts(config) for config in settings]
        lists = [ffi.new("char *[]", [*each, ffi.NULL]) for each in texts]
        all_lists = ffi.new("char **[]", lists)
        options = ffi.new("pw_stream_nodes_options *")
        options.num_nodes = self.num_nodes
        options.num_slots = num_connections
        options.ring_bytes = ring_bytes
        options.settings = ffi.cast("char ***", all_lists)
        reason = ffi.new("char[]", _REASON_BYTES)
        made = ffi.new("pw_stream_nodes **")
        code = lib.pw_stream_nodes_create(options, reason, _REASON_BYTES, made)
        if code < 0:
            text = ffi.string(reason).decode(errors="replace")
            raise EngineError(
                int(code),
                text or f"{num_connections} connections with rings of {ring_bytes} bytes",
            )
        self.all = ffi.gc(made[0], lib.pw_stream_nodes_destroy)
        self.room = ffi.new("uint8_t[]", ring_bytes)
        self._node = ffi.new("uint32_t *")

    def close(self) -> None:
        """Give the nodes back; their connections end with them."""
        ffi.release(self.all)

    def streams(self, node: int) -> Any:
        """The node's pw_streams."""
        return lib.pw_stream_nodes_streams(self.all, node)

    def checked(self, node: int, code: int) -> int:
        """The result of a call for a node, when it is none of an error."""
        if code < 0:
            raise EngineError(int(code), f"node {node}: {self._reason(node)}")
        return int(code)

    def listen(self, node: int, port: int, backlog: int) -> None:
        self.checked(node, lib.pw_streams_listen(self.streams(node), port, backlog))

    def connect(self, node: int, to: int, port: int) -> Stream:
        """One that is being made: see Stream.is_open."""
        name = ffi.new("uint32_t *")
        streams = self.streams(node)
        own_port = lib.pw_streams_free_port(streams)
        self.checked(node, lib.pw_streams_connect(streams, to, port, own_port, name))
        return Stream(self, node, int(name[0]))

    def accept(self, node: int, port: int) -> Stream | None:
        """The oldest connection that waits there."""
        name = int(lib.pw_streams_accept(self.streams(node), port))
        return None if name == _NONE else Stream(self, node, name)

    def join(self, client: int, server: int, port: int) -> tuple[Stream, Stream]:
        """A connection that is made, to a port at which the server listens: both ends."""
        near = self.connect(client, server, port)
        far = None
        while not near.is_open or far is None:
            if self.step() is None or near.is_refused:
                raise EngineError(
                    int(lib.PW_ERR_FULL),
                    f"connection from node {client} to port {port} of node {server}: refused; "
                    f"{self._reason(server)}",
                )
            far = far or self.accept(server, port)
        return near, far

    def step(self) -> int | None:
        """The node that has taken something; None: nothing is left to happen."""
        code = lib.pw_stream_nodes_step(self.all, self._node)
        node = int(self._node[0])
        return node if self.checked(node, code) else None

    def changed(self, node: int) -> list[Stream]:
        """Connections of the node to which something happened since the last call."""
        streams, found = self.streams(node), []
        while (name := int(lib.pw_streams_changed(streams))) != _NONE:
            found.append(Stream(self, node, name))
        return found

    def now_ns(self, node: int) -> int:
        """The clock of the node's CPU."""
        return int(lib.pagewire_clock_ns(self._door(node)))

    def compute(self, node: int, duration_ns: int) -> None:
        """The node's program works for so long."""
        self.checked(node, lib.pagewire_clock_advance(self._door(node), duration_ns))

    def wait_until(self, node: int, time_ns: int) -> None:
        """The node's program does nothing until then."""
        self.checked(node, lib.pagewire_clock_observe(self._door(node), time_ns))

    def counter(self, node: int, name: str) -> int:
        """One of docs/report.md."""
        value = ffi.new("uint64_t *")
        code = lib.pagewire_read_counter(self._door(node), name.encode(), value)
        self.checked(node, code)
        return int(value[0])

    def major_faults(self, node: int) -> int:
        """Pages that came back from swap, for the CPU, the driver or the memory strategy."""
        counters = ffi.new("pw_memory_counters *")
        memory = lib.pw_node_memory(lib.pw_door_node(self._door(node)))
        lib.pw_memory_read_counters(memory, counters)
        return int(counters.major_faults)

    def resident_pages(self, node: int) -> int:
        """Pages of the node's rings that are there."""
        return self.checked(node, lib.pw_stream_nodes_resident(self.all, node))

    def pinned_peak_bytes(self, node: int) -> int:
        """What the node's memory strategy had pinned at most."""
        counters = ffi.new("pw_node_counters *")
        lib.pw_node_read_counters(lib.pw_door_node(self._door(node)), counters)
        return int(counters.pinned_peak_bytes)

    def _door(self, node: int) -> Any:
        return lib.pw_stream_nodes_door(self.all, node)

    def _reason(self, node: int) -> str:
        """Why the node's last call that failed did."""
        return str(ffi.string(lib.pagewire_reason(self._door(node))).decode())


def _texts(config: Config) -> list[Any]:
    """What differs from the defaults, as C takes it; the programs say themselves what they
    compute."""
    chosen = {**config.not_default(), "run.compute": "model"}
    return [ffi.new("char[]", f"{name}={text}".encode()) for name, text in chosen.items()]
