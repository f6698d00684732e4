"""Is a scheduling policy one that can be used? For its author's tests; needs no test framework.

    from pagewire.r5sched.conformance import check_scheduling

    def test_my_scheduling():
        check_scheduling(MyScheduling)

Two objects are asked the same questions, in the same order: every answer must be a decision, and
both must give the same. Of performance it says nothing. `pagewire test --scheduling module:Class`
does this.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from pagewire.native import lib
from pagewire.native.conformance import Answer, Conformance
from pagewire.r5sched.scheduling import (
    PostedTransfer,
    Scheduler,
    SchedulingError,
    SchedulingPolicy,
)

_SIZES = (0, 1, 64, 4096, 16384, 16385, 512 * 1024, 512 * 1024 + 1, int(lib.PW_TRANSFER_MAX_BYTES))


def questions() -> list[PostedTransfer]:
    """Sizes around every limit, to several peers, written and read, some of them again."""
    once = [
        PostedTransfer(num_bytes, peer, is_read, 1_000 * i)
        for i, (num_bytes, peer, is_read) in enumerate(
            itertools.product(_SIZES, (0, 1, 2**22 - 1), (False, True))
        )
    ]
    return once + once[::-1]


def _ask(policy: SchedulingPolicy) -> Iterator[Answer]:
    """Hint and window of each answer."""
    asker = Scheduler(policy, type(policy).__name__)
    for transfer in questions():
        try:
            decision = asker.decide(transfer)
        except SchedulingError as error:
            raise AssertionError(str(error)) from error
        yield Answer(transfer, (int(decision.hint), int(decision.window_blocks)))


check_scheduling = Conformance(_ask)
"""Called with a policy's class: how many questions were asked; AssertionError says what is
wrong."""
