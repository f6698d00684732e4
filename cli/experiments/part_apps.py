"""PART tables 2 to 5: whole applications, pre-touch against PART."""

from pagewire.cli.experiments.result import Options, Result
from pagewire.native.settings import ConfigError


def table_2(options: Options) -> Result:
    raise ConfigError("not yet")


table_3 = table_4 = table_5 = table_2
