"""Where the replays of one command are done: in this process, in several, or on the ranks of an
mpiexec that started the command, each by one of them or by all together; and what is kept of them
for another call."""

import concurrent.futures
import contextlib
import hashlib
import json
import multiprocessing
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from pagewire.cli.kit import points, progress
from pagewire.native.output import OutputError
from pagewire.native.settings import ConfigError
from pagewire.replay import parts
from pagewire.replay.replay import Settings
from pagewire.replay.tolerance import Request
from pagewire.replay.trace import Reader


class Item(NamedTuple):
    """A replay."""

    assignments: list[str]
    """Settings besides the recorded ones."""
    request: Request = ()
    """Costs that take longer."""
    touch: str = "start"
    """Of replay.TOUCHES."""


Do = Callable[[Item], Any]
"""Does a replay, perhaps in another process; JSON can hold its result."""
Tell = Callable[[tuple[Do, Item] | None], Any]

_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_SIZE", "SLURM_STEP_NUM_TASKS")


class Work:
    """Does replays, several at a time."""

    def __init__(
        self, pool: concurrent.futures.Executor | None = None, tell: Tell | None = None
    ) -> None:
        """pool: None is this process. tell: before each replay, so that others do it too."""
        self._pool = pool
        self._tell = tell
        self._kept: _Kept | None = None

    def keep(self, folder: str, file: str, matching: str) -> None:
        """From here on keep what comes of replays of this trace, and take what was kept; raises
        ConfigError."""
        self._kept = _Kept(folder, file, matching)

    def map(self, do: Do, items: Sequence[Item]) -> Iterator[Any]:
        """What comes of each item, in their order."""
        kept = self._kept
        if kept is None:
            yield from self._done(do, items)
            return
        labels = [kept.label_of(item) for item in items]
        found = [kept.read(label) for label in labels]
        done = self._done(do, [items[idx] for idx, each in enumerate(found) if each is None])
        for label, value in zip(labels, found, strict=True):
            if value is None:
                value = next(done)
                kept.write(label, value)
            yield value

    def _done(self, do: Do, items: Sequence[Item]) -> Iterator[Any]:
        if self._pool is None:
            for item in items:
                if self._tell is not None:
                    self._tell((do, item))
                yield do(item)
            return
        futures = [self._pool.submit(do, item) for item in items]
        try:
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()


class _Kept:
    """Results in files, by what they depend on: the trace's bytes, all settings, the platform,
    pagewire's own sources."""

    def __init__(self, folder: str, file: str, matching: str) -> None:
        with open(file, "rb") as trace:
            content = hashlib.file_digest(trace, "sha256").hexdigest()
        with Reader(file) as reader:
            self._meta = reader.meta()
        depends_on = {"trace": content, "matching": matching, "sources": points.sources()}
        self._store: points.Store | None = points.Store(
            pathlib.Path(folder), depends_on, option="--keep"
        )

    def label_of(self, item: Item) -> str:
        """Empty: nothing is kept of a class of the user's, which may change, and of settings that
        are refused."""
        try:
            settings = Settings.of(self._meta, item.assignments)
            settings.config.check_without_python()
        except ConfigError:
            return ""
        machine = settings.platform
        tables = {name: (each.sizes_bytes, each.costs_ns) for name, each in machine.tables.items()}
        own = settings.config.not_default()
        return json.dumps([own, machine.costs.as_dict(), tables, *item[1:]], sort_keys=True)

    def read(self, label: str) -> Any:
        """None: it is not there, or damaged."""
        with contextlib.suppress(ConfigError):
            found = self._store.read(label) if self._store and label else None
            return None if found is None else found[0]

    def write(self, label: str, value: Any) -> None:
        if self._store is None or not label:
            return
        try:
            self._store.write(label, value)
        except OutputError as error:
            progress.say(f"{error}; results are not kept from here on")
            self._store = None


@contextlib.contextmanager
def spread(num_processes: int) -> Iterator[Work | None]:
    """What does the command's replays; None on a rank that was there for another one's, when all
    are done."""
    if any(os.environ.get(name, "1") not in ("", "1") for name in _SIZES):
        from mpi4py.futures import MPICommExecutor

        pool: Any  # its stub does not know what it gives
        with MPICommExecutor(_ranks()) as pool:
            yield Work(pool) if pool is not None else None
        return
    if num_processes == 1:
        yield Work()
        return
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(num_processes, mp_context=context) as pool:
        yield Work(pool)


@contextlib.contextmanager
def together() -> Iterator[Work | None]:
    """As `spread`, but all ranks do each replay, of which they have a part each."""
    ranks = _ranks()
    with parts.dividing(ranks):
        if ranks.Get_rank() == 0:
            try:
                yield Work(tell=ranks.bcast)
            finally:
                ranks.bcast(None)
            return
        while (told := ranks.bcast(None)) is not None:
            do, item = told
            do(item)
        yield None


def _ranks() -> Any:
    """Of the mpiexec that started this process; raises ConfigError."""
    from mpi4py import MPI

    if not MPI.Is_initialized():  # `info` has loaded it in this process, to ask for its name
        MPI.Init()
    if MPI.COMM_WORLD.Get_size() == 1:
        raise ConfigError(
            "this rank is alone: start the command by mpiexec -n N; if it was, that mpiexec is of "
            "another MPI than that of mpi4py"
        )
    return MPI.COMM_WORLD
