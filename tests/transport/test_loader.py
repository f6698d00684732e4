"""The facade loads MPI when it is asked for, not before."""

import ast
import importlib.util
import pathlib
import sys

from cli_runs import started

from pagewire.transport import facade


def run(program: str) -> str:
    quiet = {"PAGEWIRE_RUN_QUIET": "true"}
    return started([sys.executable, "-c", program], environ=quiet, code=0).stdout.strip()


def test_missing_mpi4py_is_a_sentence_that_names_the_remedy() -> None:
    program = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "mpi4py":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
try:
    from pagewire.transport import MPI
except ImportError as error:
    print(type(error).__name__, error)
"""
    assert run(program) == "ImportError mpi4py is not installed: pip install 'pagewire[mpi]'"


def test_finder_waits_for_settings_and_replaces_at_load() -> None:
    program = """
from pagewire.transport.facade.loader import install_finder
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


def test_importing_any_module_makes_nothing() -> None:
    program = """
import importlib, pkgutil
import mpi4py
mpi4py.rc.initialize = False
import pagewire.transport
found = pkgutil.walk_packages(pagewire.transport.__path__, "pagewire.transport.")
names = [each.name for each in found]
for name in names:
    importlib.import_module(name)
from mpi4py import MPI
from pagewire.transport.facade.rank import here
print(len(names) > 30, MPI.Is_initialized(), here.is_open, hasattr(MPI.Comm.Send, "__wrapped__"))
"""
    assert run(program) == "True False False False"


def test_modules_without_mpi_do_not_load_it() -> None:
    program = """
import sys
import pagewire.transport.rdma
import pagewire.transport.facade.loader
import pagewire.lab.joined
print("mpi4py.MPI" in sys.modules)
"""
    assert run(program) == "False"


def test_every_name_of_the_door_is_there_and_the_door_loads_nothing() -> None:
    for name in facade._MODULE_OF:
        assert getattr(facade, name) is not None
    assert not hasattr(facade, "no_such_name")
    program = """
import sys, pagewire.transport.facade as door
print([name for name in sys.modules if name.startswith(door.__name__ + '.')])
"""
    assert run(program) == "[]"


def test_no_module_has_a_global_that_changes() -> None:
    transport = pathlib.Path(importlib.util.find_spec("pagewire.transport").origin).parent
    for path in transport.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert not any(isinstance(node, ast.Global) for node in ast.walk(tree)), path


def test_use_before_mpi_is_initialized_is_an_error_that_says_so() -> None:
    program = """
import mpi4py
mpi4py.rc.initialize = False
from pagewire import transport
from pagewire.transport import rdma
for use in (lambda: transport.compute(flops=1), lambda: rdma.Buffer(4096), rdma.Channel):
    try:
        use()
    except AttributeError as error:
        print("MPI is not initialized" in str(error))
"""
    assert run(program).split() == ["True"] * 3


def test_unknown_attribute_is_an_error() -> None:
    program = """
import pagewire.transport
try:
    pagewire.transport.MPJ
except AttributeError as error:
    print(error)
"""
    assert "MPJ" in run(program)
