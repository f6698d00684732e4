"""Unimem on nodes of one process: operations, times, rights, forged senders, full FIFOs, dead
nodes, remote fork, messages between kernels, locks."""

import os
import re
import sys

import pytest

from pagewire.cli.commands import info
from pagewire.native import EngineError, lib
from pagewire.run.settings import platform
from pagewire.unimem.gsas import NO_ARGUMENT, NODE_SHIFT, Deny, GsasError, Refusal
from pagewire.unimem.host import name_of
from pagewire.unimem.kernel_mailbox import message
from pagewire.unimem.locks import Barrier, McsLock, SpinLock, TicketLock
from pagewire.unimem.machine import Machine
from pagewire.unimem.program import ProgramError
from pagewire.unimem.thread import THREADS_MAX

COSTS = platform.load("exanest-qfdb").costs
PAYLOAD0, PAYLOAD1, DESTINATION = (
    int(getattr(lib, f"PW_PIF_{name}")) for name in ("PAYLOAD0", "PAYLOAD1", "DESTINATION")
)


@pytest.fixture
def machine():
    with Machine(4) as made:
        yield made


def alone(machine, program, *arguments, node=0, raw=False):
    return machine.run((node, program, *arguments), raw=raw)[0]


def packet_ns(num_bytes: int, hops: int) -> int:
    permille = COSTS.link_coding_permille if hops else 1000  # to itself: no line code
    wire_ns = (COSTS.packet_header_bytes + num_bytes) * 8e6 // (COSTS.link_mbps * permille)
    return int(wire_ns) + COSTS.ni_send_ns + hops * COSTS.hop_ns + COSTS.ni_receive_ns


def test_pages_of_every_node_are_written_read_and_freed(machine):
    """All operations: test_linearizability.py."""

    def program(thread):
        for node in range(4):
            page = thread.alloc(2, node=node)
            assert page == node << NODE_SHIFT | 4096
            thread.write64(page, 0x1122334455667788)
            thread.write128(page + 4088, 1, 2)
            copy = thread.read_array(page, 2)
            assert copy.view("u8")[[0, 511, 512]].tolist() == [0x1122334455667788, 1, 2]
            assert thread.faa(page + 4088, -1) == 1
            thread.free(page)
            with pytest.raises(GsasError, match=r"read64 at 0x.*1000: there is no such page"):
                thread.read64(page)

    alone(machine, program, node=1)


@pytest.mark.parametrize(("node", "hops"), [(0, 0), (1, 1)])
def test_time_of_an_operation_is_the_sum_of_its_parts(machine, node, hops):
    def program(thread):
        page = thread.alloc(node=node)
        start_ns = thread.now_ns
        thread.faa(page, 1)
        return thread.now_ns - start_ns

    posted_ns = 3 * COSTS.core_register_write_ns
    served_ns = 2 * COSTS.mailbox_read_ns + (
        COSTS.atomic_decode_ns + COSTS.atomic_lookup_ns + COSTS.atomic_access_ns
    )
    answered_ns = COSTS.core_register_write_ns + COSTS.mailbox_read_ns
    word_bytes = 2 * 16 + 16 + COSTS.packet_header_bytes
    expected = posted_ns + packet_ns(32, hops) + served_ns + answered_ns
    assert alone(machine, program) == expected + packet_ns(word_bytes, hops)


def test_service_that_sleeps_is_woken_by_a_request(machine):
    """[D3.6 2.2.4]: after a pause of its requests that is longer than it polls."""

    def program(thread, pause_ns):
        page = thread.alloc(node=1)
        durations = []
        for pause in (0, pause_ns):
            thread.compute(pause)
            start_ns = thread.now_ns
            thread.faa(page, 1)
            durations.append(thread.now_ns - start_ns)
        return durations[1] - durations[0]

    assert alone(machine, program, 0) == 0
    assert alone(machine, program, 3 * COSTS.atomic_poll_ns) == COSTS.atomic_wakeup_ns
    assert machine.counters(1)["wakeups"] == 1


def test_memory_of_a_node_ends(machine):
    with Machine(1, settings={"unimem.memory": "8KiB"}) as small:

        def program(thread):
            page = thread.alloc(2)
            with pytest.raises(GsasError, match="raise unimem.memory"):
                thread.alloc()
            thread.free(page)
            return thread.alloc(2)

        assert alone(small, program) == 3 * 4096


