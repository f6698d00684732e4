"""Every experiment by its name."""

from collections.abc import Mapping, Sequence

from pagewire.cli.experiments import (
    mini_caches,
    mini_memory,
    mini_ratios,
    part_apps,
    part_breakdown,
    part_isend,
    part_probability,
    part_timeouts,
    part_transfers,
    psi_faults,
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
from pagewire.cli.experiments.result import Experiment
from pagewire.native.settings import ConfigError, suggestion

EXPERIMENTS: Mapping[str, Experiment] = {
    each.name: each
    for each in (
        Experiment(
            "part-fig9",
            "writes without faults: transfer, touch, pin",
            "PART, figure 9",
            part_transfers.figure_9,
        ),
        Experiment(
            "part-fig10",
            "breakdown of a 4 KB write to an absent page",
            "PART, figure 10",
            part_breakdown.figure_10,
            repeats=False,
        ),
        Experiment(
            "part-fig11",
            "writes up to 4 KB to an absent page: ERR against timeout",
            "PART, figure 11",
            part_transfers.figure_11,
        ),
        Experiment(
            "part-fig12",
            "writes with all destination pages absent, by policy",
            "PART, figure 12",
            part_transfers.figure_12,
        ),
        Experiment(
            "part-fig13",
            "breakdown of writes with policy all, and the total",
            "PART, figure 13",
            part_breakdown.figure_13,
            repeats=False,
        ),
        Experiment(
            "part-fig14",
            "random faults: latency and slowdown over probability",
            "PART, figure 14",
            part_probability.figure_14,
        ),
        Experiment(
            "part-fig15",
            "policy all by timeout; overlap of page-in and transfer",
            "PART, figure 15 and formula (1)",
            part_timeouts.figure_15,
        ),
        Experiment(
            "part-fig16",
            "duration of Isend alone, with and without pre-touch",
            "PART, figure 16",
            part_isend.figure_16,
        ),
        Experiment(
            "part-table2",
            "LAMMPS-like app: pre-touch against PART",
            "PART, table 2",
            part_apps.table_2,
        ),
        Experiment(
            "part-table3",
            "HPL-like app: pre-touch against PART",
            "PART, table 3",
            part_apps.table_3,
        ),
        Experiment(
            "part-table4",
            "HPCG-like app: pre-touch against PART",
            "PART, table 4",
            part_apps.table_4,
        ),
        Experiment(
            "part-table5",
            "what the apps send by MPI",
            "PART, table 5",
            part_apps.table_5,
            repeats=False,
        ),
        Experiment(
            "psi-fig4.2",
            "loopback, destination absent: Touch-A-Page against Touch-Ahead",
            "PSI, figure 4.2",
            psi_faults.figure_4_2,
        ),
        Experiment(
            "psi-fig4.3",
            "loopback, source absent: Touch-A-Page against Touch-Ahead",
            "PSI, figure 4.3",
            psi_faults.figure_4_3,
        ),
        Experiment(
            "psi-fig4.4",
            "loopback, both ends absent: Touch-A-Page against Touch-Ahead",
            "PSI, figure 4.4",
            psi_faults.figure_4_4,
        ),
        Experiment(
            "psi-fig4.6",
            "loopback, timeouts: faults at the source only against both ends",
            "PSI, figure 4.6",
            psi_faults.figure_4_6,
            repeats=False,
        ),
        Experiment(
            "psi-fig4.7",
            "loopback, driver time and handler invocations",
            "PSI, figure 4.7",
            psi_faults.figure_4_7,
            repeats=False,
        ),
        Experiment(
            "psi-table4.1",
            "mmap, munmap, pin, unpin, touch: inputs of the platform",
            "PSI, table 4.1",
            psi_tables.table_4_1,
            repeats=False,
        ),
        Experiment(
            "r5-fig3.8",
            "breakdown of one block",
            "R5, figure 3.8",
            r5_breakdown.figure_3_8,
            repeats=False,
            platform="exanest-10g",
        ),
        Experiment(
            "r5-fig5.1",
            "latency of writes over size, loopback",
            "R5, figure 5.1",
            r5_transfers.figure_5_1,
            repeats=False,
            platform="exanest-10g",
        ),
        Experiment(
            "r5-fig5.2",
            "throughput of writes over size, loopback",
            "R5, figure 5.2",
            r5_transfers.figure_5_2,
            repeats=False,
            platform="exanest-10g",
        ),
        Experiment(
            "r5-fig5.3",
            "latency of writes over size, one hop",
            "R5, figure 5.3",
            r5_transfers.figure_5_3,
            repeats=False,
            platform="exanest-10g",
        ),
        Experiment(
            "r5-fig5.4",
            "throughput of writes over size, one hop",
            "R5, figure 5.4",
            r5_transfers.figure_5_4,
            repeats=False,
            platform="exanest-10g",
        ),
        Experiment(
            "r5-fig5.5",
            "latency of reads against writes",
            "R5, figure 5.5",
            r5_transfers.figure_5_5,
            repeats=False,
            platform="exanest-10g",
        ),
        Experiment(
            "r5-fig5.6",
            "throughput of reads against writes",
            "R5, figure 5.6",
            r5_transfers.figure_5_6,
            repeats=False,
            platform="exanest-10g",
        ),
        Experiment(
            "r5-fig5.7",
            "latency: user-level against kernel-initiated",
            "R5, figure 5.7",
            r5_transfers.figure_5_7,
            repeats=False,
            platform="exanest-10g",
        ),
        Experiment(
            "r5-fig5.8",
            "throughput: user-level against kernel-initiated",
            "R5, figure 5.8",
            r5_transfers.figure_5_8,
            repeats=False,
            platform="exanest-10g",
        ),
        Experiment(
            "r5-fig5.9",
            "latency: each optimisation of the firmware on and off",
            "R5, figure 5.9",
            r5_optimisations.figure_5_9,
            repeats=False,
            platform="exanest-10g",
        ),
        Experiment(
            "r5-fig5.10",
            "throughput: each optimisation of the firmware on and off",
            "R5, figure 5.10",
            r5_optimisations.figure_5_10,
            repeats=False,
            platform="exanest-10g",
        ),
        Experiment(
            "r5-fig5.11",
            "latency of writes with one timeout of 20 ms",
            "R5, figure 5.11",
            r5_losses.figure_5_11,
            repeats=False,
            platform="exanest-10g",
        ),
        Experiment(
            "r5-fig5.12",
            "throughput of writes with one timeout of 20 ms",
            "R5, figure 5.12",
            r5_losses.figure_5_12,
            repeats=False,
            platform="exanest-10g",
        ),
        Experiment(
            "r5-livelock",
            "packet loss: failing blocks of 16 KiB against unsegmented 1 MiB",
            "R5, 3.4: livelock",
            r5_losses.livelock,
            platform="exanest-10g",
        ),
        Experiment(
            "rivals-reuse",
            "memory strategies over how often a buffer is used",
            "no paper's: what PART is compared with",
            rivals.reuse,
            repeats=False,
        ),
        Experiment(
            "rivals-churn",
            "memory strategies when each message has new memory",
            "no paper's: what PART is compared with",
            rivals.churn,
            repeats=False,
        ),
        Experiment(
            "rivals-memory",
            "memory strategies with more memory in use than there is",
            "no paper's: what PART is compared with",
            rivals.memory,
            repeats=False,
        ),
        Experiment(
            "mini-table1.1",
            "memory of the NIC, by part and translation unit",
            "MINI, table 1.1",
            mini_memory.table_1_1,
            repeats=False,
            platform="vmmc-myrinet",
        ),
        Experiment(
            "mini-fig4.1",
            "4 KB writes over the miss ratio of pages",
            "MINI, figure 4.1",
            mini_ratios.figure_4_1,
            repeats=False,
            platform="vmmc-myrinet",
        ),
        Experiment(
            "mini-fig4.2",
            "miss ratio of six kernels over size, line and ways of the cache",
            "MINI, figure 4.2",
            mini_caches.figure_4_2,
            repeats=False,
            platform="vmmc-myrinet",
        ),
        Experiment(
            "mini-fig4.3",
            "speedup of six kernels over size, line and ways of the cache",
            "MINI, figure 4.3",
            mini_caches.figure_4_3,
            repeats=False,
            platform="vmmc-myrinet",
        ),
        Experiment(
            "mini-fig4.4",
            "4 KB reads over the miss ratio of buffers",
            "MINI, figure 4.4",
            mini_ratios.figure_4_4,
            repeats=False,
            platform="vmmc-myrinet",
        ),
        Experiment(
            "mini-table4.5",
            "six kernels: miNI against its base system",
            "MINI, table 4.5",
            mini_caches.table_4_5,
            repeats=False,
            platform="vmmc-myrinet",
        ),
        Experiment(
            "mini-table4.6",
            "delay of a miss until the thread runs",
            "MINI, table 4.6",
            mini_caches.table_4_6,
            repeats=False,
            platform="vmmc-myrinet",
        ),
        Experiment(
            "mini-table4.7",
            "the thread's work for a miss",
            "MINI, table 4.7",
            mini_caches.table_4_7,
            repeats=False,
            platform="vmmc-myrinet",
        ),
        Experiment(
            "unimem-operations",
            "GSAS operations: latency and rate, local, one hop, three hops",
            "no paper's: D3.6 2 has the operations, without times",
            unimem_atomics.operations,
            repeats=False,
        ),
        Experiment(
            "unimem-contention",
            "fetch-and-add by 1 to 64 threads on one word and on many",
            "no paper's: D3.6 2 has the operation, without times",
            unimem_atomics.contention,
            repeats=False,
        ),
        Experiment(
            "unimem-mailbox",
            "data by the mailbox against RDMA, by size",
            "no paper's: D3.6 5 has the mailbox, without times",
            unimem_mailbox.mailbox,
            repeats=False,
        ),
        Experiment(
            "unimem-sockets",
            "stream sockets over RDMA (virtual time) beside TCP loopback (wall time)",
            "no paper's: D3.6 4 has the sockets, without times",
            unimem_sockets.sockets,
            repeats=False,
        ),
        Experiment(
            "unimem-memcached",
            "key-value traffic over stream sockets by state of the receiver's pages",
            "no paper's: D3.6 4 ran memcached, without times",
            unimem_memcached.memcached,
            repeats=False,
        ),
    )
}


def choose(names: Sequence[str]) -> list[Experiment]:
    """The experiments of these names, once each; `all` is every one of them. Raises ConfigError."""
    known = ", ".join(EXPERIMENTS)
    if not names:
        raise ConfigError(f"no experiment given; known are {known}, and all")
    chosen: dict[str, Experiment] = {}
    for name in names:
        if name == "all":
            chosen.update(EXPERIMENTS)
        elif name in EXPERIMENTS:
            chosen[name] = EXPERIMENTS[name]
        else:
            raise ConfigError(
                f"unknown experiment '{name}'{suggestion(name, EXPERIMENTS)}; "
                f"known are {known}, and all"
            )
    return list(chosen.values())
