"""`pagewire sockets`: unmodified programs whose stream sockets go over the nodes' RDMA.

The work is done by pagewire-sockets (transport/sockets/agent/), which this module finds, checks the
words for, and becomes: signals and the exit code are its own.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import sys

from pagewire.cli import sockets_stress
from pagewire.native.settings import ConfigError

AGENT = "pagewire-sockets"
CALLS = "libpagewire-sockets-calls.so"
NODES_MAX = 64
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
        "--stress",
        metavar="BYTES",
        default="",
        help="no programs, but connections at once that carry so many bytes, compared; as 1e9",
    )
    parser.add_argument(
        "--connections", type=int, default=100, help="of --stress, at once (default: 100)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of --stress (default: 1)")
    parser.add_argument("--json", metavar="FILE", help="write what each node did as JSON")
    end = words.index("--") if "--" in words else len(words)
    given, programs = parser.parse_args(words[:end]), words[end + 1 :]
    if given.stress:
        programs = _stress(given, programs)
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
    folder = _folder()
    settings = [f"run.memory={given.memory}", *given.set]
    command = [str(folder / AGENT), "--ring", str(given.ring)]
    if given.json:
        _check_place(given.json)
        command += ["--json", given.json, _facts(given.ring, settings, programs)]
    for setting in settings:
        command += ["--set", setting]
    sys.stdout.flush()
    os.execv(command[0], [*command, str(folder / CALLS), "--", *programs])


def _facts(ring_bytes: int, settings: list[str], programs: list[str]) -> str:
    """What was asked for, as the members of the JSON that the agent writes."""
    memory = [each.partition("=")[2] for each in settings if each.startswith("run.memory=")][-1]
    apart: list[list[str]] = [[]]
    for word in programs:
        if word == ":":
            apart.append([])
        else:
            apart[-1].append(word)
    asked = {
        "memory": memory,
        "ring_bytes": ring_bytes,
        "settings": settings,
        "programs": apart,
    }
    return json.dumps(asked)[1:-1]


def _stress(given: argparse.Namespace, programs: list[str]) -> list[str]:
    try:
        num_bytes = int(float(given.stress))
    except (OverflowError, ValueError):
        num_bytes = 0
    if programs or given.nodes < 2 or num_bytes < 1 or not 1 <= given.connections <= 1000:
        raise ConfigError(
            f"--stress {given.stress} --connections {given.connections} -n {given.nodes}: allowed "
            "are a number of bytes, 1 to 1000 connections, 2 nodes and more, and no programs"
        )
    return sockets_stress.commands(given.nodes, given.connections, num_bytes, given.seed)


def _check_place(path: str) -> None:
    folder = pathlib.Path(path).parent
    if not os.access(folder, os.W_OK | os.X_OK) or pathlib.Path(path).is_dir():
        raise ConfigError(f"--json = {path}: not a file in a folder that can be written to")


def _folder() -> pathlib.Path:
    found = importlib.util.find_spec("pagewire")
    for place in (found and found.submodule_search_locations) or ():
        folder = pathlib.Path(place) / "sockets"
        if (folder / AGENT).exists():
            return folder
    raise ConfigError(f"{AGENT} is not installed; install pagewire again")
