"""The PROGRAM of a command line: a bundled app's name, a .py file, `-m module`, or behind `--` any
command."""

import ast
import dataclasses
import importlib.util
import os
import pathlib
import shlex
import sys
from collections.abc import Sequence

import pagewire
from pagewire.native.settings import ConfigError, suggestion


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """What each rank runs."""

    kind: str
    """app, file, module, or native: a command that is started as it is."""
    target: str
    """Name of the app, path of the file, name of the module, or the command."""
    arguments: tuple[str, ...]

    @property
    def argv(self) -> list[str]:
        """The words that `parse` reads back to this program."""
        mark = {"module": ["-m"], "native": ["--"]}.get(self.kind, [])
        return [*mark, self.target, *self.arguments]

    @property
    def command_text(self) -> str:
        """What starts a rank of it under an mpiexec of the user's, for a shell."""
        if self.kind == "native":
            return shlex.join([self.target, *self.arguments])
        return shlex.join(["pagewire", "run", "--", *self.argv])

    @property
    def label(self) -> str:
        return " ".join(self.argv[self.kind == "native" :])


def apps() -> dict[str, str]:
    """Bundled apps by name, with the first line of their docstring; none of them is imported."""
    found: dict[str, str] = {}
    for path in sorted(pathlib.Path(pagewire.__path__[0], "apps").iterdir()):
        sources = _app_sources(path)
        if sources:
            found[path.stem] = _first_line(sources)
    return found


def _app_sources(path: pathlib.Path) -> list[pathlib.Path]:
    """The files that may say what an app is; empty when the path is no app."""
    if path.name.startswith((".", "_")):
        return []
    if path.is_dir():
        main = path / "__main__.py"
        return [path / "__init__.py", main] if main.is_file() else []
    if path.suffix == ".py" and '__name__ == "__main__"' in path.read_text(encoding="utf-8"):
        return [path]
    return []


def _first_line(sources: Sequence[pathlib.Path]) -> str:
    for source in sources:
        if source.is_file():
            docstring = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8")))
            if docstring:
                return docstring.splitlines()[0]
    return ""


def parse(words: Sequence[str]) -> Program:
    """The program that a command line names; raises ConfigError when there is no such program."""
    if not words:
        raise ConfigError(f"no program given: {_what_is_allowed()}")
    first, *rest = words
    if first == "--":
        if not rest:
            raise ConfigError("-- needs a command behind it")
        return Program("native", _check_command(rest[0]), tuple(rest[1:]))
    if first == "-m":
        if not rest:
            raise ConfigError("-m needs the name of a module")
        return Program("module", rest[0], tuple(rest[1:]))
    if first.endswith(".py") or os.sep in first:
        return Program("file", _check_file(first), tuple(rest))
    known = apps()
    if first not in known:
        raise ConfigError(
            f"unknown program '{first}'{suggestion(first, known)}: {_what_is_allowed()}"
        )
    return Program("app", first, tuple(rest))


def check_module(name: str) -> None:
    """Refuse a module whose top-level package is not there, as seen from the working directory."""
    top = name.partition(".")[0]
    sys.path.insert(0, os.getcwd())
    try:
        found = bool(top) and importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        found = False
    finally:
        del sys.path[0]
    if not found:
        raise ConfigError(f"-m {name}: no module named '{top}'")


def _check_file(path: str) -> str:
    if os.path.isdir(path):
        raise ConfigError(f"program '{path}' is a folder, not a .py file")
    if not os.path.exists(path):
        raise ConfigError(f"program '{path}': no such file")
    if not path.endswith(".py"):
        raise ConfigError(f"program '{path}' is not a .py file")
    if not os.access(path, os.R_OK):
        raise ConfigError(f"program '{path}' cannot be read")
    return path


def _check_command(command: str) -> str:
    """Refuse a command that a shell would not find either."""
    import shutil  # takes long to load

    if shutil.which(command):
        return command
    if os.sep not in command:
        here = f"; ./{command} is in this folder" if os.path.isfile(command) else ""
        raise ConfigError(f"command '{command}' is not in PATH{here}")
    if not os.path.exists(command):
        raise ConfigError(f"command '{command}': no such file")
    if os.path.isdir(command):
        raise ConfigError(f"command '{command}' is a folder")
    raise ConfigError(f"command '{command}' is not executable (chmod +x)")


def _what_is_allowed() -> str:
    names = ", ".join(apps()) or "none"
    return (
        f"allowed is a bundled app ({names}), a .py file, -m module, or behind -- any command "
        "that uses MPI"
    )
