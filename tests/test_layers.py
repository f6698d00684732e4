"""Imports and includes go down only: cli > apps > transport > (r5sched | smmu) > native."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
LEVELS = {"cli": 4, "apps": 3, "transport": 2, "r5sched": 1, "smmu": 1, "native": 0}

WITHOUT_MPI = {"clock", "config", "node", "platform", "report", "strategies"}
"""Modules of transport that are neither the wire nor the facade."""

PYTHON_FILES = sorted(path for folder in LEVELS for path in (ROOT / folder).rglob("*.py"))
C_FILES = sorted(path for folder in LEVELS for path in (ROOT / folder).rglob("*.[ch]"))


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
    return folder == other or LEVELS[folder] > LEVELS[other]


def test_there_are_files_to_check():
    assert PYTHON_FILES


@pytest.mark.parametrize("path", PYTHON_FILES, ids=name_of)
def test_python_imports_go_down(path):
    folder = path.relative_to(ROOT).parts[0]
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "pagewire" and len(parts) > 1 and parts[1] in LEVELS:
            assert may_use(folder, parts[1]), f"{name_of(path)} imports {name}"
        assert parts[0] not in LEVELS, f"{name_of(path)} imports {name} instead of pagewire.{name}"


@pytest.mark.parametrize("path", PYTHON_FILES, ids=name_of)
def test_compiled_module_is_imported_by_native_alone(path):
    if name_of(path) != "native/__init__.py":
        assert not any(name.startswith("pagewire._native") for name in imports(path))


@pytest.mark.parametrize("path", PYTHON_FILES, ids=name_of)
def test_mpi4py_is_imported_by_wire_and_facade_alone(path):
    # cli/info.py asks for the library's version; apps are users' programs.
    folder = path.relative_to(ROOT).parts[0]
    if folder == "apps" or name_of(path) == "cli/info.py":
        return
    if folder == "transport" and path.stem not in WITHOUT_MPI:
        return
    assert not any(each.split(".")[0] == "mpi4py" for each in imports(path))


@pytest.mark.parametrize("path", C_FILES, ids=name_of)
def test_c_includes_go_down(path):
    folder = path.relative_to(ROOT).parts[0]
    text = path.read_text(encoding="utf-8")
    for included in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, flags=re.MULTILINE):
        other = included.partition("/")[0]
        if other not in LEVELS:
            continue
        # The engine puts NI, firmware, SMMU and driver together, so it stands above all of them.
        if is_engine(name_of(path)) or name_of(path) == "native/prelude.h":
            continue
        assert not is_engine(included), f"{name_of(path)} includes {included}"
        assert may_use(folder, other), f"{name_of(path)} includes {included}"


@pytest.mark.parametrize("path", C_FILES, ids=name_of)
def test_core_knows_neither_python_nor_mpi(path):
    if path.relative_to(ROOT).parts[0] in ("native", "smmu", "r5sched"):
        assert not re.search(r"#\s*include\s+[<\"](Python|mpi)\.h", path.read_text("utf-8"))


def is_engine(name: str) -> bool:
    return re.fullmatch(r"native/engine\w*\.[ch]", name) is not None
