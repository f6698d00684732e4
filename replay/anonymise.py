"""A trace that may be given away: what the program does stays, what it is called goes.

Names of calls stay, which are the library's.
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from pagewire.replay.records import HAS_DATA, Record, Region, Send, number
from pagewire.replay.trace import KEYS, MATCHES, REGIONS, ROOMS, TIMES, TURNS, Reader, Writer
from pagewire.replay.walk import ONE_SIDED

_KEPT = ("version", "pagewire", "num_ranks", "transport", "settings", "platform", "eager_limit")
"""Keys of META; texts in them that look like a path or a class of the user's go all the same."""
_ALIGNMENT = 1 << 21
_REGION_BYTES = 1 << 40


def anonymise(reader: Reader, out: str) -> list[str]:
    """Write it; the sentences say what was taken away.

    Bases keep where they lie in a huge page, on which faults depend.
    """
    meta = reader.meta()
    kept = {key: _without_paths(meta[key]) for key in _KEPT if key in meta}
    gone = sorted(set(meta) - set(kept))
    phases: dict[str, str] = {}
    owners = [_owners(reader, rank) for rank in range(reader.num_ranks)]
    with Writer(out, reader.num_ranks, kept) as writer:
        for rank in range(reader.num_ranks):
            writer.write(rank, (_hide(each, phases) for each in reader.records(rank)))
            for region, base in reader.regions(rank).items():
                owner = owners[rank].get(region, rank)
                own = {
                    each: first
                    for each, first in reader.regions(owner).items()
                    if each not in owners[owner]
                }
                hidden = _hidden(own, region, base)
                writer.add(rank, REGIONS, number(region) + number(hidden), 1)
            for kind in (KEYS, MATCHES, ROOMS, TIMES, TURNS):
                for chunk in reader.chunks_of(rank, kind):
                    writer.add(rank, kind, reader.raw(chunk), chunk.num_records)
            writer.end_rank(rank)
    return [
        f"META: {', '.join(gone) or 'nothing'} left out",
        f"phases: {len(phases)} names",
        "base addresses: all but their place in a huge page",
    ]


def _hidden(bases: Mapping[int, int], region: int, base: int) -> int:
    """An address of a rank that has these regions: as far from the nearest of them as it was."""
    near = min(bases, key=lambda each: abs(bases[each] - base), default=region)
    first = bases.get(near, base)
    return (near + 1) * _REGION_BYTES + first % _ALIGNMENT + base - first


def _owners(reader: Reader, rank: int) -> dict[int, int]:
    """Whose memory a region is, where it is a peer's."""
    return {
        each.remote_region: each.peer
        for each in reader.records(rank)
        if isinstance(each, ONE_SIDED)
    }


def _hide(record: Record, phases: dict[str, str]) -> Record:
    if isinstance(record, Region):
        return Region(phases.setdefault(record.text, f"phase {len(phases) + 1}"))
    if isinstance(record, Send) and record.flags & HAS_DATA:
        return dataclasses.replace(record, data=0)
    return record


def _without_paths(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_paths(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_paths(each) for each in value]
    if isinstance(value, str) and re.search(r"[/\\]|\w:[A-Za-z_]\w*$", value):
        return ""
    return value
