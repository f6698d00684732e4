"""The event queue leaves in the order of (time, priority, source, arrival)."""

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagewire.native import check, ffi, lib


@pytest.fixture
def make_queue():
    queues = []

    def make(capacity: int = 0):
        out = ffi.new("pw_event_queue **")
        check(lib.pw_event_queue_create(capacity, out), "create")
        queues.append(out[0])
        return out[0]

    yield make
    for queue in queues:
        lib.pw_event_queue_destroy(queue)


def push(queue, time_ns: int, priority: int = 0, source: int = 0, subject: int = 0) -> None:
    event = {"time_ns": time_ns, "priority": priority, "source": source, "subject": subject}
    check(lib.pw_event_queue_push(queue, ffi.new("pw_event *", event)), "push")


def pop(queue):
    event = ffi.new("pw_event *")
    return event if lib.pw_event_queue_pop(queue, event) else None


def test_all_fields_survive_growth(make_queue) -> None:
    queue = make_queue(1)
    for i in range(3000):
        fields = {
            "time_ns": -i,
            "priority": i & 0xFFFF,
            "source": 65535 - i,
            "kind": i * 3,
            "subject": 2**64 - 1 - i,
            "detail": i << 40,
        }
        check(lib.pw_event_queue_push(queue, ffi.new("pw_event *", fields)), "push")
    for i in reversed(range(3000)):
        event = pop(queue)
        assert (event.time_ns, event.priority, event.source, event.kind) == (
            -i,
            i,
            65535 - i,
            i * 3,
        )
        assert (event.subject, event.detail, event.sequence) == (2**64 - 1 - i, i << 40, i)


STEP = st.one_of(
    st.none(),
    st.tuples(st.integers(-3, 3), st.integers(0, 2), st.integers(0, 2)),
    st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 65535), st.integers(0, 65535)),
)


@given(st.lists(STEP, max_size=200))
def test_same_as_heapq(steps) -> None:
    out = ffi.new("pw_event_queue **")
    check(lib.pw_event_queue_create(0, out), "create")
    queue, reference = out[0], []
    try:
        for i, step in enumerate(steps):
            if step is None:
                event = pop(queue)
                if reference:
                    assert heapq.heappop(reference) == (
                        event.time_ns,
                        event.priority,
                        event.source,
                        event.subject,
                    )
                else:
                    assert event is None
            else:
                push(queue, *step, subject=i)
                heapq.heappush(reference, (*step, i))
            assert lib.pw_event_queue_length(queue) == len(reference)
            expected = reference[0][0] if reference else 2**63 - 1
            assert lib.pw_event_queue_next_ns(queue) == expected
    finally:
        lib.pw_event_queue_destroy(queue)
