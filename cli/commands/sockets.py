"""`pagewire sockets`: unmodified programs whose stream sockets go over the nodes' RDMA.

The work is done by pagewire-sockets (transport/sockets/agent/), which this module finds, checks the
words for, and becomes: signals and the exit code are its own.
"""

import dataclasses
import json
import os
import pathlib
import shutil
import stat
import struct
import sys
from typing import Annotated

import typer

import pagewire
from pagewire.cli.commands.application import app
from pagewire.cli.commands.setting_options import Given, takes_settings
from pagewire.cli.launch import launch
from pagewire.native.settings import ConfigError
from pagewire.run.settings import config

AGENT = "pagewire-sockets"
CALLS = "libpagewire-sockets-calls.so"
ENTER_NODE = "enter_node.sh"
INTERFACE = "pagewire0"  # as transport/sockets/preload/interfaces.c shows it
NODES_MAX = 64
_PT_INTERP = 3  # of an ELF program that has a loader
_WAIT_MAX_SECONDS = 3600
_RINGS_BYTES = {1 << bits for bits in range(10, 25)}


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks besides settings."""

    ring: Annotated[int, typer.Option(help="bytes of a connection's ring")] = 65536
    stress: Annotated[
        str,
        typer.Option(
            metavar="BYTES",
            help="no programs, but connections at once that carry so many bytes, compared; as 1e9",
        ),
    ] = ""
    connections: Annotated[int, typer.Option(help="of --stress, at once")] = 100
    seed: Annotated[int, typer.Option(help="of --stress")] = 1
    wait: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="a program starts when the one before it listens or has ended, and after so many "
            "seconds in any case; 0: all at once",
        ),
    ] = 2


@app.command(
    epilog="For example: pagewire sockets -n 2 -- python3 -m http.server 8000 : "
    "curl http://10.77.0.1:8000/. docs/sockets.md tells more."
)
@takes_settings("memory", "json")
def sockets(
    nodes: Annotated[int, typer.Option("-n", "--nodes", help="one for each program")],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- PROGRAM [ARGS] : PROGRAM [ARGS]", show_default=False),
    ] = None,
    *,
    asked: Asked,
    given: Given,
) -> int:
    """Run programs of TCP sockets over RDMA, one a node: sockets -n 2 -- SERVER : CLIENT.

    Their sockets to 10.77.0.1, 10.77.0.2, ... go over emulated RDMA, all others to the kernel. The
    run ends with the last program, whose exit code it has: put the client there.
    """
    mark, *programs = words or ["--"]
    if mark != "--":
        raise ConfigError(f"sockets: {mark}: programs go behind --")
    if asked.stress:
        programs = _stress(asked, nodes, programs)
    commands = _split(programs)
    _check_numbers(asked, nodes, len(commands))
    for node, command in enumerate(commands):
        _check(node, command)
    path = given.values["json"] or ""
    launch.check_writable("--json", path)
    settings, folder = _settings(given), _folder()
    agent = [str(folder / AGENT), str(asked.ring), str(round(asked.wait * 1000)), path]
    agent += [_facts(asked.ring, settings, commands), str(folder / CALLS)]
    # The programs' own time is not the node's: they are other processes.
    agent += [str(len(settings) + 1), "run.compute=model", *settings]
    _prepare_mpi(folder)
    sys.stdout.flush()
    os.execv(agent[0], [*agent, "--", *programs])


def _settings(given: Given) -> list[str]:
    """Of all nodes, later ones before earlier ones."""
    in_file = config.load(environ={}, config_path=given.config_path)
    memory = given.values["memory"]
    chosen = in_file.not_default()
    chosen["run.memory"] = in_file.run.memory if memory is None else memory
    return [*(f"{name}={text}" for name, text in chosen.items()), *given.assignments]


def _prepare_mpi(folder: pathlib.Path) -> None:
    """Let MPICH and Open MPI start ranks on nodes, and send their messages by sockets."""
    enter = str(folder / ENTER_NODE)
    os.environ |= {"HYDRA_LAUNCHER": "ssh", "HYDRA_LAUNCHER_EXEC": enter}
    os.environ |= {"PRTE_MCA_plm": "ssh", "PRTE_MCA_plm_ssh_agent": enter}
    wanted = {
        "MPIR_CVAR_CH4_NETMOD": "ofi",  # UCX finds the ranks on one host
        "FI_PROVIDER": "tcp",
        "FI_TCP_IFACE": INTERFACE,  # a faster one would be preferred
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "tcp,self",
        "OMPI_MCA_btl_tcp_if_include": INTERFACE,  # it would also use the kernel's
        "OMPI_MCA_coll": "^han",  # it takes ranks of a host for ranks of a node: wrong sums
    }
    for name, text in wanted.items():
        os.environ.setdefault(name, text)


def _check_numbers(asked: Asked, num_nodes: int, num_programs: int) -> None:
    """Refuse a ring, nodes or a wait out of range."""
    if asked.ring not in _RINGS_BYTES:
        raise ConfigError(
            f"--ring = {asked.ring}: allowed are powers of two from {min(_RINGS_BYTES)} to "
            f"{max(_RINGS_BYTES)}"
        )
    if not 1 <= num_nodes <= NODES_MAX or num_programs != num_nodes:
        raise ConfigError(
            f"-n {num_nodes} with {num_programs} programs: allowed are 1 to {NODES_MAX} nodes, "
            "and a program for each, with : between them, behind --"
        )
    if not 0 <= asked.wait <= _WAIT_MAX_SECONDS:
        raise ConfigError(f"--wait = {asked.wait}: allowed are 0 to {_WAIT_MAX_SECONDS} seconds")


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


def _stress(asked: Asked, num_nodes: int, programs: list[str]) -> list[str]:
    try:
        num_bytes = int(float(asked.stress))
    except (OverflowError, ValueError):
        num_bytes = 0
    if programs or num_nodes < 2 or num_bytes < 1 or not 1 <= asked.connections <= 1000:
        raise ConfigError(
            f"--stress {asked.stress} --connections {asked.connections} -n {num_nodes}: allowed "
            "are a number of bytes, 1 to 1000 connections, 2 nodes and more, and no programs"
        )
    from pagewire.cli.checks import sockets_stress

    return sockets_stress.commands(num_nodes, asked.connections, num_bytes, asked.seed)


def _folder() -> pathlib.Path:
    folder = pathlib.Path(pagewire.__path__[0], "sockets")
    if not (folder / AGENT).exists():
        raise ConfigError(f"{AGENT} is not installed; install pagewire again")
    return folder
