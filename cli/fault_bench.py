"""What a page fault costs the emulator: wall time of a transfer whose pages are all absent.

Two NIs in one process, as in the experiments, so that no MPI is in the figures. The cost of a page
should not depend on how many there are.
"""

import mmap
import time
from collections.abc import Iterator
from typing import Any

from rich.table import Table

from pagewire.cli.experiments.rig import Buffer, Nodes, all_pages
from pagewire.transport.settings.config import load
from pagewire.transport.settings.platform import load as load_platform

MEBIBYTE = 1 << 20
SIZES = (1 * MEBIBYTE, 16 * MEBIBYTE, 256 * MEBIBYTE)
POLICIES = ("page", "all")


def measure() -> list[dict[str, Any]]:
    """For each policy and size: wall and virtual time of one write in s, pages, wall us a page."""
    return list(_rows())


def _rows() -> Iterator[dict[str, Any]]:
    platform = load_platform("exanest-qfdb")
    source, destination = Buffer(SIZES[-1]), Buffer(SIZES[-1])
    source.touch()
    for policy in POLICIES:
        config = load([f"run.policy={policy}"], environ={})
        for num_bytes in SIZES:
            nodes = Nodes(config, platform)
            destination.drop(all_pages(num_bytes))
            began_s = time.perf_counter()
            nodes.write(source, destination, num_bytes, 0)
            virtual_s = max(nodes.times().values()) * 1e-9
            wall_s = time.perf_counter() - began_s
            num_pages = num_bytes // mmap.PAGESIZE
            yield {
                "policy": policy,
                "num_bytes": num_bytes,
                "num_pages": num_pages,
                "wall_s": wall_s,
                "virtual_s": virtual_s,
                "wall_us_a_page": wall_s * 1e6 / num_pages,
            }


def table(rows: list[dict[str, Any]]) -> Table:
    """One line for each policy and size."""
    out = Table(title="write to absent pages: wall time a page", title_justify="left")
    for head in ("policy", "size", "wall\n(us a page)", "virtual\n(us a page)", "wall/\nvirtual"):
        out.add_column(head, justify="left" if head == "policy" else "right", no_wrap=True)
    for row in rows:
        out.add_row(
            row["policy"],
            f"{row['num_bytes'] // MEBIBYTE} MiB",
            f"{row['wall_us_a_page']:.1f}",
            f"{row['virtual_s'] * 1e6 / row['num_pages']:.1f}",
            f"{row['wall_s'] / row['virtual_s']:.2f}",
        )
    return out
