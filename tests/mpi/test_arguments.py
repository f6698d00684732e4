"""Ranks, tags and roots that are not ints: what mpi4py takes, and what it refuses."""

import decimal

import numpy as np
import pytest

from pagewire.transport import MPI

pytestmark = pytest.mark.mpi


class Truncating:
    def __int__(self):
        return 0


class IndexOnly:
    def __index__(self):
        return 0


def test_half_of_the_size_is_a_rank(comm):
    rank, size = comm.Get_rank(), comm.Get_size()
    half = size / 2
    requests = [comm.Isend(np.full(100, rank), half % size, 1.0)]
    if rank == int(half) % size:
        received = np.zeros(100, int)
        for source in range(size):
            comm.Recv(received, float(source), np.float64(1))
            assert (received == source).all()
    MPI.Request.Waitall(requests)


def test_float_root_in_every_rooted_collective(comm):
    rank, size = comm.Get_rank(), comm.Get_size()
    root = (size - 1) * 1.0
    data = np.full(4, rank)
    comm.Bcast(data, root)
    assert (data == size - 1).all()
    total = np.zeros(1, int)
    comm.Reduce(np.array([rank]), total, MPI.SUM, root)
    assert rank != size - 1 or total[0] == size * (size - 1) // 2
    assert comm.bcast(rank, root) == size - 1
    assert comm.gather(rank, root) == (list(range(size)) if rank == size - 1 else None)
    assert comm.scatter([7] * size, root) == 7


def test_float_arguments_of_objects_probes_and_persistent_calls(comm):
    rank = comm.Get_rank() * 1.0
    request = comm.isend("one", rank, 2.0)
    while not comm.Iprobe(rank, 2.0):  # its arrival may lie ahead of the CPU's clock
        pass
    assert comm.recv(None, rank, 2.0) == "one"
    request.wait()
    assert comm.sendrecv("two", rank, 3.0, None, rank, 3.0) == "two"
    received = np.zeros(1000)
    receiving = comm.Recv_init(received, rank, 4.0)
    sending = comm.Send_init(np.ones(1000), rank, 4.0)
    MPI.Prequest.Startall([receiving, sending])
    MPI.Request.Waitall([receiving, sending])
    assert received.all()
    receiving.Free()
    sending.Free()


def take(comm, rank):
    request = comm.Isend(b"x", rank)
    buffer = bytearray(1)
    comm.Recv(buffer, rank)
    request.Wait()
    return buffer == b"x"


@pytest.mark.parametrize(
    "zero", [0.0, 0.9, -0.5, np.float32(0.2), np.array(0.5), decimal.Decimal("0.5"), Truncating()]
)
def test_what_has_an_int_is_cut_to_it(zero):
    assert take(MPI.COMM_SELF, zero)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("0", TypeError), (None, TypeError), (1j, TypeError), (IndexOnly(), TypeError),
        (float("nan"), ValueError), (float("inf"), OverflowError), (2**31, OverflowError),
        (-(2**31) - 1, OverflowError), (1e10, OverflowError),
    ],
)  # fmt: skip
def test_other_values_raise_what_mpi4py_raises(plain, comm, value, error):
    for call in (
        lambda name, *rest: plain(name, b"x", value, *rest),
        lambda name, *rest: getattr(comm, name)(b"x", value, *rest),
    ):
        for name in ("Send", "Isend", "Ssend"):
            with pytest.raises(error):
                call(name)
