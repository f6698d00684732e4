"""`pagewire test --policy|--scheduling|--impairments|--memory module:Class`: can this class be
used?

Each kind's own conformance test asks made-up questions; with a page-in policy two engines then move
real data as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pagewire.driver import conformance as page_in_test
from pagewire.lab import Lab
from pagewire.lab.buffer import PAGE_BYTES
from pagewire.lab.transfer import all_pages
from pagewire.native.settings import ConfigError
from pagewire.r5sched import conformance as scheduling_test
from pagewire.transport.memory import conformance as memory_test
from pagewire.transport.settings import config
from pagewire.transport.settings import conformance as impairments_test

SIZES = (1, PAGE_BYTES, 3 * PAGE_BYTES + 1, 100_000, 1 << 20)
SETTINGS = (
    (),
    ("run.timeout=none",),
    ("run.timeout=100us", "smmu.hupcf=0"),
    ("driver.page_in=touch-a-page",),
)


def _no_data(name: str) -> str:
    return ""


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """One kind of extension."""

    setting: str
    answers: Callable[[Any], Sequence[Any]]
    """Asks an object all questions."""
    repeats: Callable[[Any, Any], None]
    """Asks another object of the class, and compares."""
    asked: str
    """What the questions are."""
    moves: Callable[[str], str] = _no_data
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
    given = _try(text, lambda: kind.answers(make()))
    yield f"{text} ({len(given)} {kind.asked})"
    text = "gives the same answers to the same questions"
    _try(text, lambda: kind.repeats(make, given))
    yield f"{text} ({len(given)} {kind.asked}, twice)"
    if kind.moves is not _no_data:
        text = "brings every byte through"
        yield f"{text} ({_try(text, lambda: kind.moves(name))})"


def _try(text: str, check: Callable[[], Any]) -> Any:
    try:
        return check()
    except Exception as error:
        raise _FailedCheck(f"{text}: {error}") from error


def _move(name: str) -> str:
    """Transfers on two engines; the lab compares the bytes and sees that nothing is left over."""
    num_transfers = 0
    for settings in SETTINGS:
        loaded = config.load([f"run.policy={name}", *settings], environ={})
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
    "--policy": Kind(
        "run.policy", page_in_test.answers, page_in_test.check_repeats, "faults", _move
    ),
    "--scheduling": Kind(
        "firmware.scheduling", scheduling_test.answers, scheduling_test.check_repeats, "transfers"
    ),
    "--impairments": Kind(
        "impairments.planner", impairments_test.answers, impairments_test.check_repeats, "plans"
    ),
    "--memory": Kind(
        "run.memory",
        memory_test.answers,
        memory_test.check_repeats,
        "acquires and releases",
    ),
}
"""The four kinds by the option of `pagewire test`."""
