"""What `pagewire compare` leaves besides its JSON: a table of all figures as CSV, and a picture."""

import csv
import io
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from pagewire.cli.commands import compare_table, sweep
from pagewire.native.output import OutputError
from pagewire.native.settings import ConfigError

SUFFIXES = (".png", ".svg", ".pdf")

_DASHES = ("-", "--", ":", "-.")


def as_csv(
    entries: Sequence[Mapping[str, Any]], incomplete: Mapping[str, Any] | None = None
) -> str:
    """A line a row: its settings, how many runs, and of each figure the mean over them, and of
    several its deviation. A comment line in front tells of runs that are missing."""
    ended = [entry for entry in entries if "failure" not in entry]
    names = list(entries[0]["sweep"]) if entries else []
    keys = list(dict.fromkeys(key for entry in ended for key in compare_table.numbers(entry)))
    out = io.StringIO()
    if incomplete is not None:
        num_missing, num_planned = len(incomplete["missing_runs"]), incomplete["planned_runs"]
        out.write(f"# incomplete: {num_missing} of {num_planned} runs are missing\n")
    writer = csv.writer(out, lineterminator="\n")
    is_repeated = any(compare_table.num_runs(entry) > 1 for entry in ended)
    heads = ["name", "memory", "policy", "translation", *names, "runs", "baseline", "slowdown"]
    heads += ["received_alike", "failure", *keys]
    writer.writerow([*heads, *(f"{key}_deviation" for key in keys if is_repeated)])
    for entry in entries:
        swept = [entry["sweep"].get(name, "") for name in names]
        own = [entry["name"], entry["memory"], entry["policy"], entry["translation"], *swept]
        if "failure" in entry:
            writer.writerow([*own, 0, entry["baseline"], "", "", entry["failure"]])
            continue
        alike = str(all(entry["received_alike"])).lower()
        own += [compare_table.num_runs(entry), entry["baseline"], entry["slowdown"], alike, ""]
        deviations = [compare_table.deviation_of(entry, key) for key in keys if is_repeated]
        writer.writerow([*own, *(compare_table.mean_of(entry, key) for key in keys), *deviations])
    return out.getvalue()


def check_picture(path: str) -> None:
    """Refuse a file that is no picture, before anything runs."""
    if pathlib.Path(path).suffix not in SUFFIXES:
        raise ConfigError(f"--plot '{path}': the name must end in one of {', '.join(SUFFIXES)}")


def draw(entries: Sequence[Mapping[str, Any]], title: str, path: str) -> None:
    """Virtual time: a bar for each run, or lines over a swept setting. Raises OutputError."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    ended = [entry for entry in entries if "failure" not in entry]
    with matplotlib.rc_context({"svg.hashsalt": "pagewire", "font.size": 9}):
        is_swept = bool(ended and ended[0]["sweep"])
        height = max(4.8, 0.2 * len(ended)) if is_swept else 0.9 + 0.34 * len(ended)
        figure, axes = pyplot.subplots(figsize=(8.2, height), layout="constrained")
        if is_swept:
            _lines(axes, ended)
        else:
            _bars(axes, ended)
        axes.set_title(title, fontsize=10)
        try:
            figure.savefig(path)
        except OSError as error:
            raise OutputError(f"'{path}' was not written: {error.strerror}") from None
        finally:
            pyplot.close(figure)


def _time_ms(entry: Mapping[str, Any]) -> float:
    return float(compare_table.mean_of(entry, compare_table.TIME.key)) * 1e3


def _deviation_ms(entry: Mapping[str, Any]) -> float:
    return float(compare_table.deviation_of(entry, compare_table.TIME.key) or 0) * 1e3


def _bars(axes: Any, ended: Sequence[Mapping[str, Any]]) -> None:
    times_ms = [_time_ms(entry) for entry in ended]
    deviations = [_deviation_ms(entry) for entry in ended]
    best = compare_table.best(compare_table.TIME.key, ended)
    colours = [
        "#0072B2" if best is not None and time_ms == best * 1e3 else "#999999"
        for time_ms in times_ms
    ]
    bars = axes.barh(
        [entry["name"] for entry in ended],
        times_ms,
        color=colours,
        xerr=deviations if any(deviations) else None,
    )
    axes.bar_label(bars, [f"{time_ms:,.3f}" for time_ms in times_ms], padding=3)
    axes.margins(x=0.15)
    axes.invert_yaxis()
    axes.set_xlabel("virtual time (ms)")


def _lines(axes: Any, ended: Sequence[Mapping[str, Any]]) -> None:
    """Over the setting with the most values, which stand at equal distances with their units as
    typed; a line for each strategy and value of the others."""
    from pagewire.cli.kit.plots import COLOURS, MARKERS

    values = {
        name: list(dict.fromkeys(entry["sweep"][name] for entry in ended))
        for name in ended[0]["sweep"]
    }
    over = max(values, key=lambda name: len(values[name]))
    lines: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for entry in ended:
        rest = {name: text for name, text in entry["sweep"].items() if name != over}
        key = (compare_table.strategy_name(entry), sweep.label(rest))
        lines.setdefault(key, []).append(entry)
    has_strategies = len({strategy for strategy, _ in lines}) > 1
    for idx, ((strategy, others), of_line) in enumerate(lines.items()):
        parts = [strategy if has_strategies or not others else "", others]
        deviations = [_deviation_ms(entry) for entry in of_line]
        axes.errorbar(
            [values[over].index(entry["sweep"][over]) for entry in of_line],
            [_time_ms(entry) for entry in of_line],
            yerr=deviations if any(deviations) else None,
            label=", ".join(part for part in parts if part),
            color=COLOURS[idx % len(COLOURS)],
            marker=MARKERS[idx % len(MARKERS)],
            linestyle=_DASHES[idx // len(COLOURS) % len(_DASHES)],
            capsize=3,
        )
    axes.set_xticks(range(len(values[over])), values[over])
    axes.set_xlabel(over)
    axes.set_ylabel("virtual time (ms)")
    axes.grid(alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=8)
