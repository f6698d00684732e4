"""Page-in policy as Linux's fault-around: the aligned window of 64 KB around the faulting page.

pagewire launch -n 4 --policy fault_around:FaultAround lammps    (in this folder)
"""

from pagewire.driver.policy import PageFault, PageInPolicy

WINDOW_PAGES = 16


class FaultAround(PageInPolicy):
    """Neighbours come in with a page, whether this transfer wants them or a later one."""

    def pages(self, *, fault: PageFault) -> range:
        first = fault.page - fault.page % WINDOW_PAGES
        return range(first, first + WINDOW_PAGES)
