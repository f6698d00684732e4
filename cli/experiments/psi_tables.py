"""PSI table 4.1: what mmap, munmap, pin, unpin and touch cost. Inputs, not outcomes."""

from pagewire.cli.experiments.part_transfers import SIZE
from pagewire.cli.kit.result import Column, Options, Panel, Result, Series, powers_of_two

TABLES = {
    "mmap": "mmap",
    "munmap": "munmap",
    "pin_absent": "pin absent",
    "pin_resident": "pin resident",
    "unpin": "unpin",
    "touch_absent": "touch absent",
    "touch_resident": "touch resident",
}


def table_4_1(options: Options) -> Result:
    """The platform's tables, evaluated at the thesis's sizes."""
    platform = options.platform()
    sizes = powers_of_two(4096, 64 << 10)
    rows = [
        {"num_bytes": size, **{key: platform.table(key).cost_ns(size) / 1e3 for key in TABLES}}
        for size in sizes
    ]
    return Result(
        columns=[SIZE, *(Column(key, title, "us") for key, title in TABLES.items())],
        rows=rows,
        panels=[
            Panel.over_bytes(
                "buffer size",
                "time (us)",
                [Series.of(title, rows, "num_bytes", key) for key, title in TABLES.items()],
            )
        ],
        notes=[
            (
                "These are inputs: the platform file's tables, linear between the points that the "
                "sources give. Nothing here is measured."
            ),
            *(
                f"{key}: {platform.table_origins[key].source}"
                + (
                    f" (assumed: {platform.table_origins[key].assumed})"
                    if platform.table_origins[key].assumed
                    else ""
                )
                for key in TABLES
            ),
        ],
        numbers="inputs: the cost tables of the platform file, with the sources in the notes",
    )