def test_arguments_are_checked(machine):
    def program(thread):
        for wrong in (0, 65536):
            with pytest.raises(ValueError, match="allowed is 1 to 65535"):
                thread.alloc(wrong)
        with pytest.raises(ValueError, match="nodes 0 to 3"):
            thread.alloc(node=4)
        with pytest.raises(ValueError, match="no value of 64 bits"):
            thread.write64(0, 2**64)

    alone(machine, program)


def test_view_is_the_memory_itself_and_outlives_its_machine():
    def program(thread):
        page = thread.alloc(3)
        view = thread.view(page + 4096)
        thread.write64(page + 4104, 77)
        with pytest.raises(GsasError):
            thread.view(thread.alloc(node=1))
        return view

    with Machine(2) as machine:
        view = alone(machine, program)
    del machine
    assert view.size == 2 * 4096 and view.view("u8")[1] == 77
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1


# ---- packetizer and mailbox


def test_service_takes_no_words_of_users_and_packets_with_the_senders_own_id():
    with Machine(2) as machine:
        page = alone(machine, lambda thread: thread.alloc(node=1, deny=Deny(15)))
        victim_id = 0x0001

        def forger(thread):
            write = (victim_id | int(lib.PW_UNIMEM_WRITE64) << 56, page)
            assert not thread.write_mailbox(1, 0, [write, (99, 0)])
            # A packet does arrive there, with the forger's own id.
            thread.compute(10_000)
            thread.write_packetizer(PAYLOAD0, *write)
            thread.write_packetizer(PAYLOAD1, 99)
            thread.write_packetizer(DESTINATION, 1 << 34 | 0x0040 << 18)
            thread.compute(10_000)
            assert thread.status() == lib.PW_PIF_ACK

        def owner(thread):
            assert thread.id == victim_id
            return thread.read64(page)

        alone(machine, forger, node=1, raw=True)
        assert machine.counters(1)["refused"] == 1
        assert alone(machine, owner) == 0


def test_full_fifo_of_the_service_is_answered_by_nack_and_tried_again():
    def program(thread, page):
        for _ in range(4):
            thread.faa(page, 1)

    with Machine(2, settings={"unimem.fifo_words": 4}) as machine:
        page = alone(machine, lambda thread: thread.alloc(node=1))
        machine.run(*((0, program, page) for _ in range(20)))
        assert alone(machine, lambda thread: thread.read64(page)) == 80
        counters = machine.counters(0)
        assert counters["nacks"] == counters["resent"] > 0


def test_request_that_an_odd_fifo_cuts_in_half_is_lost():
    """The known issue of the hardware, at the atomic service."""

    def program(thread, page):
        try:
            for _ in range(3):
                thread.faa(page, 1)
        except GsasError as error:
            return error.refusal
        return None

    with Machine(2, settings={"unimem.fifo_words": 5}) as machine:
        page = alone(machine, lambda thread: thread.alloc(node=1))
        results = machine.run(*((0, program, page) for _ in range(20)))
        assert Refusal.NO_ANSWER in results
        assert machine.counters(1)["words_lost"] > 0


def test_dead_node_does_not_answer(machine):
    page = alone(machine, lambda thread: thread.alloc(node=2))
    machine.stop(2)

    def program(thread):
        with pytest.raises(GsasError, match=r"read64 at 0x.* of node 2: the node does not answer"):
            thread.read64(page)
        return thread.read64(thread.alloc(node=1))  # with an interface of its own again

    assert alone(machine, program) == 0


def test_dead_owner_of_a_locks_data_does_not_make_others_wait_for_ever(machine):
    """Who holds the lock asks a dead node, and others look at the lock meanwhile."""
    lock, data = alone(machine, lambda thread: (thread.alloc(node=1), thread.alloc(node=2)))
    machine.answer_limit_ns = 2_000_000
    machine.stop(2)

    def program(thread):
        with SpinLock(thread, lock, pause_ns=20_000):
            start_ns = thread.now_ns
            with pytest.raises(GsasError) as caught:
                thread.faa(data, 1)
            assert caught.value.refusal is Refusal.NO_ANSWER
            assert 2_000_000 <= thread.now_ns - start_ns < 2_010_000
        return thread.now_ns

    assert min(machine.run((0, program), (1, program), (3, program))) > 2_000_000


