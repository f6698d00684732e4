"""Settings of the SMMU (context banks, TLB geometry, fault mode) and of its fault driver.

MECHANISMS 4 and 5.
"""

import dataclasses

from pagewire.native.settings import setting, validate

PAGE_IN_WAYS = {"touch-ahead": 0, "touch-a-page": 1}
"""Number of each way to page in, in the engine."""


@dataclasses.dataclass(frozen=True, slots=True)
class SmmuConfig:
    num_context_banks: int = setting(
        16,
        "context banks, one a process; no bank gives NACK 3",
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
    hupcf: int = setting(
        1,
        "hit under previous context fault: 1 processes later accesses on their own; 0 terminates "
        "every access of the bank while a fault is active",
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
        "what a faulting access meets: terminate (stall is not in this version)",
        choices=("terminate",),
    )

    def __post_init__(self) -> None:
        validate("smmu", self)
