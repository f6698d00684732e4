"""The command: runs the chosen experiments one after the other, prints and writes each at once."""

import contextlib
import dataclasses
import pathlib
import time
from collections.abc import Sequence

from pagewire.cli.experiments import artifact, paper, registry
from pagewire.cli.experiments.apps import KINDS
from pagewire.cli.kit import conditions, output, points, progress, space
from pagewire.cli.kit.guard import guarded_folder
from pagewire.cli.kit.interrupts import Interrupted
from pagewire.cli.kit.lists import print_list
from pagewire.cli.kit.progress import say
from pagewire.cli.kit.result import Experiment, Options, Panel
from pagewire.cli.launch import launch
from pagewire.native.settings import ConfigError
from pagewire.run.settings import config
from pagewire.run.timeline.request import Parts

_MAX_NAMED = 8
"""Of missing points, on the terminal; JSON names all."""


def list_all() -> int:
    """Names, titles and sources on standard output."""
    print_list(
        {name: f"{each.title} [{each.source}]" for name, each in registry.EXPERIMENTS.items()}
    )
    return 0


def run(
    names: Sequence[str],
    options: Options,
    folder: pathlib.Path,
    *,
    makes_artifact: bool = False,
    resumes: bool = False,
    cache: str = "",
    quiet: bool = False,
) -> int:
    """Exit code 0, or 1 when an experiment could not run; the others run nevertheless.

    With run.trace the timelines of all runs that are launched become one; 1 when none is.
    makes_artifact: all results in one page and one document too. resumes: take points that were
    finished when the same experiment was stopped. cache: folder of the points; empty: the usual
    one. quiet: no progress.
    """
    chosen = registry.choose(names)
    if options.repetitions < 1:
        raise ConfigError(f"--repetitions {options.repetitions}: must be at least 1")
    if options.quick and options.full:
        raise ConfigError("--quick and --full: choose one")
    if options.app not in KINDS:
        raise ConfigError(f"--app '{options.app}': allowed is one of {', '.join(KINDS)}")
    trace = launch.check_settings(options.environ).run.trace
    if trace and resumes:
        raise ConfigError("--resume with --trace: points that were kept have no timeline")
    output.check_library("matplotlib", "experiments draw plots")
    if makes_artifact:
        output.check_library("reportlab", "--artifact makes a PDF")
    space.make("--output", folder)
    kept = pathlib.Path(cache or space.cache_folder("experiments"))
    command = _Command(folder, makes_artifact, resumes, kept, quiet)
    if not trace:
        return _run(chosen, options, command)
    with guarded_folder("pagewire-timelines-") as parts_folder:
        parts = Parts(parts_folder)
        try:
            code = _run(chosen, dataclasses.replace(options, timeline=parts), command)
        except Interrupted:
            parts.join(trace)
            raise
        if parts.join(trace):
            return code
    say(
        f"'{trace}' was not written: these experiments launch no ranks; Lab(trace=FILE) "
        "writes the timeline of engines"
    )
    return 1


@dataclasses.dataclass(frozen=True, slots=True)
class _Command:
    """What is alike for all experiments of a call."""

    folder: pathlib.Path
    makes_artifact: bool
    resumes: bool
    cache: pathlib.Path
    quiet: bool


