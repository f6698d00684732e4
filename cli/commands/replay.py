"""`pagewire replay`: a recorded program on many nodes in this process, under the recorded settings
and under others: a row each, as `pagewire compare` has it.

What counts is in the trace and on the command line; PAGEWIRE_* variables play no part, so that a
replay is the same in every shell.
"""

import dataclasses
import functools
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from pagewire.cli.commands import (
    compare_files,
    compare_table,
    replay_costs,
    replay_jobs,
    replay_work,
    sweep,
)
from pagewire.cli.commands.compare_plan import ALL, Choice, choices, references
from pagewire.cli.commands.replay_jobs import Jobs
from pagewire.cli.commands.replay_options import Asked
from pagewire.cli.commands.replay_work import Item, Work
from pagewire.cli.commands.setting_options import Given
from pagewire.cli.kit import progress
from pagewire.cli.launch import launch
from pagewire.native import lib
from pagewire.native.output import write_file
from pagewire.native.settings import ConfigError, format_value
from pagewire.network import use
from pagewire.replay.replay import MATCHINGS, Performance, Replay, Settings, replay_file
from pagewire.replay.trace import Reader
from pagewire.run.report import report
from pagewire.run.settings import config
from pagewire.run.settings.platform import parse_assignment

BACKENDS = ("engine", "loggops")
TOUCH_WAYS = ("start", "spread", "end")
PROCESSES_MAX = 1024
_HOTTEST_SHOWN = 4
_NAMED_MAX = 10
"""Unmatched messages that the terminal shows."""


class Row(NamedTuple):
    """What came of one row; a failure leaves the rest empty."""

    failure: str
    document: Mapping[str, Any]
    performance: Performance | None
    unmatched: Sequence[str]
    warnings: Sequence[str]
    jobs_s: Sequence[float]
    """Of several jobs, when each has ended."""
    links: Mapping[str, Any] | None = None
    """See network.use."""


def replay(files: Sequence[str], asked: Asked, given: Given) -> int:
    """Do what `pagewire replay` says; the exit code."""
    if len(files) > 1:
        return replay_jobs.replay(files, asked, given, _replay)
    return _replay(files[0], asked, given)


def _replay(file: str, asked: Asked, given: Given, jobs: Jobs = ()) -> int:
    """jobs: the files of each of several alone, if the file holds them all."""
    compare_table.chosen(asked.columns)
    if asked.matching not in MATCHINGS:
        raise ConfigError(
            f"--matching '{asked.matching}': allowed is one of {', '.join(MATCHINGS)}"
        )
    if not 1 <= asked.num_processes <= PROCESSES_MAX:
        raise ConfigError(f"-j {asked.num_processes}: allowed is 1 to {PROCESSES_MAX}")
    if asked.touch and asked.touch not in TOUCH_WAYS:
        raise ConfigError(f"--touch '{asked.touch}': allowed is one of {', '.join(TOUCH_WAYS)}")
    if asked.touch and asked.costs:
        raise ConfigError("--costs has pages touched as the trace has it; leave out --touch")
    for name in ("json", "csv", "html", "trace"):
        launch.check_writable(f"--{name}", getattr(asked, f"{name}_path"))
    if asked.backend not in BACKENDS:
        raise ConfigError(f"--backend '{asked.backend}': allowed is one of {', '.join(BACKENDS)}")
    if asked.backend == "loggops":
        return _loggops(file, asked)
    assignments = _assignments(given)
    if asked.split:
        _check_split(asked)
    if asked.verify:
        return _verify(file, asked, assignments)
    doing = replay_work.together() if asked.split else replay_work.spread(asked.num_processes)
    with doing as work:
        return 0 if work is None else _compare(file, asked, assignments, work, jobs)


def _check_split(asked: Asked) -> None:
    one_process = {
        "--verify": asked.verify,
        "--path": asked.path,
        "--trace": asked.trace_path,
        "-j": asked.num_processes > 1,
    }
    for option, value in one_process.items():
        if value:
            raise ConfigError(f"{option} needs all nodes in one process; leave out --split")


