"""Page-in policies side by side, one of them of our own, without MPI.

python examples/lab_policies.py
"""

from pagewire.lab import Lab, PageFault, PageInPolicy


class Ahead(PageInPolicy):
    """The faulting page and those behind it."""

    def __init__(self, num_pages: int) -> None:
        self.num_pages = num_pages

    def pages(self, *, fault: PageFault) -> range:
        return range(fault.page, min(fault.page + self.num_pages, fault.transfer.stop))


lab = Lab(nodes=2, settings={"run.timeout": "1ms"})
for policy in ("page", "block", Ahead(8), Ahead(32), "all"):
    name = f"ahead {policy.num_pages}" if isinstance(policy, Ahead) else policy
    outcome = lab.write("256KiB", absent="all", policy=policy)
    interrupts = outcome.counters["fault_interrupts"]
    print(f"{name:8} {outcome.latency_us:9.3f} us {interrupts:4} interrupts")
