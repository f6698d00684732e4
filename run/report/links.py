"""How busy links would have been that a live run's nodes had shared: each rank's NI knows what it
sent to whom, and when (docs/network.md, "What one sees")."""

from collections.abc import Mapping, Sequence
from typing import Any

from pagewire.network import use
from pagewire.network.topology import Topology
from pagewire.run.settings import platform
from pagewire.run.settings.config import Config


def of_run(per_rank: Sequence[Mapping[str, Any]], config: Config) -> dict[str, Any] | None:
    """See network.use; None: of a rank alone, or what an older pagewire has counted. Raises
    ConfigError: the file of the topology or placement cannot be read any more."""
    if len(per_rank) < 2 or any("demands" not in each for each in per_rank):
        return None
    costs, network = platform.load(config.run.platform).costs, config.network
    demands = (
        each
        for rank, counted in enumerate(per_rank)
        for each in use.demands_of(rank, counted["demands"])
    )
    run_ns = max(int(each.get("virtual_time_ns", 0)) for each in per_rank)
    with Topology(
        network.topology,
        len(per_rank),
        placement=network.placement,
        nodes_per_board=costs.nodes_per_qfdb,
        failed=network.failed,
    ) as topology:
        multipath = config.firmware.multipath
        return use.asked(topology, demands, costs.as_dict(), multipath, run_ns)
