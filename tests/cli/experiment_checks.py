"""What holds of every experiment's result and of its files."""

import csv
import json
import math
import os
import pathlib
from unittest import mock

from json_schemas import check as check_schema

from pagewire.cli.kit import output, plots
from pagewire.cli.kit.result import Experiment, Options, Result

PICTURED = ("part-fig10", "part-fig14", "mini-fig4.2", "r5-fig5.10", "unimem-operations")
"""One of each kind of axes, series and number of panels; all others' pictures differ in numbers."""


def quick(*, repetitions: int = 2) -> Options:
    return Options(environ=dict(os.environ), repetitions=repetitions, quick=True)


def check_rows(result: Result) -> None:
    """Finite numbers for every column, and what its picture needs."""
    assert result.rows and result.panels and result.notes
    for row in result.rows:
        for each in result.columns:
            value = row[each.key]
            assert isinstance(value, str) or math.isfinite(value), (each.key, row)
    for panel in result.panels:
        assert panel.series or panel.stacks or panel.cells
        assert all(len(each.x) == len(each.y) for each in panel.series)
        assert all(len(values) == len(panel.categories) for _, values in panel.stacks)


def check_files(
    experiment: Experiment, result: Result, options: Options, folder: pathlib.Path
) -> None:
    """They are written, and say where their numbers come from."""
    name = experiment.name
    is_pictured = name in PICTURED
    with mock.patch.object(plots, "draw", wraps=plots.draw if is_pictured else None) as draw:
        output.write_files(experiment, result, options, folder)
    (_, panels, pictures), _ = draw.call_args
    assert panels == list(result.panels)
    assert pictures == [folder / f"{name}{suffix}" for suffix in (".png", ".svg")]
    document = json.loads((folder / f"{name}.json").read_text())
    check_schema("experiment", document)
    assert document["platform"]["name"] == (experiment.platform or "exanest-qfdb")
    assert document["source"] == experiment.source
    assert document["numbers"] and document["notes"]
    assert len(document["rows"]) == len(result.rows)
    lines = (folder / f"{name}.csv").read_text().splitlines()
    body = list(csv.reader(line for line in lines if not line.startswith("#")))
    assert len(body) == 1 + len(result.rows)
    assert all(len(row) == len(result.columns) for row in body)
    if is_pictured:
        assert pictures[0].read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in pictures[1].read_bytes()
