"""Does a scheduling policy keep its contract?  python -m pagewire.r5sched.conformance module:Class

Asks two objects of the class the same questions, in the same order: every answer must be a decision,
and both must give the same. Of performance it says nothing.
"""

import itertools
import sys

from pagewire.native import lib
from pagewire.native.settings import ConfigError
from pagewire.r5sched import scheduling

SIZES = (0, 1, 64, 4096, 16384, 16385, 512 * 1024, 512 * 1024 + 1, int(lib.PW_TRANSFER_MAX_BYTES))


def questions() -> list[scheduling.PostedTransfer]:
    """Sizes around every limit, to several peers, written and read, some of them again."""
    once = [
        scheduling.PostedTransfer(num_bytes, peer, is_read, 1_000 * i)
        for i, (num_bytes, peer, is_read) in enumerate(
            itertools.product(SIZES, (0, 1, 2**22 - 1), (False, True))
        )
    ]
    return once + once[::-1]


def check(name: str) -> list[str]:
    """What is wrong with the policy, a line for each; empty when nothing is. ConfigError: not found."""
    first, second = scheduling.create(name), scheduling.create(name)
    if first is None or second is None:
        return []
    askers = [scheduling.Scheduler(each, name) for each in (first, second)]
    wrong = []
    for transfer in questions():
        try:
            answers = []
            for each in askers:
                decision = each.decide(transfer)
                answers.append((decision.hint, decision.window_blocks))
        except scheduling.SchedulingError as error:
            wrong.append(str(error))
            continue
        if answers[0] != answers[1]:
            wrong.append(
                f"scheduling policy '{name}' answered {answers[0]} and {answers[1]} (hint, window) to "
                f"the same questions; last was {transfer}: it depends on more than what it was asked"
            )
    return wrong


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m pagewire.r5sched.conformance module:Class", file=sys.stderr)
        return 2
    try:
        wrong = check(arguments[0])
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for line in wrong:
        print(line)
    print(f"{arguments[0]}: {len(wrong) or 'nothing'} wrong in {len(questions())} questions")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
