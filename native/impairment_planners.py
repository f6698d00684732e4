"""Who decides what is impaired at each rank: extension point ImpairmentPlanner.

The engine draws; a planner chooses, once and at start-up, what is planned for each rank: which
sites, how often, with which seed. So no Python runs while time goes on. `impairments.planner` takes
a name of `REGISTRY` or module:Class; docs/extending.md tells how to write, run and test one.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING

from pagewire.native.extension import Entry, Registry

if TYPE_CHECKING:
    from pagewire.native.impairments import ImpairmentsConfig


class ImpairmentPlanner(abc.ABC):
    """Plans the impairments of each rank. Made without arguments, asked once for its own rank."""

    @abc.abstractmethod
    def plan(
        self, *, rank: int, num_ranks: int, configured: ImpairmentsConfig
    ) -> ImpairmentsConfig:
        """What fails at this rank. A function of its arguments alone: two runs must agree."""


class Uniform(ImpairmentPlanner):
    """Every rank as configured; draws differ from rank to rank all the same."""

    def plan(
        self, *, rank: int, num_ranks: int, configured: ImpairmentsConfig
    ) -> ImpairmentsConfig:
        return configured


class Rank0(ImpairmentPlanner):
    """Rank 0 as configured, nothing fails at the others."""

    def plan(
        self, *, rank: int, num_ranks: int, configured: ImpairmentsConfig
    ) -> ImpairmentsConfig:
        return configured if rank == 0 else configured.switched_off()


REGISTRY: Registry[ImpairmentPlanner] = Registry(
    "impairments.planner",
    ImpairmentPlanner,
    {
        "uniform": Entry("every rank, as set here", Uniform),
        "rank0": Entry("rank 0 alone", Rank0),
    },
)
"""What `impairments.planner` takes."""
