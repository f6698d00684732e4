"""Every setting of a run, where its value comes from, and the loader.

Order: command line > environment PAGEWIRE_<SECTION>_<NAME> > TOML file > default. The file is given
by `--config` or PAGEWIRE_CONFIG and holds one table a section. Each folder declares its own
settings; this module composes them and adds `[run]`. Light on purpose: every rank imports it.
"""

import dataclasses
import os
import tomllib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from pagewire.driver import policy as page_in
from pagewire.driver.config import DriverConfig
from pagewire.mini.config import MiniConfig, nic_memory
from pagewire.native import lib
from pagewire.native.config import MemoryBackendConfig, NetworkInterfaceConfig
from pagewire.native.extension import Registry
from pagewire.native.impairments import ImpairmentsConfig
from pagewire.native.settings import (
    ConfigError,
    Declaration,
    declarations,
    engine_values,
    format_value,
    none_as,
    parse_value,
    setting,
    suggestion,
    validate,
)
from pagewire.ni.config import UnimemConfig
from pagewire.odp.config import OdpConfig
from pagewire.r5sched import scheduling
from pagewire.r5sched.config import FirmwareConfig
from pagewire.smmu.config import SmmuConfig
from pagewire.transport.memory.built_in import REGISTRY as MEMORY_STRATEGIES
from pagewire.transport.memory.config import StrategyConfig
from pagewire.transport.memory.native_strategy import unit_of

__all__ = ["Config", "ConfigError", "RunConfig", "Setting", "load"]

NOT_SETTINGS = frozenset(
    {
        "PAGEWIRE_CONFIG",
        "PAGEWIRE_VENV",
        "PAGEWIRE_PYTHON",
        "PAGEWIRE_SOURCE",
        "PAGEWIRE_BUILD",
        "PAGEWIRE_LAUNCH_ID",
        "PAGEWIRE_LAUNCH_DIR",
        "PAGEWIRE_NODE_FILE",
        "PAGEWIRE_PROGRAM",
        "PAGEWIRE_COMMAND_LINE",
    }
)
"""Variables of the launcher and of mpirun.sh, which share the prefix."""

TRANSLATION_UNITS: Mapping[str, int] = {
    "smmu": int(lib.PW_TRANSLATION_SMMU),
    "mini": int(lib.PW_TRANSLATION_MINI),
    "static": int(lib.PW_TRANSLATION_STATIC),
    "odp": int(lib.PW_TRANSLATION_ODP),
    "np-rdma": int(lib.PW_TRANSLATION_NP),
    "utlb": int(lib.PW_TRANSLATION_UTLB),
}
"""What can translate the NI's accesses, as the engine knows it; but for the first three by
run.memory alone."""


