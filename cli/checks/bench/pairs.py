"""Operations of ranks, each by plain MPI and over the NI in turns: by Python's ranks, or in C."""

from collections.abc import Mapping, Sequence

from pagewire.cli.checks.bench import c_program
from pagewire.cli.checks.bench.group import Conditions, measure_on_ranks
from pagewire.cli.checks.bench.times import Times, Work

BOTH = ("facade", "fabric")
"""The transports that such groups measure."""


def measure(
    conditions: Conditions, num_ranks: int, works: Sequence[Work], num_rounds: int, round_s: float
) -> Mapping[Work, Times]:
    """Times of each work, of the quickest rounds. In C runs alternate, and their rounds are its
    own."""
    if conditions.transport == "fabric":
        return c_program.measure(conditions, num_ranks, works)
    if conditions.quick:
        num_rounds, round_s = 1, 0.001
    spec = {"works": works, "num_rounds": num_rounds, "round_s": round_s}
    rows = measure_on_ranks(conditions, num_ranks, "pairs", spec)
    return {work: Times(**row) for work, row in zip(works, rows, strict=True)}