def _assignments(given: Given) -> list[str]:
    """Of the configuration file, the options of settings and --set, the last one counts."""
    of_file = config.read_file(given.config_path) if given.config_path else {}
    made = [f"{name}={format_value(config.lookup(name), of_file[name])}" for name in of_file]
    for name, value in given.values.items():
        if value is not None:
            made.append(f"run.{name}={str(value).lower() if isinstance(value, bool) else value}")
    return [*made, *given.assignments]


# -- by the usual model


def _loggops(file: str, asked: Asked) -> int:
    from pagewire.replay.loggops import Costs, simulate  # numpy takes long to load

    costs = Costs(**{each.name: getattr(asked, each.name) for each in dataclasses.fields(Costs)})
    outcome = simulate(file, costs)
    print(f"loggops: virtual time {outcome.run_ns / 1e9:.6f} s")
    print(
        f"PERFORMANCE: ranks {len(outcome.end_ns):,}, events {outcome.num_events:,}, wall time "
        f"{outcome.wall_s:.3f} s, {outcome.num_events / max(outcome.wall_s, 1e-9):,.0f} events/s"
    )
    return 0


# -- with the recorded settings


def _verify(file: str, asked: Asked, assignments: Sequence[str]) -> int:
    others = (
        asked.costs,
        asked.path,
        asked.touch,
        asked.memory,
        asked.policy,
        asked.sweeps,
        assignments,
        asked.csv_path,
        asked.html_path,
        asked.trace_path,
    )
    if any(others) or asked.json_path or asked.matching != "recorded":
        raise ConfigError(
            "--verify replays with the recorded settings alone; leave every other option out"
        )
    with Reader(file) as trace:
        _say_cut(trace)
        times = int(lib.PW_PWT_TIMES)
        timeless = [rank for rank in range(trace.num_ranks) if not _has_stream(trace, rank, times)]
        if timeless:
            raise ConfigError(
                f"'{file}': rank {timeless[0]} has no recorded times, so there is nothing to "
                "verify; cut, made and converted traces have none"
            )
        try:
            with Replay(trace, Settings.of(trace.meta()), verify=True) as made:
                difference = made.run()
                if difference is not None:
                    print(f"pagewire: {difference}", file=sys.stderr)
                    return 1
                outcome, num_verified = made.outcome(), made.num_verified
        except RuntimeError as error:
            print(f"pagewire: {error}", file=sys.stderr)
            return 1
        for warning in outcome.warnings:
            progress.say(warning)
        print(f"verified: all {num_verified:,} recorded times of {trace.num_ranks:,} ranks")
        print(outcome.performance)
    return 0


def _has_stream(trace: Reader, rank: int, kind: int) -> bool:
    return next(iter(trace.stream(rank, kind)), None) is not None


def _say_cut(trace: Reader) -> None:
    if trace.cut:
        progress.say(trace.cut)


# -- with others


