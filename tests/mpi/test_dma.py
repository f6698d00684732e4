"""User-initiated DMA between ranks, beside MPI traffic."""

import resource

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


def test_pointer_to_a_buffer_of_another_rank_is_its_memory(comm, library, peer):
    """[D3.6 3.1.1]: readable and writable; both see the same bytes, and so does the engine."""
    from pagewire.native import EngineError
    from pagewire.transport.dma import Status

    there = library.alloc_buf_r(NUM_BYTES, peer)
    memory = library.get_memory(there)
    assert memory.size == NUM_BYTES and not memory.any()
    memory[:] = pattern(comm.rank)
    before = (comm.rank - 1) % comm.size
    mine = library.get_buf(comm.sendrecv(there.id, peer, source=before))
    comm.Barrier()
    own = library.get_memory(mine)
    assert (own == pattern(before)).all()
    own[7] = 255
    comm.Barrier()
    expected = pattern(comm.rank)
    expected[7] = 255
    assert (memory == expected).all()
    back = np.zeros(NUM_BYTES, np.uint8)
    assert library.wait(library.submit_transfer_to_mem(there, back)) is Status.COMPLETED
    assert (back == expected).all()
    assert library.wait(library.submit_transfer_from_mem(b"new", there, 7)) is Status.COMPLETED
    assert bytes(memory[7:10]) == b"new"
    del own
    with pytest.raises(ValueError, match="1 arrays of its memory are alive"):
        library.free_buf(there)
    comm.Barrier()
    del memory
    library.free_buf(there)
    with pytest.raises(EngineError, match="none of that handle, or it was freed"):
        library.get_memory(there)


def test_owner_whose_host_shares_no_memory_refuses_the_pointer_alone(comm, library, peer):
    from pagewire.native import EngineError
    from pagewire.transport.dma import Status

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    comm.Barrier()
    there = library.alloc_buf_r(NUM_BYTES, peer)
    comm.Barrier()
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    if comm.size > 1:
        with pytest.raises(EngineError, match=rf"the host of node {peer} gives it no memory"):
            library.get_memory(there)
    assert library.wait(library.submit_transfer_from_mem(b"x", there)) is Status.COMPLETED
    library.free_buf(there)


def test_what_is_wrong_is_refused(comm, library, peer):
    """By Python; what the engine refuses is in tests/c/unimem/test_unimem_dma.c."""
    from pagewire.native import EngineError

    with pytest.raises(ValueError, match=rf"node = {comm.size}: allowed is 0 to {comm.size - 1}"):
        library.alloc_buf_r(64, comm.size)
    with pytest.raises(EngineError, match="none of that id"):
        library.get_buf(peer << 48 | 0xFFFF)
    comm.Barrier()
    there = library.alloc_buf_r(64, peer)
    with pytest.raises(ValueError, match="offset = -1"):
        library.submit_transfer(there, there, -1, 0, 1)
    with pytest.raises(EngineError, match=r"DMA transfer of \d+ bytes"):
        library.submit_transfer(there, there, 1, 0, 64)
    with pytest.raises(EngineError, match="there is none of that id"):
        library.status(1 << 40)
    library.free_buf(there)
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


def test_silent_owner_is_given_up_when_there_is_a_wall_limit(comm, library, last_is_silent):
    from pagewire.native import EngineError
    from pagewire.transport import gsas
    from pagewire.transport.dma import Status

    silent = comm.size - 1
    mine = library.alloc_buf_l(64)
    theirs = library.get_buf(comm.bcast(mine.id, silent))
    with last_is_silent() as may_ask:
        if may_ask:
            gsas.open().wall_limit_s = 0.1
            sent = library.submit_transfer_from_mem(b"x", theirs)
            assert library.wait(sent) is Status.FAILED
            assert "transfer" in str(library.error(sent))
            with pytest.raises(EngineError, match="its owner has not answered within 0.1 s"):
                library.get_buf(silent << 48 | 99)
            gsas.open().wall_limit_s = None
    comm.Barrier()
    comm.Barrier()
    library.free_buf(mine)
