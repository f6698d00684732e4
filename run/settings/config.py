"""Every setting of a run, where its value comes from, and the loader.

Order: command line > environment PAGEWIRE_<SECTION>_<NAME> > TOML file > default. The file is given
by `--config` or PAGEWIRE_CONFIG and holds one table a section. What settings there are and which
do not go together is the engine's to say (node/settings). Light on purpose: every rank imports it.
"""

import dataclasses
import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from pagewire.driver import policy as page_in
from pagewire.native import ffi, lib
from pagewire.native.declared import text
from pagewire.native.extension import Registry
from pagewire.native.impairments import ImpairmentsConfig
from pagewire.native.settings import (
    ConfigError,
    Declaration,
    declarations,
    format_value,
    parse_value,
    suggestion,
)
from pagewire.network import graphs
from pagewire.node.strategies.built_in import REGISTRY as MEMORY_STRATEGIES
from pagewire.node.strategies.native_strategy import unit_of
from pagewire.r5sched import scheduling
from pagewire.run.settings.platform_document import read_toml
from pagewire.run.settings.sections import (
    AtsConfig,
    DriverConfig,
    FirmwareConfig,
    MemoryBackendConfig,
    MiniConfig,
    NetworkConfig,
    NetworkInterfaceConfig,
    OdpConfig,
    ResidencyConfig,
    RunConfig,
    SmmuConfig,
    StrategyConfig,
    UnimemConfig,
)

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
    "ats": int(lib.PW_TRANSLATION_ATS),
    "backup-ring": int(lib.PW_TRANSLATION_BACKUP_RING),
}
"""What can translate the NI's accesses, as the engine knows it; but for the first three by
run.memory alone."""


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
    residency: ResidencyConfig = dataclasses.field(default_factory=ResidencyConfig)
    smmu: SmmuConfig = dataclasses.field(default_factory=SmmuConfig)
    mini: MiniConfig = dataclasses.field(default_factory=MiniConfig)
    odp: OdpConfig = dataclasses.field(default_factory=OdpConfig)
    ats: AtsConfig = dataclasses.field(default_factory=AtsConfig)
    driver: DriverConfig = dataclasses.field(default_factory=DriverConfig)
    firmware: FirmwareConfig = dataclasses.field(default_factory=FirmwareConfig)
    ni: NetworkInterfaceConfig = dataclasses.field(default_factory=NetworkInterfaceConfig)
    network: NetworkConfig = dataclasses.field(default_factory=NetworkConfig)
    unimem: UnimemConfig = dataclasses.field(default_factory=UnimemConfig)
    impairments: ImpairmentsConfig = dataclasses.field(default_factory=ImpairmentsConfig)
    sources: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: MappingProxyType({}), compare=False
    )
    """Where each setting that was given comes from, by dotted name."""

    def __post_init__(self) -> None:
        self.node_config()

    def node_config(self) -> Any:
        """The pw_node_config of these settings, without costs, which are the platform's.

        Raises ConfigError when the engine refuses them, together or as texts.
        """
        made, reason = ffi.new("pw_node_config *"), ffi.new("pw_sentence *")
        lib.pw_node_config_default(made)
        for name, given in self.not_default().items():
            assignment = f"{name}=".encode() + encoded(name, given)
            if lib.pw_node_config_take(made, assignment, True, reason) < 0:
                raise ConfigError(text(reason.text))
        if lib.pw_node_settings_check(made, reason) < 0:
            raise ConfigError(text(reason.text))
        return made

    @property
    def translation_unit(self) -> str:
        """The unit that runs, by its name in TRANSLATION_UNITS: of run.translation, or the one that
        the memory strategy comes with."""
        own = unit_of(self.run.memory)
        names = {value: name for name, value in TRANSLATION_UNITS.items()}
        return names[own] if own else self.run.translation

    def check_without_python(self) -> None:
        """Refuse classes in Python where no rank has Python to ask them; raises ConfigError."""
        for registry in (
            MEMORY_STRATEGIES,
            page_in.REGISTRY,
            page_in.ERR_REGISTRY,
            scheduling.REGISTRY,
        ):
            chosen = self.value(registry.setting)
            entry = registry.entries().get(chosen)
            if entry is None or entry.cls is not None:
                own = [name for name, each in registry.entries().items() if each.cls is None]
                raise ConfigError(
                    f"{registry.setting} = '{chosen}' is a class in Python, which a program "
                    f"without Python cannot ask; take one of {', '.join(own)}"
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
        """The settings that the engine takes (struct pw_settings), as integers in base units."""
        config = self.node_config()
        return {field: int(getattr(config.settings, field)) for field in _ENGINE_FIELDS}

    def unit_settings(self) -> dict[str, int]:
        """The same, with the translation unit that the memory strategy needs."""
        return self.engine_settings() | {"translation": TRANSLATION_UNITS[self.translation_unit]}


SECTIONS: Mapping[str, Any] = MappingProxyType(
    {each.name: each.type for each in dataclasses.fields(Config) if each.name != "sources"}
)

REGISTRY: Mapping[str, Declaration] = MappingProxyType(
    {
        declaration.name: declaration
        for owner in SECTIONS.values()
        for declaration in declarations(owner)
    }
)
"""Every setting by its dotted name."""

EXTENSIONS: tuple[Registry[Any], ...] = tuple(
    declaration.extensions
    for declaration in REGISTRY.values()
    if isinstance(declaration.extensions, Registry)
)
"""The registries of all settings that take a class."""

_ENGINE_FIELDS = tuple(name for name, _ in ffi.typeof("pw_settings").fields)
_BY_ENVIRONMENT = {declaration.environment: declaration for declaration in REGISTRY.values()}


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
    if graphs.is_graph(values.get("network.topology", "")):
        values["network.topology"] = graphs.prepared(values["network.topology"])
    sections: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for name, value in values.items():
        sections[REGISTRY[name].section][REGISTRY[name].field] = value
    parts = {section: owner(**sections[section]) for section, owner in SECTIONS.items()}
    return Config(**parts, sources=MappingProxyType(sources))


def encoded(name: str, given: str) -> bytes:
    """A setting's text as the operating system has it: a path may be any bytes but 0."""
    try:
        made = os.fsencode(given)
    except UnicodeEncodeError as error:
        raise ConfigError(f"{name} = {given!r}: cannot be written ({error.reason})") from None
    if b"\0" in made:
        raise ConfigError(f"{name} = {given!r}: holds a zero byte")
    return made


def split_assignment(assignment: str) -> tuple[Declaration, str]:
    """Setting and text of `name=value`."""
    name, equals, raw = assignment.partition("=")
    if not equals:
        raise ConfigError(f"--set {assignment}: expected section.name=value")
    return lookup(name.strip()), raw


def lookup(name: str) -> Declaration:
    """The setting of a dotted name; an unknown one is an error that lists what its section has."""
    if name in REGISTRY:
        return REGISTRY[name]
    section = name.partition(".")[0]
    known = [each for each in REGISTRY if each.startswith(f"{section}.")]
    there = f"known are {', '.join(known)}"
    if not known:
        sections = dict.fromkeys(each.partition(".")[0] for each in REGISTRY)
        there = f"sections are {', '.join(sections)} (`pagewire info` lists what they have)"
    raise ConfigError(f"unknown setting '{name}'{suggestion(name, REGISTRY)}; {there}")


def read_file(path: str) -> dict[str, Any]:
    """Values of a TOML configuration file by dotted name."""
    values: dict[str, Any] = {}
    for section, table in read_toml("configuration file", path).items():
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
