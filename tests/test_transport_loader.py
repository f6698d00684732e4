"""The facade loads MPI when it is asked for, not before."""

import os
import subprocess
import sys


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PAGEWIRE_RUN_QUIET": "true"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_package_does_not_load_mpi() -> None:
    assert run("import pagewire.transport, sys; print('mpi4py.MPI' in sys.modules)") == "False"


def test_finder_waits_for_settings_and_replaces_at_load() -> None:
    program = """
from pagewire.transport.loader import install_finder
install_finder(); install_finder()
import mpi4py
mpi4py.rc.threads = False
from mpi4py import MPI
assert MPI.Query_thread() == MPI.THREAD_SINGLE
import pagewire.transport
print(pagewire.transport.MPI is MPI, MPI.Comm.Send.__module__)
"""
    assert run(program).split()[0] == "True"


def test_replacement_waits_for_a_late_init() -> None:
    program = """
import mpi4py
mpi4py.rc.initialize = False
from pagewire.transport import MPI
original = MPI.Comm.Send
MPI.Init()
print(MPI.Comm.Send is not original, MPI.COMM_WORLD.allreduce(2))
MPI.Finalize()
"""
    assert run(program) == "True 2"


def test_unknown_attribute_is_an_error() -> None:
    program = """
import pagewire.transport
try:
    pagewire.transport.MPJ
except AttributeError as error:
    print(error)
"""
    assert "MPJ" in run(program)
