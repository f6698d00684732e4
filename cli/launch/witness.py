"""The witness of a rank: a process that waits for it and writes down how it ended.

The rank is a child of the process that mpiexec started. The parent only waits: mpiexec alone does
not tell which rank failed, nor why. cli/kit/watch.py reads what it writes; rank_starter.c does the
same for native programs.
"""

import atexit
import json
import os
import signal
import sys
from collections.abc import Callable
from time import monotonic_ns  # the host's: the program's will count its sleeps
from typing import NoReturn

from pagewire.cli.kit import error_stream
from pagewire.cli.kit.parent import die_with
from pagewire.native.output import OutputError, write_file


def run_witnessed(work: Callable[[], int]) -> NoReturn:
    """Do other work than a program as a rank of a launch, and leave with its exit code."""
    directory = os.environ.get("PAGEWIRE_LAUNCH_DIR", "")
    if directory:
        fork_rank(directory)
    raise SystemExit(work())


def rank_of_environment() -> int:
    """Rank of this process as its launcher says, 0 when there is none."""
    for variable in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"):
        if os.environ.get(variable, "").isdecimal():
            return int(os.environ[variable])
    return 0


def fork_rank(directory: str) -> None:
    """Return in the rank's own process; the parent stays behind as its witness."""
    die_with(os.getppid())
    error_stream.take_over(directory)
    witness = os.getpid()
    write_record(directory, "start", {"pid": witness})
    rank = os.fork()
    if rank == 0:
        die_with(witness)
        # Registered first, so called last: without it the rank has left by os._exit.
        atexit.register(_leave, directory)
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _, status = os.waitpid(rank, 0)
    code = os.waitstatus_to_exitcode(status)
    write_record(directory, "end", {"pid": rank, "code": code})
    os._exit(code if code >= 0 else 128 - code)


def _leave(directory: str) -> None:
    """The program is over. An interrupt from now on ends nothing more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    write_record(directory, "leave", {})


def write_record(directory: str, kind: str, record: dict[str, object]) -> None:
    """kind: start, end, leave, or note: why the rank ends."""
    number = rank_of_environment()
    path = f"{directory}/{number}.{kind}"
    try:
        write_file(path, json.dumps({"rank": number, "time_ns": monotonic_ns(), **record}))
    except OutputError as error:
        print(f"pagewire: rank {number}: {error}", file=sys.stderr)
