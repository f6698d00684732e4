"""Random traffic, all kinds of point-to-point mixed: the bytes and statuses that plain MPI gives.

A seed decides which messages go where, how, and how they are received; every rank draws the same.
More seeds than CI tries: PAGEWIRE_TEST_SEEDS=100:200.
"""

import dataclasses
import os
import random
import zlib

import numpy as np
import pytest

from pagewire.transport import MPI
from pagewire.transport.node.patching import native

pytestmark = pytest.mark.mpi

NUM_ROUNDS = 5
PER_RANK = 10
STREAM_TAG = 7
SIZES = [0, 1, 8, 63, 64, 65, 200, 3900, 4032, 4096, 5000, 16_384, 16_385, 70_000, 300_000]
POOL = np.random.default_rng(1).integers(0, 256, 1 << 20, np.uint8)

STARTED = ["Isend", "Issend", "Ibsend", "Bsend", "Irsend", "Send_init", "Ssend_init", "isend"]
BLOCKING = ["Send", "Ssend", "send"]
POSTED = ["Irecv", "Recv_init", "Irecv from any"]
AWAITED = ["Recv", "Recv from any", "Probe", "Iprobe", "Mprobe", "Improbe", "Mprobe, Irecv"]


def seeds():
    first, _, end = os.environ.get("PAGEWIRE_TEST_SEEDS", "0:8").partition(":")
    return range(int(first), int(end))


@dataclasses.dataclass
class Message:
    """wild: on the communicator where every receive takes anything. A stream's have one tag."""

    number: int
    source: int
    dest: int
    num_bytes: int
    send: str
    receive: str
    is_wild: bool = False
    is_stream: bool = False
    is_strided: bool = False

    @property
    def tag(self):
        return STREAM_TAG if self.is_stream else 100 + self.number

    @property
    def is_object(self):
        return self.send in ("isend", "send")

    def payload(self):
        start = self.number * 977 % (POOL.size - self.num_bytes)
        return POOL[start : start + self.num_bytes]


def draw(rng, number, size):
    source, dest = rng.randrange(size), rng.randrange(size)
    num_bytes = rng.choice(SIZES) if rng.random() < 0.7 else rng.randrange(20_000)
    message = Message(number, source, dest, num_bytes, rng.choice(STARTED), rng.choice(POSTED))
    kind = rng.random()
    if kind < 0.25:
        message.is_wild = True
        message.receive = rng.choice(POSTED + AWAITED)
        message.send = rng.choice(["Isend", "Issend", "Ibsend", "Bsend", "Send_init"])
    elif kind < 0.45:
        message.is_stream = True
        message.send = rng.choice(["Isend", "Issend", "Ibsend", "Send_init"])
        message.receive = rng.choice(["Irecv", "Recv_init"])
    elif kind < 0.85:
        if rng.random() < 0.5 and source != dest:
            message.send = rng.choice(BLOCKING)
        if rng.random() < 0.7:
            message.receive = rng.choice(AWAITED)
            message.send = "Isend" if message.send == "Irsend" else message.send
    if message.is_object:
        message.receive = "recv" if message.receive in AWAITED else "irecv"
    message.is_strided = not message.is_object and not message.is_wild and rng.random() < 0.2
    return message


class Strided:
    """Bytes with a hole behind each: a derived type that is packed and unpacked."""

    def __init__(self, num_bytes, payload=None):
        self.array = np.full((num_bytes, 2), 0xEE, np.uint8)
        if payload is not None:
            self.array[:, 0] = payload
        self.type = MPI.BYTE.Create_vector(num_bytes, 1, 2).Commit()
        self.spec = [self.array, 1, self.type]

    def bytes(self, num_bytes):
        assert (self.array[:, 1] == 0xEE).all()
        self.type.Free()
        return self.array[:, 0]


class Plain:
    """Buffers as they are; longer than the message where a wildcard may bring any."""

    def __init__(self, num_bytes, payload=None):
        self.array = np.full(num_bytes, 0xEE, np.uint8) if payload is None else payload.copy()
        self.spec = [self.array, MPI.BYTE]

    def bytes(self, num_bytes):
        assert (self.array[num_bytes:] == 0xEE).all()
        return self.array[:num_bytes]


