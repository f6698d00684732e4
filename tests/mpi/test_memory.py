"""What the program does to its own memory between and during transfers."""

import ctypes
import mmap

import numpy as np
import pytest
from mappings import forked_child
from memories import backend

from pagewire.native import lib
from pagewire.transport import MPI

pytestmark = pytest.mark.mpi

COUNT = 100_000
LIBC = ctypes.CDLL(None, use_errno=True)


def checks() -> int:
    return int(lib.pw_memory_checks_access(backend(lib.PW_MEMORY_HOST)))


def exchange(comm, mine, received) -> None:
    dest, source = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    comm.Sendrecv(mine, dest, 3, received, source, 3)


def test_fork_shoots_the_context_down_and_the_receiver_copies_its_pages(comm, node):
    source = (comm.rank - 1) % comm.size
    mine, received = np.arange(COUNT) + comm.rank, np.full(COUNT, -1)
    exchange(comm, mine, received)
    before = node.counters()
    with forked_child():
        received[0] = -1  # the program copies this page itself
        exchange(comm, mine, received)
    assert (received == np.arange(COUNT) + source).all()
    after = node.counters()
    assert after["shootdowns_context"] - before["shootdowns_context"] == 1
    copied = after["pages_copied"] - before["pages_copied"]
    if checks() & lib.PW_CHECKS_WRITE_PROTECTION:
        pages = COUNT * 8 // mmap.PAGESIZE
        assert pages - 2 <= copied <= pages + 1
        assert after["permission_faults_destination"] > before["permission_faults_destination"]
    exchange(comm, mine, received)
    assert node.counters()["shootdowns_context"] == after["shootdowns_context"]
    assert node.counters()["pages_copied"] == after["pages_copied"]


@pytest.mark.skipif(not checks() & lib.PW_CHECKS_PERMISSION, reason="PROCMAP_QUERY: Linux 6.11")
def test_receive_buffer_unmapped_during_its_transfer_raises_and_the_rank_lives_on(comm):
    """Against the standard, but no reason for a segmentation fault."""
    num_bytes = 1 << 20
    dest, source = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    place = 0x2100_0000_0000  # where no allocation will ever go
    LIBC.mmap.restype = ctypes.c_void_p
    LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x100000  # MAP_FIXED_NOREPLACE
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    assert LIBC.mmap(place, num_bytes, protection, flags, -1, 0) == place
    ctypes.memset(place, 1, num_bytes)
    memory = (ctypes.c_char * num_bytes).from_address(place)
    request = comm.Irecv(np.frombuffer(memory, np.uint8), source, 4)
    sending = comm.Isend(np.full(num_bytes, 7, np.uint8), dest, 4)
    LIBC.munmap(place, num_bytes)
    for each in (request, sending):
        with pytest.raises(MPI.Exception):
            each.Wait()
    comm.Barrier()
    mine, received = np.arange(COUNT) + comm.rank, np.full(COUNT, -1)
    exchange(comm, mine, received)
    assert (received == np.arange(COUNT) + source).all()
