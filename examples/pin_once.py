"""Memory strategy: a buffer is pinned when it is first used, and stays so.

pagewire launch -n 4 --memory pin_once:PinOnce lammps    (in this folder)
"""

from pagewire.node.strategies.strategy import Access, Cost, Lease, MemoryStrategy, Span


class PinOnce(MemoryStrategy):
    """What is pinned still costs nothing. A mapping that went has taken its pins along."""

    def acquire(self, *, span: Span, access: Access) -> Lease:
        if self.pages.is_pinned(span):
            return Lease(span)
        num_absent = self.pages.pin(span)
        cost_ns = self.pages.cost_ns("pin_resident", span.num_pages - num_absent)
        cost_ns += self.pages.cost_ns("pin_absent", num_absent)
        return Lease(span, Cost(pin_ns=cost_ns))
