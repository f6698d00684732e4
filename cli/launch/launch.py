"""Starts the ranks of a run under mpiexec, watches them, and leaves no process behind.

How each rank ended is read from the records of cli/kit/watch.py, because mpiexec's own exit code
does not tell it.
"""

import contextlib
import ctypes
import dataclasses
import math
import os
import pathlib
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from typing import IO, Any

from pagewire.cli.kit import progress, space
from pagewire.cli.kit.error_stream import ErrorStream
from pagewire.cli.kit.guard import guarded_folder
from pagewire.cli.kit.watch import (
    FIRST_SIGN_S,
    MARKER,
    Watch,
    end_all,
    failures,
    first_without_goodbye,
    unfinished,
)
from pagewire.cli.launch import (
    allocation,
    auto_mpi,
    fabric,
    merging,
    mpi_choice,
    options,
    recording,
)
from pagewire.cli.launch.program import Program, check_module
from pagewire.cli.launch.witness import STARTER
from pagewire.native import output
from pagewire.native.settings import ConfigError
from pagewire.run.report.report import IncompleteError
from pagewire.run.settings import config, node_file, platform
from pagewire.run.timeline import request

MAX_RANKS = 1024
"""Bound against a mistyped number; the machine itself would name 2^22 nodes."""

_ADDR_NO_RANDOMIZE = 0x0040000


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    exit_code: int
    failure: str
    """Which rank failed and why; empty when none did."""
    is_past: bool = False
    """The ranks ended well, and what they left shows the failure."""
    is_unseen: bool = False
    """Some ranks left no sign of theirs."""


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
    if chosen is not None and chosen.kind == "native":
        checked.check_without_python()
    beside = _folders_beside(chosen)
    for registry in config.EXTENSIONS:
        registry.create(checked.value(registry.setting), folders=beside)
    for name in ("json", "trace", "html", "compute_record", "record"):
        check_writable(f"run.{name}", getattr(checked.run, name))
    mpi_choice.check_options(checked.run.hosts, checked.run.mpiexec_options)
    _check_transport(checked, environ, chosen)
    return checked


def _check_transport(
    checked: config.Config, environ: Mapping[str, str], chosen: Program | None
) -> None:
    """Refuse a run that would end without the NI, or whose MPI is not there."""
    over_fabric = checked.run.transport == "fabric"
    if not over_fabric and checked.run.mpi in ("auto", "mpich"):
        return  # whoever starts ranks will look for it
    mpi = mpi_choice.find(checked.run.mpi, ask=over_fabric)
    if over_fabric:
        fabric.check_installed()
        fabric.check_environment(environ, mpi)
        if chosen is not None:
            auto_mpi.check(chosen, mpi, environ)


def choose_transport(environ: dict[str, str], chosen: Program) -> None:
    """Put the transport of a native program into an environment: only one can carry it."""
    if chosen.kind != "native":
        return
    variable = config.lookup("run.transport").environment
    if environ.get(variable, "fabric") != "fabric":
        raise ConfigError(
            f"run.transport = '{environ[variable]}' with the command '{chosen.target}': only "
            "Python programs run on it; take run.transport = 'fabric', or give the .py file "
            "without --"
        )
    options.apply(options.as_environment(["run.transport=fabric"]), environ)


def choose_mpi(environ: dict[str, str], chosen: Program) -> str:
    """Put the MPI that carries a native program into an environment where run.mpi is auto; which it
    is and why, as a line to say, empty when there is nothing to."""
    run = config.load(environ=environ).run
    if chosen.kind != "native" or run.mpi != "auto":
        return ""
    choice, why = auto_mpi.choose(chosen, environ)
    if choice != "auto":
        options.apply(options.as_environment([f"run.mpi={choice}"]), environ)
    return "" if run.quiet else f"MPI: {why}"


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
    return mpi_choice.find("mpich", ask=False).mpiexec


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
    group: request.Group = request.ALONE,
) -> Outcome:
    """Run a program on num_ranks ranks and wait for its end; input must have been checked.

    What raises meanwhile, as an interrupt by the user does, ends every process.
    """
    check_ranks(num_ranks)
    if chosen.kind == "module":
        check_module(chosen.target)
    command = [sys.executable, "-P", "-m", "pagewire", "run", "--", *chosen.argv]
    if chosen.kind == "native":
        command = [chosen.target, *chosen.arguments]
    return launch_command(
        num_ranks,
        [STARTER, *command],
        environ,
        program=chosen.label,
        stdout=stdout,
        folders=_folders_beside(chosen),
        group=group,
    )


