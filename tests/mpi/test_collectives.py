"""Collectives of buffers, compared with plain mpi4py on the same data: the ends of what they take.

What both transports promise of every call is tests/transport/test_every_call.py's.
"""

import numpy as np
import pytest

from pagewire.native import ffi, lib
from pagewire.transport import MPI
from pagewire.transport.facade.python_calls import calls
from pagewire.transport.facade.rank import here

pytestmark = pytest.mark.mpi


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


def test_blocks_of_nothing(comm, compare):
    empty = np.zeros(0, int)
    compare("Bcast", empty, comm.size - 1)
    compare("Reduce", empty, empty, MPI.SUM, comm.size - 1)
    for name in ("Gather", "Scatter"):
        compare(name, empty, empty, comm.size - 1)
    for name in ("Allgather", "Alltoall", "Allreduce", "Scan", "Exscan", "Reduce_scatter_block"):
        compare(name, empty, empty)


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


@pytest.mark.parametrize("count", [1, 3, 2001])
def test_long_products_of_matrices_are_in_rank_order(comm, count):
    def multiply(left, right, _):
        left, right = (np.frombuffer(each, np.int64).reshape(-1, 2, 2) for each in (left, right))
        right[:] = left @ right % 1009

    def matrices(rank):
        return np.random.default_rng(rank).integers(0, 1009, (count, 2, 2))

    matrix, product = MPI.INT64_T.Create_contiguous(4).Commit(), MPI.Op.Create(multiply)
    for size in range(1, comm.size + 1):
        group = comm.Split(0 if comm.rank < size else MPI.UNDEFINED)
        if group == MPI.COMM_NULL:
            continue
        mine, result = matrices(group.rank), np.zeros((count, 2, 2), np.int64)
        group.Allreduce([mine, matrix], [result, matrix], product)
        expected = matrices(0)
        for rank in range(1, size):
            expected = expected @ matrices(rank) % 1009
        assert (result == expected).all(), size
        group.Free()
    matrix.Free()
    product.Free()


def test_sums_have_the_same_bits_on_every_rank_and_run(comm):
    mine = np.random.default_rng(comm.rank).random(5000)
    results = []
    for _ in range(3):
        total = np.empty_like(mine)
        comm.Allreduce(mine, total)
        results += comm.allgather(total.tobytes())
    assert len(set(results)) == 1


def test_what_does_not_fit_is_refused_before_anything_moves(comm):
    size = comm.size
    with pytest.raises(ValueError, match="mismatch in send count"):
        comm.Reduce_scatter_block(np.zeros(3 * size), np.zeros(2))
    with pytest.raises(ValueError, match="sum"):
        comm.Reduce_scatter(np.zeros(3 * size), np.zeros(3), [2] * size)
    with pytest.raises(ValueError, match="mismatch in receive count"):
        comm.Reduce_scatter(np.zeros(3 * size), np.zeros(2), [3] * size)
    with pytest.raises(ValueError, match="datatypes"):
        comm.Reduce_scatter(np.zeros(3 * size), np.zeros(3, "f4"), [3] * size)
    with pytest.raises(ValueError, match="items"):
        comm.Alltoallw(
            [np.zeros(size), [1] * size, [0] * size, [MPI.DOUBLE] * (size + 1)],
            [np.zeros(size), [1] * size, [0] * size, [MPI.DOUBLE] * size],
        )


