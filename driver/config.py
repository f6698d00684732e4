"""Settings of the fault driver: interrupt handler, tasklet, library thread.

[PART 4.4, 5.2; PSI 3.2, 4]; docs/machine.md, "Page fault at the destination" and "Two drivers".
"""

import dataclasses

from pagewire.native import lib
from pagewire.native.settings import setting, validate


@dataclasses.dataclass(frozen=True, slots=True)
class DriverConfig:
    """What the operating system does with a page fault of the NI."""

    variant: str = setting(
        "part",
        "part: each unique page is resolved by itself [PART 4.4, 5.2]; psi: pages that the last "
        "two transactions brought in are skipped [PSI 3.2, 4]",
        choices={"part": int(lib.PW_DRIVER_PART), "psi": int(lib.PW_DRIVER_PSI)},
        engine="driver_variant",
    )
    page_in: str = setting(
        "touch-ahead",
        "touch-ahead: the tasklet calls get_user_pages; touch-a-page: it sends a Netlink message "
        "for each page, and the library thread touches it (at the source: one page a fault)",
        choices={
            "touch-ahead": int(lib.PW_PAGE_IN_TOUCH_AHEAD),
            "touch-a-page": int(lib.PW_PAGE_IN_TOUCH_A_PAGE),
        },
        engine="page_in",
    )
    touch_ahead_pages: int = setting(
        4,
        "most pages that get_user_pages brings in for a fault at the source",
        unit="pages",
        minimum=1,
        maximum=int(lib.PW_TOUCH_AHEAD_PAGES_MAX),
        engine="touch_ahead_pages",
    )
    entries_per_tasklet_run: int = setting(
        16,
        "most NI FIFO entries that one tasklet run reads",
        unit="entries",
        minimum=1,
        maximum=512,
        engine="tasklet_entries",
    )
    library_core: str = setting(
        "same",
        "where the library thread runs: same: on the tasklet's core, after it; other: on another "
        "core, as soon as the message is sent",
        choices={
            "same": int(lib.PW_LIBRARY_CORE_SAME),
            "other": int(lib.PW_LIBRARY_CORE_OTHER),
        },
        engine="library_core",
    )

    def __post_init__(self) -> None:
        validate("driver", self)