def _compare(
    file: str, asked: Asked, assignments: Sequence[str], work: Work, jobs: Jobs = ()
) -> int:
    axes = sweep.parse(asked.sweeps or (), _parse_text)
    with Reader(file) as trace:
        _say_cut(trace)
        meta, num_ranks = trace.meta(), trace.num_ranks
    base = Settings.of(meta, assignments).config
    named = dict.fromkeys(each.partition("=")[0].strip() for each in assignments)
    base = dataclasses.replace(base, sources=MappingProxyType(dict.fromkeys(named, "command line")))
    rows = choices(asked.memory or base.run.memory, asked.policy, axes, base)
    for option, value in (
        ("costs", asked.costs), ("path", asked.path), ("trace", asked.trace_path),
    ):  # fmt: skip
        if value and len(rows) > 1:
            raise ConfigError(
                f"--{option} studies one row, and there are {len(rows)}: name one strategy"
            )
    own = [*assignments, *rows[0].assignments]
    settings = Settings.of(meta, own)
    costs = replay_costs.chosen(asked, settings) if asked.costs else []
    refer_to = dict(zip(rows, references(rows, asked.baseline), strict=True))
    needed = {rows[0], *refer_to.values()}
    if (asked.memory or "").strip() != ALL:
        needed.update(rows)
    begun_s = time.monotonic()
    done: dict[Choice, Row] = {}
    if asked.keep:
        work.keep(asked.keep, file, asked.matching)
    do = functools.partial(replay_row, file, asked.matching)

    def replayed(touch: str) -> Iterator[tuple[Choice, Row]]:
        items = [Item([*assignments, *choice.assignments], touch=touch) for choice in rows]
        return zip(rows, map(_row_of, work.map(do, items)), strict=True)

    for choice, row in replayed(asked.touch or "start"):
        if row.failure and choice in needed:
            progress.say(f"{choice.name}: {row.failure}")
            return 1
        done[choice] = row
    result = _result(meta, num_ranks, asked, refer_to, done, time.monotonic() - begun_s)
    if jobs:
        items = [Item([*assignments, *choice.assignments]) for choice in done]
        alone = [
            list(
                map(
                    _row_of,
                    work.map(functools.partial(replay_row, each.alone, asked.matching), items),
                )
            )
            for each in jobs
        ]
        result["replay"]["jobs"] = replay_jobs.summary(jobs, dict(done), alone)
    if asked.touch:
        ways = {way: done.items() if way == asked.touch else replayed(way) for way in TOUCH_WAYS}
        result["replay"]["touch"] = {"way": asked.touch, "virtual_time_s": _times_by(ways)}
    if asked.costs:
        result["replay"]["costs"] = replay_costs.measure(file, own, costs, settings, asked, work)
    if asked.path:
        from pagewire.cli.commands import replay_path  # numpy takes long to load

        touch = asked.touch or "start"
        result["replay"]["path"] = replay_path.measure(file, settings, asked.matching, touch)
    if asked.trace_path:
        from pagewire.cli.commands import replay_timeline

        touch = asked.touch or "start"
        replay_timeline.write(asked.trace_path, file, settings, asked.matching, touch)
    _show(result, asked)
    return 0


def _times_by(ways: Mapping[str, Iterable[tuple[Choice, Row]]]) -> dict[str, dict[str, float]]:
    """Of each row that ended its virtual time by each way, in s."""
    times: dict[str, dict[str, float]] = {}
    for way, rows in ways.items():
        for choice, row in rows:
            if not row.failure:
                summary = row.document["summary"]
                times.setdefault(choice.name, {})[way] = summary["virtual_time_s"]
    return times


def _show_touch(touch: Mapping[str, Any]) -> None:
    rows = touch["virtual_time_s"]
    differing = {name: times for name, times in rows.items() if len(set(times.values())) > 1}
    for name, times in differing.items():
        print(f"touch: {name}: " + ", ".join(f"{way} {s:.9f} s" for way, s in times.items()))
    if not differing:
        print("touch: when pages are touched changes no row's time")


def _parse_text(name: str, text: str) -> object:
    """Of a setting, or of a cost."""
    if name.startswith("costs."):
        return parse_assignment(f"{name}={text}")
    return sweep.parse_setting(name, text)


def replay_row(file: str, matching: str, item: Item) -> Row:
    """One replay; what it fails with is the row's."""
    try:
        meta, settings, outcome = replay_file(
            file, item.assignments, matching=matching, touch=item.touch
        )
    except (ConfigError, RuntimeError) as error:  # ReplayError, EngineError, a policy's own
        return Row(str(error), {}, None, (), (), ())
    if not outcome.per_rank:  # a part of a replay whose first part has them
        return Row("", {}, outcome.performance, (), (), ())
    label = _label(meta)
    document = report.document(outcome.per_rank, settings.config, label, outcome.links)
    return Row(
        failure="",
        document={"$schema": "urn:pagewire:schema:report:1", **document},
        performance=outcome.performance,
        unmatched=[str(each) for each in outcome.unmatched],
        warnings=outcome.warnings,
        jobs_s=outcome.jobs_s,
        links=outcome.links,
    )


def _row_of(kept: Sequence[Any]) -> Row:
    """As JSON may have held it."""
    row = Row(*kept)
    return row._replace(performance=row.performance and Performance(*row.performance))


