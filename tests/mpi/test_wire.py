"""The wire in C, driven as a node drives it: bursts arrive whole, in order, by every way."""

import os
import random

import pytest

from pagewire.native import ffi, lib
from pagewire.transport import MPI
from pagewire.transport.facade.patching import native
from pagewire.transport.facade.wire_mpi import WireMpi

pytestmark = pytest.mark.mpi

BURST_BYTES = int(lib.PW_BURST_BYTES)
SHORT_BYTES = 240
SLOTS = int(lib.PW_SHARED_SLOTS)
SIZES = (16, 64, SHORT_BYTES, SHORT_BYTES + 1, 4096, 16_384, BURST_BYTES)
NEEDS_A_PEER = pytest.mark.skipif(MPI.COMM_WORLD.Get_size() < 2, reason="alone")

_barrier, _test = native(MPI.Comm, "Ibarrier"), native(MPI.Request, "Test")


def content(source, peer, idx, num_bytes):
    """The bytes of a burst: whose, which one, then what only these give."""
    head = b"".join(each.to_bytes(4, "little") for each in (source, peer, idx, num_bytes))
    return head + random.Random(f"{source} {peer} {idx}").randbytes(num_bytes - len(head))


def size_of(source, peer, idx):
    return random.Random(f"size {source} {peer} {idx}").choice(SIZES)


class End:
    """A wire with its node's habits: buffers used over and over, bursts taken late."""

    def __init__(self, mode, is_in_place=True):
        self.owner = WireMpi(mode)
        self.wire, self.ops = self.owner.pointer, self.owner.pointer.ops
        self.rank, self.size = self.owner.rank, self.owner.size
        self.peers = [peer for peer in range(self.size) if peer != self.rank]
        self.is_in_place = is_in_place
        self.kept, self.free, self.lent = [], [], {}
        self.received = {peer: [] for peer in range(self.size)}
        self.held = []
        self.burst = ffi.new("pw_wire_burst *")
        self.is_free = ffi.new("bool *")

    def has_near_peers(self):
        """Of all ranks of this host, or of none."""
        return bool(self.ops.allocate(self.wire, 4096))

    def counts(self):
        found = ffi.new("pw_wire_counts *")
        self.ops.count(self.wire, found)
        return found

    def buffer(self):
        if self.free:
            return self.free.pop()
        if self.is_in_place:
            data = self.ops.allocate(self.wire, BURST_BYTES)
            if data:
                return data
        self.kept.append(ffi.new("uint8_t[]", BURST_BYTES))
        return ffi.cast("uint8_t *", self.kept[-1])

    def send(self, peer, data):
        buffer = self.buffer()
        ffi.memmove(buffer, data, len(data))
        assert self.ops.send(self.wire, peer, buffer, len(data), self.is_free) == lib.PW_OK
        if self.is_free[0]:
            self.free.append(buffer)
        else:
            self.lent[int(ffi.cast("uintptr_t", buffer))] = bytes(data)

    def reclaim(self):
        while data := self.ops.sent(self.wire):
            as_sent = self.lent.pop(int(ffi.cast("uintptr_t", data)))
            assert ffi.buffer(data, len(as_sent))[:] == as_sent
            self.free.append(data)

    def poll(self, num_held=0):
        """Take every burst that is here, but hold the last `num_held` back."""
        while code := self.ops.poll(self.wire, self.burst):
            assert code == 1
            found = ffi.new("pw_wire_burst *", self.burst[0])
            self.held.append((found, ffi.buffer(found.data, found.num_bytes)[:]))
            self._take(num_held)
        self._take(num_held)

    def _take(self, num_held):
        while len(self.held) > num_held:
            found, data = self.held.pop(random.randrange(len(self.held)))
            assert ffi.buffer(found.data, found.num_bytes)[:] == data, "changed before it was taken"
            self.received[found.source].append(data)
            self.ops.taken(self.wire, found)

    def finish(self, expected=None):
        """Until everything has arrived everywhere; then close."""

        def is_done():
            num_received = sum(map(len, self.received.values()))
            return (expected is None or num_received >= expected) and not self.ops.num_pending(
                self.wire
            )

        while not is_done():
            self.poll()
            self.reclaim()
        barrier = _barrier(self.owner.comm)
        while not _test(barrier):
            self.poll()
        assert not self.lent
        self.ops.close(self.wire)
        self.owner.free()


def check_received(end, num_bursts, *, is_ordered=True):
    for peer in end.peers:
        got = end.received[peer]
        wanted = [
            content(peer, end.rank, idx, size_of(peer, end.rank, idx)) for idx in range(num_bursts)
        ]
        assert len(got) == num_bursts
        if not is_ordered:
            got, wanted = sorted(got), sorted(wanted)
        for idx, (data, right) in enumerate(zip(got, wanted, strict=True)):
            assert data == right, f"burst {idx} of {peer}"


@pytest.mark.parametrize("mode", ["auto", "mpi"])
@pytest.mark.parametrize("is_in_place", [True, False])
@pytest.mark.parametrize("num_held", [0, 3])
def test_random_bursts_to_all_peers_arrive_whole_and_in_order(mode, is_in_place, num_held):
    end = End(mode, is_in_place)
    num_bursts = 60
    chance = random.Random(end.rank)
    for idx in range(num_bursts):
        for peer in chance.sample(end.peers, len(end.peers)):
            end.send(peer, content(end.rank, peer, idx, size_of(end.rank, peer, idx)))
        if chance.random() < 0.5:
            end.poll(num_held)
        if chance.random() < 0.5:
            end.reclaim()
    end.finish(num_bursts * len(end.peers))
    check_received(end, num_bursts, is_ordered=num_held == 0)


