"""PSI table 4.1: what mmap, munmap, pin, unpin and touch cost. Inputs, not outcomes."""

from pagewire.cli.kit.numbers import powers_of_two
from pagewire.cli.kit.result import SIZE, Column, Options, Panel, Result, Series

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
    origins = {key: platform.table_origins[key] for key in TABLES}
    return Result(
        columns=[SIZE, *(Column(key, title, "us") for key, title in TABLES.items())],
        rows=rows,
        panels=[Panel.over_bytes("buffer size", "time (us)", Series.over_sizes(rows, TABLES))],
        notes=[
            (
                "These are inputs: the platform file's tables, linear between the points that the "
                "sources give. Nothing here is measured."
            ),
            *(
                f"{key}: {each.source}" + (f" (assumed: {each.assumed})" if each.assumed else "")
                for key, each in origins.items()
            ),
        ],
        numbers="inputs: the cost tables of the platform file, with the sources in the notes",
    )