@dataclasses.dataclass(frozen=True, slots=True)
class RunConfig:
    """What a run does with memory, faults, small messages, compute time and its report."""

    memory: str = setting(
        "part",
        "what is done about absent pages",
        extensions=MEMORY_STRATEGIES,
        engine="ideal",
        encode=lambda name: int(name == "ideal"),
    )
    policy: str = setting(
        "page",
        "pages brought in for a fault",
        extensions=page_in.REGISTRY,
        engine="policy",
        encode=page_in.number,
    )
    err: bool = setting(
        True, "send the ERR (retransmit request) when a block's pages are in", engine="err_enabled"
    )
    timeout_ns: int | None = setting(
        1_000_000,
        "time after which a block without acknowledgement is sent again, or none",
        kind="duration",
        minimum=1_000,
        maximum=3_600_000_000_000,
        none_allowed=True,
        engine="timeout_ns",
        encode=none_as(-1),
    )
    nack_cancels_timer: bool = setting(
        False,
        "a page-fault NACK stops the block's timer, so that only the ERR resumes it (NTO)",
        engine="nack_cancels_timer",
    )
    eager_limit_bytes: int = setting(
        64,
        "longest message that travels inside its envelope instead of by RDMA",
        kind="size",
        minimum=0,
        maximum=1024 * 1024,
        engine="eager_limit_bytes",
    )
    compute: str = setting(
        "measured",
        "time between MPI calls: measured: thread's CPU time; replay: recorded by an earlier run; "
        "model: declared by the program; none: zero",
        choices={
            "measured": lib.PW_COMPUTE_MEASURED,
            "replay": lib.PW_COMPUTE_REPLAY,
            "model": lib.PW_COMPUTE_MODEL,
            "none": lib.PW_COMPUTE_NONE,
        },
    )
    compute_scale: float = setting(
        1.0, "factor on compute time, measured or replayed", minimum=0.0, maximum=1e6
    )
    compute_record: str = setting(
        "", "file that each rank writes its compute durations to (FILE.<rank>)", kind="path"
    )
    compute_replay: str = setting(
        "", "file that compute = replay reads them from (FILE.<rank>)", kind="path"
    )
    wtime: str = setting(
        "virtual",
        "clock behind MPI.Wtime()",
        choices={"virtual": lib.PW_WTIME_VIRTUAL, "wall": lib.PW_WTIME_WALL},
    )
    clocks: str = setting(
        "host",
        "clock_gettime, gettimeofday, time and sleeps of a program over the fabric: host: this "
        "host's; virtual: as MPI_Wtime, for programs that time themselves",
        choices={"host": lib.PW_CLOCKS_HOST, "virtual": lib.PW_CLOCKS_VIRTUAL},
    )
    translation: str = setting(
        "smmu",
        "what translates the NI's accesses: smmu: page-table walks; mini: caches on the NIC of "
        "tables in host memory, which pins; static: all tables on the NIC",
        choices={name: TRANSLATION_UNITS[name] for name in ("smmu", "mini", "static")},
        engine="translation",
    )
    platform: str = setting("exanest-qfdb", "name or path (.toml) of the platform file")
    huge_pages: str = setting(
        "never",
        "transparent huge pages: never: off for the process; host: as the system is set",
        choices={"never": lib.PW_HUGE_PAGES_NEVER, "host": lib.PW_HUGE_PAGES_HOST},
    )
    strict: bool = setting(
        False, "end with an error at the first MPI call that the NI does not carry"
    )
    watchdog_ns: int | None = setting(
        60_000_000_000,
        "wall time without any event after which a rank that waits says what it waits for, or none",
        kind="duration",
        minimum=1_000_000,
        maximum=3_600_000_000_000,
        none_allowed=True,
        encode=none_as(-1),
    )
    transport: str = setting(
        "facade",
        "what puts the NI under a program: facade: mpi4py's methods replaced; fabric: a libfabric "
        "provider below the MPI library, for any program",
        choices=("facade", "fabric"),
    )
    mpi: str = setting(
        "mpich", "which MPI starts the ranks: mpich, openmpi, or the path of another mpiexec"
    )
    hosts: str = setting(
        "",
        "hosts that mpiexec starts the ranks on, separated by commas, HOST or HOST:RANKS; they "
        "fill up in order; empty: this one, or what a batch system gives",
    )
    mpiexec_options: str = setting(
        "", "further options of mpiexec, words as a shell reads them, e.g. '-iface eth1'"
    )
    wire: str = setting(
        "auto",
        "what carries the NIs' frames: auto: shared memory between ranks of one host, else MPI "
        "(facade) or libfabric's tcp (fabric); mpi: MPI messages alone; shm: libfabric's shm "
        "instead of our shared memory; tcp: that alone; virtual times are the same",
        choices={
            "auto": lib.PW_CARRIER_AUTO,
            "mpi": lib.PW_CARRIER_MPI,
            "shm": lib.PW_CARRIER_SHM,
            "tcp": lib.PW_CARRIER_TCP,
        },
    )
    wire_interface: str = setting(
        "",
        "network interface, by name or address, that tcp takes between the hosts of a run over the "
        "fabric; empty: the first",
    )
    hash_received: bool = setting(
        False,
        "report a hash of the bytes that arrived by RDMA: two runs in which the same messages "
        "arrived, in whatever order, have the same; `pagewire compare` turns it on",
        engine="hash_received",
    )
    quiet: bool = setting(False, "print no report when the run ends")
    json: str = setting("", "write the report to this file as JSON", kind="path")
    trace: str = setting(
        "",
        "write the run's timeline to this file, for ui.perfetto.dev",
        kind="path",
    )
    html: str = setting("", "write the report to this file as a page for a browser", kind="path")

    def __post_init__(self) -> None:
        validate("run", self)
        if self.compute == "replay" and not self.compute_replay:
            raise ConfigError(
                "run.compute = 'replay' has nothing to replay: "
                "set run.compute_replay to the file of an earlier run.compute_record"
            )
        if self.nack_cancels_timer and not self.err:
            raise ConfigError(
                "run.nack_cancels_timer = true with run.err = false: a NACK would stop the timer "
                "and nothing would send the block again; allow ERRs"
            )
        self._check_transport()

    def _check_transport(self) -> None:
        wires = {"facade": ("auto", "mpi"), "fabric": ("auto", "shm", "tcp")}[self.transport]
        if self.wire not in wires:
            raise ConfigError(
                f"run.wire = '{self.wire}' with run.transport = '{self.transport}': "
                f"allowed is one of {', '.join(wires)}"
            )
        if self.transport == "facade" and self.clocks == "virtual":
            raise ConfigError(
                "run.clocks = 'virtual' with run.transport = 'facade': there a program's sleeps "
                "follow run.wtime; take run.transport = 'fabric'"
            )
        if self.clocks == "virtual" and self.wtime == "wall":
            raise ConfigError(
                "run.clocks = 'virtual' with run.wtime = 'wall': MPI_Wtime would be the only clock "
                "of this host; take run.wtime = 'virtual'"
            )
        if self.transport == "fabric" and self.compute == "model":
            raise ConfigError(
                "run.compute = 'model' with run.transport = 'fabric': no program below the MPI "
                "library declares its work; take measured, replay or none"
            )


