"""Every experiment by its name."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from pagewire.cli.experiments import (
    mini_caches,
    mini_memory,
    mini_ratios,
    net_halo,
    net_incast,
    net_neighbours,
    net_slow_node,
    page_requests,
    part_apps,
    part_breakdown,
    part_hybrid,
    part_isend,
    part_next,
    part_probability,
    part_processes,
    part_timeouts,
    part_transfers,
    psi_faults,
    psi_firehose,
    psi_tables,
    r5_breakdown,
    r5_losses,
    r5_optimisations,
    r5_transfers,
    rivals,
    unimem_atomics,
    unimem_mailbox,
    unimem_memcached,
    unimem_sockets,
)
from pagewire.cli.experiments.conditions import CONDITIONS, WITHOUT
from pagewire.cli.kit.result import Experiment, Options, Result
from pagewire.native.settings import ConfigError, suggestion

REPEATS, ONCE = True, False
"""Are its points measured more than once?"""

_Row = tuple[str, str, Callable[[Options], Result], bool]
"""Name behind that of its paper, title, what runs it, and whether it repeats."""

# fmt: off
_TABLE: Mapping[str, tuple[_Row, ...]] = {
    "part": (
        ("fig9", "writes without faults: transfer, touch, pin", part_transfers.figure_9, REPEATS),
        ("fig10", "breakdown of a 4 KB write to an absent page", part_breakdown.figure_10, ONCE),
        ("fig11", "writes up to 4 KB to an absent page: ERR against timeout",
         part_transfers.figure_11, REPEATS),
        ("fig12", "writes with all destination pages absent, by policy",
         part_transfers.figure_12, REPEATS),
        ("fig13", "breakdown of writes with policy all, and the total",
         part_breakdown.figure_13, ONCE),
        ("fig14", "random faults: latency and slowdown over probability",
         part_probability.figure_14, REPEATS),
        ("fig15", "policy all by timeout; overlap of page-in and transfer",
         part_timeouts.figure_15, REPEATS),
        ("fig16", "duration of Isend alone, with and without pre-touch",
         part_isend.figure_16, REPEATS),
        ("hybrid", "touch below a size, PART above: latency over the threshold",
         part_hybrid.part_hybrid, ONCE),
        ("err", "when and by whom the ERR is sent: run, block, page; library, kernel",
         part_transfers.errs, REPEATS),
        ("processes", "processes that share an NI: what the faults of one cost the others",
         part_processes.part_processes, ONCE),
        ("next", "next steps that the authors name: timeout auto, a FIFO that knows two blocks",
         part_next.part_next, ONCE),
        ("table2", "LAMMPS-like app: pre-touch against PART",
         partial(part_apps.pretouch_against_part, which="lammps"), REPEATS),
        ("table3", "HPL-like app: pre-touch against PART",
         partial(part_apps.pretouch_against_part, which="hpl"), REPEATS),
        ("table3-fresh", "HPL-like app with new memory for each panel: pre-touch against PART",
         part_apps.fresh_workspace, REPEATS),
        ("table4", "HPCG-like app: pre-touch against PART",
         partial(part_apps.pretouch_against_part, which="hpcg"), REPEATS),
        ("table5", "what the apps send by MPI", part_apps.table_5, ONCE),
    ),
    "psi": (
        ("fig2.3", "Firehose: puts of 8 B over a growing working set", psi_firehose.figure_2_3,
         ONCE),
        ("fig4.1", "loopback without faults: transfer, touch, pin", psi_faults.figure_4_1, REPEATS),
        ("fig4.2", "loopback, destination absent: Touch-A-Page against Touch-Ahead",
         partial(psi_faults.latencies, sides="destination"), REPEATS),
        ("fig4.3", "loopback, source absent: Touch-A-Page against Touch-Ahead",
         partial(psi_faults.latencies, sides="source"), REPEATS),
        ("fig4.4", "loopback, both ends absent: Touch-A-Page against Touch-Ahead",
         partial(psi_faults.latencies, sides="both"), REPEATS),
        ("fig4.5", "loopback, latency: faults at the source only against both ends",
         psi_faults.figure_4_5, REPEATS),
        ("fig4.6", "loopback, timeouts: faults at the source only against both ends",
         psi_faults.figure_4_6, ONCE),
        ("fig4.7", "loopback, driver time and handler invocations", psi_faults.figure_4_7, ONCE),
        ("table4.1", "mmap, munmap, pin, unpin, touch: inputs of the platform",
         psi_tables.table_4_1, ONCE),
    ),
    "r5": (
        ("fig3.8", "breakdown of one block", r5_breakdown.figure_3_8, ONCE),
        ("livelock", "packet loss: failing blocks of 16 KiB against unsegmented 1 MiB",
         r5_losses.livelock, REPEATS),
    ),
    "rivals": (
        ("reuse", "memory strategies over how often a buffer is used", rivals.reuse, ONCE),
        ("churn", "memory strategies when each message has new memory", rivals.churn, ONCE),
        ("memory", "memory strategies with more memory in use than there is", rivals.memory, ONCE),
        ("ats", "PCIe ATS and PRI over the range of each assumed cost", page_requests.ats, ONCE),
        ("ring", "blocks for absent pages by the room for them: the cold ring",
         page_requests.ring, ONCE),
    ),
    "mini": (
        ("table1.1", "memory of the NIC, by part and translation unit",
         mini_memory.table_1_1, ONCE),
        ("fig4.1", "writes by size over the miss ratio of pages", partial(
            mini_ratios.over_misses,
            ends={mini_ratios.SEND: "on sending", mini_ratios.RECEIVE: "on arrival"}), ONCE),
        ("fig4.2", "miss ratio of eight kernels over size, line and ways of the cache",
         mini_caches.figure_4_2, ONCE),
        ("fig4.3", "speedup of eight kernels over size, line and ways of the cache",
         mini_caches.figure_4_3, ONCE),
        ("fig4.4", "reads and writes by size over the miss ratio of buffers", partial(
            mini_ratios.over_misses,
            ends={mini_ratios.BUFFER: "reads", mini_ratios.WRITTEN: "writes"}), ONCE),
        ("table4.5", "eight kernels: miNI against its base system", mini_caches.table_4_5, ONCE),
        ("table4.6", "delay of a miss until the thread runs",
         partial(mini_caches.miss_times, which="delays", quantity="delay"), ONCE),
        ("table4.7", "the thread's work for a miss",
         partial(mini_caches.miss_times, which="works", quantity="processing"), ONCE),
    ),
    "net": (
        ("incast", "incast of absent pages by senders, memory strategy and timeout",
         net_incast.net_incast, ONCE),
        ("halo", "halo exchange on torus, fat trees and the machine's own network",
         net_halo.net_halo, ONCE),
        ("neighbours", "two jobs on one machine: what the faults of one cost the other",
         net_neighbours.net_neighbours, ONCE),
        ("slow-node", "halo exchange with one slow node: what all others lose",
         net_slow_node.net_slow_node, ONCE),
    ),
    "unimem": (
        ("operations", "GSAS operations: latency and rate, local, one hop, two hops",
         unimem_atomics.operations, ONCE),
        ("contention", "fetch-and-add by 1 to 64 threads on one word and on many",
         unimem_atomics.contention, ONCE),
        ("mailbox", "data by the mailbox against RDMA, by size", unimem_mailbox.mailbox, ONCE),
        ("sockets", "stream sockets over RDMA (virtual time) beside TCP loopback (wall time)",
         unimem_sockets.sockets, ONCE),
        ("memcached", "key-value traffic over stream sockets by state of the receiver's pages",
         unimem_memcached.memcached, ONCE),
    ),
}
# fmt: on
"""By paper."""

_PAIRS: tuple[tuple[int, str, Callable[..., Result]], ...] = (
    (1, "{} of writes over size, loopback", partial(r5_transfers.writes, loopback=True)),
    (3, "{} of writes over size, one hop", r5_transfers.writes),
    (5, "{} of reads against writes", r5_transfers.reads),
    (7, "{}: user-level against kernel-initiated", r5_transfers.kernel),
    (9, "{}: each optimisation of the firmware on and off", r5_optimisations.optimisations),
    (11, "{} of writes with one timeout of 20 ms", r5_losses.one_timeout),
)
"""R5's figures 5.1 to 5.12, two at a time: number of the first, title, what measures both."""

