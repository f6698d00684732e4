"""The command: runs the chosen experiments one after the other, prints and writes each at once."""

import dataclasses
import pathlib
import sys
import time
from collections.abc import Sequence

from pagewire.cli import launch
from pagewire.cli.experiments import output, registry
from pagewire.cli.experiments.real_apps import KINDS
from pagewire.cli.experiments.result import Experiment, Options
from pagewire.cli.guard import guarded_folder
from pagewire.native.settings import ConfigError
from pagewire.transport.timeline.request import Parts


def say(text: str) -> None:
    print(f"pagewire: {text}", file=sys.stderr, flush=True)


def list_all() -> int:
    """Names, titles and sources on standard output."""
    width = max(map(len, registry.EXPERIMENTS))
    for name, experiment in registry.EXPERIMENTS.items():
        print(f"{name.ljust(width)}  {experiment.title} [{experiment.source}]")
    return 0


def run(names: Sequence[str], options: Options, folder: pathlib.Path) -> int:
    """Exit code 0, or 1 when an experiment could not run; the others run nevertheless.

    With run.trace the timelines of all runs that are launched become one; 1 when none is.
    """
    chosen = registry.choose(names)
    if options.repetitions < 1:
        raise ConfigError(f"--repetitions {options.repetitions}: must be at least 1")
    if options.quick and options.full:
        raise ConfigError("--quick and --full: choose one")
    if options.app not in KINDS:
        raise ConfigError(f"--app '{options.app}': allowed is one of {', '.join(KINDS)}")
    trace = launch.check_settings(options.environ).run.trace
    output.check_plots()
    output.check_folder(folder)
    if not trace:
        return _run(chosen, options, folder)
    with guarded_folder("pagewire-timelines-") as parts_folder:
        parts = Parts(parts_folder)
        code = _run(chosen, dataclasses.replace(options, timeline=parts), folder)
        if parts.join(trace):
            return code
    say(
        f"'{trace}' was not written: these experiments launch no ranks; Lab(trace=FILE) "
        "writes the timeline of engines"
    )
    return 1


def _run(chosen: Sequence[Experiment], options: Options, folder: pathlib.Path) -> int:
    failed: list[str] = []
    for experiment in chosen:
        start_s = time.monotonic()
        try:
            result = experiment.run(experiment.options(options))
        except ConfigError as error:
            if len(chosen) == 1:
                raise
            say(f"{experiment.name} did not run: {error}")
            failed.append(experiment.name)
            continue
        output.print_result(experiment, result)
        output.write_files(experiment, result, experiment.options(options), folder)
        say(f"{experiment.name} took {time.monotonic() - start_s:.1f} s")
    if failed:
        say(f"{len(failed)} of {len(chosen)} experiments did not run: {', '.join(failed)}")
    return 1 if failed else 0
