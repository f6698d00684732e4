"""The emulator as the fit's model: latencies of a platform, and what each cost changes of them.

No formula of a latency stands here: each is a transfer in the lab.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from pagewire.cli.calibrate.parameters import Parameter, scaled
from pagewire.cli.calibrate.points import Transfer
from pagewire.cli.calibrate.solve import Array
from pagewire.lab import Lab
from pagewire.lab.buffer import PAGE_BYTES
from pagewire.run.settings.config import Config
from pagewire.run.settings.platform import Platform


class Machine:
    """Transfers, each once, on a platform whose costs are multiplied."""

    def __init__(self, config: Config, base: Platform, transfers: Sequence[Transfer]) -> None:
        self._config, self._base = config, base
        self.transfers = list(transfers)

    def latencies_ns(self, parameters: Sequence[Parameter], factors: Iterable[float]) -> Array:
        """Of each transfer, with these costs multiplied."""
        largest = max(PAGE_BYTES, *(each.num_bytes for each in self.transfers))
        platform = scaled(self._base, parameters, factors)
        with Lab(settings=self._config, platform=platform, max_size=largest) as lab:
            return np.array([_latency_ns(lab, each) for each in self.transfers], dtype=np.float64)

    def columns(
        self, parameters: Sequence[Parameter], factors: Array, here_ns: Array, side: int = 1
    ) -> Array:
        """Change of each latency (rows, here_ns at these factors) for each cost's factor; side: -1
        by lowering the costs."""
        found = np.zeros((len(self.transfers), len(parameters)))
        for idx, each in enumerate(parameters):
            moved = factors.copy()
            step = each.step if side > 0 else min(each.step, factors[idx] / 2)
            moved[idx] += side * step
            change = each.real_factor(moved[idx]) - each.real_factor(factors[idx])
            found[:, idx] = (self.latencies_ns(parameters, moved) - here_ns) / change
        return found


def _latency_ns(lab: Lab, transfer: Transfer) -> int:
    post = lab.write if transfer.operation == "write" else lab.read
    outcome = post(
        transfer.num_bytes,
        absent=list(range(transfer.num_absent)),
        source_absent=list(range(transfer.num_source_absent)),
        policy=transfer.policy,
        memory=transfer.memory,
    )
    return outcome.latency_ns if transfer.until == "completion" else outcome.arrival_ns
