"""Report of a run: what each rank counted, summed, printed at its end and written as JSON.

Each rank counts one flat JSON object (keys: see counters.py). Under the launcher it leaves that as
DIR/RANK.report at Finalize, and the launcher collects them when all ranks have ended well; in a run
of the user's own mpiexec rank 0 gathers them. Either calls `finish`. The table leaves out lines
that are zero on every rank, the JSON has all. Plain text and no table library: this may run in the
ranks.
"""

import json
import os
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from pagewire.native.output import write_file
from pagewire.run.report import links
from pagewire.run.report.counters import COUNTER_GROUPS, MEMORY_KEYS, TIME_KEYS, UNIT_MISSES, totals
from pagewire.run.report.report_table import table
from pagewire.run.settings.config import Config
from pagewire.smmu.mini.nic_memory import nic_memory


class IncompleteError(RuntimeError):
    """Some ranks left a report and others none, or one that cannot be read."""


def collect(directory: pathlib.Path, num_ranks: int) -> list[dict[str, Any]]:
    """What each rank left, by rank; empty when none did, because the program never used MPI."""
    per_rank: list[dict[str, Any]] = []
    missing: list[int] = []
    for rank in range(num_ranks):
        try:
            counted = json.loads(directory.joinpath(f"{rank}.report").read_bytes())
        except FileNotFoundError:
            missing.append(rank)
            continue
        except (ValueError, RecursionError) as error:
            raise IncompleteError(f"rank {rank} left a report that is no JSON: {error}") from None
        if not isinstance(counted, dict):
            raise IncompleteError(f"rank {rank} left a report that is no JSON object")
        per_rank.append(counted)
    if per_rank and missing:
        names = ", ".join(map(str, missing))
        raise IncompleteError(
            f"rank {names} left no report, the others did: it ended without MPI Finalize"
        )
    return per_rank


def finish(
    per_rank: Sequence[Mapping[str, Any]],
    config: Config,
    path: str = "",
    quiet: bool = False,
    *,
    program: str | None = None,
    stream: TextIO | None = None,
) -> None:
    """Print the report of a run, then write it as JSON when there is a path; once a run.

    Raises OutputError when the path cannot be written.
    """
    program = os.environ.get("PAGEWIRE_PROGRAM", "") if program is None else program
    if not quiet:
        own = links.of_run(per_rank, config)
        print(table(per_rank, config, program, own), file=stream or sys.stdout, flush=True)
    if path:
        write_json(path, document(per_rank, config, program), "report")


def document(
    per_rank: Sequence[Mapping[str, Any]],
    config: Config,
    program: str,
    links_use: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The whole report as what JSON holds. links_use: see network.use; without it what the ranks
    have told of their links."""
    links_use = links_use or links.of_run(per_rank, config)
    return {
        "program": program,
        "summary": summary(per_rank, config),
        "totals": totals(per_rank),
        **({"links": links_use} if links_use else {}),
        "ranks": [{"rank": rank, **counted} for rank, counted in enumerate(per_rank)],
        "settings": {each.name: each.text for each in config.settings()},
        "settings_not_default": config.not_default(),
        "settings_sources": dict(config.sources),
    }


def write_json(path: str, value: Mapping[str, Any], schema: str) -> None:
    """Write a document of that schema (cli/commands/schemas), and its name; raises OutputError."""
    named = {"$schema": f"urn:pagewire:schema:{schema}:1", **value}
    text = bytearray()
    for piece in json.JSONEncoder(indent=1, default=_plain).iterencode(named):
        text += piece.encode()  # `dumps` would hold all pieces: of 4,096 ranks 400 MB
    text += b"\n"
    write_file(path, text)


def summary(per_rank: Sequence[Mapping[str, Any]], config: Config) -> dict[str, Any]:
    """One flat entry for comparisons: the run's choices, its times and its main counters."""
    total = totals(per_rank)
    entry: dict[str, Any] = {
        "memory": config.run.memory,
        "policy": config.run.policy,
        "translation": config.run.translation,
        "ranks": len(per_rank),
        "virtual_time_s": total["virtual_time_ns"] / 1e9,
        "wall_time_s": total["wall_time_s"],
    }
    for group in COUNTER_GROUPS.values():
        entry.update({key: total[key] for key in group})
    entry.update({key: total[key] for key in TIME_KEYS if key != "virtual_time_ns"})
    entry.update({key: total[key] for key in MEMORY_KEYS})
    entry["translation_misses"] = sum(total[key] for key in UNIT_MISSES[config.translation_unit])
    entry["nic_memory_bytes"] = nic_memory(config.unit_settings())["total_bytes"]
    entry["peak_rss_bytes"] = total["peak_rss_bytes"]
    entry["received_hashes"] = [each.get("received_hash", "") for each in per_rank]
    for site, counted in total["impairments"].items():
        entry.update({f"{site}_{key}": count for key, count in counted.items()})
    return entry


def _plain(value: Any) -> Any:
    """numpy scalars and the like, which json does not know."""
    for method in ("item", "tolist"):
        if hasattr(value, method):
            return getattr(value, method)()
    return str(value)
