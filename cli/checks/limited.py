"""Runs a command that may take too long or be interrupted: it ends, and all that it has begun."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

from pagewire.cli.kit.interrupts import held

_ENDING_S = 30.0
"""For a launch to end its ranks when it is told to."""
STILL_RUNNING = "pagewire: still running after"


def run_limited(
    command: Sequence[str],
    *,
    environ: Mapping[str, str] | None = None,
    limit_s: float,
    folder: str | None = None,
) -> tuple[int, str]:
    """Exit code and all that was printed; what runs longer is ended, with 124 as timeout(1) has."""
    process = None
    try:
        with held():
            process = subprocess.Popen(
                command,
                env=dict(os.environ if environ is None else environ),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        said, _ = process.communicate(timeout=limit_s)
    except BaseException as error:  # Ctrl-C does not reach another session
        rest = _end(process) if process is not None else ""
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return 124, f"{rest}\n{STILL_RUNNING} {limit_s:g} s"
    return process.returncode, said


def _end(process: subprocess.Popen[str]) -> str:
    """What it has printed."""
    process.terminate()  # the launcher ends its ranks
    try:
        said, _ = process.communicate(timeout=_ENDING_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
    return said
