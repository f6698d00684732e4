"""Settings of the SMMU: context banks, TLB geometry, fault mode.

[PART 4.3; PSI 3.2.1, App. A]; docs/machine.md, "SMMU".
"""

import dataclasses

from pagewire.native.settings import setting, validate


@dataclasses.dataclass(frozen=True, slots=True)
class SmmuConfig:
    num_context_banks: int = setting(
        16,
        "context banks, one for each process; without one: NACK 3 (the R5's scratchpad serves 16)",
        unit="banks",
        minimum=1,
        maximum=128,
        engine="num_context_banks",
    )
    l1_sets: int = setting(
        1,
        "sets of the L1 TLB; 1 is fully associative",
        unit="sets",
        minimum=1,
        maximum=65536,
        power_of_two=True,
        engine="l1_sets",
    )
    l1_ways: int = setting(
        128,
        "ways of the L1 TLB",
        unit="ways",
        minimum=1,
        maximum=1024,
        engine="l1_ways",
    )
    l2_sets: int = setting(
        512,
        "sets of the L2 TLB",
        unit="sets",
        minimum=1,
        maximum=65536,
        power_of_two=True,
        engine="l2_sets",
    )
    l2_ways: int = setting(
        4,
        "ways of the L2 TLB",
        unit="ways",
        minimum=1,
        maximum=1024,
        engine="l2_ways",
    )
    line_pages: int = setting(
        1,
        "pages that one TLB line translates",
        unit="pages",
        minimum=1,
        maximum=128,
        power_of_two=True,
        engine="tlb_line_pages",
    )
    walk_cache_entries: int = setting(
        64,
        "entries of the walk cache (upper-level page tables, LRU); 0 for none (64 is assumed: the "
        "sources give no size)",
        unit="entries",
        minimum=0,
        maximum=1024,
        engine="walk_cache_entries",
    )
    prefetch_entries: int = setting(
        0,
        "entries of the prefetch buffer, which walks the next page beside each walk; 0 for none "
        "(Linux turns the MMU-500's prefetcher off)",
        unit="entries",
        minimum=0,
        maximum=1024,
        engine="prefetch_entries",
    )
    parallel_walks: int = setting(
        16,
        "page-table walks at a time; one more waits",
        unit="walks",
        minimum=1,
        maximum=16,
        engine="parallel_walks",
    )
    outstanding_accesses: int = setting(
        256,
        "accesses that can wait in the SMMU at a time; one more holds up the NI",
        unit="accesses",
        minimum=1,
        maximum=256,
        engine="outstanding_accesses",
    )
    hupcf: int = setting(
        1,
        "hit under previous context fault: 1 processes later accesses on their own; 0 terminates, "
        "or stalls, every access of the bank while a fault is active",
        minimum=0,
        maximum=1,
        engine="hupcf",
    )
    mode: str = setting(
        "terminate",
        "what happens to a faulting access: terminate: it is not done, and the NI sends a NACK; "
        "stall: it waits until the driver has paged in and writes RESUME",
        choices={"terminate": 0, "stall": 1},
        engine="stall",
    )

    def __post_init__(self) -> None:
        validate("smmu", self)
