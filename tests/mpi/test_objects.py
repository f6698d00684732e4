"""Lower-case calls: objects of any kind and length."""

import numpy as np
import pytest

from pagewire.transport import MPI

pytestmark = pytest.mark.mpi

THINGS = [None, 5, (), (1, "two"), "x" * 1000, {"a": [1, 2]}, np.arange(50_000)]


def same(one, other):
    if isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return one == other


@pytest.mark.parametrize("thing", THINGS, ids=lambda thing: type(thing).__name__)
def test_point_to_point(comm, thing):
    dest, source = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for send in ("isend", "issend", "ibsend"):
        request = getattr(comm, send)(thing, dest, 3)
        status = MPI.Status()
        assert same(comm.recv(None, MPI.ANY_SOURCE, 3, status), thing)
        assert status.source == source
        assert request.wait() is None
    requests = [comm.irecv(source=source, tag=4), comm.isend(thing, dest, 4), comm.Ibarrier()]
    received = MPI.Request.waitall(requests)
    assert same(received[0], thing) and received[1:] == [None, None]
    for send in ("send", "ssend", "bsend"):
        request = comm.irecv(source=source, tag=4)
        getattr(comm, send)(thing, dest, 4)
        assert same(request.wait(), thing)
    assert same(comm.sendrecv(thing, dest, 1, None, source, 1), thing)
    request = comm.isend(thing, dest, 3)
    assert comm.probe(source, 3)
    message = comm.mprobe(source, 3)
    assert same(message.recv(), thing)
    request.wait()
    request = comm.isend(thing, dest, 3)
    while (message := comm.improbe(source, 3)) is None:
        pass
    assert same(message.irecv().wait(), thing)
    request.wait()


def test_test_family_hands_objects_over(comm):
    dest, source = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    sending = [comm.isend(i, dest, i) for i in range(4)]
    requests = [comm.irecv(source=source, tag=i) for i in range(4)]
    while not (answer := requests[0].test())[0]:
        pass
    assert answer == (True, 0)
    i, received = MPI.Request.waitany(requests)
    assert received == i
    rest = {1, 2, 3} - {i}
    while rest:
        places, objects = MPI.Request.waitsome(requests)
        assert places == objects
        rest -= set(places)
    MPI.Request.waitall(sending)


def test_bytes_of_an_object_can_be_received_as_a_buffer(comm):
    data = MPI.pickle.dumps("hello")
    request = comm.isend("hello", comm.rank)
    received = bytearray(len(data))
    comm.Recv([received, MPI.BYTE], comm.rank)
    request.wait()
    assert MPI.pickle.loads(received) == "hello"


def test_reductions_of_objects_by_places_and_functions(comm):
    rank, size = comm.rank, comm.size
    assert comm.allreduce((rank % 2, rank), MPI.MINLOC) == (0, 0)
    assert comm.allreduce(rank, lambda a, b: max(a, b)) == size - 1
    assert comm.scan([rank]) == list(range(rank + 1))
    assert comm.exscan([rank]) == (list(range(rank)) if rank else None)


def test_an_object_that_cannot_be_pickled_is_the_senders_error(comm):
    with pytest.raises(Exception, match="pickle"):
        comm.send(lambda: None, 0)


class Unwilling:
    """Is not pickled, or makes a pickle that cannot be loaded."""

    def __init__(self, is_pickled):
        self.is_pickled = is_pickled

    def __reduce__(self):
        if not self.is_pickled:
            raise ArithmeticError("not pickled")
        return divmod, (1, 0)


def test_what_pickles_raise_ends_the_call_and_no_other(comm):
    dest, source = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    with pytest.raises(ArithmeticError, match="not pickled"):
        comm.send(Unwilling(is_pickled=False), dest)
    request = comm.isend(Unwilling(is_pickled=True), dest)
    with pytest.raises(ZeroDivisionError):
        comm.recv(source=source)
    request.wait()
    request, status = comm.isend([comm.rank], dest, 7), MPI.Status()
    assert comm.recv(source=np.int64(source), tag=7, status=status) == [source]
    assert (status.source, status.tag) == (source, 7)
    request.wait()
