"""Neighbourhood collectives, compared with plain mpi4py on the same data and topology."""

import numpy as np
import pytest

from pagewire.transport import MPI
from pagewire.transport.facade.patching import native

pytestmark = pytest.mark.mpi

COUNTS = [0, 1, 5000]


def grid(comm, periodic, *others):
    """Cartesian, of all ranks, `others` being its further dimensions."""
    shape = [comm.size, *others]
    return comm.Create_cart(shape, [periodic] * len(shape))


def square(comm, periodic):
    return comm.Create_cart(MPI.Compute_dims(comm.size, 2), [periodic] * 2)


def graph(comm):
    neighbours = [[(r + 1) % comm.size, (r - 1) % comm.size] for r in range(comm.size)]
    ends = [2 * (r + 1) for r in range(comm.size)]
    return comm.Create_graph(ends, [dest for each in neighbours for dest in each])


def ring(comm):
    return comm.Create_dist_graph([comm.rank], [1], [(comm.rank + 1) % comm.size])


def both_ways(comm):
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    return comm.Create_dist_graph_adjacent([left, right], [right, left])


def uneven(comm):
    """Some edges twice, and nothing from rank 0 but to itself."""
    size, rank = comm.size, comm.rank
    dests = [[(r + 1) % size, (r + 2) % size, (r + 1) % size] for r in range(size)]
    dests[0] = [] if size > 1 else dests[0]
    sources = [r for r in range(size) for _ in range(dests[r].count(rank))]
    return comm.Create_dist_graph_adjacent(sources, dests[rank])


TOPOLOGIES = {
    "line": lambda comm: grid(comm, False),
    "circle": lambda comm: grid(comm, True),
    "narrow": lambda comm: grid(comm, False, 1),
    "narrow torus": lambda comm: grid(comm, True, 1),
    "rectangle": lambda comm: square(comm, False),
    "torus": lambda comm: square(comm, True),
    "graph": graph,
    "ring": ring,
    "both ways": both_ways,
    "uneven": uneven,
}


DOUBLED = {"circle", "narrow torus", "torus", "graph", "both ways", "uneven"}
"""Topologies which, for one or two ranks at least, have an edge twice."""


def fails_plainly(name):
    """Whether MPI's own neighbourhood collectives cannot do it, without pagewire."""
    vendor, version = MPI.get_vendor()
    if vendor == "Open MPI":
        return name == "uneven"  # the second message of an edge is truncated
    return vendor == "MPICH" and version < (4, 1) and name in DOUBLED  # in reverse order


@pytest.fixture(params=TOPOLOGIES)
def topology(comm, request):
    if fails_plainly(request.param):
        pytest.skip(f"plain {MPI.get_vendor()[0]} cannot do this topology")
    made = TOPOLOGIES[request.param](comm)
    yield made
    made.Free()


@pytest.fixture
def twin(topology):
    """`twin("Neighbor_alltoall", ...)` as plain mpi4py on the same topology."""

    def call(name, *arguments):
        return native(MPI.Topocomm, name)(topology, *arguments)

    return call


def both(topology, twin, name, make, receive):
    """Call ours and MPI's own with what `make` gives; compare the arrays received."""
    results = []
    for call in (getattr(topology, name), lambda *arguments: twin(name, *arguments)):
        array = receive.copy()
        call(*make(array))
        results.append(array)
    assert (results[0] == results[1]).all(), (name, results, topology.inedges, topology.outedges)


@pytest.mark.parametrize("count", COUNTS)
def test_equal_blocks(topology, twin, node, count):
    num_in, num_out = topology.indegree, topology.outdegree
    mine = np.arange(count) + 100_000 * topology.rank
    outgoing = np.arange(count * num_out) + 100_000 * topology.rank
    incoming = np.full(count * num_in, -1)
    before = node.counters()["mpi_calls"].get("Neighbor_alltoall", {}).get("not_carried_calls", 0)
    both(topology, twin, "Neighbor_allgather", lambda to: (mine, to), incoming)
    both(topology, twin, "Neighbor_alltoall", lambda to: (outgoing, to), incoming)
    after = node.counters()["mpi_calls"]["Neighbor_alltoall"]["not_carried_calls"]
    assert before == after


