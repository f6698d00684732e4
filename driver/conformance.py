"""Is a page-in or an ERR policy one that can be used? For its author's tests; needs no test
framework.

    from pagewire.driver.conformance import check_policy

    def test_my_policy():
        check_policy(MyPolicy)

The faults are made up: transfers of 4 KB to 4 GB, aligned and not, at the lowest and the highest
addresses, faulting in order and out of order at either end, with all, none and some pages resident.
`pagewire test --policy module:Class` does this and moves real data too; `check_err_policy` and
`--errs` are for an ErrPolicy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from pagewire.driver.policy import (
    ErrPolicy,
    PageFault,
    PageInPolicy,
    reason_to_refuse,
    reason_to_refuse_err,
)
from pagewire.native.conformance import Answer, Conformance
from pagewire.native.extension import describe

_BLOCK_PAGES = 4
_FIRST_PAGES = (16, 1_000_000, 34_359_000_001, (1 << 36) - (1 << 20) - 1)
_NUM_PAGES = (1, 3, 4, 5, 16, 257, 1 << 20)
_RESIDENT: tuple[Callable[[int], bool], ...] = (
    lambda page: False,
    lambda page: True,
    lambda page: page % 3 != 0,
)


def faults() -> Iterator[PageFault]:
    """The faults that a policy is asked about, the same at each call."""
    time_ns = 0
    for first_page in _FIRST_PAGES:
        for num_pages in _NUM_PAGES:
            transfer = range(first_page, first_page + num_pages)
            picked = {0, 1, 2, num_pages // 2, num_pages - 2, num_pages - 1} & set(range(num_pages))
            for turn, offset in enumerate([*sorted(picked), *sorted(picked, reverse=True)]):
                time_ns += 17_000
                yield _fault(transfer, first_page + offset, turn, time_ns)


def _fault(transfer: range, page: int, turn: int, time_ns: int) -> PageFault:
    start = max(transfer.start, page - page % _BLOCK_PAGES)
    resident = _RESIDENT[turn % len(_RESIDENT)]

    def probe(first_page: int, num_pages: int) -> Sequence[bool]:
        return [resident(each) for each in range(first_page, first_page + num_pages)]

    return PageFault(
        page=page,
        block=range(start, min(transfer.stop, page - page % _BLOCK_PAGES + _BLOCK_PAGES)),
        transfer=transfer,
        at_destination=turn % 2 == 0,
        time_ns=time_ns,
        pdid=1,
        bank=0,
        source_node=turn % 3,
        transaction_id=turn,
        sequence=turn % 2,
        probe=probe,
    )


def _answer(
    fault: PageFault, question: Callable[[], object], refuse: Callable[[object], str]
) -> Answer:
    try:
        answer = question()
    except BaseException as error:
        raise AssertionError(f"raised {describe(error)} at {fault}") from error
    reason = refuse(answer)
    if reason:
        raise AssertionError(f"answered {reason} ({fault})")
    return Answer(fault, answer)


def _ask(policy: PageInPolicy) -> Iterator[Answer]:
    for each in faults():
        yield _answer(
            each, partial(policy.pages, fault=each), partial(reason_to_refuse, fault=each)
        )


def _ask_err(policy: ErrPolicy) -> Iterator[Answer]:
    at_destination = (each for each in faults() if each.at_destination)
    for idx, each in enumerate(at_destination):
        ends = (each.page + 1, max(each.block.stop, each.page + 1), each.transfer.stop)
        pages = range(each.page, ends[idx % 3])
        yield _answer(each, partial(policy.err, fault=each, pages=pages), reason_to_refuse_err)


check_policy = Conformance(_ask)
"""Called with a policy's class: how many faults were tried; AssertionError says what is wrong."""
check_err_policy = Conformance(_ask_err)
"""The same for an ErrPolicy: faults at destinations, with one page, the block's or the transfer's
about to come in."""
