"""How busy links have been that nodes share, and how busy they would have been where each pair of
nodes has a link of its own (docs/network.md, "What one sees")."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pagewire.native import check, ffi, lib
from pagewire.network.picture import picture
from pagewire.network.topology import Topology, link_of, name_of

HOTTEST = 8
"""Links that are named."""
DRAWN = 16
"""Links that a timeline shows."""
WINDOW_NS = int(lib.PW_LINK_WINDOW_NS)
_DRAWS = 16
"""Ways that stand for those of a topology that draws one for each block."""


def summary(links: Any, model: str, text: str, nodes_per_board: int, run_ns: int) -> dict[str, Any]:
    """Of pw_links at the end of a run that took run_ns; model, text: of network.model and
    network.topology. What JSON can hold: shares are of 1, times in s, the hottest links first."""
    topology = lib.pw_links_topology(links)
    use = ffi.new("pw_link_use *")
    found: dict[int, int] = {}
    waited_ns = num_long = 0
    for number in range(lib.pw_topology_num_links(topology)):
        lib.pw_links_read(links, number, use)
        if use.num_blocks:
            found[number] = use.busy_ns
            waited_ns += use.waited_ns
            num_long += use.num_long_waits
    hottest = []
    for number in sorted(found, key=lambda number: -found[number])[:HOTTEST]:
        lib.pw_links_read(links, number, use)
        hottest.append(
            {
                "name": name_of(text, nodes_per_board, link_of(topology, number)),
                **_of_link(use, run_ns),
                "mean_wait_s": use.waited_ns / use.num_blocks / 1e9,
                "longest_wait_s": use.longest_wait_ns / 1e9,
                "long_waits": int(use.num_long_waits),
            }
        )
    return {
        "model": model,
        **_of_all(topology, text, nodes_per_board, found, run_ns),
        "waited_s": waited_ns / 1e9,
        "long_waits": num_long,
        "hottest": hottest,
    }


def asked(
    topology: Topology,
    demands: Iterable[tuple[int, Any]],
    costs: Mapping[str, int],
    multipath: int,
    run_ns: int,
) -> dict[str, Any]:
    """As `summary`, of a run in which links were private. demands: each node's number and
    pw_demand; costs: of pw_costs; multipath: firmware.multipath. The hottest are the busiest of
    those that blocks of several pairs of nodes would have passed, by their busiest window."""
    known = [each for each in demands if each[1].peer.peer < topology.num_nodes]
    shift = max((demand.shift for _, demand in known), default=0)
    drawn = topology.text.endswith((";valiant", ";ugal"))
    of_links, made = ffi.new("pw_costs *", costs), ffi.new("pw_load **")
    num_ways = max(multipath, _DRAWS if drawn else 1)
    created = lib.pw_load_create(topology.c, of_links, shift, num_ways, multipath, made)
    check(created, f"{topology.num_links} links")
    load = ffi.gc(made[0], lib.pw_load_destroy)
    for node, demand in known:
        check(lib.pw_load_add(load, node, demand), f"demand of node {node}")
    use = ffi.new("pw_link_use *")
    found: dict[int, int] = {}
    shared: list[tuple[int, int, int]] = []
    for number in range(topology.num_links):
        num_pairs = lib.pw_load_read(load, number, use)
        if num_pairs:
            found[number] = use.busy_ns
        if num_pairs > 1:
            shared.append((-use.busiest_ns, -use.busy_ns, number))
    hottest = []
    for *_, number in sorted(shared)[:HOTTEST]:
        num_pairs = lib.pw_load_read(load, number, use)
        name = name_of(topology.text, topology.nodes_per_board, topology.link(number))
        hottest.append({"name": name, "pairs": int(num_pairs), **_of_link(use, run_ns)})
    ffi.release(load)
    return {
        "model": "private",
        **_of_all(topology.c, topology.text, topology.nodes_per_board, found, run_ns),
        "shared": len(shared),
        "span_s": (WINDOW_NS << shift) / 1e9,
        "hottest": hottest,
    }


def demands_of(node: int, told: Mapping[str, Any]) -> Iterable[tuple[int, Any]]:
    """For `asked`: of a node, as its report tells them."""
    for peer, own in told.items():
        made = ffi.new("pw_demand *")
        made.peer.peer = int(peer)
        made.shift = own["span_windows"].bit_length() - 1
        made.num_blocks, made.num_bytes = own["blocks"], own["bytes"]
        for span, most_bytes in own["most_bytes"].items():
            made.most_bytes[int(span)] = most_bytes
        yield node, made


def demands_at(node: int, ni: Any) -> Iterable[tuple[int, Any]]:
    """The same of a node in this process, as long as its NI is there."""
    peers = lib.pw_ni_demands(ni)
    items = ffi.new("pw_peer *[]", peers.num_items + 1)
    lib.pw_peers_list(peers, items)
    for item in items[0 : peers.num_items]:
        yield node, ffi.cast("pw_demand *", item)


def over_time(links: Any, text: str, nodes_per_board: int) -> list[tuple[str, int, list[int]]]:
    """Of the DRAWN hottest of pw_links that has kept times: name, ns of a bin, and percent of each
    bin for which it was busy."""
    topology = lib.pw_links_topology(links)
    numbers = range(lib.pw_topology_num_links(topology))
    times = {number: lib.pw_links_times(links, number) for number in numbers}
    busy = {
        number: list(own.bins[0 : lib.PW_HISTOGRAM_BINS])
        for number, own in times.items()
        if own != ffi.NULL
    }
    made = []
    for number in sorted(busy, key=lambda number: -sum(busy[number]))[:DRAWN]:
        bins, bin_ns = busy[number], int(times[number].bin_ns)
        last = max(idx for idx, busy_ns in enumerate(bins) if busy_ns)
        percent = [round(100 * busy_ns / bin_ns) for busy_ns in bins[: last + 1]]
        name = name_of(text, nodes_per_board, link_of(topology, number))
        made.append((name, bin_ns, percent))
    return made


def lines(own: Mapping[str, Any], num_most: int, row: str = "") -> list[str]:
    """For the terminal; none where private links would have been shared by nobody. row: of several
    runs."""
    name = f", {row}" if row else ""
    show: Callable[[Mapping[str, Any]], str]
    if own["model"] != "private":
        show = _line
        head = (
            f"links of {own['topology']}{name}: {own['used']:,} of {own['links']:,} used, "
            f"{own['mean_busy']:.1%} busy on average; {own['long_waits']:,} long waits; hottest:"
        )
    else:
        show = _asked_line
        head = (
            f"links were private{name}; shared, several pairs of ranks would have met on "
            f"{own['shared']:,} of {own['topology']}'s {own['links']:,}; the busiest:"
        )
    hottest = own["hottest"][:num_most]
    made = [head, *(f"  {each['name']}: {show(each)}" for each in hottest)] if hottest else []
    if made and own["model"] == "private" and hottest[0]["busiest"] > 1:
        made.append(
            "  Above 100% blocks would have waited: a recorded run shows it, replayed with "
            "network.model=links."
        )
    return made


def crowded(rows: Iterable[tuple[str, Mapping[str, Any] | None]]) -> list[str]:
    """For the terminal, of several runs by name: those with private links in which blocks would
    have waited for shared ones."""
    made = [
        f"  {name}: {own['hottest'][0]['name']}: {_at_most(own['hottest'][0])}"
        for name, own in rows
        if own and own["model"] == "private" and own["hottest"]
        if own["hottest"][0]["busiest"] > 1
    ]
    return ["links were private; blocks would have waited for shared ones:", *made] if made else []


def _line(each: Mapping[str, Any]) -> str:
    return (
        f"{each['busy']:.0%} busy, {each['busiest']:.0%} in its busiest ms; "
        f"longest wait {each['longest_wait_s'] * 1e6:,.1f} us"
    )


def _asked_line(each: Mapping[str, Any]) -> str:
    return f"{each['pairs']:,} pairs ask for {each['busy']:.0%} of it, {_at_most(each)}"


def _at_most(each: Mapping[str, Any]) -> str:
    at_ms = each["busiest_at_s"] * 1e3
    return f"at most {each['busiest']:.0%} in a ms (from {at_ms:,.0f} ms on)"


def _of_link(use: Any, run_ns: int) -> dict[str, Any]:
    return {
        "busy": use.busy_ns / max(run_ns, 1),
        "busiest": use.busiest_ns / WINDOW_NS,
        "busiest_at_s": use.busiest_at_ns / 1e9,
        "blocks": int(use.num_blocks),
        "bytes": int(use.num_bytes),
    }


def _of_all(
    topology: Any, text: str, nodes_per_board: int, busy_ns: Mapping[int, int], run_ns: int
) -> dict[str, Any]:
    """busy_ns: of the links that were used, by their numbers."""
    num_links = int(lib.pw_topology_num_working(topology))
    shares = {number: each / max(run_ns, 1) for number, each in busy_ns.items()}
    return {
        "topology": text,
        "links": num_links,
        "used": len(shares),
        "mean_busy": sum(shares.values()) / max(num_links, 1),
        "picture": picture(topology, text, nodes_per_board, shares),
    }
