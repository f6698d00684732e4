"""`pagewire info`: settings with their origin, platform costs, versions, what this host can do."""

import dataclasses
import inspect
import mmap
import os
import pathlib
import platform as host
import resource
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from pagewire.cli.checks.selftest.host_checks import ask_memory
from pagewire.cli.checks.selftest.versions import version_of
from pagewire.cli.kit.output import console_of
from pagewire.cli.launch import fabric, mpi_choice
from pagewire.native import ffi, lib
from pagewire.native.extension import Registry
from pagewire.native.settings import ConfigError, Declaration, allowed
from pagewire.network.topology import Topology, name_of, sides_of
from pagewire.run.settings import config, platform
from pagewire.smmu import registers
from pagewire.smmu.mini.nic_memory import PARTS, nic_memory
from pagewire.unimem import registers as unimem

_PICTURED_MAX, _PICTURED_WIDTH = 1024, 16
_PICTURED_SIDE_MAX = 22  # that 80 columns have room for
_BISECTED_MAX = 40_000
_NAMED_MAX = 8
_MADV_POPULATE_READ = 22
_MADV_POPULATE_WRITE = 23
_CHECKS_PERMISSION = 1
_CHECKS_WRITE_PROTECTION = 2


def print_all(environ: Mapping[str, str]) -> None:
    """Everything, as tables."""
    current = config.load(environ=environ)
    extensions = [
        _extensions_table(each, current.value(each.setting)) for each in config.EXTENSIONS
    ]
    machine = platform.load(current.run.platform)
    _print(_settings_table(current), *extensions, _costs_table(machine), _host_table())


def print_smmu(environ: Mapping[str, str]) -> None:
    """Settings of the SMMU, what they mean for its banks, and the layout of a bank's registers."""
    current = config.load(environ=environ)
    smmu = current.smmu
    title = (
        f"registers of each of the {smmu.num_context_banks} context banks; SCTLR of a bank in use: "
        f"{registers.describe(registers.sctlr_of(smmu.mode, smmu.hupcf))}"
    )
    fields = ((each.register, each.name, each.bits, each.meaning) for each in registers.LAYOUT)
    layout = _table(title, ("register", "field", "bits", "meaning"), fields)
    _print(_settings_table(current, "smmu"), _settings_table(current, "driver"), layout)


def print_mini(environ: Mapping[str, str]) -> None:
    """Settings of miNI, and what stands in the NIC's memory with each translation unit."""
    current = config.load(environ=environ)
    _print(_settings_table(current, "mini"), _memory_table(current))


def print_unimem(environ: Mapping[str, str]) -> None:
    """Settings of Unimem, register maps of mailbox and packetizer, operations, limits."""
    current = config.load(environ=environ)
    maps = _table(
        "registers; offsets in a page",
        ("page", "offset", "register", "bits", "access", "meaning"),
        ((page, f"{offset:#05x}", *rest) for page, offset, *rest in unimem.LAYOUT),
    )
    operations = _table(
        "operations of the atomic service: request of 256 bits = id 48, reserved 8, opcode "
        "8, address 64, arguments 64 + 64; response of 128 bits = error 64, result 64",
        ("operation", "opcode", "argument 1", "argument 2", "result", "bits lost"),
        (
            (name, str(opcode), *rest, str(unimem.ignored_bits(opcode)))
            for name, opcode, *rest in unimem.OPERATIONS
        ),
    )
    bounds = _table("limits", ("what", "prototype", "here"), unimem.limits(current))
    _print(_settings_table(current, "unimem"), maps, operations, bounds)


def print_topology(environ: Mapping[str, str], num_ranks: int) -> None:
    """Settings of the network, how far ranks are from each other, and where they stand."""
    current = config.load(environ=environ)
    own, costs = current.network, platform.load(current.run.platform).costs
    with Topology(
        own.topology,
        num_ranks,
        placement=own.placement,
        nodes_per_board=costs.nodes_per_qfdb,
        together=current.run.ranks_per_node,
        failed=own.failed,
    ) as made:
        far = made.distances()
        pairs = sum(far.counts.values())
        shares = ", ".join(f"{hops}: {count / pairs:.1%}" for hops, count in far.counts.items())
        gone = [
            name_of(own.topology, costs.nodes_per_qfdb, link) for link in made.links(failed=True)
        ]
        rows = [
            ("ranks, places, routers", f"{num_ranks:,}, {made.num_places:,}, {made.num_routers:,}"),
            ("links, each way of a cable", f"{made.num_working:,}"),
            ("failed links", f"{len(gone):,}: {_beginning(gone)}" if gone else "none"),
            ("hops between two ranks", f"{far.mean:.2f} on average, {far.longest} at most"),
            ("pairs by hops", shares),
            ("links between the two halves", _bisection(made)),
        ]
        facts = _table(f"{own.topology}, {own.placement}", ("what", "value"), rows)
        num_pictured, width = min(num_ranks, _PICTURED_MAX), _width(made)
        of = "each rank" if num_pictured == num_ranks else f"the first {num_pictured:,} ranks"
        picture = _table(f"hops from rank 0 to {of}, in order", ("first", "hops"))
        for first in range(0, num_pictured, width):
            last = min(first + width, num_pictured)
            hops = [len(made.route(0, rank)) for rank in range(first, last)]
            picture.add_row(str(first), " ".join(f"{each:2}" for each in hops))
        _print(_settings_table(current, "network"), facts, picture)


