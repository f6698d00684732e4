"""Collectives of buffers, compared with plain mpi4py on the same data."""

import numpy as np
import pytest

from pagewire.transport import MPI

pytestmark = pytest.mark.mpi

COUNTS = [0, 1, 7, 1000, 5000]


@pytest.fixture
def compare(comm, plain):
    """Call on both and compare every array, also those that must not change."""

    def run(name, *arguments):
        def copies():
            return [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]

        ours, theirs = copies(), copies()
        getattr(comm, name)(*ours)
        plain(name, *theirs)
        for one, other in zip(ours, theirs, strict=True):
            if isinstance(one, np.ndarray):
                assert (one == other).all(), (name, one, other)

    return run


@pytest.mark.parametrize("count", COUNTS)
def test_rooted(comm, compare, count):
    mine = np.arange(count) + 100 * comm.rank
    whole = np.arange(count * comm.size) + comm.rank
    for root in range(comm.size):
        compare("Bcast", mine, root)
        compare("Gather", mine, np.zeros_like(whole), root)
        compare("Scatter", whole, np.zeros(count, int), root)
        compare("Reduce", mine, np.zeros(count, int), MPI.SUM, root)
        own = comm.rank == root
        compare("Gather", MPI.IN_PLACE if own else mine, whole, root)
        compare("Scatter", whole, MPI.IN_PLACE if own else np.zeros(count, int), root)
        compare("Reduce", MPI.IN_PLACE if own else mine, mine, MPI.SUM, root)
    comm.Barrier()


@pytest.mark.parametrize("count", COUNTS)
def test_to_all(comm, compare, count):
    mine = np.arange(count) + 100 * comm.rank
    whole = np.arange(count * comm.size) + 7 * comm.rank
    nothing = np.zeros(count, int)
    compare("Allgather", mine, np.zeros_like(whole))
    compare("Alltoall", whole, np.zeros_like(whole))
    compare("Allgather", MPI.IN_PLACE, whole)
    compare("Alltoall", MPI.IN_PLACE, whole)
    for op in (MPI.SUM, MPI.MAX, MPI.BXOR):
        compare("Allreduce", mine, nothing, op)
        compare("Scan", mine, nothing, op)
        compare("Exscan", mine, nothing, op)
    for name in ("Allreduce", "Scan", "Exscan"):
        compare(name, MPI.IN_PLACE, mine)


@pytest.mark.parametrize("count", [0, 3, 5000])
def test_of_different_lengths(comm, plain, count):
    size, rank = comm.size, comm.rank
    counts = [(i + 1) * count // 2 for i in range(size)]
    places = [sum(counts[:i]) + i for i in range(size)]
    mine = np.arange(counts[rank]) + rank
    total = sum(counts) + size

    def both(name, make):
        results = []
        for call in (getattr(comm, name), lambda *arguments: plain(name, *arguments)):
            array, arguments = make()
            call(*arguments)
            results.append(array)
        assert (results[0] == results[1]).all(), name

    for root in range(size):

        def gatherv():
            array = np.zeros(total, int)
            return array, (mine, [array, counts, places, MPI.LONG], root)

        def scatterv():
            array = np.zeros(counts[rank], int)
            return array, ([np.arange(total) + rank, (counts, places)], array, root)

        both("Gatherv", gatherv)
        both("Scatterv", scatterv)

    def allgatherv():
        array = np.zeros(total, int)
        return array, (mine, [array, (counts, places)])

    def alltoallv():
        array = np.zeros(size * counts[rank], int)
        return array, ([np.arange(total) + rank, (counts, places)], [array, [counts[rank]] * size])

    both("Allgatherv", allgatherv)
    both("Alltoallv", alltoallv)


@pytest.mark.parametrize("count", [0, 1, 50, 700])
def test_operations_that_do_not_commute_go_in_rank_order(comm, plain, count):
    def multiply(lower, higher, datatype):
        lower = np.frombuffer(lower).reshape(-1, 2, 2)
        higher = np.frombuffer(higher).reshape(-1, 2, 2)
        higher[:] = lower @ higher

    op = MPI.Op.Create(multiply, commute=False)
    matrix = MPI.DOUBLE.Create_contiguous(4).Commit()
    mine = np.random.default_rng(comm.rank).integers(0, 3, (count, 2, 2)).astype(float)
    calls = [(name, ()) for name in ("Allreduce", "Scan", "Exscan")]
    calls += [("Reduce", (root,)) for root in range(comm.size)]
    for name, root in calls:
        ours, theirs = np.zeros_like(mine), np.zeros_like(mine)
        getattr(comm, name)([mine, count, matrix], [ours, count, matrix], op, *root)
        plain(name, [mine, count, matrix], [theirs, count, matrix], op, *root)
        assert (ours == theirs).all(), name
    matrix.Free()
    op.Free()


@pytest.mark.parametrize("op", [MPI.MINLOC, MPI.MAXLOC])
@pytest.mark.parametrize("count", [1, 1000])
def test_pairs_of_value_and_place(comm, plain, op, count):
    kind = np.dtype([("value", "f8"), ("place", "i4")], align=True)
    mine, ours, theirs = (np.zeros(count, kind) for _ in range(3))
    mine["value"] = np.random.default_rng(comm.rank).integers(0, 5, count)
    mine["place"] = comm.rank
    comm.Allreduce([mine, MPI.DOUBLE_INT], [ours, MPI.DOUBLE_INT], op)
    plain("Allreduce", [mine, MPI.DOUBLE_INT], [theirs, MPI.DOUBLE_INT], op)
    assert (ours == theirs).all()


def test_sums_have_the_same_bits_on_every_rank_and_run(comm):
    mine = np.random.default_rng(comm.rank).random(5000)
    results = []
    for _ in range(3):
        total = np.empty_like(mine)
        comm.Allreduce(mine, total)
        results += comm.allgather(total.tobytes())
    assert len(set(results)) == 1


def test_a_rendezvous_under_way_does_not_block_other_collectives(comm):
    """Those left to MPI begin when every rank is there, so all NIs have been served."""
    dest, source = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    request = comm.Isend(np.ones(50_000), dest)
    received = np.zeros(50_000)
    if comm.rank % 2:
        comm.Recv(received, source)
    else:
        pending = comm.Irecv(received, source)
    total = np.zeros(1)
    comm.Reduce_scatter_block(np.ones(comm.size), total)
    assert total[0] == comm.size
    if comm.rank % 2 == 0:
        pending.Wait()
    request.Wait()
    assert (received == 1).all()


@pytest.mark.parametrize("count", [2, 5000])
def test_mismatched_operands_are_refused(comm, count):
    with pytest.raises(ValueError, match="mismatch in send count"):
        comm.Allreduce(np.ones(count), np.ones(count - 1))
    with pytest.raises(ValueError, match="datatypes"):
        comm.Allreduce(np.ones(count), np.ones(count, "f4"))
