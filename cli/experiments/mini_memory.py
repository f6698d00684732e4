"""MINI table 1.1: what stands in the NIC's memory, by part, for each translation unit."""

from typing import Any

from pagewire.cli.kit.result import Column, Options, Panel, Result
from pagewire.smmu.mini.nic_memory import PARTS, nic_memory

GIBIBYTE_PAGES = (1 << 30) // 4096

CASES = (
    ("static, the thesis's node", "static", GIBIBYTE_PAGES // 2, 2),
    ("miNI, the thesis's node", "mini", GIBIBYTE_PAGES // 2, 2),
    ("static, 512 MB of memory", "static", GIBIBYTE_PAGES // 2, 8),
    ("static, 4 GB", "static", 4 * GIBIBYTE_PAGES, 8),
    ("static, 512 MB, 32 processes", "static", GIBIBYTE_PAGES // 2, 32),
    ("miNI, any memory", "mini", GIBIBYTE_PAGES // 2, 8),
    ("miNI, 32 processes", "mini", GIBIBYTE_PAGES // 2, 32),
    ("SMMU, ExaNeSt", "smmu", GIBIBYTE_PAGES // 2, 8),
)
"""Title, unit, pages that can be registered, processes."""


def table_1_1(options: Options) -> Result:
    """Bytes by part: static tables grow with host memory and processes, caches do not."""
    rows: list[dict[str, Any]] = []
    for title, unit, pages, processes in CASES:
        config = options.settings(
            f"run.translation={unit}",
            f"mini.static_pages={pages}",
            f"mini.processes={processes}",
            "mini.memory=1GiB",  # the table shows what there would have to be
            "run.memory=part",
        )
        sizes = nic_memory(config.engine_settings())
        fits = "yes" if sizes["total_bytes"] <= options.settings().mini.memory_bytes else "no"
        rows.append({"case": title, **{part: sizes[part] / 1024 for part in PARTS}, "fits": fits})
    limit = options.settings().mini.memory_bytes
    stacked = [part for part in PARTS if part != "total_bytes"]
    return Result(
        columns=[
            Column("case", "unit"),
            *(Column(part, name, "KiB", 1) for part, name in PARTS.items()),
            Column("fits", f"fits in {limit // 1024} KiB"),
        ],
        rows=rows,
        panels=[
            Panel(
                "",
                "NIC memory (KiB)",
                categories=[str(row["case"]).replace(", ", "\n") for row in rows],
                stacks=[(PARTS[part], [float(row[part]) for row in rows]) for part in stacked],
            )
        ],
        notes="""
            The thesis's node [MINI 4]: 512 MB and two processors. Two processes on it, one for each
            of them, and 1024 registered buffers ("a few hundred or thousand") are assumed.

            Entries are counted with the thesis's sizes (4 B a page, 36 B and 26 B a buffer, 16 B an
            imported buffer, 4096 of them a process, 16 KB of post queue a process).

            Assumed, and the same for static and miNI: 128 KiB of code, 256 KiB of buffers; 8 B of
            tag for each line of miNI. The SMMU's row counts TLBs, NI FIFO, transaction table and
            scratchpad pages; its code is in the R5's own memory and not counted.
        """,
        varied={
            "run.translation": "smmu, mini, static",
            "mini.static_pages": "512 MB and 4 GB of pages",
            "mini.processes": "2, 8, 32",
        },
        numbers="sizes of entries times their numbers in the settings",
    )
