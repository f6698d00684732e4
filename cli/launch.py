"""Starts the ranks of a run under mpiexec, watches them, and leaves no process behind.

mpiexec's proxies and ranks make sessions of their own, so a process group does not hold them all:
they are found by a variable in their environment. How each rank ended is read from the records
that `pagewire run` writes, because mpiexec's own exit code does not tell it.
"""

import contextlib
import ctypes
import dataclasses
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from pagewire.cli import merging
from pagewire.cli.program import Program, check_module
from pagewire.native import output
from pagewire.native.settings import ConfigError
from pagewire.transport.node.report import IncompleteError
from pagewire.transport.settings import config, flat, platform

MAX_RANKS = 1024
"""Bound against a mistyped number; the machine itself would name 2^22 nodes."""

GRACE_S = 2.0
"""How long the other ranks and mpiexec may take to end after the first failure."""

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""

_POLL_S = 0.05
_ADDR_NO_RANDOMIZE = 0x0040000
_MARKER = "PAGEWIRE_LAUNCH_ID"


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    exit_code: int
    failure: str
    """Which rank failed and why; empty when none did."""


def check_ranks(num_ranks: int) -> None:
    """Refuse a number of ranks that cannot be started."""
    if not 1 <= num_ranks <= MAX_RANKS:
        raise ConfigError(f"-n {num_ranks}: the number of ranks must be from 1 to {MAX_RANKS}")


def parse_ranks(text: str) -> int:
    """The number of ranks that a command line gives."""
    try:
        num_ranks = int(text)
    except ValueError:
        raise ConfigError(
            f"-n {text}: the number of ranks must be a whole number from 1 to {MAX_RANKS}"
        ) from None
    check_ranks(num_ranks)
    return num_ranks


def check_settings(environ: Mapping[str, str], chosen: Program | None = None) -> config.Config:
    """The settings that ranks of the program would have in this environment; raises ConfigError."""
    checked = config.load(environ=environ)
    platform.load(checked.run.platform)
    beside = _folders_beside(chosen)
    for registry in config.EXTENSIONS:
        registry.create(checked.value(registry.setting), folders=beside)
    for name in ("json", "compute_record"):
        check_writable(f"run.{name}", getattr(checked.run, name))
    return checked


def _folders_beside(chosen: Program | None) -> list[str]:
    """Where a class of the user's may lie besides Python's own path."""
    if chosen is None or chosen.kind != "file":
        return []
    return [os.path.dirname(os.path.realpath(chosen.target))]


def check_writable(name: str, path: str) -> None:
    """Refuse an output path before the run that would find out at its end."""
    folder = os.path.dirname(path) or "."
    if path and not os.path.isdir(folder):
        raise ConfigError(f"{name} = '{path}': there is no folder '{folder}'")
    if path and not output.is_writable(path):
        raise ConfigError(f"{name} = '{path}': cannot be written")


def find_mpiexec() -> str:
    """mpiexec of this Python's environment, else the system's."""
    own = os.path.join(sys.prefix, "bin", "mpiexec")
    found = own if os.access(own, os.X_OK) else shutil.which("mpiexec")
    if not found:
        raise ConfigError(
            "mpiexec not found beside this Python nor in PATH: pip install 'pagewire[mpi]'"
        )
    return found


