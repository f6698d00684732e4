"""Two threads of a rank that communicate at once (MPI_THREAD_MULTIPLE): right data, no deadlock."""

import faulthandler
import threading

import numpy as np
import pytest

from pagewire.transport import MPI

pytestmark = pytest.mark.mpi

NUM_THREADS = 2
LIMIT_S = 240
# Eager, eager above what MPI buffers, rendezvous of one block and of many.
COUNTS = [0, 1, 300, 1000, 5000, 40_000]


@pytest.fixture(autouse=True)
def watchdog():
    """A deadlock ends the run and says where each thread stands."""
    faulthandler.dump_traceback_later(LIMIT_S, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def own(comm):
    """A communicator for each thread."""
    made = [comm.Dup() for _ in range(NUM_THREADS)]
    yield made
    for each in made:
        each.Free()


def in_threads(work):
    """Run work(0), work(1), ... at once; the first exception is raised here."""
    errors = []
    start = threading.Barrier(NUM_THREADS)

    def body(i):
        try:
            start.wait()
            work(i)
        except BaseException as error:
            errors.append(error)
            raise

    # The last one in this thread: the main one is a rank's thread too.
    threads = [threading.Thread(target=body, args=(i,)) for i in range(NUM_THREADS - 1)]
    for thread in threads:
        thread.start()
    try:
        body(NUM_THREADS - 1)
    finally:
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


def ring(comm):
    return (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size


def pattern(count, rank, thread, i):
    return np.arange(count) * 3 + 1000 * rank + 100 * thread + i


def blocking(comm, tag, thread, i, count):
    dest, source = ring(comm)
    expected = pattern(count, source, thread, i)
    received, status = np.full(count, -1), MPI.Status()
    sent = pattern(count, comm.rank, thread, i)
    if comm.rank % 2 == 0 and comm.size > 1:
        comm.Send(sent, dest, tag)
        comm.Recv(received, source, tag, status)
    elif comm.size > 1:
        comm.Recv(received, source, tag, status)
        comm.Send(sent, dest, tag)
    else:
        comm.Sendrecv(sent, dest, tag, received, source, tag, status)
    assert (received == expected).all()
    assert (status.source, status.tag, status.Get_count(MPI.LONG)) == (source, tag, count)


def nonblocking(comm, tag, thread, i, count):
    dest, source = ring(comm)
    received = [np.full(count, -1) for _ in range(3)]
    requests = [comm.Irecv(each, source, tag) for each in received]
    sent = [pattern(count, comm.rank, thread, i + j) for j in range(3)]
    requests += [
        comm.Isend(sent[0], dest, tag), comm.Issend(sent[1], dest, tag),
        comm.Ibsend(sent[2], dest, tag),
    ]  # fmt: skip
    if i % 3 == 0:
        MPI.Request.Waitall(requests)
    elif i % 3 == 1:
        while (done := MPI.Request.Waitany(requests)) != MPI.UNDEFINED:
            assert requests[done] == MPI.REQUEST_NULL
    else:
        while not MPI.Request.Testall(requests):
            pass
    for j, each in enumerate(received):
        assert (each == pattern(count, source, thread, i + j)).all()


def probed(comm, tag, thread, i, count):
    dest, source = ring(comm)
    request = comm.Isend(pattern(count, comm.rank, thread, i), dest, tag)
    status = MPI.Status()
    message = comm.Mprobe(source, tag, status)
    received = np.empty(status.Get_count(MPI.LONG), int)
    message.Recv(received)
    request.Wait()
    assert (received == pattern(count, source, thread, i)).all()


def objects(comm, tag, thread, i, count):
    dest, source = ring(comm)
    got = comm.sendrecv((comm.rank, thread, i, b"x" * count), dest, tag, None, source, tag)
    assert got == (source, thread, i, b"x" * count)


@pytest.mark.parametrize("exchange", [blocking, nonblocking, probed, objects])
def test_point_to_point_on_one_communicator_with_own_tags(comm, exchange):
    def work(thread):
        for i in range(60):
            exchange(comm, 10 + thread, thread, i, COUNTS[(i + thread) % len(COUNTS)])

    in_threads(work)


def test_threads_share_the_messages_of_a_wildcard(comm):
    """Matching probes of two threads: each message goes to one of them, whole."""
    count, num_messages = 50, 40
    dest, _source = ring(comm)
    requests = [comm.Isend(np.full(count, i), dest, i) for i in range(num_messages)]
    seen = [[] for _ in range(NUM_THREADS)]

    def work(thread):
        while len(seen[0]) + len(seen[1]) < num_messages:
            status = MPI.Status()
            message = comm.Improbe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
            if message is None:
                continue
            received = np.empty(status.Get_count(MPI.LONG), int)
            message.Recv(received)
            assert (received == status.tag).all() and len(received) == count
            seen[thread].append(status.tag)

    in_threads(work)
    assert sorted(seen[0] + seen[1]) == list(range(num_messages))
    MPI.Request.Waitall(requests)


def test_threads_share_messages_received_by_wildcard(comm):
    count, per_thread = 2000, 25
    dest, source = ring(comm)
    requests = [comm.Isend(np.full(count, i), dest, i) for i in range(NUM_THREADS * per_thread)]
    seen = [[] for _ in range(NUM_THREADS)]

    def work(thread):
        received, status = np.empty(count, int), MPI.Status()
        for _ in range(per_thread):
            comm.Recv(received, MPI.ANY_SOURCE, MPI.ANY_TAG, status)
            assert (received == status.tag).all() and status.source == source
            seen[thread].append(status.tag)
        assert seen[thread] == sorted(seen[thread])

    in_threads(work)
    assert sorted(seen[0] + seen[1]) == list(range(NUM_THREADS * per_thread))
    MPI.Request.Waitall(requests)


def test_a_thread_that_waits_leaves_the_node_to_the_other(comm):
    """One thread waits for what comes only after the other one's exchanges."""
    dest, source = ring(comm)
    received = np.zeros(5000)

    def work(thread):
        if thread == 0:
            comm.Recv(received, source, 1)
            return
        for i in range(30):
            nonblocking(comm, 2, 1, i, COUNTS[i % len(COUNTS)])
        comm.Send(np.ones(5000), dest, 1)

    in_threads(work)
    assert (received == 1).all()


def test_buffered_sends_of_two_threads_keep_their_copies(own):
    def work(thread):
        comm = own[thread]
        dest, source = ring(comm)
        sent = np.empty(5000, int)
        for i in range(15):
            sent[:] = pattern(5000, comm.rank, thread, i)
            comm.Bsend(sent, dest, 4)
            sent[:] = -1
        received = np.empty(5000, int)
        for i in range(15):
            comm.Recv(received, source, 4)
            assert (received == pattern(5000, source, thread, i)).all()

    in_threads(work)


def test_the_clock_never_goes_back(own):
    """Also where a thread reads it while the other one's calls move it."""

    def work(thread):
        earlier = 0.0
        for i in range(60):
            if thread:
                nonblocking(own[1], 1, 1, i, 300)
            for _ in range(5):
                now = MPI.Wtime()
                assert now >= earlier
                earlier = now

    in_threads(work)