_PLATFORMS = {"r5": "exanest-10g", "mini": "vmmc-myrinet"}
"""That a paper measured, where it is not the default one."""

_APPLICATIONS = "part-tables"
"""Whose points are those of all application tables: runs of the same programs."""

_OWN = "no paper's"
"""How the source of an experiment of ours begins."""

_SOURCES = {
    "part-table3-fresh": "PART, table 3, under another assumption",
    "part-fig15": "PART, figure 15 and formula (1)",
    "part-hybrid": "no paper's: PART 5.1 and 5.4 name it",
    "part-next": "no paper's: R5 4.4 and PSI 5.2 (3) name them",
    "r5-livelock": "R5, 3.4: livelock",
    "part-err": "no paper's: PART 3.3 and footnote 3 and PSI 5.2 (1) name it",
    "part-processes": "no paper's: PART 6.2 runs several processes on a node",
    "rivals": "no paper's: what PART is compared with",
    "rivals-ats": "no paper's: costs that no source gives",
    "rivals-ring": "no paper's: PSI 2.1.2 has the backup ring, without times",
    "net": "no paper's: links that nodes share",
    "unimem-operations": "no paper's: D3.6 2 has the operations, without times",
    "unimem-contention": "no paper's: D3.6 2 has the operation, without times",
    "unimem-mailbox": "no paper's: D3.6 5 has the mailbox, without times",
    "unimem-sockets": "no paper's: D3.6 4 has the sockets, without times",
    "unimem-memcached": "no paper's: D3.6 4 ran memcached, without times",
}
"""By name or paper, where the name does not say it."""