def rank_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Environment of the ranks, below the user's: more ranks than cores must neither be refused nor
    spin, and equal runs shall allocate alike."""
    result = {
        # One thread a rank: numpy's own would fight over the same few cores.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        # Like addresses: what the order of a set decides shall be the same in every run.
        "PYTHONHASHSEED": "0",
        "MPIR_CVAR_POLLS_BEFORE_YIELD": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        **environ,
    }
    if os.geteuid() == 0:
        for prefix in ("OMPI", "PRTE"):
            result[f"{prefix}_ALLOW_RUN_AS_ROOT"] = "1"
            result[f"{prefix}_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    return result


def launch(
    num_ranks: int,
    chosen: Program,
    environ: Mapping[str, str],
    *,
    stdout: IO[Any] | int | None = None,
) -> Outcome:
    """Run a program on num_ranks ranks and wait for its end; input must have been checked.

    An interrupt by the user ends every process, and is an outcome.
    """
    check_ranks(num_ranks)
    if chosen.kind == "module":
        check_module(chosen.target)
    command = [sys.executable, "-P", "-m", "pagewire", "run", "--", *chosen.argv]
    return launch_command(
        num_ranks,
        command,
        environ,
        program=chosen.label,
        stdout=stdout,
        folders=_folders_beside(chosen),
    )


def launch_command(
    num_ranks: int,
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    program: str,
    stdout: IO[Any] | int | None = None,
    folders: Sequence[str] = (),
) -> Outcome:
    """Run a command on num_ranks ranks, watched as `launch` does it.

    folders: where classes that the settings name may lie. The report appears when every rank has
    ended well, where the ranks' output went; raises OutputError when it cannot be written.
    """
    mpiexec = find_mpiexec()
    settings = config.load(environ=environ)
    marker = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(prefix="pagewire-") as directory:
        variables = rank_environment(environ)
        variables[_MARKER] = marker
        variables["PAGEWIRE_LAUNCH_DIR"] = directory
        variables["PAGEWIRE_NODE_FILE"] = node_file = f"{directory}/node.conf"
        variables["PAGEWIRE_PROGRAM"] = program
        machine = platform.load(settings.run.platform)
        flat.write(node_file, settings, machine, num_ranks=num_ranks, folders=folders)
        with _ending_signals_raise():
            process = subprocess.Popen(
                [mpiexec, "-n", str(num_ranks), *command],
                env=variables,
                stdout=stdout,
                preexec_fn=_fix_addresses,  # noqa: PLW1509, the launcher has one thread
            )
            watch = _Watch(process, num_ranks, pathlib.Path(directory), marker)
            try:
                code = watch.wait()
                unfinished = _unfinished(pathlib.Path(directory))
            except KeyboardInterrupt:
                return Outcome(INTERRUPTED, "interrupted")
            finally:
                _end_all(process, marker)
        outcome = _outcome(code, pathlib.Path(directory), watch.first_gone, unfinished)
        if not outcome.failure:
            try:
                merging.merge(pathlib.Path(directory), num_ranks, settings, program, stdout)
            except IncompleteError as error:
                return Outcome(1, str(error))
        return outcome


def _fix_addresses() -> None:
    """In the child: no address-space randomization from here on, for the ranks too.

    Blocks are cut at 16 KB-aligned addresses of the user's buffers, so with random addresses the
    same program would be cut differently, and take other virtual times, in each run.
    """
    libc = ctypes.CDLL(None)
    libc.personality(libc.personality(0xFFFFFFFF) | _ADDR_NO_RANDOMIZE)


def _records(directory: pathlib.Path, kind: str) -> list[dict[str, Any]]:
    found = []
    for path in directory.glob(f"*.{kind}"):
        with contextlib.suppress(OSError, ValueError):
            found.append(json.loads(path.read_text(encoding="utf-8")))
    return sorted(found, key=lambda record: record["time_ns"])


def _failures(directory: pathlib.Path) -> list[dict[str, Any]]:
    """Records of failures in order of time: a rank notes its own before it ends."""
    ended = [record for record in _records(directory, "end") if record["code"] != 0]
    return sorted(_records(directory, "note") + ended, key=lambda record: record["time_ns"])


def _unfinished(directory: pathlib.Path) -> list[int]:
    """Ranks that started and have not ended.

    Asked when mpiexec has ended and before what is left gets killed: mpiexec can end with code 0
    although ranks still wait for one that left past MPI's end.
    """
    ended = {record["rank"] for record in _records(directory, "end")}
    started = {record["rank"] for record in _records(directory, "start")}
    return sorted(started - ended)


def _first_without_goodbye(directory: pathlib.Path) -> int:
    """The first rank that ended with code 0 but by os._exit, past MPI's end; -1 when none did."""
    for record in _records(directory, "end"):
        rank: int = record["rank"]
        if not directory.joinpath(f"{rank}.leave").exists():
            return rank
    return -1