SECTIONS: Mapping[str, type[Any]] = MappingProxyType(
    {
        "run": RunConfig,
        "strategy": StrategyConfig,
        "memory_backend": MemoryBackendConfig,
        "smmu": SmmuConfig,
        "mini": MiniConfig,
        "odp": OdpConfig,
        "driver": DriverConfig,
        "firmware": FirmwareConfig,
        "ni": NetworkInterfaceConfig,
        "unimem": UnimemConfig,
        "impairments": ImpairmentsConfig,
    }
)

REGISTRY: Mapping[str, Declaration] = MappingProxyType(
    {
        declaration.name: declaration
        for section, owner in SECTIONS.items()
        for declaration in declarations(section, owner)
    }
)
"""Every setting by its dotted name."""

EXTENSIONS: tuple[Registry[Any], ...] = tuple(
    declaration.extensions
    for declaration in REGISTRY.values()
    if isinstance(declaration.extensions, Registry)
)
"""The registries of all settings that take a class."""

_BY_ENVIRONMENT = {declaration.environment: declaration for declaration in REGISTRY.values()}


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """A setting with its value in one run and where that comes from."""

    declaration: Declaration
    value: Any
    source: str

    @property
    def name(self) -> str:
        return self.declaration.name

    @property
    def text(self) -> str:
        return format_value(self.declaration, self.value)

    @property
    def default_text(self) -> str:
        return format_value(self.declaration, self.declaration.default)

    @property
    def is_default(self) -> bool:
        return bool(self.value == self.declaration.default)


