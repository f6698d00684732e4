"""Completion notification: with the only block, or once all blocks but one are acknowledged."""

import pytest
from engine_pair import BLOCK, Buffer, Pair, pattern

from pagewire.native import lib


def moved(pair: Pair, num_bytes: int) -> dict[int, int]:
    """Time of each host event by kind, of one write between resident buffers."""
    source, destination = Buffer(num_bytes), Buffer(num_bytes)
    source.fill(pattern(num_bytes))
    destination.touch()
    pair.write(source, destination)
    events = pair.run()
    assert destination.read() == source.read()
    pair.assert_quiet()
    return {event.kind: event.time_ns for event in events}


@pytest.mark.parametrize("window", [1, 2, 3, 64])
@pytest.mark.parametrize("num_blocks", [1, 2, 3, 7])
def test_any_window_notifies_once(window: int, num_blocks: int) -> None:
    pair = Pair(window_blocks=window)
    pair.trace()
    moved(pair, num_blocks * BLOCK)
    assert len(pair.log("notified")) == 1