class Traffic:
    """One rank's part. `call(name, comm, ...)` is a method of the NI's or of plain MPI's."""

    def __init__(self, call, tame, wild, seed):
        self.call, self.tame, self.wild = call, tame, wild
        self.rank, self.size = tame.rank, tame.size
        self.rng = random.Random(seed)  # drawn alike by all ranks
        self.own = random.Random(1000 * seed + self.rank)
        self.requests, self.receives, self.records, self.buffers = [], [], [], []
        self.wild_order = {}

    def run(self):
        for turn in range(NUM_ROUNDS):
            messages = [
                draw(self.rng, 1000 * turn + i, self.size) for i in range(PER_RANK * self.size)
            ]
            self.begin(messages)
            for message in messages:
                self.go_through(message)
            self.complete()
            self.call("Barrier", self.tame)
        return sorted(self.records)

    def comm_of(self, message):
        return self.wild if message.is_wild else self.tame

    def begin(self, messages):
        self.requests, self.receives, self.buffers = [], [], []
        self.wild_order = {}
        for message in messages:
            if message.dest == self.rank and message.receive in [*POSTED, "irecv"]:
                self.post(message)
        self.call("Barrier", self.tame)  # ready sends need their receives
        for message in messages:
            if message.source == self.rank and message.send in STARTED:
                self.start(message)

    def match_of(self, message):
        if message.is_wild:
            return MPI.ANY_SOURCE, MPI.ANY_TAG
        source = MPI.ANY_SOURCE if "from any" in message.receive else message.source
        return source, message.tag

    def room_for(self, message):
        kind = Strided if message.is_strided and message.receive == "Irecv" else Plain
        return kind(max(SIZES) if message.is_wild else message.num_bytes)

    def post(self, message):
        source, tag = self.match_of(message)
        comm = self.comm_of(message)
        if message.receive == "irecv":
            self.requests.append(self.call("irecv", comm, bytearray(1 << 19), source, tag))
            self.receives.append((message, None))
            return
        buffer = self.room_for(message)
        name = "Recv_init" if message.receive == "Recv_init" else "Irecv"
        request = self.call(name, comm, buffer.spec, source, tag)
        if name == "Recv_init":
            request.Start()
        self.requests.append(request)
        self.receives.append((message, buffer))

    def start(self, message):
        comm, payload = self.comm_of(message), message.payload()
        if message.send == "isend":
            request = self.call("isend", comm, payload.tobytes(), message.dest, message.tag)
        else:
            is_strided = message.is_strided and message.send == "Isend"
            buffer = (Strided if is_strided else Plain)(message.num_bytes, payload)
            self.buffers.append(buffer)
            request = self.call(message.send, comm, buffer.spec, message.dest, message.tag)
            if message.send.endswith("_init"):
                request.Start()
            if message.send == "Bsend":
                buffer.array[:] = 0  # the message is elsewhere
                return
        self.requests.append(request)
        self.receives.append((message, "sent"))

    def go_through(self, message):
        """What blocks, in the order of the messages on every rank: the first that is not over has
        both its ranks at it."""
        comm, payload = self.comm_of(message), message.payload()
        if message.source == self.rank and message.send in BLOCKING:
            sent = payload.tobytes() if message.is_object else Plain(0, payload).spec
            self.call(message.send, comm, sent, message.dest, message.tag)
        if message.dest == self.rank and message.receive in [*AWAITED, "recv"]:
            self.receive(message)

    def receive(self, message):
        comm, status = self.comm_of(message), MPI.Status()
        source, tag = self.match_of(message)
        if message.receive == "recv":
            received = self.call("recv", comm, None, source, tag, status)
            self.note(message, np.frombuffer(received, np.uint8), status, False)
            return
        buffer = self.room_for(message)
        if "probe" in message.receive or "Probe" in message.receive:
            name = message.receive.partition(",")[0]
            found = None
            while not found:
                found = self.call(name, comm, source, tag, status)
            told = status.source, status.tag, status.Get_count(MPI.BYTE)
            if name in ("Probe", "Iprobe"):
                self.call("Recv", comm, buffer.spec, status.source, status.tag, status)
            elif message.receive == "Mprobe, Irecv":
                found.Irecv(buffer.spec).Wait(status)
            else:
                found.Recv(buffer.spec, status)
            assert told == (status.source, status.tag, status.Get_count(MPI.BYTE))
        else:
            self.call("Recv", comm, buffer.spec, source, tag, status)
        self.note(message, buffer.bytes(status.Get_count(MPI.BYTE)), status, message.is_wild)

    def complete(self):
        """By a family of the rank's own choice, a part of the requests at a time."""
        order = list(range(len(self.requests)))
        self.own.shuffle(order)
        while order:
            count = self.own.randint(1, 6)
            part, order = order[:count], order[count:]
            # Requests of objects by the lower-case calls, which hand these over.
            objects = [i for i in part if self.receives[i][0].receive == "irecv"]
            for i in objects:
                status = MPI.Status()
                self.over(i, status, self.requests[i].wait(status))
            self.complete_some([i for i in part if i not in objects])
        for request in self.requests:
            if request != MPI.REQUEST_NULL:
                request.Free()  # a persistent one

    def complete_some(self, part):
        requests = [self.requests[i] for i in part]
        left = set(range(len(part)))
        how = self.own.choice(["Waitall", "Testall", "Waitany", "Testany", "Waitsome", "Testsome"])
        while left:
            statuses = [MPI.Status() for _ in part]
            if how == "Waitall" or (how == "Testall" and MPI.Request.Testall(requests, statuses)):
                if how == "Waitall":
                    MPI.Request.Waitall(requests, statuses)
                done = sorted(left)
            elif how == "Testall":
                done = []
            elif how.endswith("any"):
                answer = getattr(MPI.Request, how)(requests, statuses[0])
                done = [answer if how == "Waitany" else answer[0]]
                if done == [MPI.UNDEFINED]:
                    done = []
            else:
                done = getattr(MPI.Request, how)(requests, statuses) or []
            for place, status in zip(done, statuses, strict=False):
                assert place in left
                left.remove(place)
                self.over(part[place], status)
        for i, request in zip(part, requests, strict=True):
            self.requests[i] = request

    def over(self, i, status, received=None):
        message, buffer = self.receives[i]
        if buffer == "sent":
            return
        if buffer is None:
            self.note(message, np.frombuffer(received, np.uint8), status, False)
        else:
            self.note(message, buffer.bytes(status.Get_count(MPI.BYTE)), status, message.is_wild)

    def note(self, message, received, status, is_wild):
        """Check what came and write it down, under its own number where a wildcard brought it."""
        number = status.tag - 100 if is_wild else message.number
        if not is_wild:
            assert (status.source, status.tag) == (message.source, message.tag), message
        came = Message(number, 0, 0, len(received), "", "")
        assert (received == came.payload()).all(), message
        if not message.is_object:
            assert status.Get_count(MPI.BYTE) == len(received)
        self.records.append((number, status.source, status.tag, len(received),
                             zlib.crc32(received.tobytes())))  # fmt: skip


def by_ni(name, comm, *args):
    return getattr(comm, name)(*args)


def by_plain(name, comm, *args):
    owner = MPI.Intracomm if name in MPI.Intracomm.__dict__ else MPI.Comm
    return native(owner, name)(comm, *args)


@pytest.fixture
def plain_comms():
    """Two communicators that the NI does not carry."""
    made = []
    for _ in range(2):
        duplicate, request = native(MPI.Comm, "Idup")(MPI.COMM_WORLD)
        request.Wait()
        made.append(duplicate)
    MPI.Attach_buffer(bytearray(64 << 20))  # of plain Bsend
    yield made
    MPI.Detach_buffer()
    for each in made:
        native(MPI.Comm, "Free")(each)


@pytest.mark.parametrize("seed", seeds())
def test_random_traffic_gives_what_plain_mpi_gives(comm, plain_comms, seed):
    wild = comm.Dup()
    ours = Traffic(by_ni, comm, wild, seed).run()
    wild.Free()
    theirs = Traffic(by_plain, *plain_comms, seed).run()
    assert ours == theirs
    assert len(ours) == len({number for number, *_ in ours})
