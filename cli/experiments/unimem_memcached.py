"""Key-value traffic over stream sockets, with the pages of the receiver's rings absent, resident,
or taken away again and again, by memory strategy."""

import dataclasses
import math
import random
import struct
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pagewire.cli.kit.result import Column, Options, Panel, Result, Series
from pagewire.native import EngineError, lib
from pagewire.unimem.streams.stream_nodes import Stream, StreamNodes

SERVER = 0
PORT = 11211
_HEADER = struct.Struct(">BxxxIQQ")
"""Kind, bytes of the value, key, number of the request: 24 B, as in memcached's binary protocol."""
_KEY_BYTES = 32
_GET, _SET = 0, 1
_KEYS_PER_CONNECTION = 16
_BLOB = random.Random(1).randbytes(1 << 17)


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """What the clients ask for."""

    ring_bytes: int
    get_share: float
    min_bytes: int
    max_bytes: int
    is_pareto: bool
    num_warm: int
    """Requests of a connection until its rings have been gone through once."""

    def value_bytes(self, draw: random.Random) -> int:
        """Drawn by the inverse of the distribution function."""
        at = draw.random()
        if self.is_pareto:
            num_bytes = 214.476 / 0.348238 * ((1 - at) ** -0.348238 - 1)
        else:
            num_bytes = self.min_bytes * (self.max_bytes / self.min_bytes) ** at
        return min(max(int(num_bytes), self.min_bytes), self.max_bytes)


LOADS: Mapping[str, Load] = {
    "small": Load(16384, 30 / 31, 15, 65536, True, 280),
    "large": Load(65536, 0.5, 64, 65536, False, 80),
}
NUM_CLIENTS = 4
CONNECTIONS_PER_CLIENT = 4
UNDER_WAY = 4
STRATEGIES = ("part", "pretouch", "pin", "pin-cache", "odp")


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """What the server's pages go through."""

    title: str
    is_warm: bool
    frames: float | None = None
    """The server's, as a share of its rings' pages; None: no limit."""


STATES: Mapping[str, State] = {
    "fresh": State("fresh", False),
    "warm": State("in use", True),
    "three_quarters": State("frames 3/4", True, 0.75),
    "less_than_half": State("frames 0.45", True, 0.45),
}


class _End:
    """One end of a connection: what is to be sent, and what has come."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._in, self._out = bytearray(), bytearray()

    def send(self, data: bytes) -> None:
        self._out += data
        self.flush()

    def flush(self) -> None:
        if self._out:
            del self._out[: self.stream.send(bytes(self._out))]

    def read(self) -> None:
        self._in += self.stream.receive()
        self.flush()

    def take(self, has_key: bool) -> tuple[int, int, int, bytes] | None:
        """Kind, key, number and value of the next message that is whole."""
        head = _HEADER.size + (_KEY_BYTES if has_key else 0)
        if len(self._in) < head:
            return None
        kind, num_bytes, key, number = _HEADER.unpack_from(self._in)
        if len(self._in) < head + num_bytes:
            return None
        value = bytes(self._in[head : head + num_bytes])
        del self._in[: head + num_bytes]
        return kind, key, number, value


class _Client(_End):
    """A connection's closed loop, which knows what each answer must be."""

    def __init__(self, stream: Stream, nodes: StreamNodes, load: Load, number: int) -> None:
        super().__init__(stream)
        self._nodes = nodes
        self._load = load
        self._draw = random.Random(number)
        self._first_key = number * _KEYS_PER_CONNECTION
        self._values: dict[int, bytes] = {}
        self._under_way: deque[tuple[int, bytes, int]] = deque()
        self._number = 0
        self.num_left = 0
        self.latencies_ns: list[int] = []
        self.begin_ns = self.end_ns = 0

    def start(self, num_requests: int) -> None:
        """The clock of what is measured starts here."""
        self.num_left = num_requests
        self.latencies_ns = []
        self.begin_ns = self._nodes.now_ns(self.stream.node)
        for _ in range(min(UNDER_WAY, num_requests)):
            self._ask()

    @property
    def is_over(self) -> bool:
        return not self.num_left and not self._under_way

    def _ask(self) -> None:
        self.num_left -= 1
        self._number += 1
        key = self._first_key + self._draw.randrange(_KEYS_PER_CONNECTION)
        now_ns = self._nodes.now_ns(self.stream.node)
        is_get = key in self._values and self._draw.random() < self._load.get_share
        if is_get:
            value, expected = b"", self._values[key]
        else:
            num_bytes = self._load.value_bytes(self._draw)
            at = self._draw.randrange(len(_BLOB) - num_bytes)
            value, expected = _BLOB[at : at + num_bytes], b""
            self._values[key] = value
        head = _HEADER.pack(_GET if is_get else _SET, len(value), key, self._number)
        self._under_way.append((self._number, expected, now_ns))
        self.send(head + bytes(_KEY_BYTES) + value)

    def move(self) -> None:
        """Take the answers that are here, and ask again for each."""
        self.read()
        while (answer := self.take(has_key=False)) is not None:
            number, expected, asked_ns = self._under_way.popleft()
            if answer[2] != number or answer[3] != expected:
                raise EngineError(int(lib.PW_ERR_HOST), f"answer to request {number}: wrong data")
            self.end_ns = self._nodes.now_ns(self.stream.node)
            self.latencies_ns.append(self.end_ns - asked_ns)
            if self.num_left:
                self._ask()