@dataclasses.dataclass(frozen=True, slots=True)
class Config:
    """All settings of a run."""

    run: RunConfig = dataclasses.field(default_factory=RunConfig)
    strategy: StrategyConfig = dataclasses.field(default_factory=StrategyConfig)
    memory_backend: MemoryBackendConfig = dataclasses.field(default_factory=MemoryBackendConfig)
    smmu: SmmuConfig = dataclasses.field(default_factory=SmmuConfig)
    mini: MiniConfig = dataclasses.field(default_factory=MiniConfig)
    odp: OdpConfig = dataclasses.field(default_factory=OdpConfig)
    driver: DriverConfig = dataclasses.field(default_factory=DriverConfig)
    firmware: FirmwareConfig = dataclasses.field(default_factory=FirmwareConfig)
    ni: NetworkInterfaceConfig = dataclasses.field(default_factory=NetworkInterfaceConfig)
    unimem: UnimemConfig = dataclasses.field(default_factory=UnimemConfig)
    impairments: ImpairmentsConfig = dataclasses.field(default_factory=ImpairmentsConfig)
    sources: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: MappingProxyType({}), compare=False
    )
    """Where each setting that was given comes from, by dotted name."""

    def __post_init__(self) -> None:
        self._check_impairments()
        run = self.run
        if self.smmu.mode == "stall" and self.driver.page_in == "touch-a-page":
            raise ConfigError(
                "smmu.mode = 'stall' with driver.page_in = 'touch-a-page': the user-space thread "
                "cannot write RESUME, so the access would wait for ever; take "
                "driver.page_in = 'touch-ahead'"
            )
        if self.smmu.mode == "stall" and not page_in.is_built_in(run.policy):
            raise ConfigError(
                f"run.policy = '{run.policy}' with smmu.mode = 'stall': a stalled access cannot "
                f"wait for a policy in Python; take one of {', '.join(page_in.ENGINES_OWN)}, or "
                "smmu.mode = 'terminate'"
            )
        self._check_interleaving()
        self._check_translation()
        waits_for_ever = run.memory == "part" and not run.err and run.timeout_ns is None
        if waits_for_ever and self.smmu.mode == "terminate":
            raise ConfigError(
                "run.err = false and run.timeout = none with run.memory = 'part': nothing would "
                "send a faulted block again; allow ERRs, set a timeout, take smmu.mode = 'stall' "
                "or another memory strategy"
            )

    @property
    def translation_unit(self) -> str:
        """The unit that runs, by its name in TRANSLATION_UNITS: of run.translation, or the one that
        the memory strategy comes with."""
        own = unit_of(self.run.memory)
        names = {value: name for name, value in TRANSLATION_UNITS.items()}
        return names[own] if own else self.run.translation

    def check_without_python(self) -> None:
        """Refuse classes in Python where no rank has Python to ask them; raises ConfigError."""
        for registry in (MEMORY_STRATEGIES, page_in.REGISTRY, scheduling.REGISTRY):
            chosen = self.value(registry.setting)
            entry = registry.entries().get(chosen)
            if entry is None or entry.cls is not None:
                own = [name for name, each in registry.entries().items() if each.cls is None]
                raise ConfigError(
                    f"{registry.setting} = '{chosen}' is a class in Python, which a program "
                    f"without Python cannot ask; take one of {', '.join(own)}"
                )

    def _check_translation(self) -> None:
        unit, run, smmu = self.run.translation, self.run, self.smmu
        if unit == "smmu":
            self._check_odp()
            return
        if run.memory != "part":
            raise ConfigError(
                f"run.memory = '{run.memory}' with run.translation = '{unit}': the unit itself "
                "keeps pages pinned; take run.memory = 'part'"
            )
        if smmu.mode == "stall" or not smmu.hupcf:
            raise ConfigError(
                f"smmu.mode = '{smmu.mode}', smmu.hupcf = {smmu.hupcf} with run.translation = "
                f"'{unit}': only the SMMU has fault registers; take smmu.mode = 'terminate' and "
                "smmu.hupcf = 1"
            )
        if unit == "mini" and run.timeout_ns is None:
            raise ConfigError(
                "run.timeout = none with run.translation = 'mini': a packet that misses is "
                "dropped, and only a timeout brings it again; set run.timeout"
            )
        needed = nic_memory(self.engine_settings())["total_bytes"]
        if needed > self.mini.memory_bytes:
            raise ConfigError(
                f"mini.memory = {self.mini.memory_bytes} B with run.translation = '{unit}': what "
                f"stands on the NIC takes {needed} B; take smaller tables or caches, fewer "
                "processes, or more memory"
            )

    def _check_odp(self) -> None:
        memory = self.run.memory
        if memory not in ("odp", "np-rdma"):
            return
        if self.smmu.mode == "stall" or not self.smmu.hupcf:
            raise ConfigError(
                f"smmu.mode = '{self.smmu.mode}', smmu.hupcf = {self.smmu.hupcf} with run.memory = "
                f"'{memory}': that NIC has no SMMU with fault registers; take smmu.mode = "
                "'terminate' and smmu.hupcf = 1"
            )
        if self.ni.interleave != "none":
            raise ConfigError(
                f"ni.interleave = '{self.ni.interleave}' with run.memory = '{memory}': only "
                "PART is told of packets of two blocks in turn; take ni.interleave = 'none'"
            )

    def _check_interleaving(self) -> None:
        if self.ni.interleave == "none":
            return
        if self.smmu.mode == "stall":
            raise ConfigError(
                f"ni.interleave = '{self.ni.interleave}' with smmu.mode = 'stall': a packet that "
                "waits for RESUME would hold up the other block's; take ni.interleave = 'none' or "
                "smmu.mode = 'terminate'"
            )
        if not page_in.is_built_in(self.run.policy):
            raise ConfigError(
                f"ni.interleave = '{self.ni.interleave}' with run.policy = '{self.run.policy}': "
                "two blocks at once cannot wait for a policy in Python; take "
                f"ni.interleave = 'none' or one of {', '.join(page_in.ENGINES_OWN)}"
            )

    def _check_impairments(self) -> None:
        run, sites = self.run, self.impairments.sites()
        if run.timeout_ns is None:
            # miNI and its base system say nothing of a damaged block either
            silent = ("packet_corruption",) if run.translation in ("mini", "static") else ()
            answers = ("lost_ack", "lost_nack", "lost_err", "fifo_full")
            for name in ("packet_loss", *silent, *answers):
                if sites[name].is_on:
                    raise ConfigError(
                        f"impairments.{name} = '{sites[name]}' with run.timeout = none: only a "
                        "timeout sends such a block again; set run.timeout"
                    )
        if run.nack_cancels_timer:
            for name in ("lost_err", "fifo_full"):
                if sites[name].is_on:
                    raise ConfigError(
                        f"impairments.{name} = '{sites[name]}' with run.nack_cancels_timer = true: "
                        "the NACK stops the timer, and no ERR comes; leave the timer on"
                    )

    def settings(self) -> list[Setting]:
        """Every setting in the registry's order."""
        return [
            Setting(
                declaration,
                getattr(getattr(self, declaration.section), declaration.field),
                self.sources.get(name, "default"),
            )
            for name, declaration in REGISTRY.items()
        ]

    def value(self, name: str) -> Any:
        """Value of a setting by its dotted name."""
        declaration = lookup(name)
        return getattr(getattr(self, declaration.section), declaration.field)

    def not_default(self) -> dict[str, str]:
        """Text of each setting that differs from its default, by dotted name."""
        return {each.name: each.text for each in self.settings() if not each.is_default}

    def engine_settings(self) -> dict[str, int]:
        """The settings that the engine takes (struct pw_settings), as integers in base units.

        Derived from the declarations: see `engine` of native/settings.py.
        """
        values: dict[str, int] = {}
        for section in SECTIONS:
            values |= engine_values(section, getattr(self, section))
        return values

    def unit_settings(self) -> dict[str, int]:
        """The same, with the translation unit that the memory strategy needs."""
        return self.engine_settings() | {"translation": TRANSLATION_UNITS[self.translation_unit]}


