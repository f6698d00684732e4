"""Wait, Test and their families, over emulated and native requests mixed."""

import gc

import numpy as np
import pytest

from pagewire.transport import MPI
from pagewire.transport.facade import completion
from pagewire.transport.facade.patching import native

pytestmark = pytest.mark.mpi


def ring(comm):
    return (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size


def started(comm, count):
    """Requests of all kinds, their receive buffers, and what these must hold at the end."""
    dest, source = ring(comm)
    received = [np.full(count, -1) for _ in range(3)]
    requests = [comm.Irecv(array, source, i) for i, array in enumerate(received)]
    requests += [comm.Ibarrier(), MPI.Request(), comm.Irecv(np.ones(1), MPI.PROC_NULL)]
    requests += [comm.Isend(np.full(count, 7), dest, 0), comm.Issend(np.full(count, 7), dest, 1)]
    requests.append(comm.Ibsend(np.full(count, 7), dest, 2))
    return requests, received


def by_wait(requests):
    for request in requests:
        assert request.Wait() is True


def by_test(requests):
    for request in requests:
        while not request.Test():
            pass


def by_waitall(requests):
    statuses = [MPI.Status() for _ in requests]
    assert MPI.Request.Waitall(requests, statuses) is True
    assert [status.tag for status in statuses[:3]] == [0, 1, 2]


def by_testall(requests):
    while not MPI.Request.Testall(requests):
        assert all(requests[:3])


def by_waitany(requests):
    seen = []
    while (i := MPI.Request.Waitany(requests)) != MPI.UNDEFINED:
        seen.append(i)
    assert sorted(seen) == [0, 1, 2, 3, 5, 6, 7, 8]


def by_testany(requests):
    while True:
        i, done = MPI.Request.Testany(requests)
        if done and i == MPI.UNDEFINED:
            return


def by_waitsome(requests):
    seen = []
    while (some := MPI.Request.Waitsome(requests)) is not None:
        assert some
        seen += some
    assert sorted(seen) == [0, 1, 2, 3, 5, 6, 7, 8]


def by_testsome(requests):
    while MPI.Request.Testsome(requests) is not None:
        pass


def by_get_status(requests):
    for request in requests:
        while not request.Get_status():
            pass
        assert request.Get_status(MPI.Status())
    assert requests[0] and requests[7]
    by_waitall(requests)


def by_lower_waitall(requests):
    assert MPI.Request.waitall(requests) == [None] * len(requests)


def by_lower_waitsome(requests):
    while MPI.Request.waitsome(requests)[0] is not None:
        pass


@pytest.mark.parametrize("count", [1, 5000])
@pytest.mark.parametrize(
    "complete",
    [by_wait, by_test, by_waitall, by_testall, by_waitany, by_testany, by_waitsome, by_testsome,
     by_get_status, by_lower_waitall, by_lower_waitsome],
)  # fmt: skip
def test_families_complete_mixed_requests(comm, complete, count):
    requests, received = started(comm, count)
    complete(requests)
    assert requests == [MPI.REQUEST_NULL] * len(requests)
    assert all((array == 7).all() for array in received)


def test_nothing_active_is_said_as_mpi_says_it(comm):
    assert MPI.Request.Waitany([]) == MPI.UNDEFINED
    assert MPI.Request.Waitany([MPI.Request()]) == MPI.UNDEFINED
    assert MPI.Request.Testany([MPI.Request()]) == (MPI.UNDEFINED, True)
    assert MPI.Request.Waitsome([MPI.Request()]) is None
    assert MPI.Request.Waitall([]) is True
    assert MPI.Request().Wait() is True


def test_a_copy_of_a_request_completes_it(comm):
    dest, source = ring(comm)
    received = np.zeros(5000)
    request = MPI.Request.fromhandle(comm.Irecv(received, source).handle)
    sending = MPI.Request(comm.Isend(np.ones(5000), dest))
    MPI.Request.Waitall([request, sending])
    assert (received == 1).all() and request == sending == MPI.REQUEST_NULL


def test_cancelled_receive_is_cancelled_and_takes_nothing(comm):
    dest, source = ring(comm)
    for count in (1, 5000):
        received, status = np.zeros(count), MPI.Status()
        request = comm.Irecv(received, source, 3)
        request.Cancel()
        request.Wait(status)
        assert status.Is_cancelled() and request == MPI.REQUEST_NULL
        comm.Barrier()
        sending = comm.Isend(np.ones(count), dest, 3)
        comm.Recv(received, source, 3)
        sending.Wait()
        assert (received == 1).all()


def test_cancel_after_the_message_came_does_nothing(comm):
    dest, source = ring(comm)
    received, status = np.zeros(5000), MPI.Status()
    request = comm.Irecv(received, source, 3)
    sending = comm.Isend(np.ones(5000), dest, 3)
    sending.Wait()
    comm.Barrier()  # every rank's message has been received, this one's too
    request.Cancel()
    request.Wait(status)
    assert not status.Is_cancelled() and (received == 1).all()


def test_freed_requests_go_through(comm):
    dest, source = ring(comm)
    received = np.zeros(5000)
    request = comm.Irecv(received, source, 1)
    request.Free()
    assert request == MPI.REQUEST_NULL
    sending = comm.Isend(np.ones(5000), dest, 1)
    sending.Free()
    assert sending == MPI.REQUEST_NULL
    comm.Barrier()
    while received[-1] != 1:
        comm.Iprobe(MPI.PROC_NULL)
    assert (received == 1).all()


def test_truncation_shows_in_statuses(comm):
    dest, source = ring(comm)
    for count in (8, 5000):
        received = [np.empty(count), np.empty(count // 2)]
        requests = [comm.Irecv(array, source, i) for i, array in enumerate(received)]
        requests += [comm.Isend(np.ones(count), dest, i) for i in range(2)]
        statuses = [MPI.Status() for _ in requests]
        with pytest.raises(MPI.Exception) as caught:
            MPI.Request.Waitall(requests, statuses)
        assert caught.value.Get_error_class() == MPI.ERR_IN_STATUS
        assert MPI.Get_error_class(statuses[1].error) == MPI.ERR_TRUNCATE
        assert statuses[0].error == MPI.SUCCESS
        assert requests == [MPI.REQUEST_NULL] * 4


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("name", ["Waitall", "Testall", "waitall"])
def test_statuses_of_mpis_own_persistent_requests(comm, name, beside):
    """MPICH 5.0 forgets them when such a request is looked at by Get_status first."""
    dest, source = ring(comm)
    apart, made = native(MPI.Comm, "Idup")(comm)  # not carried
    made.Wait()
    received, ours = np.zeros(9, "B"), np.zeros(9, "B")
    request = apart.Recv_init(received, source, 3)
    for turn in (1, 2):
        request.Start()
        sending = apart.Isend(np.full(turn, turn, "B"), dest, 3)
        requests = [request, sending]
        if beside:
            requests += [comm.Irecv(ours, source, 4), comm.Isend(np.full(5, turn, "B"), dest, 4)]
        statuses = [MPI.Status() for _ in requests]
        if name != "waitall" or not beside:  # there a lower-case one looks first
            while not getattr(MPI.Request, name)(requests, statuses):
                pass
            told = [(status.source, status.tag, status.count) for status in statuses[::2]]
            assert told == [(source, 3, turn), (source, 4, 5)][: 1 + beside]
        else:
            MPI.Request.waitall(requests)
        assert (received[:turn] == turn).all()
    request.Free()
    apart.Free()


@pytest.mark.parametrize("name", ["Waitsome", "Testsome", "waitsome", "testsome"])
def test_some_of_mpis_own_persistent_requests_need_no_mpi_4_1(comm, name, monkeypatch):
    """Open MPI 5 and MPICH 4.0 have no MPI_Request_get_status_any."""

    def absent(*_):
        raise NotImplementedError

    monkeypatch.setattr(completion, "_get_status_any", absent)
    dest, source = ring(comm)
    received, own = np.zeros(3, int), np.zeros(2, int)
    begin = native(MPI.Comm, "Recv_init")
    idle = begin(MPI.COMM_SELF, np.zeros(1), 0, 8)
    started = begin(MPI.COMM_SELF, own, 0, 9)
    native(MPI.Prequest, "Start")(started)
    native(MPI.Comm, "Send")(MPI.COMM_SELF, np.full(2, 6), 0, 9)
    sending = comm.Isend(np.full(3, 5), dest, 1)
    requests = [idle, started, MPI.Request(), comm.Irecv(received, source, 1)]
    seen = {}
    while True:
        statuses = [MPI.Status() for _ in requests]
        some = getattr(MPI.Request, name)(requests, statuses)
        some = some[0] if name.islower() else some
        if some is None:
            break
        for i, status in zip(some, statuses, strict=False):
            seen[i] = (status.source, status.tag, status.Get_count(MPI.LONG))
    assert seen == {1: (0, 9, 2), 3: (source, 1, 3)}
    assert (received == 5).all() and (own == 6).all()
    sending.Wait()
    for request in (idle, started):
        request.Free()


def test_buffers_live_as_long_as_their_operations(comm):
    dest, source = ring(comm)
    requests = [comm.Isend(np.full(20_000, i), dest, i) for i in range(5)]
    gc.collect()
    received = np.empty(20_000, int)
    for i in range(5):
        comm.Recv(received, source, i)
        assert (received == i).all()
    MPI.Request.Waitall(requests)


def test_virtual_time_moves_only_forward(comm, node):
    dest, source = ring(comm)
    latest = node.clock.now_ns
    for count in (1, 5000):
        for _ in range(3):
            request = comm.Irecv(np.empty(count), source)
            comm.Send(np.empty(count), dest) if count == 1 else comm.Isend(np.empty(count), dest)
            request.Wait()
            assert node.clock.now_ns > latest
            latest = node.clock.now_ns


def test_barrier_orders_clocks(comm, node):
    comm.Barrier()
    before = node.clock.now_ns
    earliest = comm.allreduce(before, MPI.MAX)
    comm.Barrier()
    assert node.clock.now_ns >= earliest or comm.size == 1


@pytest.mark.parametrize("has_ours", [False, True])
def test_waitall_completes_partitioned_requests(comm, has_ours):
    """MPICH's Testall fails as long as one of them is complete and the other is not."""
    dest, source = ring(comm)
    for _ in range(5):
        sent, received = np.arange(30_000), np.zeros(30_000, int)
        try:
            sending = comm.Psend_init([sent, 10_000, MPI.LONG], 3, dest, 5)
        except NotImplementedError:
            pytest.skip("this MPI has no partitioned requests")
        receiving = comm.Precv_init([received, 10_000, MPI.LONG], 3, source, 5)
        requests = [sending, receiving]
        MPI.Prequest.Startall(requests)
        if has_ours:
            requests += [comm.Irecv(np.zeros(9), source, 1), comm.Isend(np.ones(9), dest, 1)]
        sending.Pready_range(0, 2)
        assert MPI.Request.Waitall(requests) is True
        assert (received == sent).all()
        sending.Free()
        receiving.Free()


def test_requests_of_arrays_serve_again(comm):
    """More are under way than are kept for the next ones."""
    dest, source = ring(comm)
    for count in (3000, 5, 3000):
        received = np.zeros((count, 2))
        requests = [comm.Irecv(row, source, 0) for row in received]
        assert len({request.handle for request in requests}) == count
        requests += [comm.Isend(np.full(2, float(i)), dest, 0) for i in range(count)]
        requests.insert(1, MPI.Request())
        assert MPI.Request.Waitall(requests) is True
        assert all(request == MPI.REQUEST_NULL for request in requests)
        assert (received[:, 1] == np.arange(count)).all()


@pytest.mark.parametrize("count", [1, 5000])
def test_truncation_is_an_error_without_statuses(comm, count):
    dest, source = ring(comm)
    short, whole = np.zeros(count), np.zeros(2 * count)
    requests = [comm.Irecv(short, source, 0), comm.Irecv(whole, source, 1)]
    sends = [comm.Isend(np.ones(2 * count), dest, tag) for tag in range(3)]
    with pytest.raises(MPI.Exception) as error:
        MPI.Request.Waitall(requests)
    assert error.value.Get_error_class() == MPI.ERR_IN_STATUS
    assert error.value.__cause__.Get_error_class() == MPI.ERR_TRUNCATE
    assert (whole == 1).all() and requests == [MPI.REQUEST_NULL] * 2
    one = comm.Irecv(short, source, 2)
    with pytest.raises(MPI.Exception) as error:
        one.Wait()
    assert error.value.Get_error_class() == MPI.ERR_TRUNCATE and one == MPI.REQUEST_NULL
    MPI.Request.Waitall(sends)
