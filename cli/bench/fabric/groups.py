"""The groups of `pagewire bench --transport fabric`."""

from collections.abc import Mapping

from pagewire.cli.bench.fabric import apps, collectives, ping_pong, rate
from pagewire.cli.bench.group import Group

GROUPS: Mapping[str, Group] = {
    module.GROUP.name: module.GROUP for module in (ping_pong, collectives, rate, apps)
}
"""By name, in the order of the tables."""