@pytest.mark.parametrize("count", [1, 500])
def test_each_with_a_type_of_its_own(comm, plain, count):
    size, rank = comm.size, comm.rank
    types = [MPI.LONG.Create_vector(count, 1, i + 1).Commit() for i in range(size)]
    row = MPI.LONG.Create_contiguous(count).Commit()
    places = [8 * sum(count * (j + 1) for j in range(i)) for i in range(size)]
    total = count * size * (size + 1) // 2
    sent = [np.arange(count * size) + 1000 * rank, [1] * size, [8 * count * i for i in range(size)]]
    in_place = np.arange(total) + 5000 * rank
    results = []
    for call in (comm.Alltoallw, lambda *arguments: plain("Alltoallw", *arguments)):
        received = np.full(total, -1)
        call([*sent, [row] * size], [received, ([1] * size, places), types])
        swapped = in_place.copy()
        call(MPI.IN_PLACE, [swapped, [count] * size, places, [MPI.LONG] * size])
        # Counts and places left out: one element each, at the start.
        single = np.full(2 * count, -1)
        if size == 1:
            call([sent[0], [row]], [single, [row]])
        results.append((received, swapped, single))
    for ours, theirs in zip(*results, strict=True):
        assert (ours == theirs).all()
    for each in (*types, row):
        each.Free()


def test_ranks_may_differ_in_how_their_blocks_lie(comm):
    """Short blocks go the same ways, whether there are holes between elements or not."""
    pair = MPI.LONG.Create_vector(2, 1, 2).Commit()
    triple = pair.Create_resized(0, 32).Commit()
    size, rank = comm.size, comm.rank
    received = np.full(4 * size, -1)
    if rank % 2:
        comm.Allgather(np.array([rank, -rank]), [received, 1, triple])
        assert received[::2].tolist() == [sign * r for r in range(size) for sign in (1, -1)]
        assert (received[1::2] == -1).all()
    else:
        comm.Allgather(np.array([rank, -rank]), received[: 2 * size])
        assert received[: 2 * size].tolist() == [s * r for r in range(size) for s in (1, -1)]
    pair.Free()
    triple.Free()


def test_a_rendezvous_under_way_does_not_block_other_collectives(comm):
    dest, source = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    request = comm.Isend(np.ones(50_000), dest)
    received = np.zeros(50_000)
    if comm.rank % 2:
        comm.Recv(received, source)
    else:
        pending = comm.Irecv(received, source)
    total = np.zeros(1)
    comm.Allreduce(np.ones(1), total)
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


def test_operations_that_a_type_does_not_have_are_errors(comm):
    """The rank stays sound."""
    for count in (3, 5000):
        for call in (comm.Allreduce, comm.Reduce, comm.Scan):
            with pytest.raises(MPI.Exception):
                call(np.ones(count), np.zeros(count), MPI.BAND)
        total = np.zeros(count)
        comm.Allreduce(np.ones(count), total)
        assert (total == comm.size).all()


def test_too_long_blocks_are_truncated_with_an_error(comm):
    """At the rank that receives them."""
    last = comm.size - 1
    received = np.zeros(3 if comm.rank == last else 5)
    if comm.rank == last and last > 0:
        with pytest.raises(MPI.Exception) as raised:
            comm.Bcast(received, 0)
        assert raised.value.Get_error_class() == MPI.ERR_TRUNCATE
    else:
        comm.Bcast(received, 0)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 12, 13, 16, 31, 33])
def test_trees_are_binomial(size):
    made = ffi.new("pw_channel **")
    for rank in range(size):
        assert lib.pw_channel_create(0, rank, size, list(range(size)), made) == 0
        for root in range(size):
            found = lib.pw_tree_of(made[0], root)
            place = (rank - root) % size
            parent = (place & (place - 1)) + root  # without its lowest bit
            assert found.parent == (parent % size if place else -1)
            children = [c for c in range(place + 1, size) if c & (c - 1) == place]
            assert list(found.child)[: found.num_children] == [
                (child + root) % size for child in reversed(children)
            ]
        lib.pw_channel_destroy(here.messaging, made[0])


def test_reduce_scatter_of_uneven_parts_learns_the_counts(comm):
    size, rank = comm.Get_size(), comm.Get_rank()
    received = np.zeros(rank + 1)
    comm.Reduce_scatter(np.arange(size * (size + 1) / 2) + rank, received)
    first = rank * (rank + 1) // 2
    expected = (first + np.arange(rank + 1)) * size + size * (size - 1) / 2
    assert (received == expected).all()


