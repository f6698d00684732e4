"""Histories of random concurrent programs on shared words are linearizable in virtual time."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from linearizability import Done, is_linearizable

from pagewire.transport.unimem.machine import Machine

VALUES = st.integers(0, 3)
WORDS = 3
OPERATION = st.one_of(
    st.tuples(st.just("read"), st.integers(0, WORDS - 1)),
    st.tuples(st.sampled_from(("write", "swap", "faa")), st.integers(0, WORDS - 1), VALUES),
    st.tuples(st.just("cas"), st.integers(0, WORDS - 1), VALUES, VALUES),
    st.tuples(st.just("compute"), st.sampled_from((100, 3_000, 50_000))),
)
PROGRAM = st.lists(OPERATION, min_size=1, max_size=6)
METHODS = {"read": "read64", "write": "write64", "swap": "swap", "faa": "faa", "cas": "cas"}


def done(word, kind, arguments, result, called_ns, ended_ns):
    return Done(word, kind, arguments, result, called_ns, ended_ns)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([done(0, "write", (1,), 0, 0, 10), done(0, "read", (), 1, 20, 30)], True),
        ([done(0, "write", (1,), 0, 0, 10), done(0, "read", (), 0, 20, 30)], False),
        ([done(0, "write", (1,), 0, 0, 25), done(0, "read", (), 0, 20, 30)], True),
        ([done(0, "faa", (1,), 0, 0, 9), done(0, "faa", (1,), 0, 0, 9)], False),
        ([done(0, "faa", (1,), 1, 0, 9), done(0, "faa", (1,), 0, 0, 9)], True),
        ([done(0, "cas", (0, 1), 1, 0, 9), done(0, "cas", (0, 2), 1, 0, 9)], False),
        ([done(0, "cas", (0, 1), 1, 0, 9), done(1, "cas", (0, 2), 1, 0, 9)], True),
        ([done(0, "swap", (5,), 0, 0, 5), done(0, "read", (), 0, 3, 9),
          done(0, "read", (), 5, 2, 4)], True),
        ([done(0, "swap", (5,), 0, 0, 5), done(0, "read", (), 0, 4, 9),
          done(0, "read", (), 5, 1, 2)], False),
    ],
)  # fmt: skip
def test_checker_knows_what_is_linearizable(history, expected):
    assert is_linearizable(history) is expected


def perform(thread, program, addresses, history):
    for kind, *arguments in program:
        if kind == "compute":
            thread.compute(arguments[0])
            continue
        word, *values = arguments
        called_ns = thread.now_ns
        result = getattr(thread, METHODS[kind])(addresses[word], *values)
        entry = Done(word, kind, tuple(values), int(result or 0), called_ns, thread.now_ns)
        history.append(entry)


def run_programs(programs, *, pick=None, nodes=3):
    """Each on its own node in turn; words 0 and 1 share a page of node 0, word 2 is node 1's."""
    history, addresses = [], []
    with Machine(nodes, pick=pick) as machine:

        def prepare(thread):
            page = thread.alloc(node=0)
            addresses.extend((page, page + 8, thread.alloc(node=1)))

        machine.run((0, prepare))
        machine.run(
            *(
                (idx % nodes, perform, program, addresses, history)
                for idx, program in enumerate(programs)
            )
        )
    return history


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs=st.lists(PROGRAM, min_size=2, max_size=4))
def test_random_programs_in_virtual_order_are_linearizable(programs):
    history = run_programs(programs)
    assert len(history) == sum(each[0] != "compute" for p in programs for each in p)
    assert is_linearizable(history)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs=st.lists(PROGRAM, min_size=2, max_size=4), draw=st.randoms(use_true_random=False))
def test_random_programs_in_any_order_of_their_host_are_linearizable(programs, draw):
    """As if each node were a process of a busy host: who is late in wall time is not in virtual."""
    assert is_linearizable(run_programs(programs, pick=lambda names: draw.randrange(len(names))))


def test_who_is_late_in_wall_time_sees_nothing_of_the_virtual_future():
    """Thread 0 is physically through before the others begin."""

    def pick(names):
        return next((i for i, name in enumerate(names) if name in ("thread 0", "service 0")), 0)

    programs = [[("compute", 100_000), ("write", 0, 3)], [("read", 0)], [("read", 2)]]
    write, near, far = run_programs(programs, pick=pick)
    assert write.result == 0 and near.result == 3 and far.result == 0
    assert near.ended_ns > write.called_ns > 100_000 > far.ended_ns - far.called_ns


def test_equal_programs_take_equal_times():
    programs = [[("faa", 0, 1)] * 5, [("cas", 0, 1, 2), ("read", 2)] * 3, [("swap", 2, 3)] * 4]
    assert run_programs(programs) == run_programs(programs)
