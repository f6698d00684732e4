"""What goes around the NI is counted by name and bytes, and does what it does in plain mpi4py."""

import threading

import numpy as np
import pytest

from pagewire.transport import MPI
from pagewire.transport.facade.patching import native

pytestmark = pytest.mark.mpi

NONE = (0, 0, 0, 0)


def count_of(node, name):
    count = node.counters()["mpi_calls"].get(name)
    return NONE if count is None else tuple(count.values())


@pytest.fixture
def counted(node):
    """How the counts of a call change while a function runs."""

    def during(name, function):
        before = count_of(node, name)
        function()
        return tuple(now - then for now, then in zip(count_of(node, name), before, strict=True))

    return during


def test_collectives_left_to_mpi(comm, counted):
    size = comm.Get_size()
    data, result = np.ones(3 * size), np.zeros(3 * size)
    each = np.zeros(3)
    num_bytes = data.nbytes
    for name, call in {
        "Ialltoall": lambda: comm.Ialltoall(data, result).Wait(),
        "Iallreduce": lambda: comm.Iallreduce(data, result).Wait(),
        "Ibcast": lambda: comm.Ibcast(buf=data).Wait(),
        "Ialltoallv": lambda: comm.Ialltoallv([data, [3] * size], [result, [3] * size]).Wait(),
        "Ireduce_scatter_block": lambda: comm.Ireduce_scatter_block(data, each).Wait(),
        "Iscan": lambda: comm.Iscan(data, result).Wait(),
    }.items():
        assert counted(name, call) == (1, 0, 1, num_bytes), name
    assert counted("Ibarrier", lambda: comm.Ibarrier().Wait()) == (1, 0, 1, 0)
    in_place = counted("Iallreduce", lambda: comm.Iallreduce(MPI.IN_PLACE, result).Wait())
    assert in_place == (1, 0, 1, num_bytes)


def test_neighbourhood_left_to_mpi(comm, counted):
    ring = comm.Create_cart([comm.Get_size()], periods=[True])
    data, result = np.arange(8.0), np.zeros(8)
    call = lambda: ring.Neighbor_alltoall(data, result)
    assert counted("Neighbor_alltoall", call) == (1, 64, 0, 0)
    call = lambda: ring.Ineighbor_alltoall(data, result).Wait()
    assert counted("Ineighbor_alltoall", call) == (1, 0, 1, 64)
    ring.Free()


