"""`pagewire sockets`: unmodified programs whose stream sockets go over the nodes' RDMA.

The work is done by pagewire-sockets (transport/sockets/agent/), which this module finds, checks the
words for, and becomes: signals and the exit code are its own.
"""

import argparse
import importlib.util
import os
import pathlib
import sys

from pagewire.native.settings import ConfigError

AGENT = "pagewire-sockets"
CALLS = "libpagewire-sockets-calls.so"
NODES_MAX = 64
_WAIT_MAX_SECONDS = 3600
_RINGS_BYTES = {1 << bits for bits in range(10, 25)}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise ConfigError(f"sockets: {message}; see pagewire sockets --help")


def main(words: list[str]) -> int:
    """Start a program a node; returns only by an error."""
    parser = _Parser(
        prog="pagewire sockets",
        description="Run a program a node; their TCP sockets to 10.77.0.1, 10.77.0.2, ... go over "
        "emulated RDMA, all others to the kernel. The run ends with the last program. "
        "docs/unimem.md tells more.",
        usage="pagewire sockets -n NODES [options] -- PROGRAM [ARGS] : PROGRAM [ARGS]...",
    )
    parser.add_argument("-n", "--nodes", type=int, required=True, help="one for each program")
    parser.add_argument(
        "--memory", default="part", help="what is done to the rings' pages (default: part)"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.NAME=VALUE", help="any setting"
    )
    parser.add_argument(
        "--ring", type=int, default=65536, help="bytes of a connection's ring (default: 65536)"
    )
    parser.add_argument(
        "--wait",
        type=float,
        default=2,
        metavar="SECONDS",
        help="a program starts when the one before it listens or has ended, and after so many "
        "seconds in any case (default: 2; 0: all at once)",
    )
    end = words.index("--") if "--" in words else len(words)
    given, programs = parser.parse_args(words[:end]), words[end + 1 :]
    num_programs = programs.count(":") + 1 if programs else 0
    if given.ring not in _RINGS_BYTES:
        raise ConfigError(
            f"--ring = {given.ring}: allowed are powers of two from {min(_RINGS_BYTES)} to "
            f"{max(_RINGS_BYTES)}"
        )
    if not 1 <= given.nodes <= NODES_MAX or num_programs != given.nodes:
        raise ConfigError(
            f"-n {given.nodes} with {num_programs} programs: allowed are 1 to {NODES_MAX} nodes, "
            "and a program for each, with : between them, behind --"
        )
    if not 0 <= given.wait <= _WAIT_MAX_SECONDS:
        raise ConfigError(f"--wait = {given.wait}: allowed are 0 to {_WAIT_MAX_SECONDS} seconds")
    folder = _folder()
    settings = [f"run.memory={given.memory}", *given.set]
    command = [str(folder / AGENT), "--ring", str(given.ring), "--wait", str(round(given.wait * 1000))]
    for setting in settings:
        command += ["--set", setting]
    sys.stdout.flush()
    os.execv(command[0], [*command, str(folder / CALLS), "--", *programs])


def _folder() -> pathlib.Path:
    found = importlib.util.find_spec("pagewire")
    for place in (found and found.submodule_search_locations) or ():
        folder = pathlib.Path(place) / "sockets"
        if (folder / AGENT).exists():
            return folder
    raise ConfigError(f"{AGENT} is not installed; install pagewire again")