class _Server:
    """One CPU, which does the requests of all connections in the order in which they come."""

    def __init__(self) -> None:
        self._store: dict[int, bytes] = {}
        self._ends: dict[Stream, _End] = {}

    def move(self, stream: Stream) -> None:
        end = self._ends.setdefault(stream, _End(stream))
        end.read()
        while (request := end.take(has_key=True)) is not None:
            kind, key, number, value = request
            if kind == _SET:
                self._store[key] = value
            found = self._store[key] if kind == _GET else b""
            end.send(_HEADER.pack(kind, len(found), key, number) + found)


def _meet(nodes: StreamNodes) -> None:
    """All begin at the same time: nothing is under way any more."""
    while nodes.step() is not None:
        pass
    last_ns = max(nodes.now_ns(node) for node in range(nodes.num_nodes))
    for node in range(nodes.num_nodes):
        nodes.wait_until(node, last_ns)


def _check_used(nodes: StreamNodes, load: Load) -> None:
    """The clients, which have frames for all, tell whether the rings were gone through."""
    wanted = 2 * CONNECTIONS_PER_CLIENT * load.ring_bytes // int(lib.PW_PAGE_BYTES)
    for node in range(SERVER + 1, nodes.num_nodes):
        if (found := nodes.resident_pages(node)) != wanted:
            raise EngineError(
                int(lib.PW_ERR_HOST), f"node {node} has used {found} of {wanted} pages of its rings"
            )


def _serve(nodes: StreamNodes, server: _Server, clients: Mapping[Stream, _Client]) -> None:
    """Until every client has its answers."""
    num_running = sum(not each.is_over for each in clients.values())
    while num_running:
        node = nodes.step()
        if node is None:
            num_reset = sum(not stream.is_open for stream in clients)
            raise EngineError(
                int(lib.PW_ERR_UNRECOVERABLE),
                f"{num_reset} connections were reset: a write failed, which nothing would have "
                "sent again; see run.timeout",
            )
        for stream in nodes.changed(node):
            if node == SERVER:
                server.move(stream)
            elif not (client := clients[stream]).is_over:
                client.move()
                num_running -= client.is_over


def percentile(sorted_values: Sequence[int], share: float) -> int:
    """The smallest value that this share of them is not above."""
    return sorted_values[math.ceil(len(sorted_values) * share) - 1]


