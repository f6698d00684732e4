"""The node's clock in C against a short reference: every source of compute time but the measured
one, whose times no reference can know (tests/c/node/test_clock.c)."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagewire.native import ffi, lib

CALL_NS, POLL_NS, READ_NS = 500, 135, 100
SOURCES = {
    "replay": lib.PW_COMPUTE_REPLAY,
    "model": lib.PW_COMPUTE_MODEL,
    "none": lib.PW_COMPUTE_NONE,
}


class Reference:
    """What the clock's comments say, the slow way: a list of durations, sums of times."""

    def __init__(self, source: str, scale: float, durations: list[int]) -> None:
        self.source, self.scale, self.durations = source, scale, list(durations)
        self.now_ns = self.compute_ns = self.mpi_ns = self.sleep_ns = 0
        self.declared_ns = self.missing = self.depth = self.entered_ns = 0

    def _compute(self) -> int:
        duration_ns = 0
        if self.source == "model":
            duration_ns, self.declared_ns = self.declared_ns, 0
        elif self.source == "replay" and self.durations:
            duration_ns = self.durations.pop(0)
        elif self.source == "replay":
            self.missing += 1
        duration_ns = int(duration_ns * self.scale)
        self.compute_ns += duration_ns
        self.now_ns += duration_ns
        return duration_ns

    def enter(self, costs_call: bool) -> None:
        self.depth += 1
        if self.depth == 1:
            self._compute()
            self.entered_ns = self.now_ns
            self.now_ns += CALL_NS * costs_call

    def leave(self) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.mpi_ns += self.now_ns - self.entered_ns

    def read(self) -> int:
        if self.depth == 0:
            self._compute()
        self.now_ns += READ_NS
        return self.now_ns

    def declare(self, duration_ns: int) -> None:
        self.declared_ns += duration_ns

    def sleep(self, duration_ns: int) -> None:
        self.now_ns += duration_ns
        self.entered_ns += duration_ns
        self.sleep_ns += duration_ns

    def completed(self, complete_ns: int) -> None:
        self.now_ns = max(self.now_ns, complete_ns) + POLL_NS


def make(source: int, scale: float = 1.0, durations: Any = (), recording: bool = False) -> Any:
    """A pw_clock, finished with its last reference."""
    replayed = ffi.new("int64_t[]", list(durations))
    options = ffi.new(
        "pw_clock_options *",
        {
            "call_ns": CALL_NS,
            "poll_ns": POLL_NS,
            "read_ns": READ_NS,
            "compute": source,
            "scale": scale,
            "replay_ns": replayed,
            "num_replay": len(durations),
            "is_recording": recording,
        },
    )
    clock = ffi.gc(ffi.new("pw_clock *"), lib.pw_clock_finish)
    assert lib.pw_clock_init(clock, options) == 0
    return clock


times = st.integers(0, 10**12)
steps = st.one_of(
    st.tuples(st.just("enter"), st.booleans()),
    st.tuples(st.just("leave")),
    st.tuples(st.just("read")),
    st.tuples(st.just("declare"), times),
    st.tuples(st.just("sleep"), times),
    st.tuples(st.just("completed"), times),
)


@settings(max_examples=300, deadline=None)
@given(
    source=st.sampled_from(sorted(SOURCES)),
    scale=st.one_of(st.just(1.0), st.floats(0, 1e6, allow_nan=False)),
    durations=st.lists(times, max_size=8),
    program=st.lists(steps, max_size=40),
)
def test_clock_does_what_the_reference_does(source, scale, durations, program) -> None:
    durations = durations if source == "replay" else []
    reference = Reference(source, scale, durations)
    clock = make(SOURCES[source], scale, durations)
    for name, *arguments in program:
        if name == "leave" and reference.depth == 0:
            continue
        expected = getattr(reference, name)(*arguments)
        found = getattr(lib, f"pw_clock_{name}")(clock, *arguments)
        assert found == expected
        for field in ("now_ns", "compute_ns", "mpi_ns", "sleep_ns", "depth"):
            assert getattr(clock, field) == getattr(reference, field), (name, field)
    assert clock.replay_missing == reference.missing
    assert clock.num_replay - clock.next_replay == len(reference.durations)


@pytest.mark.parametrize("source", sorted(SOURCES))
def test_a_recording_run_takes_no_time_but_measured(source) -> None:
    clock = make(SOURCES[source], durations=[7] if source == "replay" else [], recording=True)
    lib.pw_clock_declare(clock, 5)
    for _ in range(3):
        lib.pw_clock_enter(clock, True)
        lib.pw_clock_leave(clock)
    assert clock.now_ns == 3 * CALL_NS and clock.compute_ns == 0
    count = ffi.new("uint64_t *")
    durations = lib.pw_clock_recorded(clock, count)
    assert count[0] == 3 and all(each >= 0 for each in durations[0:3])


def test_an_entry_says_that_the_program_ran() -> None:
    clock = make(lib.PW_COMPUTE_NONE)
    assert clock.program_ran
    clock.program_ran = 0
    lib.pw_clock_enter(clock, True)
    assert clock.program_ran
    clock.program_ran = 0
    lib.pw_clock_enter(clock, True)  # inside of the library
    lib.pw_clock_leave(clock)
    lib.pw_clock_leave(clock)
    assert not clock.program_ran
    lib.pw_clock_enter_at(clock, False, 0)
    assert clock.program_ran and clock.now_ns == CALL_NS