def launch_command(
    num_ranks: int,
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    program: str,
    stdout: IO[Any] | int | None = None,
    folders: Sequence[str] = (),
    group: request.Group = request.ALONE,
) -> Outcome:
    """Run a command on num_ranks ranks, watched as `launch` does it.

    command: with STARTER in front, where it leaves the records that tell how its ranks ended.
    folders: where classes that the settings name may lie. group: the run's in its timeline. The
    report appears when every rank has ended well, where the ranks' output went; raises OutputError
    when it cannot be written.
    """
    settings = config.load(environ=environ)
    run = settings.run
    machine = platform.load(run.platform)
    node_file.check_network(settings, machine, num_ranks)
    mpi = mpi_choice.find(run.mpi, ask=run.transport == "fabric" or bool(run.hosts))
    marker = uuid.uuid4().hex
    is_spread = _is_spread(run.hosts, environ)
    with (
        # With several hosts in the working directory: that file system all of them see.
        guarded_folder(
            "pagewire-", parent=os.getcwd() if is_spread else None, marker=marker
        ) as directory,
        # A named pipe joins processes of one host; options may have told mpiexec where to write.
        contextlib.closing(
            ErrorStream("" if is_spread or run.mpiexec_options else directory, progress.make_room)
        ) as errors,
    ):
        space.check(directory, num_ranks)
        variables = _variables(settings, environ, mpi, directory)
        variables[MARKER] = marker
        variables["PAGEWIRE_PROGRAM"] = program
        path = variables["PAGEWIRE_NODE_FILE"]
        node_file.write(path, settings, machine, num_ranks=num_ranks, folders=folders)
        words = mpi.command(num_ranks, run.hosts, run.mpiexec_options, variables)
        process = _start([*words, *command], variables, stdout)
        outcome = _watched(
            process,
            num_ranks,
            settings,
            pathlib.Path(directory),
            marker,
            errors,
            is_spread=is_spread,
        )
        if run.record:
            recording.merge(num_ranks, settings, program)
        if not outcome.failure:
            try:
                merging.merge(pathlib.Path(directory), num_ranks, settings, program, stdout, group)
            except IncompleteError as error:
                outcome = Outcome(1, str(error), is_past=True)
        if not outcome.failure or outcome.is_unseen:
            return outcome
        return dataclasses.replace(outcome, failure=outcome.failure + space.explain(directory))


def _is_spread(hosts: str, environ: Mapping[str, str]) -> bool:
    """Whether ranks may be on several hosts, by the user's word or in a batch system's job."""
    return bool(hosts) or allocation.num_hosts(environ) > 1


def _variables(
    settings: config.Config, environ: Mapping[str, str], mpi: mpi_choice.Mpi, directory: str
) -> dict[str, str]:
    """What mpiexec and the ranks find in their environment."""
    is_spread = _is_spread(settings.run.hosts, environ)
    variables = {**rank_environment(environ), **mpi.variables()}
    if settings.run.transport == "fabric":
        variables = fabric.environment(variables, mpi, directory)
    else:
        variables = {**mpi.defaults(is_spread=is_spread), **variables}
    if not is_spread:  # where Open MPI's mpiexec keeps its files, and leaves them when it is killed
        for name in ("PRTE_MCA_prte_tmpdir_base", "OMPI_MCA_orte_tmpdir_base"):
            variables.setdefault(name, directory)
    variables["PAGEWIRE_LAUNCH_DIR"] = directory
    variables["PAGEWIRE_NODE_FILE"] = f"{directory}/node.conf"
    return variables


