"""ERR policy: the tasklet sends ERRs itself, before a long page-in is over.

pagewire launch -n 4 --policy all --set driver.err_by=block_first:BlockFirst hpl    (in this folder)
"""

from pagewire.driver.policy import After, By, Err, ErrPolicy, PageFault

LONG_PAGES = 16


class BlockFirst(ErrPolicy):
    """A block does not wait for the page-in of many pages behind it."""

    def err(self, *, fault: PageFault, pages: range) -> Err:
        num_behind = pages.stop - fault.block.stop
        return Err(By.KERNEL, After.BLOCK if num_behind > LONG_PAGES else After.RUN)