class _Watch:
    """Waits for mpiexec, sees which rank's process goes first, ends a run that does not end."""

    def __init__(
        self, process: "subprocess.Popen[Any]", num_ranks: int, directory: pathlib.Path, marker: str
    ) -> None:
        self._process = process
        self._num_ranks = num_ranks
        self._directory = directory
        self._marker = marker
        self._poll = select.poll()
        self._rank_of_fd: dict[int, int] = {}
        self._known_ranks: set[int] = set()
        self.first_gone = -1
        """Rank whose process was the first to disappear, -1 when none did before mpiexec."""

    def wait(self) -> int:
        """mpiexec's exit code; 1 when it had not ended GRACE_S after a rank's failure."""
        failed_s = ended_s = 0.0
        try:
            while True:
                code = self._process.poll()
                if code is not None:
                    return code
                self._follow_ranks()
                now_s = time.monotonic()
                if failed_s and now_s > failed_s + GRACE_S:
                    return 1
                if not failed_s and _failures(self._directory):
                    failed_s = now_s
                if ended_s and now_s > ended_s + GRACE_S:
                    # mpiexec waits as long as something that a rank started holds its output.
                    self._kill_strays()
                if not ended_s and len(_records(self._directory, "end")) == self._num_ranks:
                    ended_s = now_s
        finally:
            for descriptor in self._rank_of_fd:
                os.close(descriptor)

    def _follow_ranks(self) -> None:
        if len(self._known_ranks) < self._num_ranks:
            for record in _records(self._directory, "start"):
                self._follow(record["rank"], record["pid"])
        for descriptor, _ in self._poll.poll(_POLL_S * 1000):
            self._poll.unregister(descriptor)
            rank = self._rank_of_fd[descriptor]
            ended = self._directory.joinpath(f"{rank}.end").exists()
            if self.first_gone < 0 and not ended:
                self.first_gone = rank

    def _follow(self, rank: int, pid: int) -> None:
        if rank in self._known_ranks:
            return
        self._known_ranks.add(rank)
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            self._rank_of_fd[descriptor] = rank
            self._poll.register(descriptor, select.POLLIN)

    def _kill_strays(self) -> None:
        for pid in marked_processes(self._marker):
            with contextlib.suppress(OSError):
                name = pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
                if not name.startswith(("mpiexec", "hydra", "prte", "orted")):
                    os.kill(pid, signal.SIGKILL)


def _outcome(
    code: int, directory: pathlib.Path, first_gone: int, unfinished: Sequence[int]
) -> Outcome:
    hasty = _first_without_goodbye(directory)
    if code == 0 and unfinished:
        if hasty >= 0:
            return _left_mpi(hasty)
        return Outcome(1, f"rank {unfinished[0]} still ran when mpiexec ended")
    failures = _failures(directory)
    if failures:
        first = failures[0]
        rank, number = first["rank"], first["code"]
        if "reason" in first:
            return Outcome(number, f"rank {rank} {first['reason']}")
        if number > 0:
            return Outcome(number, f"rank {rank} ended with exit code {number}")
        return _killed(f"rank {rank}", -number)
    if code == 0:
        return Outcome(0, "")
    if code < 0:
        return _killed("mpiexec", -code)
    if hasty >= 0:
        return _left_mpi(hasty)
    for number in (signal.SIGKILL, signal.SIGTERM):
        if code in (number, 128 + number) and first_gone >= 0:
            return _killed(f"rank {first_gone}", number)
    return Outcome(code, f"a rank called MPI Abort, or mpiexec failed (exit code {code})")


def _left_mpi(rank: int) -> Outcome:
    return Outcome(1, f"rank {rank} left with exit code 0 but without MPI Finalize (os._exit)")


def _killed(who: str, number: int) -> Outcome:
    return Outcome(128 + number, f"{who} was killed by signal {number} ({_signal_name(number)})")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


@contextlib.contextmanager
def _ending_signals_raise() -> Iterator[None]:
    """SIGTERM and SIGHUP end the launcher as an interrupt does, so that the ranks end with it."""

    def interrupt(number: int, _frame: object) -> None:
        raise KeyboardInterrupt(number)

    earlier = {
        number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _end_all(process: "subprocess.Popen[Any]", marker: str) -> None:
    """Kill mpiexec and every process of this launch, also those that are being started."""
    deadline = time.monotonic() + 5.0
    while time.monotonic() < deadline:
        if process.poll() is None:
            process.kill()
            process.wait()
        alive = [pid for pid in marked_processes(marker) if pid != os.getpid()]
        if not alive:
            return
        for pid in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def marked_processes(marker: str) -> list[int]:
    """Processes whose environment holds this launch's marker; zombies have none."""
    wanted = f"{_MARKER}={marker}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        try:
            environ = pathlib.Path("/proc", entry, "environ").read_bytes()
        except OSError:
            continue
        if wanted in environ.split(b"\0"):
            found.append(int(entry))
    return found
