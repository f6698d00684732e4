"""Imports and includes go down only, as rooms.txt lists the rooms, and by public headers alone."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]


def read_rooms() -> dict[str, set[str]]:
    """What each room of rooms.txt may use, itself included."""
    rooms: dict[str, set[str]] = {}
    for line in (ROOT / "rooms.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, _, others = line.partition(":")
            below = [rooms[other] for other in others.split()]  # which stand above it in the list
            rooms[name] = set().union({name}, others.split(), *below)
    return rooms


ROOMS = read_rooms()
TOPS = sorted(name for name in ROOMS if "/" not in name)

WITH_MPI = (
    "transport/facade/",
    "transport/rdma.py",
    "transport/gsas.py",
    "cli/commands/info.py",
    "cli/commands/replay_work.py",
    "cli/checks/bench/ranks/app.py",
    "cli/checks/bench/ranks/stream.py",
    "cli/checks/selftest/hello.py",
    "cli/checks/soak/rank.py",
    "cli/checks/stress/rank.py",
    "cli/checks/stress/steps/",
    "apps/",
)
"""Who may import mpi4py: facade, users' programs; info asks for the library's version, a rank of
the bench is plain MPI, and what the self test and stress run are programs."""

WITHOUT_MPI = tuple(f"{name}/" for name in TOPS if name not in ("transport", "apps", "cli"))
"""The rooms whose C knows neither Python nor MPI."""

PRIVATE = re.compile(r"_(state|parts)\.h$|/state\.h$")
"""Headers that no other room may include."""

PYTHON_FILES = sorted(path for folder in TOPS for path in (ROOT / folder).rglob("*.py"))
FACADE = ROOT / "transport/facade"
C_FILES = sorted(path for folder in TOPS for path in (ROOT / folder).rglob("*.[ch]"))


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


def room_of(parts: tuple[str, ...]) -> str:
    """The room of a file or module, by the names of its way."""
    inner = "/".join(parts[:2])
    return inner if inner in ROOMS else parts[0]


def may_use(room: str, other: str) -> bool:
    """A room may use the parts of a room; a part may not use the room around it."""
    return other in ROOMS[room] or other.partition("/")[0] in ROOMS[room]


def test_there_are_files_to_check():
    assert PYTHON_FILES


@pytest.mark.parametrize("path", PYTHON_FILES, ids=name_of)
def test_python_imports_go_down(path):
    room = room_of(path.relative_to(ROOT).parts)
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "pagewire" and len(parts) > 1 and parts[1] in TOPS:
            assert may_use(room, room_of(tuple(parts[1:]))), f"{name_of(path)} imports {name}"
        assert parts[0] not in TOPS, f"{name_of(path)} imports {name} instead of pagewire.{name}"


@pytest.mark.parametrize("path", PYTHON_FILES, ids=name_of)
def test_compiled_module_is_imported_by_native_alone(path):
    if name_of(path) != "native/__init__.py":
        assert not any(name.startswith("pagewire._native") for name in imports(path))


@pytest.mark.parametrize("path", PYTHON_FILES, ids=name_of)
def test_mpi4py_is_imported_by_wire_and_facade_alone(path):
    if not name_of(path).startswith(WITH_MPI):
        assert not any(each.split(".")[0] == "mpi4py" for each in imports(path))


@pytest.mark.parametrize("path", PYTHON_FILES, ids=name_of)
def test_engines_are_made_by_their_host_alone(path):
    if name_of(path) != "lab/engine.py":
        assert "pw_ni_create(" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", C_FILES, ids=name_of)
def test_c_includes_go_down_by_public_headers(path):
    parts = path.relative_to(ROOT).parts
    text = path.read_text(encoding="utf-8")
    for included in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, flags=re.MULTILINE):
        others = tuple(included.split("/"))
        if others[0] not in TOPS:
            continue
        assert may_use(room_of(parts), room_of(others)), f"{name_of(path)} includes {included}"
        assert parts[0] == others[0] or not PRIVATE.search(included), (
            f"{name_of(path)} includes {included}, which is private to {others[0]}/"
        )


@pytest.mark.parametrize("path", C_FILES, ids=name_of)
def test_core_knows_neither_python_nor_mpi(path):
    if name_of(path).startswith(WITHOUT_MPI):
        assert not re.search(r"#\s*include\s+[<\"](Python|mpi)\.h", path.read_text("utf-8"))


@pytest.mark.parametrize(
    "path", [path for path in PYTHON_FILES if FACADE not in path.parents], ids=name_of
)
def test_the_facade_is_entered_by_its_door(path):
    for name in imports(path):
        if name.startswith("pagewire.transport.facade."):
            assert name.rpartition(".")[0] == "pagewire.transport.facade", name
            assert not (FACADE / f"{name.rpartition('.')[2]}.py").exists(), name