def load(
    assignments: Iterable[str] = (),
    *,
    environ: Mapping[str, str] | None = None,
    config_path: str | None = None,
) -> Config:
    """Settings of this process from command line, environment, file and defaults.

    assignments: `section.name=value` texts of the command line, the last one of a name counts.
    config_path: TOML file; without it PAGEWIRE_CONFIG is looked at.
    Raises ConfigError, whose text names the bad key or value and what is allowed.
    """
    environ = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    path = config_path or environ.get("PAGEWIRE_CONFIG") or ""
    if path:
        for name, value in read_file(path).items():
            values[name], sources[name] = value, f"file {path}"
    # The launcher hands its command line to the ranks by variables, and lists these here.
    handed_down = environ.get("PAGEWIRE_COMMAND_LINE", "").split(",")
    for variable, raw in _variables(environ):
        declaration = _BY_ENVIRONMENT[variable]
        source = "command line" if variable in handed_down else f"environment {variable}"
        values[declaration.name] = _parse(declaration, raw, source)
        sources[declaration.name] = source
    for assignment in assignments:
        declaration, raw = split_assignment(assignment)
        values[declaration.name] = _parse(declaration, raw, "")
        sources[declaration.name] = "command line"
    sections: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for name, value in values.items():
        sections[REGISTRY[name].section][REGISTRY[name].field] = value
    parts = {section: owner(**sections[section]) for section, owner in SECTIONS.items()}
    return Config(**parts, sources=MappingProxyType(sources))


