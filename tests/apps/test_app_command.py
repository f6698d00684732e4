"""What every mini-app does alike on its ranks: errors, help."""

import pytest
from app_runs import run_mpi

pytest.importorskip("mpi4py.MPI")


@pytest.mark.parametrize(
    ("app", "words", "code", "message"),
    [
        (
            "hpcg",
            "--memory part",
            2,
            "--memory part. Remedy: see --help; options of pagewire stand ",
        ),
        ("hpcg", "--size 8 --sets 1 --dump-state /no/such/folder/f", 2, "No such file"),
        ("hpl", "--P 2 --Q 2", 2, "2 x 2 = 4; allowed: 2, the number of ranks"),
        ("lammps", "--size 1 --skin 3", 2, "sigma wide in x"),
        ("lammps", "--size 4 --timestep 0.1", 1, "atoms at step"),
    ],
)
def test_error_is_printed_once_and_ends_all_ranks(
    app: str, words: str, code: int, message: str
) -> None:
    done = run_mpi(app, 2, *words.split())
    assert done.returncode == code
    assert done.stderr.count(f"{app}: error:") == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_help_is_printed_once() -> None:
    done = run_mpi("hpcg", 2, "--help")
    assert done.returncode == 0 and done.stdout.count("usage:") == 1
    assert "--fresh-buffers" in done.stdout
