"""Runs each file of tests/mpi under mpiexec at several sizes."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

FILES = sorted((Path(__file__).parent / "mpi").glob("test_*.py"))
MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
TIMEOUT_S = 200


@pytest.mark.skipif(MPIEXEC is None, reason="no mpiexec")
@pytest.mark.parametrize("num_ranks", [1, 2, 4])
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_file_passes_on_every_rank(file: Path, num_ranks: int) -> None:
    command = [
        str(MPIEXEC), "-n", str(num_ranks), sys.executable, "-m", "pytest", "--with-mpi", "-q",
        "-p", "no:cacheprovider", "--timeout=60", "--timeout-method=thread", str(file),
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        output, _ = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)  # mpiexec ends its ranks, which have own sessions
        output, _ = process.communicate()
        pytest.fail(f"{file.name} at {num_ranks} ranks took over {TIMEOUT_S} s\n{output}")
    assert process.returncode == 0 and " failed" not in output and " error" not in output, output