def _run(chosen: Sequence[Experiment], options: Options, command: _Command) -> int:
    failed: list[str] = []
    held: list[conditions.Line] = []
    finished: list[points.Points] = []
    chapters: list[artifact.Chapter] = []
    stores = [_store(each, each.options(options), command) for each in chosen]
    for idx, (experiment, store) in enumerate(zip(chosen, stores, strict=True)):
        start_s = time.monotonic()
        title = f"{experiment.name}: "
        if len(chosen) > 1:
            title = f"experiment {idx + 1} of {len(chosen)}, {title}"
        with progress.Display(0, quiet=command.quiet, title=title) as display:
            taken = points.Points(store, resumes=command.resumes, display=display)
            own = dataclasses.replace(experiment.options(options), points=taken)
            try:
                result = experiment.run(own)
            except ConfigError as error:
                if len(chosen) == 1:
                    raise
                say(f"{experiment.name} did not run: {error}")
                failed.append(experiment.name)
                held += experiment.lines([])
                continue
            except Interrupted:
                display.make_room()
                _show_part(experiment, own, command)
                rest = [each.name for each in chosen[idx + 1 :]]
                if rest:
                    say(f"not run: {', '.join(rest)}")
                raise
        output.print_result(experiment, result)
        output.write_files(experiment, result, own, command.folder)
        held += experiment.lines(result.rows)
        if options.record:
            paper.write_page(command.folder)
        finished.append(taken)
        kept = f", {taken.num_kept} of {taken.num_planned} points kept" if taken.num_kept else ""
        took_s = time.monotonic() - start_s
        if command.makes_artifact:
            chapters.append(artifact.Chapter.of(experiment, result, took_s))
        if not command.quiet:
            say(f"{experiment.name} took {took_s:.1f} s{kept}")
    conditions.print_lines(held)
    if len(chosen) > 1:
        conditions.write(held, command.folder)
    if command.makes_artifact:
        artifact.write(chapters, failed, options, command.folder)
    if failed:
        say(f"{len(failed)} of {len(chosen)} experiments did not run: {', '.join(failed)}")
        return 1
    for taken in finished:
        taken.complete()
    return 0


def _store(experiment: Experiment, options: Options, command: _Command) -> points.Store | None:
    """Where its points are kept; None when what they depend on cannot be seen."""
    settings = options.settings()
    for each in config.EXTENSIONS:
        if ":" in settings.value(each.setting):
            own = f"{each.setting} = '{settings.value(each.setting)}'"
            why = f"{own} is a class of yours, whose changes are not seen"
            if command.resumes:
                raise ConfigError(f"--resume: {why}; run it without")
            say(f"points are not kept for --resume: {why}")
            return None
    name = experiment.points_of or experiment.name
    depends_on = {
        "experiment": name,
        "settings": {
            each.name: each.text
            for each in settings.settings()
            if each.declaration.kind != "path" and each.name != "run.quiet"
        },
        "platform": points.content_of(settings.run.platform),
        "sizes": options.size_name,
        "repetitions": options.repetitions,
        "app": options.app,
        "draw": options.draw,
        "programs": [points.state_of(path) for path in (options.hpl, options.hpcg)],
        "sources": points.sources(),
        "surroundings": points.surroundings(),
    }
    try:
        store = points.Store(command.cache / name, depends_on)
        if command.resumes:
            store.check()
        return store
    except ConfigError as error:
        if command.resumes:
            raise
        say(f"{error}; points are not kept for --resume")
        return None


def _show_part(experiment: Experiment, options: Options, command: _Command) -> None:
    """Table and files of what was finished when a signal came, and what is missing."""
    taken = options.points
    missing = taken.missing
    count = f"{taken.num_finished} of {taken.num_planned} points"
    taken.stop()
    result = None
    if taken.num_finished:
        # ConfigError: what is finished may be refused strategies alone.
        with contextlib.suppress(points.MissingError, ConfigError):
            result = experiment.run(options)
    if result is not None:
        drawn = [each for each in result.panels if _has_data(each)]
        result = dataclasses.replace(result, missing=missing, panels=drawn)
        output.print_result(experiment, result)
        output.write_files(experiment, result, options, command.folder)
    elif taken.num_finished:
        say(f"{experiment.name} has no table of only {count}")
    named = "; ".join(missing[:_MAX_NAMED])
    more = f", and {len(missing) - _MAX_NAMED} more" if len(missing) > _MAX_NAMED else ""
    say(f"{experiment.name} is incomplete, {count}; missing: {named}{more}")
    if taken.is_kept and taken.num_finished:
        say("what is finished is kept: the same call with --resume goes on from there")


def _has_data(panel: Panel) -> bool:
    return bool(panel.stacks or panel.cells or any(len(each.x) for each in panel.series))
