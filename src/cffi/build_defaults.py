"""Write the C tables of transport/node/defaults.h. Run by meson alone; not installed.

build_defaults.py SOURCE_ROOT LIST_OF_HEADERS OUTPUT: settings with their limits and defaults come
from the Python declarations, costs from the platform files, names of counters from
native/counters.h. The declarations import constants of the engine, which is not compiled yet: the
headers' text stands in for it (`Headers`), and for the list of memory strategies the text of
strategies.c. So a declaration may use constants at import, and must not call the engine; a module
that does so fails here, by name. Needs the standard library alone.
"""

import ast
import json
import pathlib
import re
import sys
import types
from collections.abc import Iterator
from typing import Any

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from build_cdef import PART

NOT_OF_A_NODE = (
    "run.compute_record",
    "run.compute_replay",
    "run.wtime",
    "run.clocks",
    "run.transport",
    "run.mpi",
    "run.hosts",
    "run.mpiexec_options",
    "run.wire",
    "run.wire_interface",
    "run.huge_pages",
    "run.strict",
    "run.watchdog",
    "run.quiet",
    "run.json",
    "run.trace",
    "run.html",
    "firmware.scheduling",
    "impairments.planner",
)
"""Settings of a run, its process or its Python classes: a node in C refuses them by name."""
AMOUNTS = {
    "duplicate_after_ns": "duplication",
    "delay_by_ns": "delay",
    "tasklet_late_by_ns": "late_tasklet",
}
"""Field of the impairments' settings: the site that it belongs to."""
MILLION = 1_000_000
POINTS_MAX = 16
"""PW_COST_POINTS_MAX."""


STRATEGIES = re.compile(r"^#define BUILT_IN\(strategy\)((?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE)
"""The list in transport/node/strategies.c."""


class Headers:
    """Constants and structs of the exported parts of the headers, as cffi's `lib` and `ffi`."""

    NULL = None

    def __init__(self, root: pathlib.Path, names: list[str]) -> None:
        listed = STRATEGIES.search((root / "transport/node/strategies.c").read_text("utf-8"))
        if listed is None:
            raise SystemExit("build_defaults: no list BUILT_IN in transport/node/strategies.c")
        listed_names = re.findall(r"strategy\((\w+)\)", listed[1])
        self.strategies = [name.replace("_", "-") for name in listed_names]
        text = "\n".join(
            "".join(PART.findall((root / name).read_text(encoding="utf-8")))
            for name in names
            if name.endswith(".h")
        )
        text = re.sub(r"/\*.*?\*/", "", text.replace("\\\n", " "), flags=re.DOTALL)
        self.constants: dict[str, int] = {}
        for name, value in re.findall(r"^#define[ \t]+(\w+)[ \t]+(.+?)[ \t]*$", text, re.MULTILINE):
            self._define(name, value)
        for body in re.findall(r"\benum\s+\w+\s*\{(.*?)\}", text, re.DOTALL):
            self._enumerate(body)
        self.structs = {
            name: list(self._fields(body))
            for body, name in re.findall(r"typedef struct \{([^{}]*)\}\s*(\w+);", text, re.DOTALL)
        }

    def _define(self, name: str, value: str) -> None:
        number = re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", value)
        try:
            self.constants[name] = int(ast.literal_eval(number.strip("() ")))
        except (ValueError, SyntaxError):
            return  # not a number: whoever asks for it is told by `__getattr__`

    def _enumerate(self, body: str) -> None:
        number = 0
        for item in filter(None, (each.strip() for each in body.split(","))):
            name, _, value = (part.strip() for part in item.partition("="))
            number = int(value, 0) if value else number
            self.constants[name] = number
            number += 1

    def _fields(self, body: str) -> Iterator[tuple[str, int]]:
        """Name and number of elements of each field of a struct's body."""
        for line in body.split(";"):
            words = line.split(None, 1)
            for field in words[1].split(",") if len(words) == 2 else ():
                name, _, length = field.strip().lstrip("*").partition("[")
                length = length.rstrip("] ")
                yield name.strip(), int(self.constants.get(length, length or 1))

    def __getattr__(self, name: str) -> int:
        try:
            return self.constants[name]
        except KeyError:
            raise AttributeError(
                f"a settings module asks the engine for {name} when it is imported; only numbers "
                "that the exported headers #define can be had before the engine is compiled"
            ) from None

    def pw_strategy_at(self, idx: int) -> Any:
        """The idx-th memory strategy; its summary is not known here."""
        if idx >= len(self.strategies):
            return self.NULL
        return types.SimpleNamespace(name=self.strategies[idx].encode(), summary=b"")

    def string(self, text: bytes) -> bytes:
        """What ffi.string makes of a `const char *`."""
        return text

    def typeof(self, name: str) -> Any:
        """What ffi.typeof tells of a struct: its fields by name."""
        return types.SimpleNamespace(fields=[(field, None) for field, _ in self.structs[name]])


def import_declarations(root: pathlib.Path, headers: Headers) -> tuple[Any, Any]:
    """The modules of settings and platforms, from the source tree."""
    package, compiled = types.ModuleType("pagewire"), types.ModuleType("pagewire._native")
    package.__path__ = [str(root)]
    compiled.ffi = compiled.lib = headers  # type: ignore[attr-defined]
    sys.modules |= {"pagewire": package, "pagewire._native": compiled}
    from pagewire.transport.settings import config, platform

    return config, platform


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=True)


