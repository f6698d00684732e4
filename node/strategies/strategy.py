"""Memory strategies: what is done to a buffer before the NI uses it, and after.

A strategy works on the real pages of its process, through `Pages`, and says what that costs the
emulated CPU. `run.memory` chooses it: a built-in one, a name of the registry, or module:Class;
docs/extending.md tells how to write, run and test one. Messages that ride in the envelope never
come here.
"""

from __future__ import annotations

import abc
import dataclasses
import enum
from typing import TYPE_CHECKING, Any, NamedTuple

from pagewire.native import lib
from pagewire.native.extension import ExtensionError

if TYPE_CHECKING:
    from pagewire.node.strategies.pages import Pages

PAGE_BYTES = int(lib.PW_PAGE_BYTES)


class StrategyError(ExtensionError):
    """A memory strategy raised, or answered what cannot be done."""


class Access(enum.Enum):
    """What the NI will do with a span."""

    READ = "read"
    WRITE = "write"


class Span(NamedTuple):
    """A piece of the process's memory; at least one byte."""

    address: int
    num_bytes: int

    @property
    def first_page(self) -> int:
        """Number of its first 4 KB page: address >> 12."""
        return self.address // PAGE_BYTES

    @property
    def num_pages(self) -> int:
        """Pages that it touches, whole or in part."""
        return (self.address + self.num_bytes - 1) // PAGE_BYTES - self.first_page + 1


class Cost(NamedTuple):
    """CPU time of the emulated node, by what the report counts it as."""

    touch_ns: int = 0
    pin_ns: int = 0
    copy_ns: int = 0


NOTHING = Cost()


@dataclasses.dataclass(frozen=True, slots=True)
class Lease:
    """The NI may use a span until `release`."""

    span: Span
    cost: Cost = NOTHING
    """What `acquire` took."""
    token: Any = None
    """The strategy's own note to itself, for `release`."""


class MemoryStrategy(abc.ABC):
    """One object a rank, made without arguments. `pages` is there from the first `acquire` on.

    What it does and its costs may depend on what it was asked before, on the pages and on nothing
    else: no clock, no unseeded random numbers. Else two runs differ.
    """

    pages: Pages
    """Touches, pins and looks at this rank's pages, and knows the platform's costs."""

    def bind(self, pages: Pages) -> None:
        """Called once, before any other hook. What needs `pages` to start with begins here."""
        self.pages = pages

    @abc.abstractmethod
    def acquire(self, *, span: Span, access: Access) -> Lease:
        """A transfer was posted: make the span ready for the NI. Its cost passes before it starts.

        Spans of transfers under way may overlap.
        """

    def release(self, *, lease: Lease) -> Cost:
        """The transfer is over. Its cost passes before the program learns of that."""
        return NOTHING

    def invalidated(self, *, first_page: int, num_pages: int) -> None:  # noqa: B027, optional
        """The mappings of these pages went or changed: forget what you know of them.

        Told when an rdma.Buffer is freed and, for all pages, after a fork. Not told of a munmap of
        the program's own.
        """
