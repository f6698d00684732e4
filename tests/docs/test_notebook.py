"""The notebook runs from its first cell to its last, and draws."""

import pathlib

import nbclient
import nbformat
import pytest

NOTEBOOK = pathlib.Path(__file__).resolve().parents[2] / "examples" / "page_faults.ipynb"


@pytest.fixture
def notebook() -> nbformat.NotebookNode:
    return nbformat.read(NOTEBOOK, as_version=4)


def test_notebook_is_valid_and_has_no_outputs(notebook):
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert cells and not any(cell.outputs or cell.execution_count for cell in cells)


@pytest.mark.timeout(240)
def test_notebook_runs_and_draws(notebook, tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    done = nbclient.NotebookClient(
        notebook, timeout=200, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = [output for cell in done.cells for output in cell.get("outputs", [])]
    printed = "".join(output.text for output in outputs if output.output_type == "stream")
    assert printed.startswith(
        "413.394 us with every page absent\n39.919 us with every page there\n"
    )
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) == 3