def number(value: int) -> str:
    """A literal of int64_t."""
    return "INT64_MIN" if value == -(2**63) else f"INT64_C({value})"


def struct(values: dict[str, int]) -> str:
    return "{" + ", ".join(f".{name} = {number(value)}" for name, value in values.items()) + "}"


class Rows:
    """The table of settings."""

    def __init__(self, sites: list[str]) -> None:
        self._sites = sites
        self.choices: list[str] = []
        self.lines: list[str] = []

    def add(self, each: Any, platforms: list[str]) -> None:
        """One setting of the registry (native/settings.py: Declaration)."""
        if each.name in NOT_OF_A_NODE:
            self._line(each.name, "FOREIGN")
        elif each.section == "impairments":
            self._add_impairment(each)
        elif each.name == "run.platform":
            choices = dict.fromkeys(platforms, 0)
            self._line(each.name, "CHOICE", text_offset=_at("platform"), choices=choices)
        elif each.name == "run.compute":
            choices = {text: idx for idx, text in enumerate(each.choices)}
            self._line(each.name, "CHOICE", offset=_at("compute"), choices=choices)
        elif each.name == "run.compute_scale":
            limits = (round(each.minimum * MILLION), round(each.maximum * MILLION))
            self._line(each.name, "FACTOR", offset=_at("compute_scale"), limits=limits)
        else:
            self._add_engine(each)

    def _add_impairment(self, each: Any) -> None:
        if each.field in AMOUNTS:
            offset = _at(f"sites[{self._sites.index(AMOUNTS[each.field])}].amount_ns")
            self._line(each.name, "DURATION", offset=offset, limits=(each.minimum, each.maximum))
        else:
            offset = _at(f"sites[{self._sites.index(each.field)}]")
            self._line(each.name, "SITE", offset=offset)

    def _add_engine(self, each: Any) -> None:
        if not each.engine:
            raise SystemExit(
                f"build_defaults: setting {each.name} has no field in pw_settings: say in "
                "src/cffi/build_defaults.py what a node in C does with it"
            )
        offset = _at(f"settings.{each.engine}")
        if each.choices is not None:
            choices = {text: each.encode(text) for text in each.choices}
            text = _at("memory") if each.name == "run.memory" else "PW_NO_FIELD"
            self._line(each.name, "CHOICE", offset=offset, text_offset=text, choices=choices)
        elif each.kind == "bool":
            self._line(each.name, "BOOL", offset=offset)
        elif each.kind == "float":
            assert each.encode(1.0) == MILLION, each.name
            limits = (round(each.minimum * MILLION), round(each.maximum * MILLION))
            self._line(each.name, "FRACTION", offset=offset, limits=limits)
        else:
            kind = {"int": "NUMBER", "duration": "DURATION", "size": "SIZE"}[each.kind]
            assert each.encode(int(each.maximum)) == each.maximum, each.name
            none = each.encode(None) if each.none_allowed else None
            limits = (each.minimum, each.maximum)
            self._line(each.name, kind, offset, limits, none=none, power_of_two=each.power_of_two)

    def add_cost(self, field: str) -> None:
        self._line(f"costs.{field}", "NUMBER", offset=_at(f"costs.{field}"), limits=(0, 10**12))

    def _line(
        self,
        name: str,
        kind: str,
        offset: str = "PW_NO_FIELD",
        limits: tuple[int, int] = (0, 0),
        *,
        text_offset: str = "PW_NO_FIELD",
        choices: dict[str, int] | None = None,
        none: int | None = None,
        power_of_two: bool = False,
    ) -> None:
        listed = "NULL"
        if choices:
            listed = f"choices_of_{name.replace('.', '_')}"
            pairs = ((quoted(text), number(value)) for text, value in choices.items())
            items = ", ".join(f"{{{text}, {value}}}" for text, value in pairs)
            self.choices.append(f"static const pw_setting_choice {listed}[] = {{{items}}};")
        self.lines.append(
            f"    {{.name = {quoted(name)}, .kind = PW_KIND_{kind}, .offset = {offset}, "
            f".text_offset = {text_offset}, .num_choices = {len(choices or {})}, "
            f".choices = {listed}, .min = {number(int(limits[0]))}, "
            f".max = {number(int(limits[1]))}, .none = {number(none or 0)}, "
            f".takes_none = {int(none is not None)}, .power_of_two = {int(power_of_two)}}},"
        )


