"""What topologies look like from outside: their links by name, distances and bisection
(docs/network.md). Routes are C's, network/topology.h.
"""

from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

from pagewire.native import ffi, lib
from pagewire.native.closing import Closing
from pagewire.native.settings import ConfigError

PAIRS_MAX = 200_000
"""Pairs of nodes whose distance is asked for; of more nodes every n-th source counts."""
_INSIDE = int(lib.PW_TIER_INSIDE)


class Link(NamedTuple):
    """One direction of a cable between two routers."""

    source: int
    target: int
    is_inside: bool
    """Between nodes of a QFDB."""
    cable: int


class Distances(NamedTuple):
    """Between two different nodes, in links."""

    mean: float
    longest: int
    counts: dict[int, int]
    """Of ordered pairs, by links."""


class Topology(Closing):
    """A context manager. Raises ConfigError for a text that says nothing."""

    def __init__(
        self,
        text: str,
        num_nodes: int,
        *,
        placement: str = "packed",
        nodes_per_board: int = 4,
        together: int = 1,
        failed: str = "",
    ) -> None:
        """text, placement, failed: of the settings network.topology, .placement and .failed.
        together: so many in a row stand at each place (run.ranks_per_node)."""
        made, reason = ffi.new("pw_topology **"), ffi.new("char[]", lib.PW_TOPOLOGY_REASON_BYTES)
        words = text.encode(), placement.encode()
        num_taken = -(-num_nodes // together)
        if lib.pw_topology_create(*words, num_taken, nodes_per_board, made, reason) < 0:
            raise ConfigError(ffi.string(reason).decode(errors="replace"))
        lib.pw_topology_set_together(made[0], together)
        self.num_taken = num_taken
        """Places at which somebody stands."""
        self.text, self.nodes_per_board = text, nodes_per_board
        self.num_nodes, self._together = num_nodes, together
        self.c = ffi.gc(made[0], lib.pw_topology_destroy)
        """The pw_topology."""
        if lib.pw_topology_fail(self.c, failed.encode(), reason) < 0:
            raise ConfigError(ffi.string(reason).decode(errors="replace"))
        self._route = ffi.new("uint32_t[]", lib.PW_ROUTE_MAX)

    def close(self) -> None:
        """It is gone."""
        ffi.release(self.c)

    @property
    def num_places(self) -> int:
        """Where nodes can stand."""
        return int(lib.pw_topology_num_places(self.c))

    @property
    def num_routers(self) -> int:
        """Places that are routers included."""
        return int(lib.pw_topology_num_routers(self.c))

    @property
    def num_links(self) -> int:
        """Numbers of links; see `links`."""
        return int(lib.pw_topology_num_links(self.c))

    @property
    def num_working(self) -> int:
        """Links that there are and work."""
        return int(lib.pw_topology_num_working(self.c))

    def link(self, number: int) -> Link:
        """By its number, below num_links."""
        return link_of(self.c, number)

    def links(self, *, failed: bool = False) -> Iterator[Link]:
        """Those that there are and work, or that have failed."""
        for number in range(self.num_links):
            link = self.link(number)
            if link.source != link.target and is_failed(self.c, number) == failed:
                yield link

    def route(self, source: int, target: int, variant: int = 0) -> list[int]:
        """Numbers of the links from a node to another."""
        count = lib.pw_topology_route(self.c, source, target, variant, 0, self._route)
        return list(self._route[0:count])

    def distances(self) -> Distances:
        """Of all pairs, or of so many sources that there are PAIRS_MAX pairs."""
        step = max(1, self.num_nodes * self.num_nodes // PAIRS_MAX)
        counts: dict[int, int] = {}
        for source in range(0, self.num_nodes, step):
            for target in range(self.num_nodes):
                if target != source:
                    hops = lib.pw_topology_route(self.c, source, target, 0, 0, self._route)
                    counts[hops] = counts.get(hops, 0) + 1
        total = sum(counts.values())
        mean = sum(hops * count for hops, count in counts.items()) / total if total else 0.0
        return Distances(mean, max(counts, default=0), dict(sorted(counts.items())))

    def bisection(self) -> int:
        """Links, of one direction, that the first half of the nodes can use to the second at once:
        the smallest cut between them. Every link counts the same."""
        import networkx  # loads slowly, and is needed here alone

        graph = networkx.DiGraph()
        for link in self.links():
            capacity = graph.get_edge_data(link.source, link.target, {"capacity": 0})["capacity"]
            graph.add_edge(link.source, link.target, capacity=capacity + 1)
        for node in range(0, self.num_nodes, self._together):
            ends = ("from", self._router(node)), (self._router(node), "to")
            graph.add_edge(*ends[node >= self.num_nodes // 2])
        return int(networkx.maximum_flow_value(graph, "from", "to"))

    def _router(self, node: int) -> int:
        """Of a node's place: the router that its first link leaves."""
        other = (node + self._together) % self.num_nodes
        return self.link(self.route(node, other)[0]).source


def name_of(text: str, nodes_per_board: int, link: Link) -> str:
    """A link's, of a topology with this text."""
    cable = f", cable {link.cable}" if link.cable else ""
    if text.startswith("fat-tree:"):
        return f"{_in_tree(text, link.source)} to {_in_tree(text, link.target)}{cable}"
    if not text.startswith("qfdb"):
        return f"{link.source} to {link.target}{cable}"
    board, node = divmod(link.source, nodes_per_board)
    other, other_node = divmod(link.target, nodes_per_board)
    if link.is_inside:
        return f"F{node} to F{other_node} of QFDB {board}"
    return f"F0 of QFDB {board} to {other}{cable}"


def tree_levels(text: str) -> list[int]:
    """How many there are on each level of a fat tree, nodes first."""
    down, up = ([int(each) for each in part.split(",")] for part in text.split(";")[1:3])
    return [prod(down[level:]) * prod(up[:level]) for level in range(len(down) + 1)]


def _in_tree(text: str, number: int) -> str:
    counts, level = tree_levels(text), 0
    while number >= counts[level]:
        number, level = number - counts[level], level + 1
    return f"switch {number} of level {level}" if level else f"node {number}"


def is_failed(c: Any, number: int) -> bool:
    """Has the link of a pw_topology failed?"""
    return bool(lib.pw_topology_is_failed(c, number))


def link_of(c: Any, number: int) -> Link:
    """Of a pw_topology."""
    out = ffi.new("pw_topology_link *")
    lib.pw_topology_link_at(c, number, out)
    return Link(int(out.source), int(out.target), out.tier == _INSIDE, int(out.cable))


def sides_of(c: Any) -> list[int]:
    """Of a pw_topology: places by dimension of a torus or mesh, boards of qfdb's; else none."""
    out = ffi.new("uint32_t[]", lib.PW_TOPOLOGY_DIMENSIONS)
    return [int(side) for side in out[0 : lib.pw_topology_sides(c, out)]]
