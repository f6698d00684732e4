"""`pagewire replay A.pwt B.pwt`: recorded runs as jobs of one machine, and who slows down whom.

Each job is replayed beside the others, and alone at the same places. The settings of the first
trace, with what the command line says besides, count for all.
"""

import contextlib
import pathlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from pagewire.cli.commands.replay_options import Asked
from pagewire.cli.commands.setting_options import Given
from pagewire.native.settings import ConfigError
from pagewire.replay import made
from pagewire.replay.trace import Reader


class Job(NamedTuple):
    """One of them."""

    trace: str
    first: int
    ranks: int
    alone: str
    """File in which the ranks of the others do nothing."""


Jobs = Sequence[Job]


class Row(Protocol):
    """What is looked at of a replay's row."""

    @property
    def failure(self) -> str: ...

    @property
    def jobs_s(self) -> Sequence[float]: ...


def replay(
    files: Sequence[str], asked: Asked, given: Given, one: Callable[[str, Asked, Given, Jobs], int]
) -> int:
    """Side by side, by what replays one file; the exit code."""
    if asked.verify or asked.keep or asked.backend != "engine":
        raise ConfigError("--verify, --keep and --backend are about one trace: give one FILE.pwt")
    with (
        contextlib.ExitStack() as stack,
        tempfile.TemporaryDirectory(prefix="pagewire-jobs-") as folder,
    ):
        readers = [stack.enter_context(Reader(file)) for file in files]
        all_of_them = made.Jobs(readers)
        together = str(pathlib.Path(folder) / "together.pwt")
        all_of_them.write(together)
        jobs = []
        for idx, (file, own) in enumerate(zip(files, all_of_them.meta()["jobs"], strict=True)):
            alone = str(pathlib.Path(folder) / f"{idx}.pwt")
            made.Jobs(readers, only=idx).write(alone)
            jobs.append(Job(file, own["first"], own["ranks"], alone))
        return one(together, asked, given, jobs)


def summary(
    jobs: Jobs, together: Mapping[Any, Row], alone: Sequence[Sequence[Row]]
) -> list[dict[str, Any]]:
    """For JSON; rows that failed are left out. alone: of each job, the rows in the order of those
    together."""
    made_of = []
    for idx, job in enumerate(jobs):
        rows = {
            choice.name: {"virtual_time_s": row.jobs_s[idx], "alone_s": own.jobs_s[idx]}
            for (choice, row), own in zip(together.items(), alone[idx], strict=True)
            if not row.failure and not own.failure
        }
        made_of.append({"trace": job.trace, "first": job.first, "ranks": job.ranks, "rows": rows})
    return made_of


def show(jobs: Sequence[Mapping[str, Any]]) -> None:
    """Each job's time beside the others."""
    for job in jobs:
        ranks = f"ranks {job['first']:,} to {job['first'] + job['ranks'] - 1:,}"
        print(f"job {job['trace']}, {ranks}:")
        for name, own in job["rows"].items():
            ratio = own["virtual_time_s"] / own["alone_s"] if own["alone_s"] else 1.0
            print(
                f"  {name}: {own['virtual_time_s']:.9f} s, {own['alone_s']:.9f} s without the "
                f"others: {ratio:.3f} times"
            )