def _watched(
    process: "subprocess.Popen[Any]",
    num_ranks: int,
    settings: config.Config,
    directory: pathlib.Path,
    marker: str,
    errors: ErrorStream,
    *,
    is_spread: bool,
) -> Outcome:
    """How the ranks end, and nothing of the launch runs any more."""
    over_fabric = settings.run.transport == "fabric"
    watch = Watch(
        process,
        num_ranks,
        directory,
        marker,
        errors=errors,
        first_sign_s=FIRST_SIGN_S if is_spread else math.inf,
        # A Python program may end without MPI; one that leaves neither has called os._exit.
        goodbyes=("report",) if over_fabric else ("report", "leave"),
    )
    try:
        code = watch.wait()
        left = unfinished(directory)
    finally:
        end_all(process, marker)
    if watch.unseen:
        return _unseen(watch.unseen, str(directory))
    goodbye = "report" if over_fabric else "leave"
    return _outcome(code, directory, watch.first_gone, left, goodbye=goodbye)


def _start(
    words: Sequence[str], environ: Mapping[str, str], stdout: IO[Any] | int | None
) -> "subprocess.Popen[Any]":
    try:
        return subprocess.Popen(
            words,
            env=environ,
            stdout=stdout,
            preexec_fn=_prepare_mpiexec,  # noqa: PLW1509, the launcher has one thread
        )
    except OSError as error:
        raise output.OutputError(
            f"'{words[0]}' was not started: {error.strerror}; allow more processes (ulimit -u), "
            "memory, or files (ulimit -n)"
        ) from None


def _prepare_mpiexec() -> None:
    """In the child: mpiexec outlives a broken pipe, and addresses are fixed.

    Hydra passes on the end of its input, and a proxy whose ranks have ended by then is gone: the
    signal would end mpiexec before it has passed on what the ranks wrote. They do not inherit it.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    _fix_addresses()


def _fix_addresses() -> None:
    """No address-space randomization from here on, for the ranks too.

    Blocks are cut at 16 KB-aligned addresses of the user's buffers, so with random addresses the
    same program would be cut differently, and take other virtual times, in each run.
    """
    libc = ctypes.CDLL(None)
    libc.personality(libc.personality(0xFFFFFFFF) | _ADDR_NO_RANDOMIZE)


def _outcome(
    code: int,
    directory: pathlib.Path,
    first_gone: int,
    left: Sequence[int],
    *,
    goodbye: str = "leave",
) -> Outcome:
    """left: ranks that had not ended when mpiexec had; goodbye: the record of a rank that has
    finalized MPI."""
    hasty = first_without_goodbye(directory, goodbye)
    failed = failures(directory)
    # What else has ended by now may be what the launcher has killed.
    if code == 0 and left and not (failed and "reason" in failed[0]):
        if hasty >= 0:
            return _left_mpi(hasty, goodbye)
        return Outcome(1, f"rank {left[0]} still ran when mpiexec ended")
    if failed:
        first = failed[0]
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
        return _left_mpi(hasty, goodbye)
    for number in (signal.SIGKILL, signal.SIGTERM):
        if code in (number, 128 + number) and first_gone >= 0:
            return _killed(f"rank {first_gone}", number)
    if not any(directory.glob("*.start")):
        return Outcome(code, f"mpiexec failed before any rank had begun (exit code {code})")
    return Outcome(code, f"a rank called MPI Abort, or mpiexec failed (exit code {code})")


def _unseen(ranks: Sequence[int], directory: str) -> Outcome:
    names = ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
    return Outcome(
        1,
        f"rank {names} left no record in '{directory}': all hosts of a run must see that folder; "
        "start in one on a file system that they share",
        is_unseen=True,
    )


def _left_mpi(rank: int, goodbye: str) -> Outcome:
    how = " (os._exit)" if goodbye == "leave" else ""
    return Outcome(1, f"rank {rank} left with exit code 0 but without MPI Finalize{how}")


def _killed(who: str, number: int) -> Outcome:
    return Outcome(128 + number, f"{who} was killed by signal {number} ({_signal_name(number)})")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
