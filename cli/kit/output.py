"""A result on the terminal and as files: NAME.json, NAME.csv, NAME.png, NAME.svg."""

import csv
import dataclasses
import importlib.metadata
import importlib.util
import io
import pathlib
import sys
from typing import Any

from rich.console import Console, JustifyMethod
from rich.table import Table

from pagewire.cli.kit import machine
from pagewire.cli.kit.result import Experiment, Options, Result
from pagewire.native.output import OutputError, write_file
from pagewire.native.settings import ConfigError
from pagewire.run.report.report import write_json


def console_of(plain_width: int = 100) -> Console:
    """Standard output for tables, so wide when it is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=plain_width)


def plain_table(first: str, *rest: str, title: str = "") -> Table:
    """Texts in the first column, figures in the rest."""
    table = Table(title=title or None, box=None, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column(first, overflow="fold")
    for head in rest:
        table.add_column(head, justify="right", overflow="fold")
    return table


def print_result(experiment: Experiment, result: Result) -> None:
    """Table and notes on standard output."""
    console = console_of()
    console.print(f"\n{_heading(experiment, result)}", style="bold", highlight=False, markup=False)
    table = Table(padding=(0, 1, 0, 0), pad_edge=False, box=None, header_style="bold")
    columns = [column for column in result.columns if column.in_table]
    for idx, column in enumerate(columns):
        side: JustifyMethod = "left" if result.is_text(column) else "right"
        table.add_column(column.head, justify=side, no_wrap=idx == 0, overflow="fold")
    for row in result.rows:
        table.add_row(*(column.text(row.get(column.key)) for column in columns))
    console.print(table)
    for note in result.notes:
        console.print(f"  {note}", style="dim", highlight=False, markup=False)


def _heading(experiment: Experiment, result: Result) -> str:
    count = len(result.missing)
    part = f" (INCOMPLETE: {count} point{'s' * (count > 1)} missing)" if count else ""
    return f"{experiment.name}: {result.title or experiment.title}{part}"


def check_library(name: str, use: str) -> None:
    """Whether a library of the group `plots` is here, before anything runs; raises ConfigError."""
    if importlib.util.find_spec(name) is None:
        raise ConfigError(
            f"{use} with {name}, which is not installed: pip install 'pagewire[plots]'"
        )


def write_files(
    experiment: Experiment, result: Result, options: Options, folder: pathlib.Path
) -> None:
    """All four files of a result; of a stopped experiment beside those of a complete one."""
    described = describe(experiment, result, options)
    name = f"{experiment.name}.incomplete" if result.missing else experiment.name
    path = folder / name
    try:
        write_json(f"{path}.json", described, "experiment")
        write_file(f"{path}.csv", as_csv(described, result))
        from pagewire.cli.kit import plots

        if result.panels:  # of a part there may be nothing to draw
            plots.draw(
                _heading(experiment, result),
                list(result.panels),
                [folder / f"{name}{suffix}" for suffix in (".png", ".svg")],
            )
        if not result.missing:
            for suffix in (".json", ".csv", ".png", ".svg"):
                folder.joinpath(f"{name}.incomplete{suffix}").unlink(missing_ok=True)
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"--output '{folder}': {error.strerror}") from None
    print(f"pagewire: {path}.json .csv .png .svg", file=sys.stderr, flush=True)


def describe(experiment: Experiment, result: Result, options: Options) -> dict[str, Any]:
    """What the JSON file holds."""
    platform = options.platform()
    return {
        "name": experiment.name,
        "title": result.title or experiment.title,
        "source": experiment.source,
        "numbers": result.numbers,
        "pagewire": importlib.metadata.version("pagewire"),
        "platform": {"name": platform.name, "description": platform.description},
        "settings_not_default": options.settings().not_default(),
        "settings_varied": dict(result.varied),
        "sizes": options.size_name,
        "repetitions": options.repetitions if experiment.repeats else 1,
        "columns": [
            {"key": each.key, "title": each.title, "unit": each.unit} for each in result.columns
        ],
        "rows": [dict(row) for row in result.rows],
        "notes": list(result.notes),
        "conditions": [dataclasses.asdict(each) for each in experiment.lines(result.rows)],
        **({"missing_points": list(result.missing)} if result.missing else {}),
        **({"recorded": machine.record()} if options.record else {}),
    }


def as_csv(described: dict[str, Any], result: Result) -> str:
    """Comment lines with what the JSON says, a line of heads, a line a row."""
    out = io.StringIO()
    for key in ("name", "title", "source", "numbers", "pagewire", "sizes", "repetitions"):
        out.write(f"# {key}: {described[key]}\n")
    out.write(f"# platform: {described['platform']['name']}\n")
    for key in ("settings_not_default", "settings_varied"):
        texts = [f"{name}={text}" for name, text in described[key].items()]
        out.write(f"# {key}: {'; '.join(texts) or 'none'}\n")
    if result.missing:
        out.write(f"# incomplete: {len(result.missing)} missing\n")
    for note in described["notes"]:
        out.write(f"# note: {note}\n")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.head for column in result.columns])
    for row in result.rows:
        writer.writerow([row.get(column.key) for column in result.columns])
    return out.getvalue()
