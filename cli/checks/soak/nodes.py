"""A soak's nodes in one process: the program pagewire-soak, which the package brings."""

import json
import pathlib
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from pagewire.cli.checks.soak.phases import Phase
from pagewire.native.settings import ConfigError
from pagewire.run.settings import config

MAX_NODES = 16
_PROGRAM = pathlib.Path(__file__).parent / "pagewire-soak"
_NOT_OF_A_NODE = "run.eager_limit"
"""Messages of MPI have it, transfers do not."""

Found = tuple[list[dict[str, Any]], dict[str, Any]]
"""What each process sampled and counted itself, and the sums of the nodes' counters."""


class SoakError(Exception):
    """A phase could not be run to its end."""


def run(phase: Phase, spec: Mapping[str, Any], num_nodes: int, environ: Mapping[str, str]) -> Found:
    """One process; its samples and sums."""
    if not _PROGRAM.is_file():
        raise ConfigError(f"'{_PROGRAM}' is missing: install pagewire again")
    seconds = spec["minutes"] * 60
    words = [
        str(num_nodes),
        str(spec["transfers"]),
        str(spec["samples"]),
        str(spec["seed"]),
        str(round(spec["fault_fraction"] * 1e6)),
        str(seconds),
        *_settings(phase, environ),
    ]
    try:
        done = subprocess.run(
            [str(_PROGRAM), *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=_hang_s(seconds),
        )
    except subprocess.TimeoutExpired as error:
        raise SoakError(f"no end after {error.timeout:.0f} s: a hang") from None
    if done.returncode:
        said = done.stderr.strip() or f"pagewire-soak ended with exit code {done.returncode}"
        raise SoakError(said)
    found = json.loads(done.stdout)
    return [found], found["counters"]


def _hang_s(seconds: float) -> float:
    """A burst of transfers takes well below a minute."""
    return float(seconds) + 120.0


def _settings(phase: Phase, environ: Mapping[str, str]) -> Sequence[str]:
    """The phase's settings, and what the user gives instead or besides."""
    given = config.load(environ=environ).not_default()
    wanted = {**phase.settings, **given}
    for name in ("run.json", "run.html", "run.quiet", "run.transport", _NOT_OF_A_NODE):
        wanted.pop(name, None)
    return [f"{name}={value}" for name, value in wanted.items()]