def _width(made: Topology) -> int:
    """Ranks in a row of the picture: whole rows of a torus or mesh, where that is near enough."""
    side = 1 if made.text.startswith("qfdb") else (sides_of(made.c) or [1])[0]
    if side > _PICTURED_SIDE_MAX:
        return _PICTURED_WIDTH
    return side * max(_PICTURED_WIDTH // side, 1)


def _beginning(names: Sequence[str]) -> str:
    more = "; ..." if len(names) > _NAMED_MAX else ""
    return "; ".join(names[:_NAMED_MAX]) + more


def _bisection(made: Topology) -> str:
    if made.num_taken < 2 or made.num_links > _BISECTED_MAX:
        return f"not asked for above {_BISECTED_MAX:,} links"
    try:
        return f"{made.bisection():,}, each way"
    except ImportError:
        return "networkx counts them: pip install 'pagewire[graphs]'"


def _print(*tables: Table) -> None:
    console = console_of(plain_width=200)
    for table in tables:
        console.print(table)


def _table(
    title: str, heads: Sequence[str], rows: Iterable[Sequence[str]] = (), **more: Any
) -> Table:
    table = Table(title=title, title_justify="left", **more)
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def _memory_table(current: config.Config) -> Table:
    units = config.REGISTRY["run.translation"].choices or ()
    chosen = current.run.translation
    sizes = {
        unit: nic_memory(
            current.engine_settings() | {"translation": config.TRANSLATION_UNITS[unit]}
        )
        for unit in units
    }
    table = Table(title=f"memory of the NIC in bytes; this run has {chosen}", title_justify="left")
    table.add_column("part")
    for unit in units:
        table.add_column(unit, justify="right", style="bold" if unit == chosen else None)
    for part, name in PARTS.items():
        table.add_row(name, *(f"{sizes[unit][part]:,}" for unit in units))
    return table


def print_config_file(environ: Mapping[str, str]) -> None:
    """The current settings as a TOML file that --config reads back."""
    section = ""
    for each in config.load(environ=environ).settings():
        declaration = each.declaration
        if declaration.section != section:
            if section:
                print()
            section = declaration.section
            print(f"[{section}]")
        print(f"# {declaration.help}")
        print(f"# {allowed(declaration)}; default {each.default_text or 'empty'}")
        key = each.name.partition(".")[2]
        print(f"{key} = {_toml(declaration, each.value, each.text)}")


def _toml(declaration: Declaration, value: object, text: str) -> str:
    if value is not None and declaration.kind in ("bool", "int", "float"):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _settings_table(current: config.Config, section: str = "") -> Table:
    heads = ("setting", "value", "default", "unit", "comes from", "help")
    table = _table("settings", heads)
    for each in current.settings():
        if section and each.declaration.section != section:
            continue
        style = None if each.is_default else "bold"
        # Durations and sizes are shown with their unit.
        unit = "" if each.declaration.kind in ("duration", "size") else each.declaration.unit
        cells = (each.name, each.text, each.default_text, unit, each.source, each.declaration.help)
        table.add_row(*(escape(cell) for cell in cells), style=style)
    return table


def _extensions_table(registry: Registry[Any], chosen: str) -> Table:
    """The names that a setting takes, and the user's class when that is chosen."""
    kind = registry.base.__name__
    table = _table(f"{kind} ({registry.setting})", ("name", "is", "runs in"))
    for name, each in registry.entries().items():
        where = "C" if each.cls is None else "Python"
        table.add_row(name, escape(each.help), where, style="bold" if name == chosen else None)
    if chosen in registry.entries():
        table.add_row("module:Class", f"your own {kind}: docs/extending.md", "Python")
        return table
    own = registry.load(chosen)
    if own is not None:
        text = (inspect.getdoc(own) or "").partition("\n")[0]
        table.add_row(chosen, escape(text), f"Python, {inspect.getfile(own)}", style="bold")
    return table


def _costs_table(machine: platform.Platform) -> Table:
    title = f"platform {machine.name}: {machine.description}"
    heads = ("cost", "value", "unit", "stands in", "source", "assumed because")
    costs = []
    values = {**machine.costs.as_dict(), **dataclasses.asdict(machine.rates)}
    for name, value in values.items():
        origin = machine.cost_origins[name]
        given = origin.value if str(value) == origin.value else f"{origin.value} ({value})"
        costs.append((name, given, origin))
    table = _table(title, heads)
    for rows in costs, [(name, each.value, each) for name, each in machine.table_origins.items()]:
        for name, given, each in rows:
            cells = (name, given, each.unit, each.platform, each.source, each.assumed)
            table.add_row(*map(escape, cells))
        table.add_section()
    return table


def _host_table() -> Table:
    return _table("versions and host", ("", ""), host_facts().items(), show_header=False)


def host_facts() -> dict[str, str]:
    """Versions of the parts, and the features of the kernel that the host backend needs."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return {
        "pagewire": version_of("pagewire"),
        "Python": sys.version.split()[0],
        "mpi4py": version_of("mpi4py"),
        "MPI library": _mpi_library(),
        "libfabric provider": _provider(),
        "libfabric of the MPI": _libfabric(),
        "numpy": version_of("numpy"),
        "kernel": host.release(),
        "cores": str(os.cpu_count()),
        "page size": f"{mmap.PAGESIZE} bytes",
        "MADV_POPULATE_READ": _yes(can_populate(_MADV_POPULATE_READ)),
        "MADV_POPULATE_WRITE": _yes(can_populate(_MADV_POPULATE_WRITE)),
        "permissions of resident pages": _yes(bool(access_checks() & _CHECKS_PERMISSION)),
        "write-protected pages": _yes(bool(access_checks() & _CHECKS_WRITE_PROTECTION)),
        "residency.source = events": _events(),
        f"compute below {lib.PW_CLOCK_SHORT_NS // 1000} us": _short_compute(),
        "mlock limit": "none" if soft == resource.RLIM_INFINITY else f"{soft} bytes",
        "transparent huge pages": _huge_pages(),
    }


def _events() -> str:
    """Whether page states can go by events here: native/memory_events.h."""
    said: list[str] = []

    def ask(memory: Any) -> int:
        refused = lib.pw_memory_use_events(memory, False)
        said.append(f"as kernel: {ffi.string(refused).decode()}" if refused else "can be had")
        return 0

    ask_memory(ask)
    return said[0] if said else "as kernel: there is no host backend"


def _short_compute() -> str:
    """Which clock run.compute = measured takes for it: node/clock.h."""
    if lib.pw_on_core_stint():
        return "monotonic clock, or CPU time when the thread has left its core (rseq)"
    return "CPU time from 5 us on: nothing tells whether the thread has left its core"


def access_checks() -> int:
    """What the kernel tells of mapped pages: their mapping's permissions (PROCMAP_QUERY, Linux
    6.11), and which of them a write would copy first (/proc/self/pagemap); PW_CHECKS_*."""
    return ask_memory(lib.pw_memory_checks_access) or 0


def can_populate(advice: int) -> bool:
    """Whether this kernel has the madvise advice (MADV_POPULATE_* came with Linux 5.14)."""
    with mmap.mmap(-1, mmap.PAGESIZE) as area:
        try:
            area.madvise(advice)
        except OSError:
            return False
    return True


def _mpi_library() -> str:
    try:
        import mpi4py

        mpi4py.rc.initialize = False
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        return f"none ({error})"
    return " ".join(MPI.Get_library_version().strip("\0").splitlines()[0].split())


def _provider() -> str:
    missing = fabric.missing()
    if not missing:
        return f"yes ({fabric.folder()})"
    return (
        "not yet: ./mpirun.sh builds it for the first C or Fortran program; with pip, install "
        "libfabric's headers (apt-get install libfabric-dev) and pagewire again"
    )


def _libfabric() -> str:
    try:
        return fabric.libfabric(mpi_choice.find("mpich", ask=False))
    except ConfigError as error:
        return str(error)


def _huge_pages() -> str:
    path = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return "not in this kernel"


def _yes(value: bool) -> str:
    return "yes" if value else "no"
