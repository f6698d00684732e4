"""Memory that ranks share, beside MPI traffic."""

import os
import random
import sys
import threading

import numpy as np
import pytest
from linearizability import Done, is_linearizable

pytestmark = pytest.mark.mpi


@pytest.fixture
def memory():
    from pagewire.transport import gsas

    return gsas.open()


@pytest.fixture
def pages(comm, memory):
    """A page of each rank, by rank; freed when no rank uses them any more."""
    mine = memory.alloc()
    yield comm.allgather(mine)
    comm.Barrier()
    memory.free(mine)


def test_ranks_count_together(comm, memory, pages):
    assert (memory.num_nodes, memory.node) == (comm.size, comm.rank)
    for page in pages:
        for _ in range(10):
            memory.faa(page, 1)
    comm.Barrier()
    assert [memory.read64(page) for page in pages] == [10 * comm.size] * comm.size


def test_ranks_pass_a_token_and_messages_of_mpi(comm, memory, pages):
    """Whose turn it is stands in rank 0's page; data goes by MPI."""
    data = np.zeros(50_000)
    while memory.read64(pages[0]) != comm.rank:
        memory.compute(2_000)
    if comm.rank:
        comm.Recv(data, comm.rank - 1)
    data += 1
    memory.write64(pages[0], comm.rank + 1)
    if comm.rank + 1 < comm.size:
        comm.Send(data, comm.rank + 1)
    assert data[0] == data[-1] == comm.rank + 1


def test_histories_of_ranks_are_linearizable(comm, memory, pages):
    """Two words of one page, alone and both at once."""
    draw = random.Random(comm.rank)
    history = []
    num_arguments = {"read64": 0, "read32": 0, "cas": 2, "write128": 2}
    for _ in range(30):
        kind = draw.choice((*num_arguments, "write64", "write8", "swap", "faa"))
        offset = 0 if kind == "write128" else draw.choice((0, 8))
        arguments = tuple(draw.randrange(3) for _ in range(num_arguments.get(kind, 1)))
        called_ns = memory.now_ns
        result = int(getattr(memory, kind)(pages[0] + offset, *arguments) or 0)
        history.append(Done(0, kind, offset, arguments, result, called_ns, memory.now_ns))
        memory.compute(draw.randrange(5_000))
    everybody = comm.gather(history)
    if comm.rank == 0:
        assert is_linearizable([done for each in everybody for done in each], 16)


def test_messages_of_64_bits_go_round(comm, memory):
    from pagewire.unimem.kernel_mailbox import message

    mailbox, calls = memory.messages, []
    mailbox.act("r", 4)
    mailbox.register(5, lambda source, value, time_ns: calls.append((source, value)))
    comm.Barrier()
    to, come_from = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    start_ns = memory.now_ns
    mailbox.device(to).write(message(5, comm.rank))
    mailbox.device(to).write(message(4, comm.rank))
    os.write(mailbox.device(to).fileno(), message(4, 100 + comm.rank).to_bytes(8, "little"))
    memory.in_order()
    device = mailbox.device(come_from)
    assert [device.read(), device.read()] == [message(4, come_from), message(4, 100 + come_from)]
    assert memory.now_ns > start_ns + 1_000 and calls == [(come_from, message(5, come_from))]
    comm.Barrier()
    mailbox.act("u", 4)
    mailbox.unregister(5)


def count_together(thread):
    """A remote fork's: its argument is the page to count in."""
    for _ in range(5):
        before = thread.faa(thread.argument, 1)
        thread.compute(1_000)
    assert before < 5 * thread.num_nodes
    thread.write64(thread.argument + 8 * (thread.node + 1), thread.id)


def fail_at_once(thread):
    raise KeyError(thread.argument)


def test_remote_fork_starts_a_thread_in_the_process_of_the_rank(comm, memory, pages):
    ids = [memory.fork(count_together, pages[comm.rank], node=rank) for rank in range(comm.size)]
    assert [each >> 8 for each in ids] == list(range(comm.size))
    start_ns = memory.now_ns
    comm.Barrier()  # all have forked
    memory.join()
    comm.Barrier()  # all threads are over
    assert memory.now_ns > start_ns
    found = memory.read_array(pages[comm.rank]).view("u8")[: comm.size + 1].tolist()
    assert found == [5 * comm.size, *ids]
    comm.Barrier()


PROGRAM = f"""#!{sys.executable}
from pagewire.native import ffi, lib
memory, argument = ffi.new("unimem **"), ffi.new("uint64_t *")
assert lib.unimem_forked(memory, argument) == 0
assert lib.unimem_write64(memory[0], argument[0], lib.unimem_id(memory[0])) == 0
print("argument", argument[0])
"""


def test_remote_fork_starts_an_executable_file_at_the_rank(
    comm, memory, pages, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    file, peer = tmp_path / "program", (comm.rank + 1) % comm.size
    file.write_text(PROGRAM)
    file.chmod(0o755)
    comm.Barrier()  # all are in their folder
    child = memory.fork(file, pages[comm.rank], node=peer)
    forked = comm.sendrecv((child, pages[comm.rank]), peer, source=(comm.rank - 1) % comm.size)
    memory.join()
    comm.Barrier()
    assert memory.read64(pages[comm.rank]) == child
    assert (tmp_path / f"exec-{forked[0]}-stdout.log").read_text() == f"argument {forked[1]}\n"
    comm.Barrier()


def test_fork_of_what_the_rank_does_not_have_is_refused(comm, memory):
    from pagewire.transport.gsas import GsasError, Refusal

    with pytest.raises(GsasError, match="cannot start it") as caught:
        memory._fork("no.such:thing", 0, (comm.rank + 1) % comm.size)
    assert caught.value.refusal is Refusal.NO_FORK
    comm.Barrier()


def test_error_of_a_forked_thread_is_told_by_join(comm, memory, monkeypatch):
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    comm.Barrier()  # everywhere, before the first thread fails
    memory.fork(fail_at_once, 7, node=(comm.rank + 1) % comm.size)
    comm.Barrier()
    with pytest.raises(KeyError, match="7"):
        memory.join()
    memory.join()  # once
    comm.Barrier()


def test_view_is_the_ranks_own_memory(comm, memory):
    from pagewire.transport.gsas import GsasError

    mine = memory.alloc(3)
    theirs = comm.sendrecv(mine, (comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size)
    view = memory.view(mine + 4096)
    comm.Barrier()
    memory.write64(theirs + 4104, 77 + comm.rank)
    comm.Barrier()
    assert view.view("u8")[1] == 77 + (comm.rank + 1) % comm.size
    if comm.size > 1:
        with pytest.raises(GsasError, match="view of 0x"):
            memory.view(theirs)
    comm.Barrier()
    memory.free(mine)


def test_silent_owner_is_given_up_when_there_is_a_wall_limit(comm, memory, pages, last_is_silent):
    from pagewire.transport.gsas import GsasError, Refusal

    silent = comm.size - 1
    with last_is_silent() as may_ask:
        if may_ask:
            memory.wall_limit_s = 0.1
            said = rf"of node {silent} within 0.1 s of wall"
            with pytest.raises(GsasError, match=said) as caught:
                memory.read64(pages[silent])
            assert caught.value.refusal is Refusal.NO_ANSWER
            memory.wall_limit_s = None
    comm.Barrier()
    assert memory.faa(pages[silent], 1) < comm.size  # by an interface of its own again
    comm.Barrier()
