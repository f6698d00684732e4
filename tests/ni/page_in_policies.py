"""The engine's page-in policies, written again in Python."""

from pagewire.driver.policy import PageFault, PageInPolicy
from pagewire.native import lib


def twin(policy: int, source_pages: int) -> type[PageInPolicy]:
    """The Python twin of a policy of the engine, which brings in so many pages at the source."""

    class Twin(PageInPolicy):
        def pages(self, *, fault: PageFault) -> range:
            ends = {
                int(lib.PW_POLICY_PAGE): fault.page + 1,
                int(lib.PW_POLICY_BLOCK): fault.block.stop,
                int(lib.PW_POLICY_ALL): fault.transfer.stop,
            }
            if fault.at_destination:
                return range(fault.page, ends[policy])
            # FAR is all that the driver knows there: so many pages whatever the policy
            return range(fault.page, min(fault.page + source_pages, fault.transfer.stop))

    return Twin
