"""`pagewire test --policy|--errs|--scheduling|--impairments|--memory module:Class`: can this
class be used?

Each kind's own conformance test asks made-up questions; with a policy of page faults two engines
then move real data as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from pagewire.driver.conformance import check_err_policy, check_policy
from pagewire.lab import Lab
from pagewire.lab.buffer import PAGE_BYTES
from pagewire.lab.transfer import all_pages
from pagewire.native.conformance import Conformance
from pagewire.native.settings import ConfigError
from pagewire.node.strategies.conformance import check_strategy
from pagewire.r5sched.conformance import check_scheduling
from pagewire.run.settings import config
from pagewire.run.settings.conformance import check_planner

SIZES = (1, PAGE_BYTES, 3 * PAGE_BYTES + 1, 100_000, 1 << 20)
SETTINGS = (
    (),
    ("run.timeout=none",),
    ("run.timeout=100us", "smmu.hupcf=0"),
    ("driver.page_in=touch-a-page",),
)
ERR_SETTINGS = (
    (),
    ("run.policy=all", "run.timeout=none"),
    ("run.policy=block", "run.timeout=100us", "smmu.hupcf=0"),
    ("run.policy=all", "driver.library_core=other"),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """One kind of extension."""

    setting: str
    test: Conformance
    asked: str
    """What the questions are."""
    moves: Callable[[str], str] | None = None
    """Moves real data; says how much."""


def main(option: str, name: str) -> int:
    """Check one class and print what was found; 0 when it can be used."""
    kind = KINDS[option]
    registry = next(each for each in config.EXTENSIONS if each.setting == kind.setting)
    config.load([f"{kind.setting}={name}"], environ={})
    found = registry.load(name)
    if found is None or name in registry.names():
        raise ConfigError(f"{option} {name}: it comes with pagewire; name a class as module:Class")
    registry.create(name)
    print(f"{kind.setting} {name}")
    print("ok      is made without arguments")
    try:
        for text in _checks(kind, found, name):
            print(f"ok      {text}")
    except _FailedCheck as failed:
        print(f"FAILED  {failed}")
        return 1
    return 0


class _FailedCheck(Exception):
    """What a class does not do, and why."""


def _checks(kind: Kind, make: Callable[[], Any], name: str) -> Iterator[str]:
    """A line for each check that passed."""
    text = "raises nothing, and every answer can be used"
    given = _try(text, lambda: kind.test.answers(make()))
    yield f"{text} ({len(given)} {kind.asked})"
    text = "gives the same answers to the same questions"
    _try(text, lambda: kind.test.check_repeats(make, given))
    yield f"{text} ({len(given)} {kind.asked}, twice)"
    moves = kind.moves
    if moves is not None:
        text = "brings every byte through"
        yield f"{text} ({_try(text, lambda: moves(name))})"


def _try(text: str, check: Callable[[], Any]) -> Any:
    try:
        return check()
    except Exception as error:
        raise _FailedCheck(f"{text}: {error}") from error


def _move(setting: str, others: Sequence[Sequence[str]], name: str) -> str:
    """Transfers on two engines; the lab compares the bytes and sees that nothing is left over."""
    num_transfers = 0
    for settings in others:
        loaded = config.load([f"{setting}={name}", *settings], environ={})
        lab = Lab(settings=loaded, max_size=SIZES[-1])
        for num_bytes in SIZES:
            for move in (lab.write, lab.read):
                for source, destination in _absent(num_bytes):
                    if source and loaded.run.timeout_ns is None:
                        continue  # only the timeout recovers from a fault at the source
                    move(num_bytes, source_absent=source, absent=destination)
                    num_transfers += 1
    return f"{num_transfers} transfers of 1 B to 1 MiB"


def _absent(num_bytes: int) -> Iterator[tuple[list[int], list[int]]]:
    """Pages that are absent at the source and at the destination."""
    pages = list(all_pages(num_bytes))
    yield [], pages
    yield [], pages[::3]
    yield pages[-1:], []
    yield pages[::5], pages[1::2]


KINDS = {
    "--policy": Kind("run.policy", check_policy, "faults", partial(_move, "run.policy", SETTINGS)),
    "--errs": Kind(
        "driver.err_by",
        check_err_policy,
        "faults",
        partial(_move, "driver.err_by", ERR_SETTINGS),
    ),
    "--scheduling": Kind("firmware.scheduling", check_scheduling, "transfers"),
    "--impairments": Kind("impairments.planner", check_planner, "plans"),
    "--memory": Kind("run.memory", check_strategy, "acquires and releases"),
}
"""The kinds by the option of `pagewire test`."""