def test_who_waits_for_a_message_is_not_given_up_while_its_sender_waits_for_an_answer(machine):
    page = alone(machine, lambda thread: thread.alloc(node=2))
    machine.stop(2)

    def sender(thread):
        with pytest.raises(GsasError):
            thread.read64(page)
        thread.messages.device(1).write(message(4, 1))

    def receiver(thread):
        thread.messages.act("r", 4)
        return thread.messages.device(0).read()

    assert machine.run((1, receiver), (0, sender))[0] == message(4, 1)
    with pytest.raises(ValueError, match="answer_limit_ns = 0"):
        Machine(2, answer_limit_ns=0)


def test_node_has_63_threads(machine):
    def program(thread):
        return thread.interface

    assert sorted(machine.run(*((0, program),) * THREADS_MAX)) == list(range(1, 64))
    with pytest.raises(ValueError, match="63 interfaces"):
        machine.run(*((0, program),) * (THREADS_MAX + 1))
    assert alone(machine, program) == 1


def test_error_of_a_program_ends_the_run(machine):
    def wrong(thread):
        thread.alloc()
        raise KeyError("own")

    def endless(thread):
        while True:
            thread.alloc()
            thread.compute(1000)

    with pytest.raises(KeyError, match="own"):
        machine.run((0, endless), (1, wrong))
    assert alone(machine, lambda thread: thread.argument) == NO_ARGUMENT


def test_answer_to_a_run_that_has_failed_is_not_taken_for_a_later_one(machine):
    """The asking thread is stopped while its request is on the way."""

    def asks(thread):
        thread.alloc(node=1)

    def fails(thread):
        thread.compute(100)
        raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        machine.run((0, asks), (2, fails))

    def program(thread):
        page = thread.alloc(node=3)
        thread.write64(page, 5)
        return thread.read64(page)

    assert alone(machine, program) == 5
    assert alone(machine, lambda thread: thread.interface) == 2  # 1 waits for its answer for ever


# ---- remote fork


def child(thread):
    thread.write64(thread.argument, thread.node + 100)


def test_remote_fork_starts_a_thread_at_the_node(machine):
    def parent(thread):
        page = thread.alloc()
        start_ns = thread.now_ns
        id_ = thread.fork(child, page, node=3)
        assert id_ >> 8 == 3
        while not thread.read64(page):
            thread.compute(1000)
        assert thread.now_ns - start_ns > COSTS.atomic_spawn_ns
        return thread.read64(page)

    assert alone(machine, parent) == 103


PROGRAM = f"""#!{sys.executable}
from pagewire.native import ffi, lib
memory, argument = ffi.new("unimem **"), ffi.new("uint64_t *")
assert lib.unimem_forked(memory, argument) == 0
page = ffi.new("uint8_t[4096]")
assert lib.unimem_read4k(memory[0], argument[0], page) == 4096 and page[8] == 7
assert lib.unimem_write64(memory[0], argument[0], lib.unimem_node(memory[0]) + 100) == 0
assert lib.unimem_read64(memory[0], 0, argument) < 0
print(ffi.string(lib.unimem_reason(memory[0])).decode())
"""


def same_as_program(thread):
    assert thread.read4k(thread.argument)[8] == 7
    thread.write64(thread.argument, thread.node + 100)
    with pytest.raises(GsasError):
        thread.read64(0)


def executable(file, text, mode=0o755):
    file.write_text(text)
    file.chmod(mode)


def test_remote_fork_of_an_executable_file_takes_the_time_of_a_function(tmp_path, monkeypatch):
    """[D3.6 2.2.8, 2.3.5]; in C: tests/c/unimem/test_forks.c."""

    def parent(thread, program):
        page = thread.alloc()
        thread.write64(page + 8, 7)
        id_ = thread.fork(program, page, node=3)
        while not (found := thread.read64(page)):
            thread.compute(1000)
        return found, id_, thread.now_ns

    monkeypatch.chdir(tmp_path)
    function_name = name_of(same_as_program)
    name = "program".ljust(len(function_name) - 2, "-")  # as long: as many words to write
    executable(tmp_path / name, PROGRAM)
    ends = []
    for program in (same_as_program, f"./{name}"):
        with Machine(4) as machine:
            ends.append(alone(machine, parent, program))
    assert ends[0] == ends[1] and ends[0][0] == 103
    assert "there is no such page" in (tmp_path / f"exec-{ends[1][1]}-stdout.log").read_text()


