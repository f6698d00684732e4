"""What a signal handler raises ends a blocked call, takes its receive back, and leaves the rank
sound. What is under way goes on by itself, in memory that stays."""

import contextlib
import gc
import signal
import threading
import time

import numpy as np
import pytest

from pagewire.native import lib
from pagewire.transport import MPI
from pagewire.transport.facade.clock import wall_ns

pytestmark = pytest.mark.mpi


class Interrupted(Exception):
    """As KeyboardInterrupt, which pytest takes for its own."""


@contextlib.contextmanager
def signalled(node, handler):
    """The main thread gets a signal once it waits and nothing happens."""

    def send():
        while lib.pw_node_silent_since_ns(node.c) <= began_ns:
            time.sleep(0.005)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, handler)
    began_ns = wall_ns()
    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    yield
    sender.join()
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def interrupt(node):
    """Run a call that blocks until a signal comes; the clock must have left it."""

    def handler(number, frame):
        raise Interrupted

    def during(call):
        with signalled(node, handler), pytest.raises(Interrupted):
            call()
        assert lib.pw_node_clock(node.c).depth == 0

    return during


@pytest.mark.parametrize("count", [1, 50_000])
def test_an_interrupted_receive_takes_no_message(comm, interrupt, count):
    interrupt(lambda: comm.Recv(np.empty(count), comm.rank, 5))
    request = comm.Isend(np.full(count, 7.0), comm.rank, 5)
    received = np.zeros(count)
    comm.Recv(received, comm.rank, 5)
    request.Wait()
    assert (received == 7).all()


def test_an_interrupted_exchange_takes_no_message(comm, interrupt):
    one, other = np.ones(1), np.zeros(1)
    interrupt(lambda: comm.Sendrecv(one, comm.rank, 6, other, comm.rank, 5))
    comm.Recv(other, comm.rank, 6)
    assert other[0] == 1
    comm.Sendrecv(np.full(1, 2.0), comm.rank, 5, other, comm.rank, 5)
    assert other[0] == 2


def test_an_interrupted_wait_can_be_made_again(comm, interrupt):
    received = np.zeros(50_000)
    request = comm.Irecv(received, comm.rank, 5)
    interrupt(request.Wait)
    sending = comm.Isend(np.full(50_000, 7.0), comm.rank, 5)
    request.Wait()
    sending.Wait()
    assert (received == 7).all()


def test_a_handler_that_raises_nothing_may_communicate(comm, node):
    """The call goes on, with the message that the handler has sent."""

    def handler(number, frame):
        comm.Send(np.full(1, 3.0), comm.rank, 5)

    received = np.zeros(1)
    with signalled(node, handler):
        comm.Recv(received, comm.rank, 5)
    assert received[0] == 3


def test_messages_of_an_interrupted_broadcast_go_through(comm, interrupt):
    """The root leaves and forgets its array; the others come only then."""
    if comm.rank == 0:
        data = np.full(50_000, 7.0)
        if comm.size == 1:
            comm.Bcast(data, 0)
        else:
            interrupt(lambda: comm.Bcast(data, 0))
        del data
        gc.collect()
        spoilt = [np.full(50_000, -1.0) for _ in range(20)]
        for peer in range(1, comm.size):
            comm.Send(spoilt[0][:1], peer, 9)
    else:
        received = np.zeros(50_000)
        comm.Recv(received, 0, 9)
        comm.Bcast(received, 0)
        assert (received == 7).all()
    comm.Barrier()


def test_an_interrupted_reduction_leaves_its_memory(comm, interrupt):
    """Rank 0 has sent its part and gone on to reductions of other data when the others come."""
    if comm.size == 1:
        comm.Reduce(np.ones(1), np.zeros(1), MPI.SUM, 0)
        return
    other = comm.Dup()
    mine, total = np.full(50_000, 1.0 + comm.rank), np.zeros(50_000)
    if comm.rank == 0:
        interrupt(lambda: comm.Reduce(mine, None, MPI.SUM, 1))
    other.Allreduce(-mine, total)
    if comm.rank != 0:
        comm.Reduce(mine, total, MPI.SUM, 1)
        if comm.rank == 1:
            assert (total == sum(range(1, comm.size + 1))).all()
    other.Free()
