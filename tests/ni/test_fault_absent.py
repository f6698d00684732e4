"""Page faults of absent pages: never touched, dropped, or swapped out."""

import pytest
from engine_pair import ARRIVED, BLOCK, PAGE, Buffer, Pair, Policy, absent, resident, times
from faulting_pair import ABSENT, ENDS, MODEL, PRESENT, faults, set_pages

from pagewire.native import ffi, lib


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("how", ["first touch", "dropped"])
def test_pages_that_were_never_touched_and_dropped_ones_fault(how: str, ends: str) -> None:
    pair = Pair(policy=Policy.BLOCK)
    num_bytes = 3 * BLOCK
    source, destination = resident(num_bytes)
    expected = source.read()
    if ends != "destination":
        expected = bytes(num_bytes)
        source.drop()
        if how == "first touch":
            source = Buffer(num_bytes)
    if ends != "source":
        destination.drop()
        if how == "first touch":
            destination = Buffer(num_bytes)
    pair.write(source, destination)
    pair.finish()
    assert destination.read() == expected
    at_source, at_destination = faults(pair, 0), faults(pair, 1)
    assert (at_source[0] > 0) == (ends != "destination")
    assert (at_destination[1] > 0) == (ends != "source")
    assert at_source[2:] == at_destination[2:] == (0, 0)
    assert pair.counters(0).pages_paged_in == 12 * (ends != "destination")
    assert pair.counters(1).pages_paged_in == 12 * (ends != "source")


def test_block_whose_pages_are_all_absent_is_looked_at_once_in_each_attempt() -> None:
    """The pages of one block are asked for at one moment, so one probe does for all of them."""
    pair = Pair(policy=Policy.BLOCK)
    source, destination = absent(BLOCK)
    counters = ffi.new("pw_memory_counters *")
    pair.carry(source, destination)
    lib.pw_memory_read_counters(pair.memories[1], counters)
    assert pair.counters(1).translation_faults_destination == 4
    assert counters.probes == 2  # it faults, and it is there


@pytest.mark.parametrize("ends", ENDS)
def test_model_page_from_swap_is_a_major_fault_that_waits_for_the_device(ends: str) -> None:
    def run(swapped: bool) -> tuple[int, Pair]:
        pair = Pair(memory_backend=MODEL, model_frame_limit_pages=1)
        source, destination = resident(PAGE)
        others = Buffer(PAGE), Buffer(PAGE)
        for node, buffer in ((0, source), (1, destination)):
            if (ends == "source") == (node == 1) and ends != "both":
                continue
            set_pages(pair, node, buffer, PRESENT if swapped else ABSENT)
            set_pages(pair, node, others[node], PRESENT)  # takes the only frame
        arrived_ns = times(pair.carry(source, destination))[ARRIVED]
        return arrived_ns, pair

    minor_ns, minor = run(False)
    major_ns, major = run(True)
    in_source, in_destination = int(ends != "destination"), int(ends != "source")
    assert [minor.counters(node).major_faults for node in (0, 1)] == [0, 0]
    assert [major.counters(node).major_faults for node in (0, 1)] == [in_source, in_destination]
    assert [major.counters(node).pages_paged_in for node in (0, 1)] == [in_source, in_destination]
    # the source's page-in is over long before its timeout, major or not
    assert major_ns - minor_ns == in_destination * major.costs.major_fault_ns
    booked_ns = [major.counters(n).page_in_ns - minor.counters(n).page_in_ns for n in (0, 1)]
    expected = [end * major.costs.major_fault_ns for end in (in_source, in_destination)]
    assert booked_ns == expected


def test_model_thrashes_when_frames_are_short() -> None:
    settings = {"model_frame_limit_pages": 6, "window_blocks": 1}  # two blocks would not fit
    pair = Pair(memory_backend=MODEL, policy=Policy.BLOCK, **settings)
    source, destination = resident(3 * BLOCK)
    set_pages(pair, 1, destination, ABSENT)
    for at_ns in (0, 10**8):
        pair.carry(source, destination, at_ns=at_ns)
    assert pair.counters(1).major_faults >= 6
    pair.assert_quiet()
