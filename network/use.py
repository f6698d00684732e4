"""How busy the links that nodes share have been."""

from typing import Any

from pagewire.native import ffi, lib
from pagewire.network.topology import link_of, name_of

HOTTEST = 8
"""Links that are named."""
_WINDOW_NS = int(lib.PW_LINK_WINDOW_NS)


def summary(links: Any, text: str, nodes_per_board: int, run_ns: int) -> dict[str, Any]:
    """Of pw_links at the end of a run that took run_ns; text: the topology's. What JSON can hold:
    shares are of 1, times in s, the hottest links first."""
    topology = lib.pw_links_topology(links)
    use = ffi.new("pw_link_use *")
    used: list[tuple[int, int]] = []
    num_links = waited_ns = num_long = 0
    for number in range(lib.pw_topology_num_links(topology)):
        link = link_of(topology, number)
        num_links += link.source != link.target
        lib.pw_links_read(links, number, use)
        if use.num_blocks:
            used.append((-use.busy_ns, number))
            waited_ns += use.waited_ns
            num_long += use.num_long_waits
    hottest = []
    for _, number in sorted(used)[:HOTTEST]:
        lib.pw_links_read(links, number, use)
        hottest.append(
            {
                "name": name_of(text, nodes_per_board, link_of(topology, number)),
                "busy": use.busy_ns / max(run_ns, 1),
                "busiest": use.busiest_ns / _WINDOW_NS,
                "busiest_at_s": use.busiest_at_ns / 1e9,
                "blocks": int(use.num_blocks),
                "bytes": int(use.num_bytes),
                "mean_wait_s": use.waited_ns / use.num_blocks / 1e9,
                "longest_wait_s": use.longest_wait_ns / 1e9,
                "long_waits": int(use.num_long_waits),
            }
        )
    busy_ns = -sum(busy for busy, _ in used)
    return {
        "topology": text,
        "links": num_links,
        "used": len(used),
        "mean_busy": busy_ns / max(run_ns, 1) / max(num_links, 1),
        "waited_s": waited_ns / 1e9,
        "long_waits": num_long,
        "hottest": hottest,
    }
