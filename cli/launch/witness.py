"""What a rank leaves in its launch's folder, for cli/kit/watch.py to read.

Its witness, `pagewire-rank`, writes down how it began and ended: mpiexec starts that, and it starts
the rank's program and waits for it. mpiexec alone does not tell which rank failed, nor why. What
the rank knows itself it leaves by the functions here.
"""

import atexit
import json
import os
import pathlib
import signal
import sys
from time import monotonic_ns  # the host's: the program's will count its sleeps

from pagewire.native.output import OutputError, write_file

STARTER = str(pathlib.Path(__file__).parent / "pagewire-rank")
"""Stands in front of a rank's command."""


def rank_of_environment() -> int:
    """Rank of this process as its launcher says, 0 when there is none."""
    for variable in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"):
        if os.environ.get(variable, "").isdecimal():
            return int(os.environ[variable])
    return 0


def tell_of_end() -> None:
    """Have this rank of a launch leave a record when its program is over: a rank without one has
    left by os._exit. What is registered first is called last."""
    directory = os.environ.get("PAGEWIRE_LAUNCH_DIR", "")
    if directory:
        atexit.register(_leave, directory)


def _leave(directory: str) -> None:
    """The program is over. An interrupt from now on ends nothing more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    write_record(directory, "leave", {})


def write_record(directory: str, kind: str, record: dict[str, object]) -> None:
    """kind: leave, or note: why the rank ends."""
    number = rank_of_environment()
    path = f"{directory}/{number}.{kind}"
    try:
        write_file(path, json.dumps({"rank": number, "time_ns": monotonic_ns(), **record}))
    except OutputError as error:
        print(f"pagewire: rank {number}: {error}", file=sys.stderr)
