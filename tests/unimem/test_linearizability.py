"""Histories of random concurrent programs on shared memory are linearizable in virtual time."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from linearizability import Done, is_linearizable

from pagewire.unimem.gsas import PAGE_BYTES
from pagewire.unimem.machine import Machine

NODES = 3
BLOCK_BYTES = 24
"""Three words; those of block 0 stand across the boundary of two pages of node 0, those of block 1
at the beginning of a page of node 1."""
BLOCKS = 2
WORDS = st.one_of(st.integers(0, 3), st.sampled_from((2**32, 2**64 - 1, 0x0101010101010101)))
NUM_ARGUMENTS = {
    "read8": 0, "read32": 0, "read64": 0, "write8": 1, "write32": 1, "write64": 1, "write128": 2,
    "swap": 1, "faa": 1, "cas": 2,
}  # fmt: skip
LIMITS = {"write8": 2**8, "write32": 2**32}


@st.composite
def operation(draw):
    """Kind, block, byte in it, arguments. Few places and values: operations meet."""
    kind = draw(st.sampled_from((*NUM_ARGUMENTS, "read4k", "compute")))
    if kind == "compute":
        return kind, draw(st.sampled_from((100, 3_000, 50_000)))
    if kind == "read4k":
        return kind, 1, 0
    offset = draw(st.sampled_from((0, 8) if kind == "write128" else (0, 3, 8, 13, 16)))
    values = (draw(WORDS) % LIMITS.get(kind, 2**64) for _ in range(NUM_ARGUMENTS[kind]))
    return kind, draw(st.integers(0, BLOCKS - 1)), offset, *values


PROGRAM = st.tuples(st.integers(0, NODES - 1), st.lists(operation(), min_size=1, max_size=6))
PROGRAMS = st.lists(PROGRAM, min_size=2, max_size=5)


def done(kind, arguments, result, called_ns, ended_ns, *, block=0, offset=0):
    return Done(block, kind, offset, arguments, result, called_ns, ended_ns)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([done("write64", (1,), 0, 0, 10), done("read64", (), 1, 20, 30)], True),
        ([done("write64", (1,), 0, 0, 10), done("read64", (), 0, 20, 30)], False),
        ([done("write64", (1,), 0, 0, 25), done("read64", (), 0, 20, 30)], True),
        ([done("faa", (1,), 0, 0, 9), done("faa", (1,), 0, 0, 9)], False),
        ([done("faa", (1,), 1, 0, 9), done("faa", (1,), 0, 0, 9)], True),
        ([done("cas", (0, 1), 1, 0, 9), done("cas", (0, 2), 1, 0, 9)], False),
        ([done("cas", (0, 1), 1, 0, 9), done("cas", (0, 2), 1, 0, 9, block=1)], True),
        ([done("cas", (0, 1), 1, 0, 9), done("cas", (0, 2), 1, 0, 9, offset=8)], True),
        ([done("swap", (5,), 0, 0, 5), done("read64", (), 0, 3, 9),
          done("read64", (), 5, 2, 4)], True),
        ([done("swap", (5,), 0, 0, 5), done("read64", (), 0, 4, 9),
          done("read64", (), 5, 1, 2)], False),
        # A thread's next operation is called when the one before ends.
        ([done("write64", (1,), 0, 0, 10), done("read64", (), 0, 10, 20)], False),
        # Half of 128 bits is nobody's to see.
        ([done("write128", (1, 2), 0, 0, 30), done("read64", (), 1, 5, 9),
          done("read64", (), 2, 10, 14, offset=8)], True),
        ([done("write128", (1, 2), 0, 0, 30), done("read64", (), 1, 5, 9),
          done("read64", (), 0, 10, 14, offset=8)], False),
        # The low bits that are lost: two of an 8-bit write, none of an 8-bit read.
        ([done("write8", (7,), 0, 0, 5, offset=3), done("read8", (), 7, 6, 9)], True),
        ([done("write8", (7,), 0, 0, 5, offset=3), done("read8", (), 7, 6, 9, offset=3)], False),
        ([done("write32", (7,), 0, 0, 5, offset=4), done("read64", (), 7, 6, 9)], True),
        ([done("write64", (1,), 0, 0, 5), done("read4k", (), b"\1" + bytes(23), 6, 9)], True),
    ],
)  # fmt: skip
def test_checker_knows_what_is_linearizable(history, expected):
    assert is_linearizable(history, BLOCK_BYTES) is expected


def perform(thread, program, addresses, history):
    for kind, *arguments in program:
        if kind == "compute":
            thread.compute(arguments[0])
            continue
        block, offset, *values = arguments
        called_ns = thread.now_ns
        result = getattr(thread, kind)(addresses[block] + offset, *values)
        result = result[:BLOCK_BYTES] if kind == "read4k" else int(result or 0)
        entry = Done(block, kind, offset, tuple(values), result, called_ns, thread.now_ns)
        history.append(entry)


def run_programs(programs, *, pick=None):
    """Each (node, operations) is a thread; several may be of one node."""
    history, addresses = [], []
    with Machine(NODES, pick=pick) as machine:

        def prepare(thread):
            across = thread.alloc(2, node=0) + PAGE_BYTES - 8
            addresses.extend((across, thread.alloc(node=1)))

        machine.run((0, prepare))
        machine.run(*((node, perform, program, addresses, history) for node, program in programs))
        # What is there in the end: what was done and never read is seen.
        everything = [
            ("read64", block, at) for block in range(BLOCKS) for at in range(0, BLOCK_BYTES, 8)
        ]
        machine.run((0, perform, everything, addresses, history))
    return history


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs=PROGRAMS)
def test_random_programs_in_virtual_order_are_linearizable(programs):
    history = run_programs(programs)
    num_operations = sum(each[0] != "compute" for _, p in programs for each in p)
    assert len(history) == num_operations + BLOCKS * BLOCK_BYTES // 8
    assert is_linearizable(history, BLOCK_BYTES)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs=PROGRAMS, draw=st.randoms(use_true_random=False))
def test_random_programs_in_any_order_of_their_host_are_linearizable(programs, draw):
    """As if each node were a process of a busy host: who is late in wall time is not in virtual."""
    history = run_programs(programs, pick=lambda names: draw.randrange(len(names)))
    assert is_linearizable(history, BLOCK_BYTES)


def test_who_is_late_in_wall_time_sees_nothing_of_the_virtual_future():
    """Thread 0 is physically through before the others begin."""

    def pick(names):
        return next((i for i, name in enumerate(names) if name in ("thread 0", "service 0")), 0)

    programs = [
        (0, [("compute", 100_000), ("write64", 0, 0, 3)]),
        (1, [("read64", 0, 0)]),
        (2, [("read64", 1, 0)]),
    ]
    write, near, far = run_programs(programs, pick=pick)[:3]
    assert write.result == 0 and near.result == 3 and far.result == 0
    assert near.ended_ns > write.called_ns > 100_000 > far.ended_ns - far.called_ns


def test_both_words_of_128_bits_are_there_at_once():
    """Across the boundary of two pages; who writes looks at the second word himself, too."""
    writes = [
        each
        for value in range(1, 9)
        for each in (("write128", 0, 0, value, value), ("read64", 0, 8))
    ]
    reads = [("compute", 15_000)] + [("read64", 0, 0), ("compute", 3_000), ("read64", 0, 8)] * 6
    programs = [(0, writes), (1, reads), (2, reads[::-1])]
    assert is_linearizable(run_programs(programs), BLOCK_BYTES)


def test_equal_programs_take_equal_times():
    programs = [
        (0, [("faa", 0, 0, 1)] * 5),
        (1, [("cas", 0, 0, 1, 2), ("read64", 1, 0)] * 3),
        (1, [("swap", 1, 0, 3), ("write128", 0, 8, 1, 2)] * 4),
    ]
    assert run_programs(programs) == run_programs(programs)
