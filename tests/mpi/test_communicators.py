"""Communicators: made and freed while messages are under way; state follows each of them."""

import sys

import numpy as np
import pytest

from pagewire.transport import MPI
from pagewire.transport.facade.rank import here

pytestmark = pytest.mark.mpi


def check(comm):
    """A round of messages, which must go through our own channels."""
    assert comm.handle in here.states
    dest, source = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for count in (1, 5000):
        received = np.empty(count, int)
        comm.Sendrecv(np.full(count, comm.rank), dest, 0, received, source, 0)
        assert (received == source).all()
    assert comm.allgather(comm.rank) == list(range(comm.size))


def idup(comm, name="Idup", *args):
    made, request = getattr(comm, name)(*args)
    request.Wait()
    return made


@pytest.mark.parametrize(
    "make",
    [
        lambda comm: comm.Dup(),
        lambda comm: comm.Clone(),
        lambda comm: comm.Dup_with_info(MPI.INFO_NULL),
        lambda comm: comm.Split(comm.rank % 2, -comm.rank),
        lambda comm: comm.Split_type(MPI.COMM_TYPE_SHARED),
        lambda comm: comm.Create(comm.group),
        lambda comm: comm.Create_cart([comm.size], [True]),
        lambda comm: comm.Create_cart([comm.size, 1], reorder=True).Sub([True, False]),
        lambda comm: (
            comm.Create_graph([comm.size], [0] * comm.size) if comm.size == 1 else comm.Dup()
        ),
        lambda comm: comm.Create_dist_graph_adjacent([comm.rank], [comm.rank]),
        lambda comm: comm.Create_group(comm.group),
        idup,
        lambda comm: idup(comm, "Idup_with_info", MPI.INFO_NULL),
        lambda comm: idup(idup(comm)),
    ],
)
def test_made_communicators_carry_messages(comm, make):
    with_messages_under_way = [
        comm.Isend(np.ones(5000), (comm.rank + 1) % comm.size, 99),
        comm.Irecv(np.ones(5000), (comm.rank - 1) % comm.size, 99),
    ]
    made = make(comm)
    check(made)
    handle = made.handle
    made.Free()
    assert handle not in here.states
    MPI.Request.Waitall(with_messages_under_way)


def test_a_pending_rendezvous_does_not_block_dup(comm):
    """The receiver needs the sender's NI to finish, while the sender is in Dup already."""
    if comm.rank == 0 and comm.size > 1:
        request = comm.Isend(np.arange(100_000), 1, 1)
        duplicate = comm.Dup()
        request.Wait()
    else:
        if comm.rank == 1:
            received = np.empty(100_000, int)
            comm.Recv(received, 0, 1)
            assert (received == np.arange(100_000)).all()
        duplicate = comm.Dup()
    duplicate.Free()


def test_a_pending_rendezvous_does_not_block_a_window_of_what_idup_made(comm):
    if comm.size == 1:
        return
    made = idup(comm)
    if comm.rank == 0:
        request = comm.Isend(np.arange(100_000), 1, 1)
        window = MPI.Win.Allocate(8, comm=made)
        request.Wait()
    else:
        if comm.rank == 1:
            received = np.empty(100_000, int)
            comm.Recv(received, 0, 1)
            assert (received == np.arange(100_000)).all()
        window = MPI.Win.Allocate(8, comm=made)
    window.Free()
    made.Free()


def test_idup_waits_for_nobody_and_copies_attributes_once(comm):
    copies = []
    keyval = MPI.Comm.Create_keyval(copy_fn=lambda *_: copies.append(0) or 1)
    comm.Set_attr(keyval, 1)
    made, request = comm.Idup()
    comm.Sendrecv(np.ones(5000), (comm.rank + 1) % comm.size, 0, np.ones(5000))
    request.Wait()
    assert len(copies) == 1
    comm.Delete_attr(keyval)
    MPI.Comm.Free_keyval(keyval)
    made.Free()


def test_excluded_ranks_get_no_communicator(comm):
    part = comm.Split(0 if comm.rank == 0 else MPI.UNDEFINED)
    assert (part == MPI.COMM_NULL) == (comm.rank != 0)
    if comm.rank == 0:
        check(part)
        part.Free()


