"""What the driver does about a fault: which pages come in [PART 4.4, 5.3], and who tells the
source, when [PSI 5.2 (1); PART 3.3, footnote 3].

The engine has the page-in policies `page`, `block` and `all`, and ERRs by `library` and `kernel`. A
user's own is a class on `PageInPolicy` or `ErrPolicy`, registered in `REGISTRY` or
`ERR_REGISTRY`, or named by `run.policy` or `driver.err_by` = module:Class; docs/extending.md tells
how to write, run and test one.
"""

from __future__ import annotations

import abc
import dataclasses
import enum
from collections.abc import Callable, Sequence

from pagewire.native import lib
from pagewire.native.declared import choices
from pagewire.native.extension import Entry, Registry


@dataclasses.dataclass(frozen=True, slots=True)
class PageFault:
    """What a policy may know of a fault. Pages are numbers of 4 KB pages (address >> 12).

    At the source the engine's own policies bring in at most `driver.touch_ahead_pages`; yours may
    bring in more.
    """

    page: int
    """whose access faulted"""
    block: range
    """pages of the block, at most 5, at this end of the transfer"""
    transfer: range
    """pages of the whole transfer, at this end"""
    at_destination: bool
    """True: the NI writes a block that arrives; False: it reads a block that leaves"""
    time_ns: int
    """virtual time at which the tasklet calls get_user_pages"""
    pdid: int
    bank: int
    """context bank, by index"""
    source_node: int
    """node that the block comes from"""
    transaction_id: int
    sequence: int
    """of the block; 0 unless it was sent before"""
    probe: Callable[[int, int], Sequence[bool]] = dataclasses.field(repr=False, compare=False)

    @property
    def is_write(self) -> bool:
        """What FSYNR0.WNR says."""
        return self.at_destination

    def resident(self, first_page: int, num_pages: int) -> tuple[bool, ...]:
        """Which of these pages are in memory or being brought in; one that is not mapped is not."""
        if first_page < 0 or not 0 <= num_pages <= 1 << 20:
            raise ValueError(
                f"resident({first_page}, {num_pages}): up to {1 << 20} pages from 0 on"
            )
        return tuple(self.probe(first_page, num_pages))


class PageInPolicy(abc.ABC):
    """Decides which pages a fault brings in. One object a node, made without arguments.

    Its answers may depend on what it was asked before and on nothing else: no clock, no unseeded
    random numbers. Else two runs differ.
    """

    @abc.abstractmethod
    def pages(self, *, fault: PageFault) -> range:
        """The pages to bring in, in ascending order: a range with step 1 that holds `fault.page`.

        It may reach outside of the transfer, and is cut where pages are not mapped (below 0 too).
        Each absent page costs what the platform says; the block waits for the last one, unless
        `driver.err_after` or an `ErrPolicy` says otherwise.
        """


def reason_to_refuse(pages: object, fault: PageFault) -> str:
    """Why this is no answer to the fault; empty when it is one."""
    if not isinstance(pages, range):
        return f"a {type(pages).__name__} ({pages!r}) instead of a range of pages"
    if pages.step != 1:
        return f"{pages!r}: the step must be 1"
    if fault.page not in pages:
        return f"{pages!r}: the faulting page {fault.page} must be in it"
    return ""


REGISTRY: Registry[PageInPolicy] = Registry(
    "run.policy",
    PageInPolicy,
    {name: Entry(meaning) for name, _, meaning in choices("run.policy")},
)
"""What `run.policy` takes. The engine has those without a class; it asks the host for any other."""


class By(enum.IntEnum):
    """Who sends an ERR."""

    LIBRARY = lib.PW_ERRS_BY_LIBRARY
    """the library's thread, which a Netlink message wakes up"""
    KERNEL = lib.PW_ERRS_BY_KERNEL
    """the tasklet"""


class After(enum.IntEnum):
    """What an ERR waits for. LIBRARY: when its message leaves; the thread runs after the tasklet,
    or on its own core (`driver.library_core`)."""

    RUN = lib.PW_ERRS_AFTER_RUN
    """the page-in of all that was asked for; by KERNEL the end of the tasklet's run"""
    BLOCK = lib.PW_ERRS_AFTER_BLOCK
    """the block's pages; what is behind them comes in by another get_user_pages, after it"""
    PAGE = lib.PW_ERRS_AFTER_PAGE
    """the page that faulted; all others come in after it"""


@dataclasses.dataclass(frozen=True, slots=True)
class Err:
    """How a block's ERR is sent."""

    by: By
    after: After


class ErrPolicy(abc.ABC):
    """Decides who tells the source that a block can be sent again, and when. One object a node,
    made without arguments; answers as a `PageInPolicy`: no clock, no unseeded random numbers.
    """

    @abc.abstractmethod
    def err(self, *, fault: PageFault, pages: range) -> Err:
        """How the ERR of the fault's block is sent. pages: what is about to come in for the fault.

        It is asked for each page-in at a destination. A block has one ERR an attempt; once that is
        ordered, the answer decides about messages alone.
        """


def reason_to_refuse_err(err: object) -> str:
    """Why this is no answer; empty when it is one."""
    if not isinstance(err, Err):
        return f"a {type(err).__name__} ({err!r}) instead of an Err"
    if not isinstance(err.by, By) or not isinstance(err.after, After):
        return f"{err!r}: `by` must be one of By, `after` one of After"
    return ""


ERR_REGISTRY: Registry[ErrPolicy] = Registry(
    "driver.err_by",
    ErrPolicy,
    {name: Entry(meaning) for name, _, meaning in choices("driver.err_by")},
)
"""What `driver.err_by` takes; the engine's own take `driver.err_after` with them."""