def _source(name: str) -> str:
    paper, _, what = name.partition("-")
    kind = "figure" if what.startswith("fig") else "table"
    number = what.removeprefix("fig").removeprefix("table")
    return _SOURCES.get(name) or _SOURCES.get(paper) or f"{paper.upper()}, {kind} {number}"


def _without(name: str, source: str) -> str:
    """Why an experiment has no conditions."""
    return source if source.startswith(_OWN) else WITHOUT.get(name, "no number in our notes")


def _listed() -> Iterator[Experiment]:
    for paper, rows in _TABLE.items():
        for what, title, run, repeats in rows:
            name = f"{paper}-{what}"
            source = _source(name)
            yield Experiment(
                name,
                title,
                source,
                run,
                repeats,
                platform=_PLATFORMS.get(paper, ""),
                conditions=CONDITIONS.get(name, ()),
                without=_without(name, source),
                points_of=_APPLICATIONS if what.startswith("table") and paper == "part" else "",
            )


def _pairs() -> Iterator[Experiment]:
    """Each pair, and its figures alone."""
    for first, title, run in _PAIRS:
        name = f"r5-fig5.{first}-{first + 1}"
        source = f"R5, figures 5.{first} and 5.{first + 1}"
        pair = Experiment(
            name,
            title.format("latency and throughput"),
            source,
            run,
            ONCE,
            platform=_PLATFORMS["r5"],
            conditions=CONDITIONS.get(name, ()),
            without=_without(name, source),
        )
        yield pair
        for number, quantity in enumerate(r5_transfers.BOTH, first):
            yield dataclasses.replace(
                pair,
                name=f"r5-fig5.{number}",
                title=title.format(quantity.name),
                source=f"R5, figure 5.{number}",
                run=partial(run, quantities=(quantity,)),
                panel_of=pair.name,
                conditions=(),
                without=f"see {pair.name}",
            )


EXPERIMENTS: Mapping[str, Experiment] = {each.name: each for each in (*_listed(), *_pairs())}


def choose(names: Sequence[str]) -> list[Experiment]:
    """The experiments of these names, once each; `all` is every one but those that are a panel of
    another. Raises ConfigError."""
    known = ", ".join(EXPERIMENTS)
    if not names:
        raise ConfigError(f"no experiment given; known are {known}, and all")
    chosen: dict[str, Experiment] = {}
    for name in names:
        if name == "all":
            chosen.update({each.name: each for each in EXPERIMENTS.values() if not each.panel_of})
        elif name in EXPERIMENTS:
            chosen[name] = EXPERIMENTS[name]
        else:
            raise ConfigError(
                f"unknown experiment '{name}'{suggestion(name, EXPERIMENTS)}; "
                f"known are {known}, and all"
            )
    return list(chosen.values())
