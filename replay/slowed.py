"""A machine on which one thing takes longer: a cost, a table of costs, a duration of the settings,
or compute."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

from pagewire.native.settings import ConfigError, format_value, suggestion
from pagewire.replay.replay import Settings
from pagewire.run.settings.config import REGISTRY, Config
from pagewire.run.settings.platform import Costs, CostTable, cost_name, field_of
from pagewire.run.settings.platform_document import show_cost

COMPUTE = "compute"
_RATES, _PERIODS = ("_mbps",), ("_ns", "_ps")
_GROUPS: Mapping[str, tuple[str, ...]] = {
    COMPUTE: (COMPUTE,),
    "MPI calls": tuple(
        f"costs.{each}" for each in ("mpi_", "poll", "clock_read", "mailbox_", "core_register_")
    ),
    "R5": ("costs.r5_", "firmware."),
    "wire": tuple(f"costs.{each}" for each in ("link", "hop", "ni_", "receive_engine")),
    "translation": tuple(
        f"costs.{each}" for each in ("smmu_", "walk", "tlb_", "vmh_", "cbh_", "utlb_", "ats_lookup")
    ),
    "page-in": ("tables.touch_",)
    + tuple(
        f"costs.{each}"
        for each in ("handler", "tasklet_", "page_in_", "major_", "netlink", "transaction_")
        + ("user_wakeup", "touch_", "odp_", "ats_", "np_")
    ),
    "ERR, timeouts": ("costs.err_", "run.timeout", "odp."),
    "pin": ("tables.pin_", "tables.unpin", "costs.miss_", "mini."),
    "copy": ("tables.copy", "costs.backup_"),
}
"""Parts of the machine, by how the names of their costs begin; the first that fits."""
OTHER = "other"


def names(settings: Settings) -> list[str]:
    """Whatever takes time by itself: costs that are times or rates, tables, durations of settings
    that are set, compute."""
    timed = [each for each in Costs.FIELDS if each.endswith(_RATES + _PERIODS)]
    durations = [
        name
        for name, each in REGISTRY.items()
        if each.kind == "duration"
        and name != "run.watchdog"
        and settings.config.value(name) is not None
    ]
    tables = [f"tables.{name}" for name in settings.platform.tables]
    return [COMPUTE, *(f"costs.{cost_name(each)}" for each in timed), *tables, *durations]


def chosen(text: str, settings: Settings) -> list[str]:
    """Those of a list, or of `all`; raises ConfigError."""
    known = names(settings)
    if text.strip() == "all":
        return known
    asked = [each.strip() for each in text.split(",")]
    for each in asked:
        if each not in known:
            raise ConfigError(
                f"--costs: no cost '{each}'{suggestion(each, known)}; give `all`, or `compute`, "
                "times and rates of `pagewire info --platform`, as costs.NAME or tables.NAME, and "
                "settings that are durations"
            )
    return list(dict.fromkeys(asked))


def group_of(name: str) -> str:
    """The part of the machine that a cost belongs to."""
    return next((group for group, own in _GROUPS.items() if name.startswith(own)), OTHER)


def slowed(settings: Settings, name: str, factor: float) -> tuple[Settings, float]:
    """The same with a cost that takes `factor` times as long, and the factor as its value could be
    rounded: by at least one unit. A setting stays within its limits."""
    if name == COMPUTE:
        return dataclasses.replace(settings, compute_scale=settings.compute_scale * factor), factor
    section, _, key = name.partition(".")
    if section == "tables":
        table = settings.platform.tables[key]
        made = CostTable(table.sizes_bytes, tuple(round(each * factor) for each in table.costs_ns))
        tables = MappingProxyType({**settings.platform.tables, key: made})
        machine = dataclasses.replace(settings.platform, tables=tables)
        return dataclasses.replace(settings, platform=machine), factor
    if section == "costs":
        field, before = _cost(settings, name)
        after = _times(before, factor, is_rate=field.endswith(_RATES))
        costs = Costs({**settings.platform.costs.as_dict(), field: after})
        machine = dataclasses.replace(settings.platform, costs=costs)
        made_factor = before / after if field.endswith(_RATES) else _ratio(after, before)
        return dataclasses.replace(settings, platform=machine), made_factor
    before = settings.config.value(name)
    after = _limited(name, _times(before, factor, is_rate=False))
    config = _with(settings.config, name, after)
    return dataclasses.replace(settings, config=config), _ratio(after, before)


def _cost(settings: Settings, name: str) -> tuple[str, int]:
    field = field_of(name)
    return field, settings.platform.costs.as_dict()[field]


def _times(before: int, factor: float, *, is_rate: bool) -> int:
    after = round(before / factor if is_rate else before * factor)
    grows = factor < 1 if is_rate else factor > 1
    if factor != 1 and after == before:
        after += 1 if grows else -1
    return max(after, 1 if is_rate else 0)


def _ratio(after: int, before: int) -> float:
    return after / before if before else 1.0


def _limited(name: str, value: int) -> int:
    least, most = REGISTRY[name].minimum, REGISTRY[name].maximum
    return int(min(max(value, value if least is None else least), value if most is None else most))


def _with(config: Config, name: str, value: int) -> Config:
    declaration = REGISTRY[name]
    section = dataclasses.replace(
        getattr(config, declaration.section), **{declaration.field: value}
    )
    return dataclasses.replace(config, **{declaration.section: section})


def value_text(settings: Settings, name: str, factor: float = 1.0) -> str:
    """What a cost is after it has been slowed."""
    if name == COMPUTE or name.startswith("tables."):
        return f"x {factor:,.4g}"
    if name.startswith("costs."):
        field, before = _cost(settings, name)
        return show_cost(field, _times(before, factor, is_rate=field.endswith(_RATES)))
    after = _limited(name, _times(settings.config.value(name), factor, is_rate=False))
    return format_value(REGISTRY[name], after)
