"""Each notebook runs from its first cell to its last, prints what it should, and draws."""

import pathlib
import re

import nbclient
import nbformat
import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
# What a notebook prints, in this order, and how many pictures it draws.
NOTEBOOKS = {
    "page_faults": (
        [r"^413\.394 us with every page absent\n39\.919 us with every page there\n"],
        3,
    ),
    "your_policy": (
        [
            r"^Writing my_policy\.py\n",
            r"ok +brings every byte through",
            r"page +39\.2 +111\.9 +413\.4 +1637\.7 +6535\.1 us",
            r"doubling +39\.2 +111\.9 +251\.2 +762\.0 +2850\.3 us",
            r"my_policy:Doubling +2\.907 ms, faults 357",
        ],
        2,
    ),
    "what_would_it_cost": (
        [
            r"4 ranks, 468 records",
            r"part +│ page +│ 0\.003444 │",
            r"rank 3: region 0",
            r"loses 1 % at \{'costs\.page_in_fixed': '6\.717 us', 'costs\.page_in_page': '3\.712",
        ],
        3,
    ),
}


def read(name: str) -> nbformat.NotebookNode:
    return nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)


def test_every_notebook_is_tested():
    assert {path.stem for path in EXAMPLES.glob("*.ipynb")} == set(NOTEBOOKS)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_is_valid_and_has_no_outputs(name):
    notebook = read(name)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert cells and not any(cell.outputs or cell.execution_count for cell in cells)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_runs_and_draws(name, tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    done = nbclient.NotebookClient(
        read(name), timeout=200, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = [output for cell in done.cells for output in cell.get("outputs", [])]
    printed = "".join(output.text for output in outputs if output.output_type == "stream")
    sentences, num_pictures = NOTEBOOKS[name]
    assert re.search(".*".join(sentences), printed, re.DOTALL), printed
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) == num_pictures
