"""The engine's page-in policies, written again in Python."""

from pagewire.native import lib
from pagewire.smmu.policy import PageFault, PageInPolicy


def twin(policy: int, source_pages: int) -> type[PageInPolicy]:
    """The Python twin of a policy of the engine, which brings in so many pages at the source."""

    class Twin(PageInPolicy):
        def pages(self, *, fault: PageFault) -> range:
            ends = {
                int(lib.PW_POLICY_PAGE): fault.page + 1,
                int(lib.PW_POLICY_BLOCK): fault.block.stop,
                int(lib.PW_POLICY_ALL): fault.transfer.stop,
            }
            limit = ends[policy] if fault.at_destination else fault.page + source_pages
            return range(fault.page, min(ends[policy], limit))

    return Twin
