"""Memory strategy: a buffer is pinned when it is first used, and stays so.

pagewire launch -n 4 --memory pin_once:PinOnce lammps    (in this folder)
"""

from pagewire.transport.memory.strategy import Access, Cost, Lease, MemoryStrategy, Span


class PinOnce(MemoryStrategy):
    """What was pinned before costs nothing. Pages that the program unmaps by itself may fault."""

    def __init__(self) -> None:
        self._pinned: set[int] = set()

    def acquire(self, *, span: Span, access: Access) -> Lease:
        wanted = range(span.first_page, span.first_page + span.num_pages)
        if self._pinned.issuperset(wanted):
            return Lease(span)
        absent = self.pages.pin(span)
        self._pinned.update(wanted)
        cost_ns = self.pages.cost_ns("pin_resident", span.num_pages - absent)
        return Lease(span, Cost(pin_ns=cost_ns + self.pages.cost_ns("pin_absent", absent)))

    def invalidated(self, *, first_page: int, num_pages: int) -> None:
        gone = range(first_page, first_page + num_pages)
        self._pinned = {page for page in self._pinned if page not in gone}
