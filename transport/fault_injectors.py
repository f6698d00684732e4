"""Who decides where faults are injected: extension point FaultInjector.

The engine draws; an injector chooses, once and at start-up, what is planned for each rank: which sites,
how often, with which seed. So no Python runs while time goes on. `faults.injector` names one of the
registry or `module:Class`. A bad cable at one node, for instance:

    from pagewire.transport.fault_injectors import FaultInjector

    class BadCable(FaultInjector):
        '''Rank 1 loses one packet in 50 and damages one in 200; the others are as configured.'''

        def plan(self, *, rank, num_ranks, configured):
            if rank != 1:
                return configured
            return dataclasses.replace(
                configured, packet_loss="1:50:7", packet_corruption="1:200:7"
            )

in a file `cables.py`, then `--set faults.injector=cables:BadCable`. `check_conformance(BadCable())`
tells what is wrong with one.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any

from pagewire.native import extension
from pagewire.native.faults import FaultsConfig, Site
from pagewire.native.settings import ConfigError, suggestion


class FaultInjector(abc.ABC):
    """Plans the faults of each rank. Made without arguments, asked once for its own rank."""

    @abc.abstractmethod
    def plan(self, *, rank: int, num_ranks: int, configured: FaultsConfig) -> FaultsConfig:
        """What fails at this rank. A function of its arguments alone: two runs must agree."""


class Uniform(FaultInjector):
    """Every rank as configured; draws differ from rank to rank all the same."""

    def plan(self, *, rank: int, num_ranks: int, configured: FaultsConfig) -> FaultsConfig:
        return configured


class Rank0(FaultInjector):
    """Rank 0 as configured, nothing fails at the others."""

    def plan(self, *, rank: int, num_ranks: int, configured: FaultsConfig) -> FaultsConfig:
        if rank == 0:
            return configured
        off: dict[str, Any] = {name: str(Site()) for name in configured.sites()}
        return dataclasses.replace(configured, **off)


REGISTRY: dict[str, type[FaultInjector]] = {"uniform": Uniform, "rank0": Rank0}


def register(name: str, injector: type[FaultInjector]) -> None:
    """Make an injector known by name."""
    if name in REGISTRY or ":" in name:
        raise ConfigError(f"fault injector '{name}': the name is taken or has a colon")
    REGISTRY[name] = injector


def create(name: str, *, folders: Sequence[str] = ()) -> FaultInjector:
    """The injector of a registered name or of `module:Class`; ConfigError says what is allowed.

    `folders`: where the module is looked for besides the working directory and Python's path.
    """
    if ":" not in name:
        if name not in REGISTRY:
            raise ConfigError(
                f"faults.injector = '{name}': unknown{suggestion(name, REGISTRY)}; allowed is one of "
                f"{', '.join(REGISTRY)}, or module:Class"
            )
        return REGISTRY[name]()
    # The base class as such is what the user's has to be derived from, not what is made here.
    base: type[FaultInjector] = FaultInjector  # type: ignore[type-abstract]
    return extension.create("faults.injector", name, base, folders=folders)


def plan(*, rank: int, num_ranks: int, configured: FaultsConfig) -> FaultsConfig:
    """The plan of a rank by the configured injector."""
    injector = create(configured.injector)
    try:
        made = injector.plan(rank=rank, num_ranks=num_ranks, configured=configured)
    except Exception as error:
        raise ConfigError(
            f"faults.injector = '{configured.injector}': plan() raised {extension.describe(error)}"
        ) from error
    if not isinstance(made, FaultsConfig):
        raise ConfigError(
            f"faults.injector = '{configured.injector}': plan() gave {type(made).__name__}, "
            "not a FaultsConfig"
        )
    return made


def check_conformance(injector: FaultInjector) -> None:
    """AssertionError when an injector does not keep what the engine relies on."""
    plans = [FaultsConfig(), FaultsConfig(packet_loss="1:100:7", lost_err="1:2:3:4")]
    for configured in plans:
        for num_ranks in (1, 4):
            for rank in range(num_ranks):
                first = injector.plan(rank=rank, num_ranks=num_ranks, configured=configured)
                again = injector.plan(rank=rank, num_ranks=num_ranks, configured=configured)
                assert isinstance(first, FaultsConfig), f"rank {rank}: {first!r} is no FaultsConfig"
                assert first == again, f"rank {rank}: two plans of the same arguments differ"
    other = type(injector)()
    assert other.plan(rank=0, num_ranks=2, configured=plans[1]) == injector.plan(
        rank=0, num_ranks=2, configured=plans[1]
    ), "two injectors of one class differ: the ranks would too"