@pytest.mark.parametrize("count", [3, 2000])
def test_neighbours_of_different_lengths(topology, twin, count):
    rank, sources, dests = topology.rank, topology.inedges, topology.outedges
    lengths = [count + max(source, 0) for source in sources]
    mine = np.arange(count + rank) + 1000 * rank
    places = [sum(lengths[:i]) + i for i in range(len(lengths))]
    incoming = np.full(sum(lengths) + len(lengths), -1)
    both(
        topology, twin, "Neighbor_allgatherv", lambda to: (mine, [to, (lengths, places)]), incoming
    )
    sent = [count + rank] * len(dests)
    outgoing = np.arange(sum(sent)) + 1000 * rank
    both(
        topology, twin, "Neighbor_alltoallv",
        lambda to: ([outgoing, sent], [to, (lengths, places)]), incoming,
    )  # fmt: skip


def test_neighbours_with_types_of_their_own(topology, twin):
    sources, dests = topology.inedges, topology.outedges
    column = MPI.LONG.Create_vector(10, 1, 3).Commit()
    row = MPI.LONG.Create_contiguous(10).Commit()
    outgoing = np.arange(30 * (len(dests) + 1)) + 1000 * topology.rank
    incoming = np.full(30 * (len(sources) + 1), -1)

    def make(to):
        send = [outgoing, [1] * len(dests), [240 * i for i in range(len(dests))]]
        receive = [to, ([1] * len(sources), [240 * i for i in range(len(sources))])]
        return [*send, [column] * len(dests)], [*receive, [row] * len(sources)]

    both(topology, twin, "Neighbor_alltoallw", make, incoming)
    both(
        topology, twin, "Neighbor_alltoallw",
        lambda to: (
            [outgoing, [1] * len(dests), [0] * len(dests), [row] * len(dests)],
            [to, [1] * len(sources), [240 * i for i in range(len(sources))],
             [column] * len(sources)],
        ), incoming,
    )  # fmt: skip
    column.Free()
    row.Free()


def test_objects_of_neighbours(topology, twin):
    mine = {"rank": topology.rank}
    assert topology.neighbor_allgather(mine) == twin("neighbor_allgather", mine)
    each = [(topology.rank, i) for i in range(topology.outdegree)]
    assert topology.neighbor_alltoall(each) == twin("neighbor_alltoall", each)
    assert topology.neighbor_alltoall(None) == twin("neighbor_alltoall", None)


def test_a_direction_comes_from_the_other_one(comm):
    """Also at a periodic dimension of 1 or 2 processes, whose two neighbours are one."""
    torus = grid(comm, True, 1)
    outgoing = 10 * torus.rank + np.arange(4)
    incoming = np.zeros(4, int)
    torus.Neighbor_alltoall(outgoing, incoming)
    left, right = (torus.rank - 1) % torus.size, (torus.rank + 1) % torus.size
    assert incoming.tolist() == [
        10 * left + 1,
        10 * right,
        10 * torus.rank + 3,
        10 * torus.rank + 2,
    ]
    torus.Free()


def test_edges_between_the_same_ranks_keep_their_order(comm):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    edges = comm.Create_dist_graph_adjacent([left] * 3, [right] * 3)
    incoming = np.zeros(3, int)
    edges.Neighbor_alltoall(10 * comm.rank + np.arange(3), incoming)
    assert incoming.tolist() == [10 * left, 10 * left + 1, 10 * left + 2]
    edges.Free()


def test_nothing_comes_from_nowhere(comm):
    line = grid(comm, False)
    incoming = np.full(2, -1)
    line.Neighbor_allgather(np.array([line.rank]), incoming)
    last = line.size - 1
    assert incoming.tolist() == [line.rank - 1, line.rank + 1 if line.rank < last else -1]
    line.Free()


def test_wrong_numbers_of_blocks_are_refused(comm):
    line = grid(comm, True)
    with pytest.raises(ValueError, match="expecting 2 items, got 3"):
        line.neighbor_alltoall([1, 2, 3])
    with pytest.raises(ValueError, match="multiple of required number of blocks 2"):
        line.Neighbor_alltoall(np.zeros(3), np.zeros(2))
    with pytest.raises(TypeError):
        line.Neighbor_allgather(None, np.zeros(2))
    line.Free()
