"""`pagewire bench`: what the emulator costs on this host, everything in one run, side by side.

Machines are noisy: look at the ratios, which compare what was measured within the same run.
"""

import argparse
import json
import os
import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from pagewire.cli import fault_bench, launch
from pagewire.cli.program import Program
from pagewire.native import bench as lookups
from pagewire.native.settings import ConfigError
from pagewire.transport.node.report import write_json

FAULT_FREE_FROM_BYTES = 262144
"""From this size on a fault-free transfer should take less wall than virtual time."""


def _ping_pong() -> list[dict[str, float]]:
    with tempfile.TemporaryDirectory(prefix="pagewire-bench-") as directory:
        path = f"{directory}/rows.json"
        environ = {**os.environ, "PAGEWIRE_RUN_QUIET": "true", "PAGEWIRE_RUN_JSON": ""}
        outcome = launch.launch(2, Program("module", "pagewire.cli.pingpong", (path,)), environ)
        if outcome.failure:
            raise ConfigError(f"ping-pong: {outcome.failure}")
        rows: list[dict[str, float]] = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    return rows


def _size_text(num_bytes: int) -> str:
    for unit, text in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if num_bytes >= unit:
            return f"{num_bytes // unit} {text}"
    return f"{num_bytes} B"


def lookup_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Translation lookups beside other ways to look a page up."""
    table = Table(title="translation lookup (wall time)", title_justify="left")
    table.add_column("kind")
    table.add_column("ns a lookup", justify="right")
    for row in rows:
        table.add_row(row["name"], f"{row['ns_per_lookup']:.1f}")
    return table


def latency_table(rows: Sequence[dict[str, float]]) -> Table:
    """One-way times of plain mpi4py and facade, and the emulated machine's."""
    table = Table(title="ping-pong of 2 ranks, one way: latency", title_justify="left")
    heads = (
        "size",
        "plain\n(us)",
        "facade\n(us)",
        "facade/\nplain",
        "virtual\n(us)",
        "wall/\nvirtual",
    )
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for row in rows:
        plain_s, facade_s, virtual_s = row["plain_s"], row["facade_s"], row["virtual_s"]
        table.add_row(
            _size_text(int(row["num_bytes"])),
            f"{plain_s * 1e6:.2f}",
            f"{facade_s * 1e6:.2f}",
            f"{facade_s / plain_s:.2f}",
            f"{virtual_s * 1e6:.2f}",
            f"{facade_s / virtual_s:.2f}",
        )
    return table


def bandwidth_table(rows: Sequence[dict[str, float]]) -> Table:
    """Bandwidths of the same, and what the engines emulated in a second of wall time."""
    table = Table(title="ping-pong of 2 ranks: bandwidth and engine", title_justify="left")
    heads = ("size", "plain\n(GB/s)", "facade\n(GB/s)", "ratio", "blocks/s", "packets/s")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for row in rows:
        size, plain_s, facade_s = row["num_bytes"], row["plain_s"], row["facade_s"]
        table.add_row(
            _size_text(int(size)),
            f"{size / plain_s * 1e-9:.3f}",
            f"{size / facade_s * 1e-9:.3f}",
            f"{plain_s / facade_s:.2f}",
            f"{row['blocks_per_s']:,.0f}",
            f"{row['packets_per_s']:,.0f}",
        )
    return table


def goals(
    lookup_rows: Sequence[dict[str, Any]], rows: Sequence[dict[str, float]]
) -> list[dict[str, Any]]:
    """What the project set itself, and what this run gave."""
    l2_ns = next(row["ns_per_lookup"] for row in lookup_rows if "L2 TLB hit" in row["name"])
    small, large = rows[0], rows[-1]
    slowest = max(
        row["facade_s"] / row["virtual_s"]
        for row in rows
        if row["num_bytes"] >= FAULT_FREE_FROM_BYTES
    )
    return [
        {"goal": "L2-hit lookup, ns", "limit": 20.0, "measured": l2_ns, "reached": l2_ns <= 20},
        {"goal": "8 B latency / plain", "limit": 6.0,
         "measured": small["facade_s"] / small["plain_s"],
         "reached": small["facade_s"] <= 6 * small["plain_s"]},
        {"goal": "4 MiB bandwidth / plain (at least)", "limit": 0.35,
         "measured": large["plain_s"] / large["facade_s"],
         "reached": large["plain_s"] >= 0.35 * large["facade_s"]},
        {"goal": "wall / virtual time from 256 KiB", "limit": 1.0, "measured": slowest,
         "reached": slowest < 1},
    ]  # fmt: skip


def goal_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Goals and whether this run reached them."""
    table = Table(title="goals", title_justify="left")
    for head in ("goal", "limit", "measured", "reached"):
        table.add_column(head, justify="left" if head == "goal" else "right")
    for row in rows:
        reached = "yes" if row["reached"] else "no"
        table.add_row(row["goal"], f"{row['limit']:g}", f"{row['measured']:.2f}", reached)
    return table


def main(words: Sequence[str]) -> int:
    """Measure, print tables, write JSON when asked."""
    parser = argparse.ArgumentParser(prog="pagewire bench", description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", default="", help="write the figures to FILE")
    arguments = parser.parse_args(list(words))
    launch.check_writable("--json", arguments.json)
    lookup_rows = lookups.lookup_table()
    rows = _ping_pong()
    fault_rows = fault_bench.measure()
    reached = goals(lookup_rows, rows)
    console = Console()
    tables = (
        lookup_table(lookup_rows),
        latency_table(rows),
        bandwidth_table(rows),
        fault_bench.table(fault_rows),
        goal_table(reached),
    )
    for table in tables:
        console.print(table)
    if arguments.json:
        figures = {
            "lookups": lookup_rows,
            "ping_pong": rows,
            "page_faults": fault_rows,
            "goals": reached,
        }
        write_json(arguments.json, figures)
    return 0
