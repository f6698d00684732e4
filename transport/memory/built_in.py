"""The memory strategies that come with pagewire, and the registry of all."""

from __future__ import annotations

from pagewire.native.extension import Entry, Registry
from pagewire.transport.memory.strategy import Access, Cost, Lease, MemoryStrategy, Span


class Part(MemoryStrategy):
    """Nothing: pages fault at the NI and are brought in (PART)."""

    def acquire(self, *, span: Span, access: Access) -> Lease:
        return Lease(span)


class Ideal(Part):
    """Nothing either: in the engine mapped pages never fault."""


class Pretouch(MemoryStrategy):
    """The first byte of each page is read and written before each transfer [PART 5]."""

    def acquire(self, *, span: Span, access: Access) -> Lease:
        absent = self.pages.touch(span)
        cost_ns = self.pages.cost_ns("touch_resident", span.num_pages - absent)
        cost_ns += self.pages.cost_ns("touch_absent", absent)
        return Lease(span, Cost(touch_ns=cost_ns))


class Pin(MemoryStrategy):
    """The buffer is pinned (mlock) before each transfer and unpinned after it."""

    def __init__(self) -> None:
        self._pinned: list[Span] = []

    def acquire(self, *, span: Span, access: Access) -> Lease:
        absent = self.pages.pin(span)
        self._pinned.append(span)
        cost_ns = self.pages.cost_ns("pin_resident", span.num_pages - absent)
        cost_ns += self.pages.cost_ns("pin_absent", absent)
        return Lease(span, Cost(pin_ns=cost_ns))

    def release(self, *, lease: Lease) -> Cost:
        span = lease.span
        self._pinned.remove(span)
        self.pages.unpin(span)
        for other in self._pinned:  # pins do not nest: keep what other transfers still need
            if _overlap(other, span):
                self.pages.pin(other)
        return Cost(pin_ns=self.pages.cost_ns("unpin", span.num_pages))


def _overlap(one: Span, other: Span) -> bool:
    """Have the spans a page in common?"""
    one_end, other_end = one.first_page + one.num_pages, other.first_page + other.num_pages
    return one.first_page < other_end and other.first_page < one_end


REGISTRY: Registry[MemoryStrategy] = Registry(
    "run.memory",
    MemoryStrategy,
    {
        "part": Entry(
            "let pages fault; the driver pages in and the ERR resumes the block (PART)", Part
        ),
        "pretouch": Entry("touch each page of a buffer before each transfer", Pretouch),
        "ideal": Entry("accesses never fault, at no extra cost", Ideal),
        "pin": Entry("pin buffers for each transfer", Pin),
    },
)
"""What `run.memory` takes."""