def _counts(nodes: StreamNodes) -> dict[str, int]:
    """Faults of arriving blocks at the server and at all clients, and the server's major faults."""
    faults = [nodes.counter(i, "translation_faults_destination") for i in range(nodes.num_nodes)]
    return {
        "faults": faults[SERVER],
        "client_faults": sum(faults) - faults[SERVER],
        "major_faults": nodes.major_faults(SERVER),
    }


def measure(
    options: Options, load: Load, state: State, memory: str, num_requests: int
) -> dict[str, float]:
    """One run: so many requests of each connection, behind the warm-up if there is one."""
    num_connections = NUM_CLIENTS * CONNECTIONS_PER_CLIENT
    num_pages = 2 * num_connections * load.ring_bytes // int(lib.PW_PAGE_BYTES)
    frames = 0 if state.frames is None else int(num_pages * state.frames)
    configs = [
        options.settings(
            f"run.memory={memory}",
            "memory_backend.backend=model",
            "memory_backend.fault_fraction=1",  # a page nobody has touched is absent
            f"memory_backend.frame_limit_pages={frames if node == SERVER else 0}",  # 0: no limit
        )
        for node in range(NUM_CLIENTS + 1)
    ]
    with StreamNodes(configs, num_connections=num_connections, ring_bytes=load.ring_bytes) as nodes:
        nodes.listen(SERVER, PORT, num_connections)
        clients: dict[Stream, _Client] = {}
        set_up_ns = []
        for number in range(num_connections):
            node = 1 + number % NUM_CLIENTS
            begin_ns = nodes.now_ns(node)
            near, _ = nodes.join(node, SERVER, PORT)
            set_up_ns.append(nodes.now_ns(node) - begin_ns)
            clients[near] = _Client(near, nodes, load, number)
        server = _Server()
        before: dict[str, int] = {}
        for count in [load.num_warm, num_requests] if state.is_warm else [num_requests]:
            before = _counts(nodes)
            _meet(nodes)
            for client in clients.values():
                client.start(count)
            _serve(nodes, server, clients)
            if state.is_warm:
                _check_used(nodes, load)
        latencies = sorted(ns for each in clients.values() for ns in each.latencies_ns)
        begin_ns = min(each.begin_ns for each in clients.values())
        span_ns = max(each.end_ns for each in clients.values()) - begin_ns
        page_mib = int(lib.PW_PAGE_BYTES) / 1024**2
        return {
            "rate": len(latencies) * 1e6 / span_ns,
            "p50": percentile(latencies, 0.5) / 1e3,
            "p99": percentile(latencies, 0.99) / 1e3,
            **{name: count - before[name] for name, count in _counts(nodes).items()},
            "set_up": sum(set_up_ns) / len(set_up_ns) / 1e3,
            "pinned": nodes.pinned_peak_bytes(SERVER) / 1024**2,
            "resident": nodes.resident_pages(SERVER) * page_mib,
        }


def _measure(
    options: Options, label: str, load: str, state: str, memory: str
) -> dict[str, float | None]:
    """None each: the strategy was refused, or a write failed; which is said."""
    num_warm = LOADS[load].num_warm
    num_requests = options.pick(12, num_warm, 4 * num_warm)
    try:
        return {**measure(options, LOADS[load], STATES[state], memory, num_requests)}
    except EngineError as error:
        if error.code not in (lib.PW_ERR_FULL, lib.PW_ERR_UNRECOVERABLE):
            raise
        options.say(f"unimem-memcached: {label}: {error}")
        return dict.fromkeys(each.key for each in COLUMNS[3:])


