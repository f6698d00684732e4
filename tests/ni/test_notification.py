"""Completion notification: with the only block, or once all blocks but one are acknowledged."""

import pytest
from engine_pair import BLOCK, Pair, resident


@pytest.mark.parametrize("window", [1, 2, 3, 64])
@pytest.mark.parametrize("num_blocks", [1, 2, 3, 7])
def test_any_window_notifies_once(window: int, num_blocks: int) -> None:
    pair = Pair(window_blocks=window)
    pair.trace()
    source, destination = resident(num_blocks * BLOCK)
    pair.write(source, destination)
    pair.run()
    assert destination.read() == source.read()
    pair.assert_quiet()
    assert len(pair.log("notified")) == 1
