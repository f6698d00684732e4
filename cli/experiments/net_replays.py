"""Replays of patterns on links that nodes share: what the experiments of the network measure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pagewire.cli.kit.result import Options, Panel
from pagewire.replay.replay import Outcome, Replay, Settings, Trace

SHARED = "network.model=links"
NUMBERS = "virtual times of replays of made patterns, from the component costs of the platform file"


def settings_of(options: Options, *assignments: str) -> Settings:
    """The user's settings, with links that nodes share and these on top."""
    config = options.settings(SHARED, *assignments)
    return Settings(config, options.platform(), config.run.compute_scale)


def replayed(
    trace: Trace, settings: Settings, others: Mapping[int, Settings] | None = None
) -> Outcome:
    """What comes of a run; others: of ranks with settings of their own. Raises ReplayError."""
    with Replay(trace, settings, others=others or {}) as replay:
        replay.run()
        return replay.outcome()


def total(outcome: Outcome, counter: str) -> int:
    """Of all ranks."""
    return sum(int(each[counter]) for each in outcome.per_rank)


def time_us(outcome: Outcome) -> float:
    """When the last rank ended."""
    return float(max(each["virtual_time_ns"] for each in outcome.per_rank)) / 1e3


def busiest(outcome: Outcome) -> dict[str, float]:
    """Of all links: how busy they were on average and the hottest, in per cent of the run, and the
    longest wait of a block for one, in us."""
    links = outcome.links
    hottest = links["hottest"]
    return {
        "mean_busy": 100 * links["mean_busy"],
        "hottest_busy": 100 * max((each["busy"] for each in hottest), default=0.0),
        "longest_wait_us": 1e6 * max((each["longest_wait_s"] for each in hottest), default=0.0),
    }


def add_slowdowns(
    rows: Sequence[dict[str, Any]], key: str, is_base: Callable[[dict[str, Any]], bool]
) -> None:
    """Give each row its slowdown, in per cent of the time of the base row with the same key; None
    where that one was not measured."""
    base = {row[key]: row["time_us"] for row in rows if is_base(row)}
    for row in rows:
        base_us = base.get(row[key])
        row["slowdown"] = 100 * (row["time_us"] / base_us - 1) if base_us else None


def bars_and_marks(
    x_label: str,
    y_label: str,
    categories: Sequence[str],
    series: Mapping[str, list[Any]],
    title: str = "",
) -> Panel:
    """Of two series by their names, over the categories, each named once or more: the first as
    bars, the second as marks."""
    bars, marks = series.items()
    return Panel(
        x_label,
        y_label,
        title=title,
        categories=list(dict.fromkeys(categories)),
        stacks=[bars],
        marks=[marks],
    )