COLUMNS = (
    Column("load", "load"),
    Column("pages", "rings"),
    Column("memory", "memory"),
    Column("rate", "rate", "k/s", 1),
    Column("p50", "half in", "us", 1),
    Column("p99", "99 % in", "us", 1),
    Column("faults", "faults"),
    Column("client_faults", "at clients", in_table=False),
    Column("major_faults", "from swap"),
    Column("set_up", "set-up", "us", 1),
    Column("pinned", "pinned", "MiB", 2),
    Column("resident", "resident", "MiB", 2),
)
NOTES = f"""
    {NUM_CLIENTS} client nodes with {CONNECTIONS_PER_CLIENT} connections each to one server node;
    {UNDER_WAY} requests of each are under way all the time. A request has {_HEADER.size} B, a key
    of {_KEY_BYTES} B and, when it sets, the value; values that come back are checked. Latency: from
    the client's call until it has read the whole answer.

    small: 30 of 31 requests get; value sizes from Facebook's ETC pool, generalised Pareto with
    scale 214.476 and shape 0.348238, from 15 B on (Atikoglu et al. 2012); rings of 16 KiB. large,
    assumed: half of the requests get, sizes from 64 B to 64 KiB, each octave equally often; rings
    of 64 KiB.

    Copies into and out of the rings take the CPUs time (tables.copy), and so do their own faults
    there. The server's hashing and parsing, its store and its system calls take none.

    Rings fresh: no page was ever touched. In use: each has been gone through before. Frames 3/4,
    0.45: the server has memory for that share of its rings' pages alone; what was used least
    recently goes to swap. Clients have all they need.

    Rings that a peer writes to are registered memory: pretouch touches them and pin pins them at
    the connection's set-up. What goes out is touched or pinned by the write. - is a strategy that
    was refused: its pins need more frames than there are; or a write failed. part-prefetch is the
    same as part, since nothing is matched. pin-all would pin the emulator's own memory, which these
    nodes share.

    Faults: blocks that faulted when they arrived at the server. From swap: pages, whoever wanted
    them. Set-up: of a connection, mean. Pinned at most, resident at the end: the server's, of 0.5
    MiB (small) and 2 MiB (large) of rings.
"""


def memcached(options: Options) -> Result:
    """Requests a second and their latency, by load, state of the server's pages, and strategy."""
    loads = options.pick(["large"], list(LOADS))
    states = options.pick(["fresh", "warm", "three_quarters"], list(STATES))
    names = options.pick(["part", "pin"], STRATEGIES)
    cases = {
        f"{load}, {STATES[state].title}, {memory}": (load, state, memory)
        for load in loads
        for state in states
        for memory in names
    }
    measures = {label: partial(_measure, options, label, *case) for label, case in cases.items()}
    rows: list[dict[str, Any]] = []
    for label, found in options.points.measure(measures).items():
        load, state, memory = cases[label]
        rows.append({"load": load, "pages": STATES[state].title, "memory": memory, **found})
    return Result(
        columns=COLUMNS,
        rows=rows,
        panels=[
            Panel(
                "server's frames / pages of its rings (1: no limit)",
                label,
                [
                    Series.of(memory, part, "frames", key)
                    for memory in names
                    if (part := _measured(rows, load, memory))
                ],
                title=load,
                log_y=True,
            )
            for load in loads
            for key, label in (("rate", "rate (k/s)"), ("p99", "99 % in (us)"))
        ],
        notes=NOTES,
        varied={
            "run.memory": ", ".join(names),
            "memory_backend.backend": "model",
            "memory_backend.fault_fraction": "1",
            "memory_backend.frame_limit_pages": "by the column",
        },
        numbers="clocks of the nodes' CPUs, from the component costs of the platform file",
    )


def _measured(rows: Sequence[dict[str, Any]], load: str, memory: str) -> list[dict[str, Any]]:
    """Of rings in use, by frames."""
    shares = {each.title: each.frames or 1.0 for each in STATES.values() if each.is_warm}
    return [
        {**row, "frames": shares[row["pages"]]}
        for row in rows
        if (row["load"], row["memory"]) == (load, memory)
        and row["pages"] in shares
        and row["rate"] is not None
    ]