def test_broadcast_between_groups_is_mpis_own_and_right(comm, counted):
    size, rank = comm.Get_size(), comm.Get_rank()
    if size < 2:
        pytest.skip("needs a second group")
    color = int(rank >= size // 2)
    group = comm.Split(color, rank)
    between = group.Create_intercomm(0, comm, 0 if color else size // 2, 0)
    for sender in (0, 1):
        for root in range(between.Get_size() if color == sender else between.Get_remote_size()):
            data = np.full(root + sender, root if color == sender else -1, "i")
            where = root
            if color == sender:
                where = MPI.ROOT if root == between.Get_rank() else MPI.PROC_NULL
            call = lambda data=data, where=where: between.Bcast(data, where)
            assert counted("Bcast", call)[::2] == (1, 1)
            assert (data == root).all()
    between.Free()
    group.Free()


def test_windows_are_mpis_own(comm, counted):
    memory = np.zeros(10)
    window = MPI.Win.Create(memory, comm=comm)
    right = (comm.Get_rank() + 1) % comm.Get_size()
    assert counted("Win.Fence", window.Fence) == (1, 0, 1, 0)
    assert counted("Win.Put", lambda: window.Put(np.ones(5), right)) == (1, 0, 1, 40)
    window.Fence()
    assert (memory[:5] == 1).all() and not memory[5:].any()
    assert counted("Win.Get", lambda: window.Get(np.ones(2), right)) == (1, 0, 1, 16)
    window.Fence()
    assert counted("Win.Free", window.Free) == (1, 0, 0, 0)


def test_files_are_mpis_own(comm, counted, tmp_path):
    path = comm.bcast(str(tmp_path / "file"))
    file = MPI.File.Open(comm, path, MPI.MODE_CREATE | MPI.MODE_RDWR)
    at = 80 * comm.Get_rank()
    assert counted("File.Write_at", lambda: file.Write_at(at, np.ones(10))) == (1, 0, 1, 80)
    assert counted("File.Write_at_all", lambda: file.Write_at_all(at, np.ones(10)))[2:] == (1, 80)
    back = np.zeros(10)
    assert counted("File.Read_at", lambda: file.Read_at(at, buf=back)) == (1, 0, 1, 80)
    assert back.all()
    file.Close()


def test_calls_that_are_carried_count_the_bytes_that_they_sent(comm, counted):
    rank, size = comm.Get_rank(), comm.Get_size()
    right, left = (rank + 1) % size, (rank - 1) % size
    data, result = np.ones(1000), np.zeros(1000)
    call = lambda: comm.Sendrecv(data, right, 0, result, left, 0)
    assert counted("Sendrecv", call) == (1, 8000, 0, 0)
    requests = []
    call = lambda: requests.append(comm.Isend(data, right))
    assert counted("Isend", call) == (1, 8000, 0, 0)
    assert counted("Recv", lambda: comm.Recv(result, left)) == (1, 0, 0, 0)
    requests[0].Wait()
    call = lambda: comm.Alltoall(np.ones(4 * size), np.ones(4 * size))
    assert counted("Alltoall", call) == (1, 32 * (size - 1), 0, 0)
    assert counted("Dup", lambda: comm.Dup().Free()) == (1, 0, 0, 0)


def test_point_to_point_without_state_goes_around(comm, counted):
    other, request = native(MPI.Comm, "Idup")(comm)
    request.Wait()
    rank = comm.Get_rank()
    requests = []
    call = lambda: requests.append(other.Isend(np.ones(3), rank))
    assert counted("Isend", call) == (1, 0, 1, 24)
    assert counted("Recv", lambda: other.Recv(np.zeros(3), rank)) == (1, 0, 1, 0)
    assert counted("Send", lambda: other.Send(np.ones(3), MPI.PROC_NULL)) == (1, 0, 0, 0)
    requests[0].Wait()
    other.Free()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("send", (1, MPI.PROC_NULL)),
        ("issend", (1, MPI.PROC_NULL)),
        ("irecv", (None, MPI.PROC_NULL)),
        ("Ibsend", (b"abc", MPI.PROC_NULL)),
        ("Send_init", (b"abc", MPI.PROC_NULL)),
        ("Recv_init", (bytearray(3), MPI.PROC_NULL)),
    ],
)
def test_a_call_to_nobody_without_state_is_not_one_around_the_ni(comm, counted, name, arguments):
    other, request = native(MPI.Comm, "Idup")(comm)
    request.Wait()
    made = []
    call = lambda: made.append(getattr(other, name)(*arguments))
    assert counted(name, call) == (1, 0, 0, 0)
    for each in filter(None, made):
        each.Free() if isinstance(each, MPI.Prequest) else each.Wait()
    other.Free()


def test_native_names_keep_their_documentation():
    assert "Nonblocking All to All" in MPI.Comm.Ialltoall.__doc__
    assert MPI.Win.Put.__doc__


def test_a_rank_that_waits_in_an_epoch_still_serves_its_ni(comm):
    """The sends of a rank inside of Start and Wait go on: its peers come there only after them."""
    count = 50_000
    pair = comm.Split(comm.rank // 2, comm.rank)
    if pair.size < 2:
        pair.Free()
        return
    memory = np.zeros(8, np.uint8)
    window = MPI.Win.Create(memory, 1, comm=pair)
    is_first = pair.rank == 0
    other = pair.group.Incl([1 - pair.rank])
    received = np.zeros(count)
    for _ in range(3):
        if is_first:
            request = pair.Isend(np.arange(count, dtype=float), 1, 5)
            window.Start(other)  # the other posts when it has the message
            window.Put([np.full(8, 7, np.uint8), MPI.BYTE], 1)
            request_too = pair.Isend(np.arange(count, dtype=float), 1, 6)
            window.Complete()
            window.Post(other)
            window.Wait()  # the other starts and completes when it has the second one
            MPI.Request.Waitall([request, request_too])
        else:
            threading.Event().wait(0.2)  # of this host: the first is inside of its call by then
            pair.Recv(received, 0, 5)
            window.Post(other)
            window.Wait()
            window.Start(other)
            threading.Event().wait(0.2)
            pair.Recv(received, 0, 6)
            window.Complete()
            assert (received == np.arange(count)).all()
            assert (memory == 7).all()
    window.Free()
    pair.Free()