def split_assignment(assignment: str) -> tuple[Declaration, str]:
    """Setting and text of `name=value`."""
    name, equals, raw = assignment.partition("=")
    if not equals:
        raise ConfigError(f"--set {assignment}: expected section.name=value")
    return lookup(name.strip()), raw


def lookup(name: str) -> Declaration:
    """The setting of a dotted name; an unknown one is an error that lists what there is."""
    if name in REGISTRY:
        return REGISTRY[name]
    section = name.partition(".")[0]
    known = [each for each in REGISTRY if each.startswith(f"{section}.")] or list(REGISTRY)
    raise ConfigError(
        f"unknown setting '{name}'{suggestion(name, REGISTRY)}; known are {', '.join(known)}"
    )


def read_file(path: str) -> dict[str, Any]:
    """Values of a TOML configuration file by dotted name."""
    try:
        with open(path, "rb") as file:
            document = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"configuration file '{path}': {error.strerror}") from None
    except ValueError as error:  # of TOML, UTF-8, or a number of thousands of digits
        raise ConfigError(f"configuration file '{path}': {error}") from None
    except RecursionError:
        raise ConfigError(
            f"configuration file '{path}': its values are nested too deeply"
        ) from None
    values: dict[str, Any] = {}
    for section, table in document.items():
        if section not in SECTIONS:
            raise ConfigError(
                f"configuration file '{path}': unknown section '{section}'"
                f"{suggestion(section, SECTIONS)}; known are {', '.join(SECTIONS)}"
            )
        if not isinstance(table, dict):
            raise ConfigError(
                f"configuration file '{path}': '{section}' must be a table [{section}]"
            )
        for key, raw in table.items():
            try:
                declaration = lookup(f"{section}.{key}")
            except ConfigError as error:
                raise ConfigError(f"configuration file '{path}': {error}") from None
            values[declaration.name] = _parse(declaration, raw, f"configuration file '{path}'")
    return values


def _parse(declaration: Declaration, raw: object, where: str) -> Any:
    try:
        return parse_value(declaration, raw)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}" if where else str(error)) from None


def _variables(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """The settings in the environment; an unknown PAGEWIRE_ variable is an error."""
    found = []
    for variable, raw in environ.items():
        if not variable.startswith("PAGEWIRE_") or variable in NOT_SETTINGS:
            continue
        if variable not in _BY_ENVIRONMENT:
            raise ConfigError(
                f"unknown environment variable {variable}"
                f"{suggestion(variable, [*_BY_ENVIRONMENT, *NOT_SETTINGS])}; "
                "`pagewire info` lists the settings"
            )
        found.append((variable, raw))
    return sorted(found)
