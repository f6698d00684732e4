"""`pagewire run`: one rank's program under the emulated network interface.

Start-up is part of every rank, so nothing here loads a command-line or table library. A program
that raises ends all ranks: its traceback goes to standard error with the rank's number, then MPI
aborts.
"""

import io
import os
import runpy
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import NoReturn

from pagewire.cli.launch import options, program
from pagewire.cli.launch.witness import rank_of_environment, tell_of_end, write_record
from pagewire.native.output import OutputError, let_be_read
from pagewire.native.settings import ConfigError
from pagewire.run.settings import config, platform

USAGE = "usage: pagewire run [options] PROGRAM [args]; an app, a .py file, or -m module"

_LAUNCHER_FRAMES = frozenset({__file__, runpy.__file__, "<frozen runpy>"})


def main(words: Sequence[str]) -> int:
    """Run one rank's program; returns the exit code. Bad input raises ConfigError."""
    assignments, config_path, rest = options.parse(words)
    if not rest:
        raise ConfigError(USAGE)
    options.apply(options.as_environment(assignments, config_path), os.environ)
    settings = config.load()
    platform.load(settings.run.platform)
    chosen = program.parse(rest)
    if chosen.kind == "native":
        raise ConfigError(f"pagewire run starts Python programs; start {chosen.target} itself")
    _check_transport(settings)
    os.environ.setdefault("PAGEWIRE_PROGRAM", chosen.label)
    if settings.run.transport == "facade":
        tell_of_end()  # over the fabric the provider's report does
    return _run(chosen, os.environ.get("PAGEWIRE_LAUNCH_DIR", ""))


def _check_transport(settings: config.Config) -> None:
    """Refuse a rank whose MPI could not find the provider, nor the provider its settings."""
    needed = ("PAGEWIRE_NODE_FILE", "FI_PROVIDER_PATH", "LD_PRELOAD")
    if settings.run.transport == "fabric" and not all(map(os.environ.get, needed)):
        raise ConfigError(
            "run.transport = 'fabric' under an mpiexec of your own needs what `pagewire env` "
            'prints in the environment of mpiexec: eval "$(pagewire env -n RANKS)"'
        )


def _run(chosen: program.Program, directory: str) -> int:
    for stream in (sys.stdout, sys.stderr):  # whole lines: mpiexec mixes what the ranks write
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, write_through=False)
    try:
        settings = config.load()
        if settings.run.transport == "facade":
            _prepare_facade()
        else:
            _prepare_fabric(settings)
        _execute(chosen)
    except SystemExit as leaving:
        code = _exit_code(leaving)
        if _left_a_call(leaving):  # its peers would wait for what the call was to do
            _print_traceback(leaving)
            code = code or 1
            _end_all(directory, f"left by SystemExit inside of an MPI call, code {code}", code)
        if code:
            _end_all(directory, f"ended with exit code {code}", code)
    except (ConfigError, OutputError) as error:
        print(f"[rank {rank_of_environment()}] pagewire: error: {error}", file=sys.stderr)
        if isinstance(error, ConfigError):
            _end_all(directory, f"cannot start: {error}", 2)
        _end_all(directory, f"ended with an error: {error}", 1)
    except BaseException as error:  # noqa: BLE001, whatever a program raises ends the run
        _print_traceback(error)
        text = f"raised {type(error).__name__}"
        detail = ": ".join([str(error).partition("\n")[0], *getattr(error, "__notes__", ())])
        _end_all(directory, f"{text}: {detail}" if detail else text, 1)
    return 0


def _prepare_fabric(settings: config.Config) -> None:
    from pagewire.transport.fabric import hooks

    hooks.install(settings)


def _prepare_facade() -> None:
    from pagewire.transport.facade import install_finder, replace_clocks

    if config.load().run.wtime == "virtual":
        replace_clocks()  # a program may bind time.sleep before it imports MPI
    install_finder()


def _execute(chosen: program.Program) -> None:
    if not sys.flags.safe_path:
        del sys.path[0]  # the folder of the command pagewire, or the working directory
    if chosen.kind == "file":
        sys.path.insert(0, os.path.dirname(os.path.realpath(chosen.target)))
        sys.argv[:] = [chosen.target, *chosen.arguments]
        runpy.run_path(chosen.target, run_name="__main__")
        return
    module = chosen.target
    if chosen.kind == "app":
        module = f"pagewire.apps.{chosen.target}"
    else:
        sys.path.insert(0, os.getcwd())
    sys.argv[:] = [module, *chosen.arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _exit_code(leaving: SystemExit) -> int:
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code & 0xFF or int(leaving.code != 0)
    print(leaving.code, file=sys.stderr)
    return 1


def _left_a_call(leaving: SystemExit) -> bool:
    """Whether it was raised by what an MPI call had called: a policy, an operation, a signal."""
    frames = leaving.__traceback__
    while frames:
        if frames.tb_frame.f_globals.get("__name__", "").startswith("pagewire.transport."):
            return True
        frames = frames.tb_next
    return False


def _print_traceback(error: BaseException) -> None:
    """The traceback from the program's first frame on, each line with the rank's number."""
    import traceback  # takes long to load

    frames: TracebackType | None = error.__traceback__
    while frames and frames.tb_frame.f_code.co_filename in _LAUNCHER_FRAMES:
        frames = frames.tb_next
    text = "".join(traceback.format_exception(type(error), error, frames))
    head = f"[rank {rank_of_environment()}] "
    sys.stdout.flush()
    sys.stderr.write("".join(f"{head}{line}\n" for line in text.splitlines()))
    sys.stderr.flush()


def _end_all(directory: str, reason: str, code: int) -> NoReturn:
    """Leave a note, and end all ranks if MPI is up, else this one."""
    # The note first: what ends the other ranks would otherwise look like the first failure.
    if directory:
        write_record(directory, "note", {"reason": reason, "code": code})
    let_be_read()
    loaded = sys.modules.get("mpi4py.MPI")
    if loaded is not None and loaded.Is_initialized() and not loaded.Is_finalized():
        loaded.COMM_WORLD.Abort(code)
    raise SystemExit(code)
