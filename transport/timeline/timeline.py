"""The timeline of a run: what its ranks have left of their traces, as one file for Perfetto."""

from __future__ import annotations

import collections
import os
from collections.abc import Mapping

from pagewire.native.output import OutputError
from pagewire.transport.settings import platform
from pagewire.transport.settings.config import Config
from pagewire.transport.timeline.lifelines import Fault, Step, Story
from pagewire.transport.timeline.perfetto_file import Flow, PerfettoFile
from pagewire.transport.timeline.records import Records
from pagewire.transport.timeline.request import ALONE, Group
from pagewire.transport.timeline.tracks import RankTracks

_Flows = dict[int, dict[int, list[Flow]]]
"""Arrows by rank and record."""


def write(path: str, records: Mapping[int, str], config: Config, group: Group = ALONE) -> None:
    """Write the timeline of the ranks' records, by rank; it appears whole or not at all.

    Raises OutputError.
    """
    ranks = {rank: Records(each) for rank, each in sorted(records.items())}
    partial = f"{path}.{os.getpid()}.partial"
    try:
        with open(partial, "wb") as file:
            packets = PerfettoFile(file, group)
            _write(packets, ranks, config)
            packets.close()
        os.replace(partial, path)
    except OSError as error:
        raise OutputError(f"'{path}' was not written: {error.strerror}") from None
    finally:
        if os.path.exists(partial):
            os.unlink(partial)


def _write(file: PerfettoFile, ranks: Mapping[int, Records], config: Config) -> None:
    story = Story(ranks)
    machine = platform.load(config.run.platform)
    flows: _Flows = {rank: {} for rank in ranks}
    for fault in story.faults:
        _add_lifeline(file, flows, fault)
    _add_blocks(file, flows, story)
    arrivals = _messages(file, flows, ranks)
    for rank, records in ranks.items():
        tracks = RankTracks(file, rank, records, machine, flows[rank])
        tracks.write(story, arrivals[rank])


def _add(flows: _Flows, step: Step, flow: Flow) -> None:
    flows[step.rank].setdefault(step.row, []).append(flow)


def _add_lifeline(file: PerfettoFile, flows: _Flows, fault: Fault) -> None:
    number = file.flow()
    steps = sorted([fault.found, *fault.steps()], key=lambda step: step.time_ns)
    for idx, step in enumerate(steps):
        _add(flows, step, Flow(number, idx + 1 == len(steps)))


def _add_blocks(file: PerfettoFile, flows: _Flows, story: Story) -> None:
    """From the link to the receive engine; attempts that faulted have their lifelines."""
    for attempt in story.attempts:
        if attempt.link is None or attempt.received is None:
            continue
        number = file.flow()
        _add(flows, attempt.link, Flow(number))
        _add(flows, attempt.received, Flow(number, True))


def _messages(
    file: PerfettoFile, flows: _Flows, ranks: Mapping[int, Records]
) -> dict[int, list[tuple[int, int, int, Flow]]]:
    """Messages by the rank that they come to; their senders' records get the arrows' beginnings."""
    arrivals: dict[int, list[tuple[int, int, int, Flow]]] = collections.defaultdict(list)
    for rank, records in ranks.items():
        for i in records.of("MESSAGE_SENT").tolist():
            row = records.rows[i]
            number = file.flow()
            _add(flows, Step(rank, i, int(row["time_ns"])), Flow(number))
            arrivals[int(row["peer"])].append(
                (int(row["a"]), rank, int(row["b"]), Flow(number, True))
            )
    return arrivals
