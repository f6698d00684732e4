"""Whole runs with two threads a rank, and runs that a Ctrl-C ends."""

import pytest
from cli_runs import ran

HOOKS = """
import gc, threading
from mpi4py import MPI
from pagewire.driver.policy import PageInPolicy
from pagewire.node.strategies.strategy import Cost, Lease, MemoryStrategy

class Slow:
    '''Lets other threads run in the midst of an answer, which only one may be at.'''

    def __init__(self):
        self.num_inside = self.num_asked = 0

    def look(self):
        self.num_asked += 1
        self.num_inside += 1
        assert self.num_inside == 1
        assert MPI.Wtime() >= 0
        if self.num_asked % 16 == 0:
            gc.collect()
        self.num_inside -= 1

slow = Slow()

class Page(PageInPolicy):
    def pages(self, *, fault):
        slow.look()
        return range(fault.page, fault.page + 1)

class Nothing(MemoryStrategy):
    def acquire(self, *, span, access):
        slow.look()
        return Lease(span, Cost(100, 0))

    def release(self, *, lease):
        slow.look()
        return Cost(0, 0)
"""

EXCHANGE = """
import mmap, sys, threading
import numpy as np
from mpi4py import MPI
from pagewire.transport.facade.rank import here

sys.setswitchinterval(1e-5)
comm = MPI.COMM_WORLD
own = [comm.Dup() for _ in range(2)]
other = comm.rank ^ 1
errors = []

class Ring:
    '''Garbage that only a collector finds, which may run within a class of the user's.'''

    def __init__(self, requests):
        found = [here.active.get(request.handle) for request in requests]
        self.itself, self.operations = self, found

def fresh(num_bytes):
    pages = mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(pages, np.uint8)

def work(i):
    try:
        for turn in range(12):
            sent, received = fresh(50_000), fresh(50_000)
            sent[:] = 16 * comm.rank + turn % 8 + 8 * i
            short = fresh(10_000)
            requests = [own[i].Irecv(received, other, 1), own[i].Isend(sent, other, 1)]
            requests.append(own[i].Irecv(short, other, 2))
            requests.append(own[i].Isend(sent[:10_000], other, 2))
            Ring(requests)
            MPI.Request.Waitall(requests)
            assert (received == 16 * other + turn % 8 + 8 * i).all()
            assert (short == received[0]).all()
            total = own[i].allreduce(turn)
            assert total == comm.size * turn
    except BaseException as error:
        errors.append(error)
        raise

thread = threading.Thread(target=work, args=(0,))
thread.start()
work(1)
thread.join()
assert not errors
print("rank", comm.rank, "exchanged")
"""


@pytest.fixture
def run(tmp_path):
    """Launch a program of two ranks; its output, standard error behind it."""

    def launch(text, *options, code=0):
        path = tmp_path / "program.py"
        path.write_text(text)
        (tmp_path / "hooks.py").write_text(HOOKS)
        (tmp_path / "interrupts.py").write_text(INTERRUPTS)
        words = ["--quiet", *options, str(path)]
        done = ran("launch", "-n", "2", *words, code=code, timeout_s=100)
        return done.stdout + done.stderr

    return launch


def test_threads_exchange_while_classes_of_the_users_are_asked(run):
    words = ["--policy", "hooks:Page", "--memory", "hooks:Nothing", "--eager-limit", "64"]
    output = run(EXCHANGE, *words)
    assert "rank 0 exchanged" in output and "rank 1 exchanged" in output


INTERRUPTS = """
import os, signal, sys, threading, time
from pagewire.native import lib
from pagewire.transport.facade.rank import here

def interrupt():
    '''Once the main thread waits in a call, and nothing happens.'''
    main = threading.main_thread().ident
    while (not lib.pw_node_silent_since_ns(here.node.c)
           or "/facade/" not in sys._current_frames()[main].f_code.co_filename):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
"""

INTERRUPTED = """
import threading, traceback
import numpy as np
from mpi4py import MPI
from interrupts import interrupt

comm = MPI.COMM_WORLD
received, status = np.zeros(4), MPI.Status()

def wait_for_it(call):
    call()  # here

def end_by_interrupt(call):
    if comm.rank == 0:
        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            wait_for_it(call)
        except KeyboardInterrupt as error:
            lines = [frame.line for frame in traceback.extract_tb(error.__traceback__)]
            assert any(line.endswith("# here") for line in lines), lines
        else:
            raise AssertionError("not interrupted")
        thread.join()
        assert not received.any()
    comm.Barrier()
"""

EACH_CALL = """
CALLS = {
    "Recv": lambda: comm.Recv(received, 1, 7),
    "any": lambda: comm.Recv(received, MPI.ANY_SOURCE, MPI.ANY_TAG),
    "recv": lambda: comm.recv(None, 1, 7),
    "Probe": lambda: comm.Probe(1, 7),
    "Mprobe": lambda: comm.Mprobe(1, 7),
}
for name, call in CALLS.items():
    for count in (4, 10_000):
        received = np.zeros(count)
        end_by_interrupt(call)
        # The message that is sent now is for the second receive: the first one is no more.
        if comm.rank == 1:
            comm.Send(np.ones(count), 0, 7)
        else:
            second = np.zeros(count)
            comm.Recv(second, 1, 7, status)
            assert second.all() and not received.any() and status.source == 1
            print("went on:", name, count)
"""


SEND = """
if comm.rank == 0:
    threading.Thread(target=interrupt).start()
    sent = np.ones(100_000)
    try:
        comm.Ssend(sent, 1, 1)
    except KeyboardInterrupt:
        del sent
    comm.Barrier()
    comm.Barrier()
else:
    comm.Barrier()
    received = np.zeros(100_000)
    comm.Recv(received, 0, 1)
    assert received.all()
    comm.Barrier()
    print("went on: Ssend")
"""

BESIDE = """
own = [comm.Dup() for _ in range(2)]
received = np.zeros(4)

def receive():
    own[0].Recv(received, 1, 7)

if comm.rank == 0:
    threads = [threading.Thread(target=each) for each in (receive, interrupt)]
    for thread in threads:
        thread.start()
    try:
        own[1].Recv(np.zeros(4), 1, 7)
    except KeyboardInterrupt:
        pass
    comm.Barrier()
    for thread in threads:
        thread.join()
    assert received.all()
    print("went on: beside")
else:
    comm.Barrier()
    own[0].Send(np.ones(4), 0, 7)
"""


def test_an_interrupt_ends_a_wait_at_its_place_and_leaves_the_messages_of_others(run):
    """It takes a receive back; a send's message stays the receiver's; the main thread's interrupt
    lets another thread's receive go on."""
    output = run(INTERRUPTED + EACH_CALL + SEND + BESIDE)
    for name in ("Recv", "any", "recv", "Probe", "Mprobe"):
        assert f"went on: {name} 4\n" in output and f"went on: {name} 10000\n" in output
    assert "went on: Ssend\n" in output and "went on: beside\n" in output


def test_an_interrupt_that_nobody_catches_ends_the_run(run):
    text = """
if comm.rank == 0:
    threading.Thread(target=interrupt).start()
wait_for_it(lambda: comm.Recv(received, comm.rank ^ 1, 7))
"""
    output = run(INTERRUPTED + text, code=1)
    assert "KeyboardInterrupt" in output and "# here" in output
    assert "rank 0 raised KeyboardInterrupt" in output
