"""Is a planner of impairments one that can be used? For its author's tests; needs no test
framework.

    from pagewire.run.settings.conformance import check_planner

    def test_my_planner():
        check_planner(MyPlanner)

Two objects are asked for the plans of all ranks of 1, 4 and 64, with nothing configured and with
some sites on, forwards and backwards. `pagewire test --impairments module:Class` does this.
"""

from collections.abc import Iterator

from pagewire.native.conformance import Answer, Conformance
from pagewire.native.extension import describe
from pagewire.native.impairments import ImpairmentsConfig
from pagewire.run.settings.impairment_planners import ImpairmentPlanner, reason_to_refuse

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


def _ask(planner: ImpairmentPlanner) -> Iterator[Answer]:
    """Forwards and backwards, since each rank asks an object of its own."""
    plans: dict[str, ImpairmentsConfig] = {}
    for rank, num_ranks, configured in [*questions(), *reversed(questions())]:
        asked = f"rank {rank} of {num_ranks}, {configured}"
        try:
            made = planner.plan(rank=rank, num_ranks=num_ranks, configured=configured)
        except BaseException as error:
            raise AssertionError(f"raised {describe(error)} ({asked})") from error
        reason = reason_to_refuse(made)
        if reason:
            raise AssertionError(f"answered {reason} ({asked})")
        if plans.setdefault(asked, made) != made:
            raise AssertionError(
                f"two plans of {asked} differ: a plan must follow from its arguments alone"
            )
        yield Answer(asked, made)


check_planner = Conformance(_ask)
"""Called with a planner's class: how many plans were asked for; AssertionError says what is
wrong."""