@pytest.mark.parametrize(
    ("text", "mode", "error"),
    [
        (None, 0, "there is no such file"),
        ("#!/bin/sh\n", 0o644, "chmod [+]x"),
        ("#!/bin/sh\necho here; exit 3\n", 0o755, r"child \d+, ended with exit code 3; see exec-"),
        ("#!/bin/sh\nkill -SEGV $$\n", 0o755, "died of signal 11 .Segmentation fault.; see exec-"),
        ("no format", 0o755, "ended with exit code 126"),
    ],
)
def test_program_that_cannot_start_or_dies_is_told(
    machine, tmp_path, monkeypatch, text, mode, error
):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        executable(tmp_path / "program", text, mode)
    with pytest.raises((GsasError, ProgramError), match=error):
        alone(machine, lambda thread: thread.fork(tmp_path / "program", node=1))


# ---- messages between kernels


def test_callback_is_called_in_interrupt_context(machine):
    calls = []

    def receiver(thread):
        thread.messages.register(5, lambda *what: calls.append(what))
        with pytest.raises(EngineError):
            thread.messages.act("r", 5)
        thread.compute(10_000)
        thread.in_order()
        thread.messages.unregister(5)

    def sender(thread):
        thread.messages.device(1).write(message(5, 42))
        thread.messages.device(1).write(message(6))
        return thread.now_ns

    machine.run((1, receiver), (0, sender))
    at_ns = 3 * COSTS.core_register_write_ns + packet_ns(32, 1) + COSTS.handler_ns
    assert calls == [(0, message(5, 42), at_ns)]
    assert machine.counters(1)["values_lost"] == 1


def test_error_of_a_callback_ends_the_run(machine):
    def receiver(thread):
        thread.messages.register(5, lambda *what: 1 // 0)
        while True:
            thread.alloc()

    def sender(thread):
        thread.compute(10_000)
        thread.messages.device(1).write(message(5))

    with pytest.raises(ZeroDivisionError):
        machine.run((1, receiver), (0, sender))


def test_device_without_blocking_tells_that_nothing_is_here_yet(machine):
    def receiver(thread):
        thread.messages.act("r", 7)
        device = thread.messages.device(0)
        os.set_blocking(device.fileno(), False)
        with pytest.raises(BlockingIOError):
            device.read()
        os.set_blocking(device.fileno(), True)
        return device.read(), thread.now_ns

    def sender(thread):
        thread.compute(50_000)
        thread.messages.device(1).write(message(7, 1))

    value, at_ns = machine.run((1, receiver), (0, sender))[0]
    assert value == message(7, 1) and at_ns >= 50_000


# ---- pagewire info


def test_info_prints_maps_operations_and_limits(capsys):
    info.print_unimem({"PAGEWIRE_UNIMEM_FIFO_WORDS": "33", "PAGEWIRE_UNIMEM_DMA_BUFFERS": "none"})
    printed = capsys.readouterr().out
    assert re.search(r"0x208 +│ PID_CONF", printed)
    assert re.search(r"│ read32 +│ 5 .*│ 2 +│", printed)
    assert "33 (unimem.fifo_words)" in printed
    assert "268,435,456 B (unimem.dma_buffer)" in printed
    assert "no limit (unimem.dma_buffers)" in printed


# ---- examples


@pytest.mark.parametrize("lock", [SpinLock, TicketLock, McsLock])
def test_lock_excludes(machine, lock):
    def program(thread, address, counter, rounds):
        own = lock(thread, address)
        for _ in range(rounds):
            with own:
                value = thread.read64(counter)
                thread.compute(700)
                thread.write64(counter, value + 1)
        if lock is McsLock:
            own.close()

    def prepare(thread):
        return lock.create(thread, node=2).address, thread.alloc(node=3)

    address, counter = alone(machine, prepare)
    machine.run(*((idx % 4, program, address, counter, 3) for idx in range(8)))
    assert alone(machine, lambda thread: thread.read64(counter)) == 24


def test_barrier_holds_until_all_are_here(machine):
    def program(thread, address, late_ns):
        barrier = Barrier(thread, address, 6)
        times = []
        for _ in range(3):
            thread.compute(late_ns)
            came_ns = thread.now_ns
            barrier.wait()
            times.append((came_ns, thread.now_ns))
        return times

    address = alone(machine, lambda thread: Barrier.create(thread, 6).address)
    results = machine.run(*((idx % 4, program, address, 5_000 * idx) for idx in range(6)))
    for rounds in zip(*results, strict=True):
        assert min(left for _, left in rounds) > max(came for came, _ in rounds)