def test_handles_are_used_again(comm):
    for _ in range(50):
        duplicate = comm.Dup()
        duplicate.Isend(np.ones(1), duplicate.rank).Wait()
        duplicate.Recv(np.ones(1), duplicate.rank)
        duplicate.Free()
        assert duplicate == MPI.COMM_NULL


def test_attributes_are_copied_once_per_duplicate(comm):
    copies = []
    keyval = MPI.Comm.Create_keyval(copy_fn=lambda comm, key, value: copies.append(value) or value)
    comm.Set_attr(keyval, 7)
    duplicate = comm.Dup()
    assert duplicate.Get_attr(keyval) == 7 and copies == [7]
    duplicate.Free()
    comm.Delete_attr(keyval)
    MPI.Comm.Free_keyval(keyval)


def test_intercommunicators_are_mpis_own(comm):
    if comm.size == 1:
        pytest.skip("needs two groups")
    half = comm.Split(comm.rank % 2)
    inter = half.Create_intercomm(0, comm, 1 - comm.rank % 2)
    assert inter.handle not in here.states
    if half.rank == 0:
        received = np.zeros(5000)
        request = inter.Isend(np.ones(5000), 0)
        inter.Recv(received, 0)
        request.Wait()
        assert (received == 1).all()
        assert inter.sendrecv(half.rank, 0, 1, None, 0, 1) == 0
    merged = inter.Merge()
    check(merged)
    for made in (merged, inter, half):
        made.Free()


CHILD = """
import numpy as np
from mpi4py import MPI

parent = MPI.Comm.Get_parent()
parent.Barrier()
word = np.zeros(1, int)
parent.Bcast(word, 0)
assert parent.allgather("child") == ["parent"] * parent.Get_remote_size()
merged = parent.Merge(True)
total = np.zeros(1, int)
merged.Allreduce(word, total)
assert word[0] == 7 and total[0] == 7 * merged.size
merged.Free()
parent.Barrier()
parent.Disconnect()
"""


def test_collectives_with_spawned_processes_which_run_plain_mpi(comm, tmp_path_factory):
    """Those make the blocking calls, which non-blocking ones do not meet; meanwhile a send of a
    rank that comes later must go through."""
    script = None
    if comm.rank == 0:
        script = tmp_path_factory.mktemp("spawned") / "child.py"
        script.write_text(CHILD)
    script = comm.bcast(script)
    spawned = comm.Spawn(sys.executable, ["-P", str(script)], 2)
    request = comm.Isend(np.ones(5000), (comm.rank + 1) % comm.size, 3)
    if comm.rank:
        comm.Recv(np.empty(5000), (comm.rank - 1) % comm.size, 3)
    spawned.Barrier()
    if comm.rank == 0:
        comm.Recv(np.empty(5000), (comm.rank - 1) % comm.size, 3)
    spawned.Bcast(np.array([7]), MPI.ROOT if comm.rank == 0 else MPI.PROC_NULL)
    assert spawned.allgather("parent") == ["child"] * 2
    merged = spawned.Merge(False)
    total = np.zeros(1, int)
    merged.Allreduce(np.array([7]), total)
    assert total[0] == 7 * (comm.size + 2)
    merged.Free()
    request.Wait()
    spawned.Barrier()
    spawned.Disconnect()


def test_windows_and_files_while_a_send_is_pending(comm, tmp_path_factory):
    request = comm.Isend(np.ones(5000), (comm.rank + 1) % comm.size, 3)
    window = MPI.Win.Allocate(64, comm=comm)
    received = np.zeros(5000)
    comm.Recv(received, (comm.rank - 1) % comm.size, 3)
    window.Free()
    request.Wait()
    assert (received == 1).all()


def test_methods_keep_their_documentation_and_signature():
    import inspect

    assert MPI.Comm.Send.__name__ == "Send" and "Blocking send" in MPI.Comm.Send.__doc__
    assert list(inspect.signature(MPI.Comm.Send).parameters) == ["self", "buf", "dest", "tag"]
    assert type(MPI.Request.__dict__["Waitall"]) is classmethod
    assert MPI.Request.Waitall([]) is True
