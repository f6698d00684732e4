"""User-initiated DMA between ranks, beside MPI traffic."""

import os

import numpy as np
import pytest

pytestmark = pytest.mark.mpi

NUM_BYTES = 50_000


@pytest.fixture
def library(comm):
    from pagewire.transport import dma

    yield dma.open()
    comm.Barrier()


@pytest.fixture
def peer(comm):
    return (comm.rank + 1) % comm.size


def pattern(rank):
    return ((np.arange(NUM_BYTES) * 7 + 31 * rank + 1) % 251).astype(np.uint8)


def test_bytes_go_around_the_ranks(comm, library, peer):
    """Each allocates at the next one, writes there by two ways, and reads back."""
    from pagewire.native import EngineError
    from pagewire.transport.dma import Status

    there = library.alloc_buf_r(2 * NUM_BYTES, peer)
    assert (there.num_bytes, there.node) == (2 * NUM_BYTES, peer)
    data, back, ended = pattern(comm.rank), np.zeros(NUM_BYTES, np.uint8), []
    sent = library.submit_transfer_from_mem(
        data, there, NUM_BYTES, lambda id, status: ended.append((id, status))
    )
    data[:] = 0  # it was copied
    assert library.wait(sent) is Status.COMPLETED
    assert ended == [(sent, Status.COMPLETED)]
    assert library.wait(library.submit_transfer_to_mem(there, back, NUM_BYTES)) is Status.COMPLETED
    assert (back == pattern(comm.rank)).all()
    # who has it finds it by its id, and it is the whole limit of its owner
    before = (comm.rank - 1) % comm.size
    mine = library.get_buf(comm.sendrecv(there.id, peer, source=before))
    memory = library.get_memory(mine)
    assert (memory[NUM_BYTES:] == pattern(before)).all() and not memory[:NUM_BYTES].any()
    with pytest.raises(Exception, match=r"it has 1, the most allowed.*unimem\.dma_buffers"):
        library.alloc_buf_l(64)
    if comm.size > 1:
        with pytest.raises(ValueError, match="submit_transfer_from_mem"):
            library.get_memory(there)
    comm.Barrier()  # all have seen that nothing else was written to theirs
    # between two buffers: here and there, offsets given
    assert library.wait(library.submit_transfer(mine, there, NUM_BYTES, 5, 77)) is Status.COMPLETED
    comm.Barrier()
    two_before = (comm.rank - 2) % comm.size
    assert (memory[5:82] == pattern(two_before)[:77]).all()
    with pytest.raises(ValueError, match="1 arrays of its memory are alive"):
        library.free_buf(mine)
    del memory
    comm.Barrier()
    library.free_buf(there)
    comm.Barrier()
    with pytest.raises(EngineError, match="or it was freed"):  # by another rank
        library.submit_transfer(mine, mine, 0, 100, 50)


def test_what_is_wrong_is_refused(comm, library, peer):
    from pagewire.native import EngineError

    with pytest.raises(ValueError, match=rf"node = {comm.size}: allowed is 0 to {comm.size - 1}"):
        library.alloc_buf_r(64, comm.size)
    with pytest.raises(EngineError, match="of 0 bytes at node .*: allowed is 1 to 268435456"):
        library.alloc_buf_r(0, peer)
    with pytest.raises(EngineError, match="none of that id"):
        library.get_buf(peer << 48 | 0xFFFF)
    comm.Barrier()
    there = library.alloc_buf_r(64, peer)
    for src_off, size in ((1, 64), (0, 65), (65, 0)):
        with pytest.raises(EngineError, match=r"DMA transfer of \d+ bytes"):
            library.submit_transfer(there, there, src_off, 0, size)
    with pytest.raises(ValueError, match="offset = -1"):
        library.submit_transfer(there, there, -1, 0, 1)
    with pytest.raises(EngineError, match="there is none of that id"):
        library.status(1 << 40)
    library.free_buf(there)
    with pytest.raises(EngineError, match="or it was freed"):
        library.submit_transfer_from_mem(b"x", there)
    with pytest.raises(EngineError, match="none of that id"):
        library.free_buf(there)


def test_callbacks_submit_the_next_transfer(comm, library, peer):
    there = library.alloc_buf_r(64, peer)
    ended = []

    def next_one(id, _status):
        ended.append(id)
        if len(ended) < 5:
            library.submit_transfer_from_mem(bytes([len(ended)]), there, len(ended), next_one)

    first = library.submit_transfer_from_mem(b"\0", there, 0, next_one)
    while len(ended) < 5:
        library.status(first)
    assert ended == sorted(ended)
    back = bytearray(5)
    library.wait(library.submit_transfer_to_mem(there, back))
    assert back == bytes(range(5))
    library.free_buf(there)


def test_transfers_go_on_in_calls_of_mpi(comm, library, peer):
    """Two legs: the second one starts while the rank is in a barrier, not in the library."""
    from pagewire.transport.dma import Status

    there = library.alloc_buf_r(4096, peer)
    library.wait(library.submit_transfer_from_mem(b"abc", there))
    comm.Barrier()
    sent = library.submit_transfer(there, there, 0, 100, 3)
    for _ in range(20):
        comm.Barrier()
    back = bytearray(3)
    assert library.wait(sent) is Status.COMPLETED
    library.wait(library.submit_transfer_to_mem(there, back, 100))
    assert back == b"abc"
    library.free_buf(there)


def test_silent_owner_is_given_up_when_there_is_a_wall_limit(comm, library, tmp_path):
    """The last rank does nothing until the others have given up."""
    from pagewire.native import EngineError
    from pagewire.transport import gsas
    from pagewire.transport.dma import Status

    folder, silent = comm.bcast(str(tmp_path)), comm.size - 1
    mine = library.alloc_buf_l(64)
    theirs = library.get_buf(comm.bcast(mine.id, silent))
    comm.Barrier()
    if comm.rank == silent:
        open(f"{folder}/silent", "w").close()  # in the barrier it still serves
        while not all(os.path.exists(f"{folder}/{rank}") for rank in range(silent)):
            os.sched_yield()
    else:
        while not os.path.exists(f"{folder}/silent"):
            comm.iprobe()  # the barrier may need this rank
        gsas.open().wall_limit_s = 0.1
        sent = library.submit_transfer_from_mem(b"x", theirs)
        assert library.wait(sent) is Status.FAILED
        assert "transfer" in str(library.error(sent))
        with pytest.raises(EngineError, match="its owner has not answered within 0.1 s"):
            library.get_buf(silent << 48 | 99)
        gsas.open().wall_limit_s = None
        open(f"{folder}/{comm.rank}", "w").close()
    comm.Barrier()
    comm.Barrier()
    library.free_buf(mine)