@NEEDS_A_PEER
@pytest.mark.parametrize("mode", ["auto", "mpi"])
def test_more_bursts_than_slots_wait_and_keep_their_order(mode):
    end = End(mode)
    num_bursts = 5 * SLOTS
    for idx in range(num_bursts):
        for peer in end.peers:
            end.send(peer, content(end.rank, peer, idx, size_of(end.rank, peer, idx)))
    native(MPI.Comm, "Barrier")(end.owner.comm)
    if end.has_near_peers():
        # Nobody has polled: no more than a ring has left from here.
        assert end.ops.num_pending(end.wire) >= (num_bursts - SLOTS) * len(end.peers)
    native(MPI.Comm, "Barrier")(end.owner.comm)
    end.finish(num_bursts * len(end.peers))
    check_received(end, num_bursts)


@NEEDS_A_PEER
def test_a_burst_that_is_not_taken_is_not_polled_again():
    end = End("auto")
    for idx in range(SLOTS):
        for peer in end.peers:
            end.send(peer, content(end.rank, peer, idx, size_of(end.rank, peer, idx)))
    native(MPI.Comm, "Barrier")(end.owner.comm)
    end.poll(num_held=SLOTS * len(end.peers))
    if end.has_near_peers():
        assert len(end.held) == SLOTS * len(end.peers)
        assert end.ops.poll(end.wire, end.burst) == 0
    native(MPI.Comm, "Barrier")(end.owner.comm)
    end.finish(SLOTS * len(end.peers))
    check_received(end, SLOTS, is_ordered=False)


def test_ways_are_chosen_and_counted():
    auto, mpi = End("auto"), End("mpi")
    for end in (auto, mpi):
        for peer in end.peers:
            end.send(peer, content(end.rank, peer, 0, 64))
            end.send(peer, content(end.rank, peer, 1, 8192))
    num_peers = len(auto.peers)
    found = auto.counts()
    assert auto.has_near_peers() == (num_peers > 0)
    assert (found.num_short, found.num_in_place) == (num_peers, num_peers)
    assert found.num_by_message == 0
    assert mpi.counts().num_by_message == 2 * num_peers
    assert not mpi.has_near_peers()
    auto.finish(2 * num_peers)
    mpi.finish(2 * num_peers)


@NEEDS_A_PEER
def test_ranks_of_different_modes_meet_by_mpi():
    end = End("mpi" if MPI.COMM_WORLD.Get_rank() == 0 else "auto")
    num_bursts = 20
    for idx in range(num_bursts):
        for peer in end.peers:
            end.send(peer, content(end.rank, peer, idx, size_of(end.rank, peer, idx)))
    num_far = len(end.peers) if end.rank == 0 else 1
    assert end.counts().num_by_message == num_bursts * num_far
    end.finish(num_bursts * len(end.peers))
    check_received(end, num_bursts)


@pytest.mark.parametrize("mode", ["auto", "mpi"])
def test_bad_peers_and_lengths_are_refused(mode):
    end = End(mode)
    buffer = end.buffer()
    right = end.peers[0] if end.peers else end.rank
    for peer, num_bytes in ((end.rank, 64), (end.size, 64), (right, 0), (right, BURST_BYTES + 1)):
        assert end.ops.send(end.wire, peer, buffer, num_bytes, end.is_free) == lib.PW_ERR_INVALID
    assert end.ops.num_pending(end.wire) == 0
    end.finish()


@NEEDS_A_PEER
def test_a_forked_child_is_refused_and_harms_nothing():
    end = End("auto")
    for peer in end.peers:
        end.send(peer, content(end.rank, peer, 0, size_of(end.rank, peer, 0)))
    is_near = end.has_near_peers()
    child = os.fork()
    if not child:
        if not is_near:
            os._exit(0)
        sent = end.ops.send(end.wire, end.peers[0], end.buffer(), 64, end.is_free)
        polled = end.ops.poll(end.wire, end.burst)
        os._exit(0 if sent == polled == lib.PW_ERR_INVALID else 1)
    assert os.waitpid(child, 0)[1] == 0
    end.finish(len(end.peers))
    check_received(end, 1)


def segment_figures():
    """Resident bytes of all mappings of segments, and how many there are."""
    num_bytes, is_segment, num_mappings = 0, False, 0
    with open("/proc/self/smaps", encoding="ascii") as file:
        for line in file:
            words = line.split()
            if "-" in words[0] and len(words) > 4:
                is_segment = "memfd:pagewire" in line
                num_mappings += is_segment
            elif is_segment and words[0] == "Rss:":
                num_bytes += int(words[1]) * 1024
    return num_bytes, num_mappings


def open_segments():
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue
    return [each for each in found if "memfd:pagewire" in each]


def test_a_quiet_wire_is_small_and_leaves_nothing():
    before, num_before = segment_figures()
    end = End("auto")
    assert not open_segments()
    for idx in range(10):
        for peer in end.peers:
            end.send(peer, content(end.rank, peer, idx, 64))
        end.poll()
        end.reclaim()
    assert segment_figures()[0] - before < 1024 * 1024
    end.finish(10 * len(end.peers))
    assert segment_figures()[1] == num_before
