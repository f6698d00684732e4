"""Planner of impairments: one rank hangs on a bad cable.

pagewire launch -n 4 --set impairments.planner=bad_cable:BadCable lammps    (in this folder)
"""

import dataclasses

from pagewire.native.impairments import ImpairmentsConfig
from pagewire.run.settings.impairment_planners import ImpairmentPlanner

BAD_RANK = 1


class BadCable(ImpairmentPlanner):
    """Rank 1 loses one packet in 50 and damages one in 200; the others are as configured."""

    def plan(
        self, *, rank: int, num_ranks: int, configured: ImpairmentsConfig
    ) -> ImpairmentsConfig:
        if rank != BAD_RANK:
            return configured
        return dataclasses.replace(configured, packet_loss="1:50:7", packet_corruption="1:200:7")
