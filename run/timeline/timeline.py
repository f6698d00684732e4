"""The timeline of a run: what its ranks have left of their traces, as one file for Perfetto.

The work is in C (timeline.h): records and packets pass through it, and nothing grows with the run.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pagewire.native import EngineError, check, ffi, lib
from pagewire.native.output import OutputError, replacing
from pagewire.run.settings import platform
from pagewire.run.settings.config import Config
from pagewire.run.timeline.request import ALONE, Group

_RECORDS_AT_ONCE = 100_000
"""In between an interrupt by the user is seen: some 0.05 s."""


class Counts(NamedTuple):
    """Of a timeline that was written."""

    num_records: int
    num_packets: int
    num_held_max: int
    """Records, spans, faults and messages that were in memory at once"""


class Values(NamedTuple):
    """A track of the network."""

    name: str
    bin_ns: int
    percent: Sequence[int]
    """Of each bin of time, from 0 on"""


def write(
    path: str,
    records: Mapping[int, str],
    config: Config,
    group: Group = ALONE,
    values: Sequence[Values] = (),
) -> Counts:
    """Write the timeline of the ranks' records, by rank, behind the values; it appears whole or not
    at all.

    The files of records are not what they were afterwards. Raises OutputError.
    """
    missing = set(range(len(records))) - records.keys()
    if missing or not (records or values):
        raise OutputError(f"'{path}' was not written: rank {min(missing or [0])} left no records")
    try:
        with replacing(path) as file:
            paths = [records[rank] for rank in sorted(records)]
            return _write(file.fileno(), paths, config, group, values)
    except EngineError as error:
        raise OutputError(f"'{path}' was not written: {error}") from None


def _write(
    descriptor: int, paths: list[str], config: Config, group: Group, values: Sequence[Values]
) -> Counts:
    costs = platform.load(config.run.platform).costs
    label = ffi.new("char[]", group.label.encode())
    options = ffi.new(
        "pw_timeline_options *",
        {
            "label": label,
            "group": group.number,
            "handler_ns": costs.handler_ns,
            "err_send_ns": costs.err_send_ns,
        },
    )
    created = ffi.new("pw_timeline **")
    check(lib.pw_timeline_create(created, descriptor, options), "timeline")
    timeline = created[0]
    try:
        for each in values:
            percent = ffi.new("uint32_t[]", list(each.percent))
            own = each.name.encode(), each.bin_ns, percent, len(percent)
            check(lib.pw_timeline_add_values(timeline, *own), "run.trace")
        for path in paths:
            code = lib.pw_timeline_add_rank(timeline, os.fsencode(path))
            check(code, f"run.trace: records '{path}'")
        while check(lib.pw_timeline_step(timeline, _RECORDS_AT_ONCE), "run.trace"):
            pass
        return _counts(timeline)
    finally:
        lib.pw_timeline_destroy(timeline)


def _counts(timeline: Any) -> Counts:
    counts = ffi.new("pw_timeline_counts *")
    lib.pw_timeline_count(timeline, counts)
    return Counts(*(int(getattr(counts, name)) for name in Counts._fields))
