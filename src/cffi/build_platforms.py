"""Write the C tables of node/settings/platforms.h and the rows of costs of setting_rows.h. Run by
meson alone; not installed.

build_platforms.py SOURCE_ROOT OUTPUT: numbers come from the platform files, names of costs from the
headers. How a file is read is run/settings/platform_document.py, which needs nothing compiled.
"""

import importlib
import json
import pathlib
import re
import sys
import types
from collections.abc import Iterable
from typing import Any

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from build_cdef import cut
from build_fields import fields

COST = re.compile(r"^#define PW_COST_(?!TABLES|POINTS_MAX)(\w+)", re.MULTILINE)
POINTS_MAX = 16
"""PW_COST_POINTS_MAX; the compiler refuses more."""


def source_module(root: pathlib.Path, name: str) -> Any:
    """A module of the source tree. Its packages' own code loads what is not built yet: not run."""
    for package in ("pagewire", "pagewire.native", "pagewire.run", "pagewire.run.settings"):
        made = types.ModuleType(package)
        made.__path__ = [str(root.joinpath(*package.split(".")[1:]))]
        sys.modules[package] = made
    return importlib.import_module(name)


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=True)


def numbers(values: Iterable[int]) -> str:
    return ", ".join(f"INT64_C({value})" for value in values)


def platform_literal(document: Any, name: str, costs: list[str], tables: list[str]) -> str:
    """One pw_platform."""
    file, path = document.read(name)
    whole, stated = document.with_base(file, path)
    values = document.values(whole, "costs", costs, stated, {})
    points = document.tables(whole, tables, stated, {}, POINTS_MAX)
    lines = [f"    {{.name = {quoted(name)}, .description = {quoted(whole['description'])},"]
    listed = ", ".join(f".{field} = INT64_C({value})" for field, value in values.items())
    lines += [f"     .costs = {{{listed}}},", "     .tables = {.table = {"]
    for table, each in points.items():
        lines.append(
            f"         [PW_COST_{table.upper()}] = {{.num_points = {len(each.sizes_bytes)}, "
            f".num_bytes = {{{numbers(each.sizes_bytes)}}}, "
            f".cost_ns = {{{numbers(each.costs_ns)}}}}},"
        )
    return "\n".join([*lines, "     }}},"])


CODE = """
const uint32_t pw_num_cost_rows = sizeof pw_cost_rows / sizeof *pw_cost_rows;

const pw_platform *pw_platform_at(uint32_t idx)
{
    return idx < sizeof platforms / sizeof *platforms ? &platforms[idx] : NULL;
}
"""


def main(root_name: str, output: str) -> None:
    root = pathlib.Path(root_name)
    document = source_module(root, "pagewire.run.settings.platform_document")
    text = cut((root / "native/costs.h").read_text(encoding="utf-8"))
    costs = [name for _, name, _ in fields(text, "pw_costs")]
    listed = COST.findall((root / "node/settings/cost_table.h").read_text(encoding="utf-8"))
    tables = [name.lower() for name in listed]
    rows = [f'    {{.name = "costs.{name}", COST(costs.{name})}},' for name in costs]
    rows += [
        f'    {{.name = "tables.{name}", TABLE(tables.table[PW_COST_{name.upper()}])}},'
        for name in tables
    ]
    parts = [
        "/* Made by src/cffi/build_platforms.py. */",
        '#include "node/settings/config.h"',
        '#include "node/settings/platforms.h"',
        '#include "node/settings/setting_rows.h"',
        "#define AT(field) .offset = offsetof(pw_node_config, field)",
        "#define COST(field) .kind = PW_KIND_NUMBER, AT(field), .max = INT64_C(1000000000000)",
        "#define TABLE(field) .kind = PW_KIND_TABLE, AT(field)",
        "const pw_setting_row pw_cost_rows[] = {",
        *rows,
        "};",
        "static const pw_platform platforms[] = {",
        *(platform_literal(document, name, costs, tables) for name in document.names()),
        "};",
        CODE,
    ]
    pathlib.Path(output).write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