def _label(meta: Mapping[str, Any]) -> str:
    words = meta.get("program") or "program"
    return words if isinstance(words, str) else " ".join(map(str, words))


def _result(
    meta: Mapping[str, Any],
    num_ranks: int,
    asked: Asked,
    refer_to: Mapping[Choice, Choice],
    rows: Mapping[Choice, Row],
    wall_s: float,
) -> dict[str, Any]:
    """What the JSON file holds: as that of `pagewire compare`, and of the replay itself."""
    ended = {choice: row for choice, row in rows.items() if not row.failure}
    entries = []
    for choice, reference in refer_to.items():
        named = {"name": choice.name, "sweep": dict(choice.point), "baseline": reference.name}
        row = rows[choice]
        if row.failure:
            own = {key: getattr(choice, key) for key in ("memory", "policy", "translation")}
            entries.append({**named, **own, "failure": row.failure})
            continue
        summary = row.document["summary"]
        base_s = ended[reference].document["summary"]["virtual_time_s"]
        slowdown = summary["virtual_time_s"] / base_s - 1 if base_s else 0.0
        alike = [True] * num_ranks
        entries.append({**named, **summary, "received_alike": alike, "slowdown": slowdown})
    first = next(iter(ended.values()))
    done = [row.performance for row in ended.values() if row.performance]
    total = done[0] if len(done) == 1 else _sum(done, wall_s)
    return {
        "program": _label(meta),
        "ranks": num_ranks,
        "compute": "replay",
        "baseline": asked.baseline or next(iter(refer_to)).name,
        "entries": entries,
        "settings": compare_table.common_settings([row.document for row in ended.values()]),
        "reports": [row.document for row in ended.values()],
        "replay": {
            "matching": asked.matching,
            **_links_of(ended),
            "performance": total._asdict(),
            "unmatched": list(first.unmatched),
            "warnings": list(first.warnings),
        },
    }


def _links_of(rows: Mapping[Choice, Row]) -> dict[str, Any]:
    """Their pictures are in the reports."""
    links = {
        choice.name: {key: value for key, value in row.links.items() if key != "picture"}
        for choice, row in rows.items()
        if row.links
    }
    return {"links": links} if links else {}


def _show_links(rows: Mapping[str, Any]) -> None:
    """Of each row, how busy its links were or would have been."""
    for name, own in rows.items():
        for line in use.lines(own, _HOTTEST_SHOWN, name):
            print(line)


def _sum(done: Sequence[Performance], wall_s: float) -> Performance:
    return Performance(
        ranks=done[0].ranks,
        records=sum(each.records for each in done),
        events=sum(each.events for each in done),
        steps=sum(each.steps for each in done),
        virtual_s=sum(each.virtual_s for each in done),
        wall_s=wall_s,
        rss_bytes=max(each.rss_bytes for each in done),
    )


def _show(result: Mapping[str, Any], asked: Asked) -> None:
    """Table and files."""
    entries, own = result["entries"], result["replay"]
    title = f"{result['program']}, {result['ranks']} ranks, replayed"
    compare_table.show(entries, title, compare_table.chosen(asked.columns), has_bytes=False)
    for warning in own["warnings"]:
        progress.say(warning)
    unmatched = own["unmatched"]
    for each in unmatched[:_NAMED_MAX]:
        progress.say(f"without another side: {each}")
    if len(unmatched) > _NAMED_MAX:
        progress.say(f"and {len(unmatched) - _NAMED_MAX:,} more messages")
    if "jobs" in own:
        replay_jobs.show(own["jobs"])
    if "links" in own:
        _show_links(own["links"])
    if "costs" in own:
        replay_costs.show(own["costs"])
    if "path" in own:
        from pagewire.cli.commands import replay_path

        replay_path.show(own["path"])
    if "touch" in own:
        _show_touch(own["touch"])
    print(Performance(**own["performance"]))
    if asked.json_path:
        report.write_json(asked.json_path, result, "compare")
    if asked.csv_path:
        write_file(asked.csv_path, compare_files.as_csv(entries))
    if asked.html_path:
        from pagewire.run.page import page  # its parts take long to load

        page.write(asked.html_path, result)
