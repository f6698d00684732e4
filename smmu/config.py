"""Settings of the SMMU (context banks, TLB geometry, fault mode) and of its fault driver.

MECHANISMS 4 and 5.
"""

import dataclasses

from pagewire.native.settings import ConfigError, setting, validate

FAULT_MODES = {"terminate": 0, "stall": 1}
"""Number of each fault mode: SCTLR.CFCFG."""

PAGE_IN_WAYS = {"touch-ahead": 0, "touch-a-page": 1}
"""Number of each way to page in, in the engine."""


@dataclasses.dataclass(frozen=True, slots=True)
class SmmuConfig:
    num_context_banks: int = setting(
        16,
        "context banks, one a process; no bank gives NACK 3 (the R5's scratchpad has room for 16 processes)",
        unit="banks",
        minimum=1,
        maximum=128,
    )
    l1_sets: int = setting(
        1,
        "sets of the L1 TLB; 1 is fully associative",
        unit="sets",
        minimum=1,
        maximum=65536,
        power_of_two=True,
    )
    l1_ways: int = setting(128, "ways of the L1 TLB", unit="ways", minimum=1, maximum=1024)
    l2_sets: int = setting(
        512, "sets of the L2 TLB", unit="sets", minimum=1, maximum=65536, power_of_two=True
    )
    l2_ways: int = setting(4, "ways of the L2 TLB", unit="ways", minimum=1, maximum=1024)
    line_pages: int = setting(
        1,
        "pages that one TLB line translates",
        unit="pages",
        minimum=1,
        maximum=128,
        power_of_two=True,
    )
    walk_cache_entries: int = setting(
        64,
        "pointers to upper-level page tables that the walk cache holds, least recently used out; "
        "0 for none (64 is assumed: the sources give no size)",
        unit="entries",
        minimum=0,
        maximum=1024,
    )
    prefetch_entries: int = setting(
        0,
        "translations in the buffer that fetches the next page's beside a walk; 0 for none (off: "
        "Linux turns the MMU-500's prefetcher off)",
        unit="entries",
        minimum=0,
        maximum=1024,
    )
    parallel_walks: int = setting(
        16, "page-table walks at a time; a further one waits", unit="walks", minimum=1, maximum=16
    )
    outstanding_accesses: int = setting(
        256,
        "accesses that can wait in the SMMU at a time; a further one waits before it",
        unit="accesses",
        minimum=1,
        maximum=256,
    )
    hupcf: int = setting(
        1,
        "hit under previous context fault: 1 processes later accesses on their own; 0 terminates, or "
        "stalls, every access of the bank while a fault is active",
        minimum=0,
        maximum=1,
    )
    page_in: str = setting(
        "touch-ahead",
        "touch-ahead: the tasklet calls get_user_pages; touch-a-page: it sends a Netlink message for "
        "each page, which a user-space thread touches (at the source: one page a fault)",
        choices=PAGE_IN_WAYS,
    )
    touch_ahead_pages: int = setting(
        4,
        "pages that get_user_pages brings in at most for a fault at the source",
        unit="pages",
        minimum=1,
        maximum=4,
    )
    mode: str = setting(
        "terminate",
        "what a faulting access meets: terminate: it is not done, the NI sends a NACK; stall: it waits "
        "until the driver has paged in and writes RESUME",
        choices=FAULT_MODES,
    )

    def __post_init__(self) -> None:
        validate("smmu", self)
        if self.mode == "stall" and self.page_in == "touch-a-page":
            raise ConfigError(
                "smmu.mode = 'stall' with smmu.page_in = 'touch-a-page': the user-space thread cannot "
                "write RESUME, so the access would wait for ever; take smmu.page_in = 'touch-ahead'"
            )
