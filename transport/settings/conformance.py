"""Is a planner of impairments one that can be used? For its author's tests; needs no test
framework.

    from pagewire.transport.settings.conformance import check_planner

    def test_my_planner():
        check_planner(MyPlanner)

Two objects are asked for the plans of all ranks of 1, 4 and 64, with nothing configured and with
some sites on. `pagewire test --impairments module:Class` does this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pagewire.native.extension import describe
from pagewire.native.impairments import ImpairmentsConfig
from pagewire.transport.settings.impairment_planners import ImpairmentPlanner, reason_to_refuse

_CONFIGURED = (
    ImpairmentsConfig(),
    ImpairmentsConfig(packet_loss="1:100:7", lost_err="1:2:3:4"),
    ImpairmentsConfig(delay="1:50:3", late_tasklet="1:3:9"),
)
_NUM_RANKS = (1, 4, 64)


def questions() -> list[tuple[int, int, ImpairmentsConfig]]:
    """Rank, number of ranks and what is configured, the same at each call."""
    return [
        (rank, num_ranks, configured)
        for configured in _CONFIGURED
        for num_ranks in _NUM_RANKS
        for rank in range(num_ranks)
    ]


def answers(planner: ImpairmentPlanner) -> list[ImpairmentsConfig]:
    """What the planner answers; AssertionError when it raises or an answer is no plan."""
    given = []
    for rank, num_ranks, configured in questions():
        asked = f"rank {rank} of {num_ranks}, {configured}"
        try:
            made = planner.plan(rank=rank, num_ranks=num_ranks, configured=configured)
        except BaseException as error:
            raise AssertionError(f"raised {describe(error)} ({asked})") from error
        reason = reason_to_refuse(made)
        if reason:
            raise AssertionError(f"answered {reason} ({asked})")
        given.append(made)
    return given


def check_repeats(
    make: Callable[[], ImpairmentPlanner], first: Sequence[ImpairmentsConfig]
) -> None:
    """AssertionError when another object, asked in another order, plans something else."""
    planner = make()
    for question, plan in reversed(list(zip(questions(), first, strict=True))):
        rank, num_ranks, configured = question
        again = planner.plan(rank=rank, num_ranks=num_ranks, configured=configured)
        if again != plan:
            raise AssertionError(
                f"two plans of rank {rank} of {num_ranks} differ: each rank asks an object of its "
                "own, so a plan must follow from its arguments alone"
            )


def check_planner(make: Callable[[], ImpairmentPlanner]) -> int:
    """AssertionError that says what is wrong with the planners that `make` (the class) makes.

    Returns how many plans were asked for.
    """
    given = answers(make())
    check_repeats(make, given)
    return len(given)