def _at(member: str) -> str:
    return f"offsetof(pw_node_settings, {member})"


def platform_literal(platform: Any, tables: tuple[str, ...]) -> str:
    """One pw_platform."""
    assert all(len(each.sizes_bytes) <= POINTS_MAX for each in platform.tables.values())
    lines = []
    for name in tables:
        table = platform.tables[name]
        sizes = ", ".join(map(number, table.sizes_bytes))
        costs = ", ".join(map(number, table.costs_ns))
        lines.append(
            f"            [PW_COST_{name.upper()}] = {{.num_points = {len(table.sizes_bytes)}, "
            f".num_bytes = {{{sizes}}}, .cost_ns = {{{costs}}}}},"
        )
    listed = "\n".join(lines)
    return (
        f"    {{.name = {quoted(platform.name)}, .description = {quoted(platform.description)},\n"
        f"     .costs = {struct(platform.costs.as_dict())},\n"
        f"     .tables = {{.table = {{\n{listed}\n     }}}}}},"
    )


def defaults_literal(config: Any, platform: Any, sites: list[str]) -> str:
    """pw_node_settings_default."""
    default = config.Config()
    amounts_ns = default.impairments.amounts_ns()
    planned = ", ".join(
        struct({**site._asdict(), "amount_ns": amounts_ns.get(name, 0)})
        for name, site in default.impairments.sites().items()
    )
    modes = config.REGISTRY["run.compute"].choices
    assert list(default.impairments.sites()) == sites
    return (
        "const pw_node_settings pw_node_settings_default = {\n"
        f"    .settings = {struct(default.engine_settings())},\n"
        f"    .costs = {struct(platform.load(default.run.platform).costs.as_dict())},\n"
        f"    .sites = {{{planned}}},\n"
        f"    .compute = {number(modes.index(default.run.compute))},\n"
        f"    .compute_scale = {default.run.compute_scale!r},\n"
        f"    .memory = {quoted(default.run.memory)},\n"
        f"    .platform = {quoted(default.run.platform)},\n"
        "};"
    )


def counter_names(headers: Headers) -> Iterator[str]:
    """One for each word of pw_counters; an array's elements by index."""
    for field, length in headers.structs["pw_counters"]:
        yield from [field] if length == 1 else (f"{field}_{i}" for i in range(length))


ACCESSORS = """
const pw_setting_row *pw_setting_row_at(uint32_t idx)
{
    return idx < sizeof rows / sizeof *rows ? &rows[idx] : NULL;
}

const pw_platform *pw_platform_at(uint32_t idx)
{
    return idx < sizeof platforms / sizeof *platforms ? &platforms[idx] : NULL;
}

const char *pw_counter_name_at(uint32_t idx)
{
    return idx < sizeof counters / sizeof *counters ? counters[idx] : NULL;
}
"""


def write(root: pathlib.Path, headers: Headers) -> str:
    """The text of the C file."""
    config, platform = import_declarations(root, headers)
    from pagewire.transport.memory.pages import TABLES

    sites = [
        name.removeprefix("PW_IMPAIRMENT_").lower()
        for name, value in sorted(headers.constants.items(), key=lambda item: item[1])
        if name.startswith("PW_IMPAIRMENT_")
        and name.removeprefix("PW_IMPAIRMENT_").lower() in config.Config().impairments.sites()
    ]
    rows = Rows(sites)
    for declaration in config.REGISTRY.values():
        rows.add(declaration, platform.names())
    for field in platform.Costs.FIELDS:
        rows.add_cost(field)
    names = list(counter_names(headers))
    listed = ",\n    ".join(map(quoted, names))
    loaded = [platform.load(name) for name in platform.names()]
    platforms = "\n".join(platform_literal(each, TABLES) for each in loaded)
    return "\n".join(
        [
            "/* Made by src/cffi/build_defaults.py. */",
            '#include "transport/node/defaults.h"',
            '#include "native/counters.h"',
            f'_Static_assert(sizeof(pw_counters) == {len(names)} * 8, "words of 64 bits");',
            *rows.choices,
            "static const pw_setting_row rows[] = {",
            *rows.lines,
            "};",
            "static const pw_platform platforms[] = {",
            platforms,
            "};",
            f"static const char *const counters[] = {{\n    {listed}\n}};",
            defaults_literal(config, platform, sites),
            ACCESSORS,
        ]
    )


def main(root: str, listing: str, output: str) -> None:
    names = pathlib.Path(listing).read_text(encoding="utf-8").split()
    text = write(pathlib.Path(root), Headers(pathlib.Path(root), names))
    pathlib.Path(output).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