FORMS = {
    "array": lambda array: array,
    "list": lambda array: [array, MPI.DOUBLE],
    "general": lambda array: [array, array.size, MPI.DOUBLE],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [1, 3, 700, 5000])
def test_arrays_and_specifications_move_alike(comm, form, count):
    """In one call of C, and in Python: `general` has counts, which of blocks are those of one."""
    rank, size, given = comm.rank, comm.size, FORMS[form]
    mine = np.arange(count) + 1000.0 * rank
    everybodys = np.concatenate([np.arange(count) + 1000.0 * i for i in range(size)])
    blocks = (lambda array: [array, count, MPI.DOUBLE]) if form == "general" else FORMS[form]
    for root in range(size):
        received = np.zeros(count * size)
        comm.Gather(given(mine), blocks(received) if rank == root else None, root)
        assert (received == (everybodys if rank == root else 0)).all()
        if rank == root:
            received[: root * count] = received[(root + 1) * count :] = 0
        comm.Gather(
            MPI.IN_PLACE if rank == root else given(mine),
            blocks(received) if rank == root else None,
            root,
        )
        assert (received == (everybodys if rank == root else 0)).all()
        own = np.zeros(count)
        comm.Scatter(blocks(everybodys) if rank == root else None, given(own), root)
        assert (own == mine).all()
        own[:] = 7
        comm.Scatter(
            blocks(everybodys) if rank == root else None,
            MPI.IN_PLACE if rank == root else given(own),
            root,
        )
        assert (own == (7 if rank == root else mine)).all()
        total = np.zeros(count)
        comm.Reduce(given(mine), given(total) if rank == root else None, MPI.MAX, root)
        assert (total == (np.arange(count) + 1000.0 * (size - 1) if rank == root else 0)).all()
        sent = mine.copy()
        comm.Bcast(given(sent), root)
        assert (sent == np.arange(count) + 1000.0 * root).all()
    received = np.zeros(count * size)
    comm.Allgather(given(mine), blocks(received))
    assert (received == everybodys).all()
    total = mine.copy()
    comm.Allreduce(MPI.IN_PLACE, given(total))
    assert (total == size * np.arange(count) + 500.0 * size * (size - 1)).all()
    turned = np.zeros(count * size)
    comm.Alltoall(blocks(np.repeat(np.arange(size) + 10.0 * rank, count)), blocks(turned))
    assert (turned == np.repeat(rank + 10.0 * np.arange(size), count)).all()


def test_c_takes_arrays(comm):
    """Not Python, which would do as well."""
    array, whole = np.ones(2), np.ones(2 * comm.size)
    call = here.calls.index("Bcast")
    assert calls.barrier(comm, call) is None
    assert calls.broadcast(comm, call, array, 0) is None
    for list_of in (lambda memory: memory, lambda memory: [memory, MPI.DOUBLE]):
        one, all_of_them = list_of(array), list_of(whole)
        assert calls.allgather(comm, call, one, all_of_them) is None
        assert calls.alltoall(comm, call, all_of_them, list_of(whole.copy())) is None
        assert calls.gather(comm, call, one, all_of_them, 0) is None
        assert calls.scatter(comm, call, all_of_them, one, 0) is None
        assert calls.allreduce(comm, call, MPI.IN_PLACE, one, MPI.SUM) is None
        assert calls.reduce(comm, call, one, list_of(array.copy()), MPI.SUM, 0) is None
    mismatched = [array, MPI.INT]
    assert calls.allreduce(comm, call, MPI.IN_PLACE, mismatched, MPI.SUM) is NotImplemented
    assert calls.reduce(comm, call, array, array, MPI.OP_NULL, 0) is NotImplemented
    assert calls.gather(comm, call, array, whole, comm.size) is NotImplemented
