"""What a shell's Tab offers behind options and commands: names that pagewire knows."""

from collections.abc import Callable, Iterable

from pagewire.run.settings import config


def one_of(setting: str) -> Callable[[str], list[str]]:
    """Names that a setting takes, also behind the last comma of several."""

    return lambda incomplete: _behind_comma(incomplete, config.lookup(setting).choices or ())


def assignment(incomplete: str) -> list[str]:
    """Names of all settings, up to the equals sign."""
    return _beginning(incomplete, (f"{name}=" for name in config.REGISTRY))


def platform(incomplete: str) -> list[str]:
    """Platform files that come with pagewire; behind them the shell offers files."""
    from pagewire.run.settings import platform as platforms

    return _beginning(incomplete, platforms.names())


def app(incomplete: str) -> list[str]:
    """Bundled apps; without any the shell offers files."""
    from pagewire.cli.launch import program

    return _beginning(incomplete, program.apps())


def experiment(incomplete: str) -> list[str]:
    """Experiments, and `all`."""
    from pagewire.cli.experiments.registry import EXPERIMENTS

    return _beginning(incomplete, [*EXPERIMENTS, "all"])


def json_schema(incomplete: str) -> list[str]:
    """Schemas of the JSON that we write."""
    from pagewire.cli.commands import schema

    return _beginning(incomplete, schema.names())


def trace_pattern(incomplete: str) -> list[str]:
    """Patterns that traces are made of."""
    from pagewire.replay.patterns import PATTERNS

    return _beginning(incomplete, PATTERNS)


def bench_groups(incomplete: str) -> list[str]:
    """Groups of the bench, of both transports; also behind a comma."""
    from pagewire.cli.checks.bench.command import TRANSPORTS

    names = dict.fromkeys(name for groups in TRANSPORTS.values() for name in groups)
    return _behind_comma(incomplete, names)


def _behind_comma(incomplete: str, names: Iterable[str]) -> list[str]:
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in names if name.startswith(last)]


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
