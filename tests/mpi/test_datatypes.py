"""Derived datatypes, compared with what plain mpi4py does with the same memory."""

import numpy as np
import pytest

from pagewire.transport import MPI

pytestmark = pytest.mark.mpi


def vector():
    return MPI.INT.Create_vector(5, 2, 4)


def indexed():
    return MPI.INT.Create_indexed([3, 1, 2], [4, 0, 9])


def indexed_block():
    return MPI.INT.Create_indexed_block(2, [6, 0, 3])


def struct():
    return MPI.Datatype.Create_struct([1, 3, 2], [0, 8, 40], [MPI.DOUBLE, MPI.INT, MPI.CHAR])


def subarray():
    return MPI.INT.Create_subarray([4, 5], [2, 3], [1, 1])


def resized():
    return MPI.INT.Create_vector(3, 1, 1000).Create_resized(0, 4)


def negative_lower_bound():
    return MPI.INT.Create_hindexed([1, 2], [-8, 4])


def contiguous():
    return MPI.INT.Create_contiguous(7)


def hvector_of_vectors():
    return MPI.INT.Create_vector(2, 1, 2).Create_hvector(3, 1, 24)


TYPES = [
    vector, indexed, indexed_block, struct, subarray, resized, negative_lower_bound, contiguous,
    hvector_of_vectors,
]  # fmt: skip


def memory(fill):
    array = np.empty(40_000, "i4")
    array[:] = np.arange(len(array)) if fill is None else fill
    return array


def at(array, count, datatype):
    """A specification that starts inside the array, for types that reach below their address."""
    return [MPI.buffer.fromaddress(array.ctypes.data + 400, 4), count, datatype]


@pytest.mark.parametrize("make", TYPES)
@pytest.mark.parametrize("count", [0, 1, 3, 400])
def test_selected_bytes_arrive_and_holes_are_not_touched(comm, plain, make, count):
    datatype = make().Commit()
    dest, source = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    sent, received, expected = memory(None), memory(-1), memory(-1)
    comm.Sendrecv(at(sent, count, datatype), dest, 0, at(received, count, datatype), source, 0)
    plain("Sendrecv", at(sent, count, datatype), dest, 0, at(expected, count, datatype), source, 0)
    assert (received == expected).all()
    received[:] = -1
    requests = [
        comm.Irecv(at(received, count, datatype), source, 1),
        comm.Isend(at(sent, count, datatype), dest, 1),
    ]
    datatype.Free()  # allowed while operations are pending
    MPI.Request.Waitall(requests)
    assert (received == expected).all()


@pytest.mark.parametrize("num_sent", [1, 3, 4, 11, 25])
def test_a_shorter_message_fills_part_of_an_element(comm, plain, num_sent):
    datatype = vector().Commit()
    dest, source = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    received, expected = memory(-1), memory(-1)
    values = np.arange(num_sent, dtype="i4")
    status = MPI.Status()
    comm.Sendrecv(values, dest, 0, at(received, 3, datatype), source, 0, status)
    plain("Sendrecv", values, dest, 0, at(expected, 3, datatype), source, 0)
    assert (received == expected).all()
    assert status.Get_elements(datatype) == num_sent
    datatype.Free()


def test_absolute_addresses(comm):
    dest, source = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    arrays = [np.arange(5, dtype="i4") + i for i in range(2)] + [
        np.zeros(5, "i4") for _ in range(2)
    ]
    types = [
        MPI.INT.Create_hindexed([5, 5], [MPI.Get_address(array) for array in pair]).Commit()
        for pair in (arrays[:2], arrays[2:])
    ]
    comm.Sendrecv([MPI.BOTTOM, 1, types[0]], dest, 0, [MPI.BOTTOM, 1, types[1]], source, 0)
    assert (arrays[2] == arrays[0]).all() and (arrays[3] == arrays[1]).all()
    for datatype in types:
        datatype.Free()


@pytest.mark.parametrize("make", TYPES)
def test_collectives_of_derived_types(comm, plain, make):
    datatype = make().Commit()
    size = comm.size
    sent = memory(None) + comm.rank
    for name, count in (
        ("Bcast", 3),
        ("Gather", 2),
        ("Scatter", 2),
        ("Allgather", 2),
        ("Alltoall", 2),
    ):
        results = []
        for call in (lambda *args: getattr(comm, name)(*args), lambda *args: plain(name, *args)):
            received = memory(-1)
            if name == "Bcast":
                received[:] = sent
                call(at(received, count, datatype), size - 1)
            else:
                arguments = [at(sent, count, datatype), at(received, count, datatype)]
                if name in ("Gather", "Scatter"):
                    arguments.append(size - 1)
                call(*arguments)
            results.append(received)
        assert (results[0] == results[1]).all(), name
    datatype.Free()
