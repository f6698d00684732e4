"""The mini-apps under plain mpiexec. Runs are tiny: with more ranks than cores MPICH spins."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

MPIEXEC = pathlib.Path(sys.executable).with_name("mpiexec")


def run_mpi(app: str, num_ranks: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    if not MPIEXEC.exists():
        pytest.skip(f"no mpiexec beside {sys.executable}")
    # Without the launcher's OMP_NUM_THREADS: an app itself must see to its bits.
    environ = {key: value for key, value in os.environ.items() if "NUM_THREADS" not in key}
    environ["MPIR_CVAR_POLLS_BEFORE_YIELD"] = "1"
    words = [sys.executable, "-P", "-m", f"pagewire.apps.{app}", "--plain", *arguments]
    return subprocess.run(
        [str(word) for word in (MPIEXEC, "-n", num_ranks, *words)], env=environ, cwd="/",
        capture_output=True, check=False, text=True, timeout=100, restore_signals=False,
    )  # fmt: skip


def load(path: pathlib.Path) -> dict[str, np.ndarray]:
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def run_to_state(
    app: str, num_ranks: int, path: pathlib.Path, *arguments: object
) -> dict[str, np.ndarray]:
    done = run_mpi(app, num_ranks, *arguments, "--dump-state", path)
    assert done.returncode == 0, done.stderr + done.stdout
    if verdict := {"hpcg": "HPCG result is VALID", "hpl": "PASSED"}.get(app):
        assert done.stdout.count(verdict) == 1
    return load(path)


def assert_same_bits(left: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> None:
    assert left.keys() == right.keys()
    for name, values in left.items():
        assert values.tobytes() == right[name].tobytes(), name
