"""Imports and includes go down only: cli > (apps | lab) > transport > ni > (r5sched | driver >
smmu | mini | odp > smmu) > translation > native."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
BELOW = {
    "native": set(),
    "translation": {"native"},
    "smmu": {"translation", "native"},
    "mini": {"translation", "native"},
    "odp": {"smmu", "translation", "native"},
    "driver": {"smmu", "translation", "native"},
    "r5sched": {"native"},
    "ni": {"r5sched", "driver", "smmu", "mini", "odp", "translation", "native"},
    "transport": {"ni", "r5sched", "driver", "smmu", "mini", "odp", "translation", "native"},
    "apps": {
        "transport",
        "ni",
        "r5sched",
        "driver",
        "smmu",
        "mini",
        "odp",
        "translation",
        "native",
    },
    "lab": {
        "transport",
        "ni",
        "r5sched",
        "driver",
        "smmu",
        "mini",
        "odp",
        "translation",
        "native",
    },
    "cli": {
        "apps",
        "lab",
        "transport",
        "ni",
        "r5sched",
        "driver",
        "smmu",
        "mini",
        "odp",
        "translation",
        "native",
    },
}
"""What each room may use; the rooms at the top of the tree."""

WITHIN_TRANSPORT = {
    "memory": set(),
    "settings": {"memory"},
    "node": {"settings", "memory"},
    "unimem": {"node", "settings", "memory"},
    "sockets": {"unimem", "node", "settings"},
    "timeline": {"settings"},
    "page": {"node"},
    "facade": {"node", "settings", "memory", "timeline", "page"},
    "marks": set(),
    "fabric": {"marks", "node", "settings", "memory"},
}
"""The same for the rooms of transport/."""

WITH_MPI = (
    "transport/facade/",
    "transport/node/wire.py",
    "transport/rdma.py",
    "transport/gsas.py",
    "cli/info.py",
    "cli/bench/ranks/app.py",
    "cli/bench/ranks/stream.py",
    "cli/selftest/hello.py",
    "cli/stress/rank.py",
    "cli/stress/steps/",
    "apps/",
)
"""Who may import mpi4py: wire, facade, users' programs; info asks for the library's
version, a rank of the bench is plain MPI, and what the self test and stress run are programs."""

WITHOUT_MPI = (
    "native/",
    "translation/",
    "smmu/",
    "mini/",
    "odp/",
    "r5sched/",
    "driver/",
    "ni/",
    "transport/node/",
    "transport/unimem/",
)
"""The rooms whose C knows neither Python nor MPI."""

PYTHON_FILES = sorted(path for folder in BELOW for path in (ROOT / folder).rglob("*.py"))
C_FILES = sorted(path for folder in BELOW for path in (ROOT / folder).rglob("*.[ch]"))


def name_of(path: pathlib.Path) -> str:
    return str(path.relative_to(ROOT))


def imports(path: pathlib.Path) -> set[str]:
    """Dotted names of all imports, also those inside of functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def may_use(folder: str, other: str) -> bool:
    return folder == other or other in BELOW[folder]


def test_there_are_files_to_check():
    assert PYTHON_FILES


@pytest.mark.parametrize("path", PYTHON_FILES, ids=name_of)
def test_python_imports_go_down(path):
    folder = path.relative_to(ROOT).parts[0]
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "pagewire" and len(parts) > 1 and parts[1] in BELOW:
            assert may_use(folder, parts[1]), f"{name_of(path)} imports {name}"
        assert parts[0] not in BELOW, f"{name_of(path)} imports {name} instead of pagewire.{name}"


@pytest.mark.parametrize("path", PYTHON_FILES, ids=name_of)
def test_compiled_module_is_imported_by_native_alone(path):
    if name_of(path) != "native/__init__.py":
        assert not any(name.startswith("pagewire._native") for name in imports(path))


@pytest.mark.parametrize("path", PYTHON_FILES, ids=name_of)
def test_mpi4py_is_imported_by_wire_and_facade_alone(path):
    if not name_of(path).startswith(WITH_MPI):
        assert not any(each.split(".")[0] == "mpi4py" for each in imports(path))


@pytest.mark.parametrize(
    "path", [path for path in PYTHON_FILES if path.is_relative_to(ROOT / "transport")], ids=name_of
)
def test_imports_within_transport_go_down(path):
    room = path.relative_to(ROOT).parts[1]
    if room not in WITHIN_TRANSPORT:  # the modules that users import are above all of them
        return
    for name in imports(path):
        parts = name.split(".")
        if parts[:2] == ["pagewire", "transport"] and len(parts) > 2:
            other = parts[2]
            assert other == room or other in WITHIN_TRANSPORT[room], f"{name_of(path)}: {name}"


@pytest.mark.parametrize("path", PYTHON_FILES, ids=name_of)
def test_engines_are_made_by_their_host_alone(path):
    if name_of(path) != "transport/node/engine.py":
        assert "pw_ni_create(" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", C_FILES, ids=name_of)
def test_c_includes_go_down(path):
    folder = path.relative_to(ROOT).parts[0]
    text = path.read_text(encoding="utf-8")
    for included in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, flags=re.MULTILINE):
        other = included.partition("/")[0]
        if other not in BELOW:
            continue
        assert may_use(folder, other), f"{name_of(path)} includes {included}"


@pytest.mark.parametrize(
    "path", [path for path in C_FILES if path.is_relative_to(ROOT / "transport")], ids=name_of
)
def test_c_includes_within_transport_go_down(path):
    room = path.relative_to(ROOT).parts[1]
    text = path.read_text(encoding="utf-8")
    for other in re.findall(r'^\s*#\s*include\s+"transport/(\w+)/', text, flags=re.MULTILINE):
        assert other == room or other in WITHIN_TRANSPORT[room], f"{name_of(path)}: {other}"


@pytest.mark.parametrize("path", C_FILES, ids=name_of)
def test_core_knows_neither_python_nor_mpi(path):
    if name_of(path).startswith(WITHOUT_MPI):
        assert not re.search(r"#\s*include\s+[<\"](Python|mpi)\.h", path.read_text("utf-8"))
