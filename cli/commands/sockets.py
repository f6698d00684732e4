"""`pagewire sockets`: unmodified programs whose stream sockets go over the nodes' RDMA.

The work is done by pagewire-sockets (transport/sockets/agent/), which this module finds, checks the
words for, and becomes: signals and the exit code are its own.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import shutil
import stat
import struct
import sys

from pagewire.cli.checks import sockets_stress
from pagewire.native.settings import ConfigError

AGENT = "pagewire-sockets"
CALLS = "libpagewire-sockets-calls.so"
NODES_MAX = 64
_PT_INTERP = 3  # of an ELF program that has a loader
_WAIT_MAX_SECONDS = 3600
_RINGS_BYTES = {1 << bits for bits in range(10, 25)}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise ConfigError(f"sockets: {message}; see pagewire sockets --help")


def main(words: list[str]) -> int:
    """Start a program a node; returns only by an error."""
    end = words.index("--") if "--" in words else len(words)
    try:
        given, programs = _parser().parse_args(words[:end]), words[end + 1 :]
    except SystemExit:  # the help has been printed: errors are ConfigError
        return 0
    if given.words:
        raise ConfigError(f"sockets: {given.words[0]}: programs go behind --")
    if given.stress:
        programs = _stress(given, programs)
    commands = _split(programs)
    _check_numbers(given, len(commands))
    for node, command in enumerate(commands):
        _check(node, command)
    folder = _folder()
    settings = [f"run.memory={given.memory}", *given.set]
    agent = [str(folder / AGENT), "--ring", str(given.ring)]
    agent += ["--wait", str(round(given.wait * 1000))]
    if given.json:
        _check_place(given.json)
        agent += ["--json", given.json, _facts(given.ring, settings, commands)]
    for setting in settings:
        agent += ["--set", setting]
    sys.stdout.flush()
    os.execv(agent[0], [*agent, str(folder / CALLS), "--", *programs])


def _parser() -> _Parser:
    parser = _Parser(
        prog="pagewire sockets",
        description="Run a program a node; their TCP sockets to 10.77.0.1, 10.77.0.2, ... go over "
        "emulated RDMA, all others to the kernel. The run ends with the last program, whose exit "
        "code it has: put the client there.",
        usage="pagewire sockets -n NODES [options] -- PROGRAM [ARGS] : PROGRAM [ARGS]...",
        epilog="For example: pagewire sockets -n 2 -- python3 -m http.server 8000 : "
        "curl http://10.77.0.1:8000/. docs/sockets.md tells more.",
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
    parser.add_argument(
        "--wait",
        type=float,
        default=2,
        metavar="SECONDS",
        help="a program starts when the one before it listens or has ended, and after so many "
        "seconds in any case (default: 2; 0: all at once)",
    )
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    return parser


def _check_numbers(given: argparse.Namespace, num_programs: int) -> None:
    """Refuse a ring, nodes or a wait out of range."""
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


def _split(words: list[str]) -> list[list[str]]:
    """Divide the command line at its colons."""
    commands: list[list[str]] = [[]] if words else []
    for word in words:
        if word == ":":
            commands.append([])
        else:
            commands[-1].append(word)
    return commands


def _check(node: int, command: list[str]) -> None:
    """Refuse what cannot start; tell what starts and cannot be reached."""
    if not command:
        raise ConfigError(f"sockets: node {node} has no program; give one before and behind each :")
    found = shutil.which(command[0])
    if found is None:
        raise ConfigError(
            f"sockets: node {node}: there is no program {command[0]}; install it, or give its path"
        )
    why = _why_unreached(found)
    if why:
        print(
            f"pagewire: warning: sockets: node {node}: {command[0]} is {why}: nothing can be "
            "preloaded, its sockets stay the kernel's",
            file=sys.stderr,
        )


def _why_unreached(path: str) -> str:
    """Say why the loader would take no library of ours; empty: it does, or nobody can tell."""
    status = os.stat(path)
    if (status.st_mode & stat.S_ISUID and status.st_uid != os.getuid()) or (
        status.st_mode & stat.S_ISGID and status.st_gid != os.getgid()
    ):
        return "set-user-ID or set-group-ID"
    if not os.access(path, os.R_OK):
        return ""
    with open(path, "rb") as file:
        header = file.read(64)
        if len(header) < 64 or header[:5] != b"\x7fELF\x02" or sys.byteorder != "little":
            return ""
        (place,) = struct.unpack_from("<Q", header, 0x20)
        size, count = struct.unpack_from("<HH", header, 0x36)
        file.seek(place)
        table = file.read(size * count)
    kinds = [struct.unpack_from("<I", table, size * idx)[0] for idx in range(len(table) // size)]
    return "" if _PT_INTERP in kinds else "linked statically"


def _facts(ring_bytes: int, settings: list[str], commands: list[list[str]]) -> str:
    """What was asked for, as the members of the JSON that the agent writes."""
    memory = [each.partition("=")[2] for each in settings if each.startswith("run.memory=")][-1]
    asked = {"memory": memory, "ring_bytes": ring_bytes, "settings": settings, "programs": commands}
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
