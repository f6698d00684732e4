"""Page-in policies for tests: the engine's own, written again in Python."""

from pagewire.native import lib
from pagewire.smmu.policy import PageFault, PageInPolicy

SOURCE_PAGES = 4  # what the driver brings in at the source at most [PSI 3.2.2]


def cut(first: int, end: int, fault: PageFault) -> range:
    return range(first, end if fault.at_destination else min(end, first + SOURCE_PAGES))


class Page(PageInPolicy):
    def pages(self, *, fault: PageFault) -> range:
        return cut(fault.page, fault.page + 1, fault)


class Block(PageInPolicy):
    def pages(self, *, fault: PageFault) -> range:
        return cut(fault.page, fault.block.stop, fault)


class All(PageInPolicy):
    def pages(self, *, fault: PageFault) -> range:
        return cut(fault.page, fault.transfer.stop, fault)


TWINS = {
    int(lib.PW_POLICY_PAGE): Page,
    int(lib.PW_POLICY_BLOCK): Block,
    int(lib.PW_POLICY_ALL): All,
}
