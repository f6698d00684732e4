"""Network interfaces in one Python process, without MPI.

For teaching and for writing policies: docs/lab.md. No ranks, no launcher. Virtual time comes from
the same engine as a run's; a latency depends on the mechanism and on nothing else.
"""

from pagewire.driver.policy import PageFault, PageInPolicy
from pagewire.lab.lab import Lab
from pagewire.lab.outcome import Outcome
from pagewire.lab.transfer import Transfer

__all__ = ["Lab", "Outcome", "PageFault", "PageInPolicy", "Transfer"]
