"""One rank of a batch of random programs, which `pagewire launch` starts.

Each rank draws the programs itself. After each it leaves what it has done in FOLDER/done.<rank>, so
that a rank that dies can be told from one that waits for it.
"""

import dataclasses
import json
import os
import pathlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mpi4py import MPI

from pagewire.cli.checks.stress import draw
from pagewire.cli.checks.stress.steps import collectives, groups, kit, messages, objects, windows
from pagewire.native.output import write_file

_MODULES = (messages, objects, collectives, groups, windows)


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """What the launcher asks of the ranks."""

    first_seed: int
    num_programs: int
    max_bytes: int
    limit_s: int
    seconds: float
    """Wall time after which no further program begins; limit_s: for a step."""


def work_of(kind: str) -> Callable[..., Iterator[None]]:
    """The function of a kind of step."""
    for module in _MODULES:
        found: Callable[..., Iterator[None]] | None = getattr(module, kind, None)
        if found is not None:
            return found
    raise ValueError(f"no kind of step is called '{kind}'")


def as_kit_step(step: draw.Step) -> kit.Step:
    """A drawn step as the ranks execute it."""
    arguments = dict(step.arguments)
    if "parts" in arguments:
        arguments["parts"] = [[as_kit_step(each) for each in part] for part in arguments["parts"]]
    return step.number, step.hold, step.on, work_of(step.kind), arguments


def main(folder: pathlib.Path) -> None:
    """Run programs until the batch's time is over."""
    batch = Batch(**json.loads((folder / "batch.json").read_text()))
    world = MPI.COMM_WORLD
    begun_s = os.times().elapsed  # of this host, whatever run.clocks says
    total: dict[str, dict[str, int]] = {"steps": {}, "bytes": {}}
    for idx in range(batch.num_programs):
        drawn = draw.program(batch.first_seed + idx, world.size, batch.max_bytes)
        steps = [as_kit_step(step) for step in drawn.steps]
        run = kit.run_program(drawn.seed, steps, batch.limit_s)
        _add(total["steps"], run.num_steps)
        _add(total["bytes"], run.checked)
        _leave(folder, {"num_programs": idx + 1, **total})
        is_over = os.times().elapsed - begun_s > batch.seconds
        if world.bcast(is_over, 0):
            return


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, count in more.items():
        total[name] = total.get(name, 0) + count


def _leave(folder: pathlib.Path, record: dict[str, Any]) -> None:
    write_file(str(folder / f"done.{MPI.COMM_WORLD.rank}"), json.dumps(record))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
