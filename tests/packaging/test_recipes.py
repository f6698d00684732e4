"""The recipes of `packaging` say what pyproject.toml, meson.build, mpirun.sh and .ci/run say."""

import contextlib
import pathlib
import re
import runpy
import sys
import tomllib
import types

import pytest
from packaging.requirements import Requirement

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
NOT_OF_PYTHON = {"python", "mpich", "libfabric", "c"}
"""What Spack names as it is; packages of Python are py-NAME."""


class Recipe:
    """What packaging/spack/package.py says, run with a Spack that only takes notes."""

    def __init__(self) -> None:
        self.condition = ""
        self.needs: list[tuple[str, str, set[str]]] = []
        self.said: dict[str, list[str]] = {"license": [], "variant": [], "version": []}

    def depends_on(self, spec: str, *, type: str | tuple[str, ...]) -> None:
        types = {type} if isinstance(type, str) else {*type}
        self.needs.append((self.condition, spec, types))

    @contextlib.contextmanager
    def when(self, condition: str):
        self.condition = condition
        yield
        self.condition = ""

    def note(self, kind: str):
        return lambda value, **_: self.said[kind].append(value)

    def of(self, condition: str, needed_for: str) -> set[str]:
        """Specs without what follows a blank."""
        return {
            spec.split()[0]
            for where, spec, types in self.needs
            if where == condition and needed_for in types
        }


@pytest.fixture
def recipe(monkeypatch) -> Recipe:
    taken = Recipe()
    spack = types.ModuleType("spack.package")
    vars(spack).update(depends_on=taken.depends_on, when=taken.when)
    vars(spack).update({kind: taken.note(kind) for kind in taken.said})
    python = types.ModuleType("spack_repo.builtin.build_systems.python")
    python.PythonPackage = object
    for module in (spack, python):
        parts = module.__name__.split(".")
        for end in range(1, len(parts)):
            name = ".".join(parts[:end])
            monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
        monkeypatch.setitem(sys.modules, module.__name__, module)
    taken.names = runpy.run_path(str(PACKAGING / "spack" / "package.py"))
    return taken


def as_spack(requirements: list[str]) -> set[str]:
    """`numpy>=1.26` is py-numpy@1.26: for Spack."""
    found = set()
    for each in map(Requirement, requirements):
        bounds = {bound.operator: bound.version for bound in each.specifier}
        name = each.name if each.name in NOT_OF_PYTHON else f"py-{each.name}"
        below = ""
        if "<" in bounds:
            major, minor = bounds["<"].split(".")
            below = f"{major}.{int(minor) - 1}"  # of Spack's ranges the end is in
        found.add(f"{name}@{bounds['>=']}:{below}")
    return found


def test_spack_has_what_pyproject_has(recipe):
    python = f"python@{PROJECT['requires-python'].removeprefix('>=')}:"
    assert recipe.of("", "run") == as_spack(PROJECT["dependencies"]) | {python}
    build = as_spack(PYPROJECT["build-system"]["requires"])
    assert recipe.of("", "build") == build | {python, "c"}


@pytest.mark.parametrize("group", ["mpi", "plots"], ids="group {}".format)  # `mpi` alone is a mark
def test_spacks_variants_are_groups_of_pyproject(recipe, group):
    assert group in recipe.said["variant"]
    assert recipe.of(f"+{group}", "run") == as_spack(PROJECT["optional-dependencies"][group])


def test_spacks_variants_are_all_used(recipe):
    used = {where.removeprefix("+") for where, *_ in recipe.needs if where}
    assert used == set(recipe.said["variant"])


def test_spack_has_the_version_and_the_licence(recipe):
    build = (ROOT / "meson.build").read_text(encoding="utf-8")
    assert recipe.said["version"] == [re.search(r"version: '([^']+)'", build)[1]]
    assert recipe.said["license"] == [PROJECT["license"]]


@pytest.mark.parametrize("has_mpi, fabric", [(True, "enabled"), (False, "disabled")])
def test_spack_hands_meson_an_option_that_there_is(recipe, has_mpi, fabric):
    spec = types.SimpleNamespace(satisfies=lambda text: text == "+mpi" and has_mpi)
    settings = recipe.names["Pagewire"]().config_settings(spec, None)
    assert settings == {"setup-args": {"-Dfabric": fabric}}
    assert "option('fabric', type: 'feature'" in (ROOT / "meson.options").read_text("utf-8")


def packages(path: pathlib.Path) -> set[str]:
    """Of the one installation by apt-get without a variable."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    (found,) = re.findall(r"--no-install-recommends +([a-z0-9 -]+)(?: >&2)?$", text, re.MULTILINE)
    return set(found.split())


def test_containers_install_what_continuous_integration_does_without_what_only_tests_need():
    only_tests = {"git", "iproute2"}
    assert packages(PACKAGING / "install.sh") == packages(ROOT / ".ci" / "run") - only_tests


def test_mpirun_names_every_package_that_containers_install():
    text = (ROOT / "mpirun.sh").read_text(encoding="utf-8")
    told = set(" ".join(re.findall(r"apt-get install ([a-z0-9 -]+)", text)).split())
    assert packages(PACKAGING / "install.sh") - {"python3"} <= told | {"libfabric-dev"}
    assert "libfabric-dev" in text


@pytest.mark.parametrize("name", ["Dockerfile", "pagewire.def"])
def test_containers_are_made_of_the_same_system_by_the_same_steps(name):
    text = (PACKAGING / name).read_text(encoding="utf-8")
    assert re.search(r"^(?:FROM|From:) debian:12$", text, re.MULTILINE)
    assert re.search(r"^(?:COPY|   ) \. /opt/pagewire$", text, re.MULTILINE)
    assert re.findall(r"\S*install\.sh", text) == ["/opt/pagewire/packaging/install.sh"]
    assert "PATH=/opt/venv/bin:$PATH" in text
    assert "PAGEWIRE_VENV=/opt/venv" in (PACKAGING / "install.sh").read_text(encoding="utf-8")
