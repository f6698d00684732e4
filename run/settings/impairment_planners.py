"""Asks the configured ImpairmentPlanner for the plan of a rank."""

from collections.abc import Sequence

from pagewire.native.extension import ask
from pagewire.native.impairment_planners import REGISTRY, ImpairmentPlanner
from pagewire.native.impairments import ImpairmentsConfig
from pagewire.native.settings import ConfigError

__all__ = ["REGISTRY", "ImpairmentPlanner", "plan", "reason_to_refuse"]


def reason_to_refuse(made: object) -> str:
    """Why this is no plan; empty when it is one."""
    if not isinstance(made, ImpairmentsConfig):
        return f"a {type(made).__name__} ({made!r}) instead of an ImpairmentsConfig"
    return ""


def plan(
    *, rank: int, num_ranks: int, configured: ImpairmentsConfig, folders: Sequence[str] = ()
) -> ImpairmentsConfig:
    """The plan of a rank by the configured planner; ConfigError says what is wrong with it.

    folders: where a module of the user's may lie, as in Registry.load.
    """
    planner = REGISTRY.create(configured.planner, folders=folders)
    if planner is None:
        return configured
    return ask(
        f"impairments.planner = '{configured.planner}': plan()",
        f"rank {rank} of {num_ranks}",
        lambda: planner.plan(rank=rank, num_ranks=num_ranks, configured=configured),
        reason_to_refuse,
        ConfigError,
    )
