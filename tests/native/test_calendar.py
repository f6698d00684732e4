"""The calendar against a brute-force reference that knows every booked interval."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from pagewire.native import ffi, lib

LIMIT = 256
NEVER = 2**63 - 1


class Reference:
    """Merged busy intervals in a list; the same rules, said the slow way."""

    def __init__(self) -> None:
        self.busy: list[tuple[int, int]] = []
        self.floor = 0
        self.booked = 0

    def peek(self, at: int, duration: int) -> int:
        duration = max(duration, 0)
        candidates = [max(at, self.floor)] + [end for _, end in self.busy]
        return min(
            start
            for start in candidates
            if start >= max(at, self.floor)
            and all(
                start >= end or (start < begin and start + duration <= begin)
                for begin, end in self.busy
            )
        )

    def idle_since(self, at: int) -> int:
        if any(begin <= at < end for begin, end in self.busy):
            return at
        return min(at, max([self.floor, *(end for _, end in self.busy if end <= at)]))

    def book(self, at: int, duration: int) -> int:
        start = self.peek(at, duration)
        if duration > 0:
            self.booked += duration
            merged: list[tuple[int, int]] = []
            for begin, end in sorted([*self.busy, (start, start + duration)]):
                if merged and merged[-1][1] == begin:
                    merged[-1] = (merged[-1][0], end)
                else:
                    merged.append((begin, end))
            if len(merged) > LIMIT:
                self.floor = merged.pop(0)[1]
            self.busy = merged
        return start


def new_calendar():
    return ffi.gc(ffi.new("pw_calendar *"), lib.pw_calendar_finish)


def intervals(calendar) -> list[tuple[int, int]]:
    busy = [lib.pw_calendar_at(calendar, i) for i in range(calendar.num_busy)]
    return [(interval.start_ns, interval.end_ns) for interval in busy]


def compare(bookings) -> None:
    calendar, reference = new_calendar(), Reference()
    for at, duration in bookings:
        assert lib.pw_calendar_peek(calendar, at, duration) == reference.peek(at, duration)
        assert lib.pw_calendar_idle_since(calendar, at) == reference.idle_since(at)
        assert lib.pw_calendar_book(calendar, at, duration) == reference.book(at, duration)
        assert intervals(calendar) == reference.busy
        assert (calendar.floor_ns, calendar.booked_ns) == (reference.floor, reference.booked)


@given(st.lists(st.tuples(st.integers(-5, 120), st.integers(-1, 12)), max_size=80))
def test_same_as_brute_force(bookings) -> None:
    compare(bookings)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.integers(3, 9), st.integers(240, 420))
def test_same_as_brute_force_when_full(seed: int, spread: int, num_bookings: int) -> None:
    bookings = []
    for i in range(num_bookings):
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        late = (seed >> 33) % 5 == 0  # one in five falls somewhere in the past
        at = (seed >> 40) % (i * 10 + 1) if late else i * 10 + (seed >> 50) % spread
        bookings.append((at, (seed >> 20) % 6))
    compare(bookings)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 6)), max_size=60),
    st.integers(0, 9),
    st.sampled_from([0, 8, 26, 31, 33, 45]),
)
def test_same_as_brute_force_however_far_apart(drawn, spread: int, shift: int) -> None:
    """Some of them are more than 32 bits of ns apart."""
    compare([((begin << shift) + at * spread, duration) for begin, at, duration in drawn])


def test_end_of_time_does_not_overflow() -> None:
    calendar = new_calendar()
    assert lib.pw_calendar_book(calendar, NEVER - 5, 100) == NEVER - 5
    assert intervals(calendar) == [(NEVER - 5, NEVER)]
    assert lib.pw_calendar_book(calendar, NEVER, 100) == NEVER


@given(
    st.lists(st.tuples(st.integers(0, 120), st.integers(1, 12)), max_size=20),
    st.integers(-5, 130),
    st.integers(-5, 60),
)
def test_fill_takes_every_gap_and_nothing_else(bookings, start: int, num_ns: int) -> None:
    calendar = new_calendar()
    for at, duration in bookings:
        lib.pw_calendar_book(calendar, at, duration)
    before = {ns for begin, end in intervals(calendar) for ns in range(begin, end)}
    lib.pw_calendar_fill(calendar, start, start + num_ns)
    after = intervals(calendar)
    assert {ns for begin, end in after for ns in range(begin, end)} == before | set(
        range(max(start, 0), start + num_ns)
    )
    assert all(left[1] < right[0] for left, right in itertools.pairwise(after))
    assert calendar.booked_ns == sum(end - begin for begin, end in after)
