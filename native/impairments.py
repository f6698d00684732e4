"""Settings of the impairments: for each site, how many of its events fail.

A site is written `num:denom:seed`: num of denom eligible events fail, drawn with that seed; with a
fourth number, `num:denom:seed:limit`, at most so many a node. `0:1:0` is off. The names of the
sites are those of the engine (enum pw_impairment_id). Plans are made at start-up; an
ImpairmentPlanner (impairment_planners.py) makes them differ from rank to rank.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from pagewire.native import check, ffi, impairment_planners, lib
from pagewire.native.declared import Section, section, text
from pagewire.native.settings import ConfigError, validate

DENOM_MAX = 1_000_000_000
SEED_MAX = 2**63 - 1
_FORM = "num:denom:seed or num:denom:seed:limit"

KEPT = ("duplication", "delay")
"""Sites whose blocks the network keeps: one that would leave when its transfer is over is
dropped."""


class Site(NamedTuple):
    """num of denom eligible events fail, at most limit of them (0: no limit)."""

    num: int = 0
    denom: int = 1
    seed: int = 0
    limit: int = 0

    @property
    def is_on(self) -> bool:
        return self.num > 0

    def __str__(self) -> str:
        limit = f":{self.limit}" if self.limit else ""
        return f"{self.num}:{self.denom}:{self.seed}{limit}"

    @classmethod
    def parse(cls, text: str, name: str = "a site") -> Site:
        """The site of a text; ConfigError names `name`, the text and what is allowed."""

        def refuse(reason: str) -> ConfigError:
            return ConfigError(f"{name} = '{text}': {reason}; allowed is {_FORM}, such as 1:100:7")

        parts = text.split(":")
        if len(parts) not in (3, 4):
            raise refuse(f"{len(parts)} numbers instead of 3 or 4")
        for part in parts:
            if not (part.isascii() and part.isdigit()):
                raise refuse(f"'{part}' is not a whole number of at least 0")
        site = cls(*(int(part) for part in parts))
        if not 1 <= site.denom <= DENOM_MAX:
            raise refuse(f"denom {site.denom} is not from 1 to {DENOM_MAX}")
        if site.num > site.denom:
            raise refuse(f"num {site.num} is more than denom {site.denom}")
        if max(site.seed, site.limit) > SEED_MAX:
            raise refuse(f"seed and limit go to {SEED_MAX}")
        return site


@section("impairments", (impairment_planners.REGISTRY,))
class ImpairmentsConfig(Section):
    """Which events of a node fail. Fields without `planner` and durations are the sites."""

    def __post_init__(self) -> None:
        validate(self)
        for name, site in self.sites().items():
            hopeless = lib.pw_impairment_hopeless(_site_id(name), _plan_of(site))
            if hopeless:
                raise ConfigError(f"impairments.{name} = '{site}': {text(hopeless)}")

    def sites(self) -> dict[str, Site]:
        """Every site by name, in the engine's order."""
        return {name: Site.parse(getattr(self, name), f"impairments.{name}") for name in SITES}

    def amounts_ns(self) -> dict[str, int]:
        """How late an impaired event is, by the site's name, for those that are late."""
        return {
            "duplication": self.duplicate_after_ns,
            "delay": self.delay_by_ns,
            "late_tasklet": self.tasklet_late_by_ns,
        }

    def switched_off(self) -> ImpairmentsConfig:
        """The same with every site off."""
        off: dict[str, Any] = dict.fromkeys(SITES, str(Site()))
        return dataclasses.replace(self, **off)


SITES = tuple(
    field.name for field in dataclasses.fields(ImpairmentsConfig) if field.default == "0:1:0"
)


def _plan_of(site: Site, amount_ns: int = 0) -> Any:
    """A pw_impairment_site."""
    return ffi.new("pw_impairment_site *", {**site._asdict(), "amount_ns": amount_ns})


def plan(ni: Any, impairments: ImpairmentsConfig) -> None:
    """Give an engine (pw_ni) its plan; before its first transfer."""
    amounts_ns = impairments.amounts_ns()
    for name, site in impairments.sites().items():
        given = _plan_of(site, amounts_ns.get(name, 0))
        check(
            lib.pw_ni_plan_impairment(ni, _site_id(name), given), f"impairments.{name} = '{site}'"
        )


def counts(ni: Any) -> dict[str, dict[str, int]]:
    """Eligible and injected events of an engine's sites that are on, by name.

    `late_after_end`: blocks that were dropped because their transfer was over, of sites that keep
    blocks.
    """
    found, out = {}, ffi.new("pw_impairment_site *")
    for name in SITES:
        check(lib.pw_ni_read_impairment(ni, _site_id(name), out), name)
        if out.num:
            found[name] = {"eligible": int(out.eligible), "injected": int(out.injected)}
            if name in KEPT:
                found[name]["late_after_end"] = int(out.late_after_end)
    return found


def _site_id(name: str) -> int:
    return int(getattr(lib, f"PW_IMPAIRMENT_{name.upper()}"))


def total(per_rank: list[Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """Counts of several nodes summed by site, in the engine's order."""
    sums: dict[str, dict[str, int]] = {}
    for name in SITES:
        of_site = [each[name] for each in per_rank if name in each]
        if of_site:
            sums[name] = {key: sum(each[key] for each in of_site) for key in of_site[0]}
    return sums
