"""HPCG's counting of floating-point operations (HPCG Technical Specification, section on metrics).

A multiplication and an addition for each entry: of a dot product's vectors, of a vector update, of
the matrix' non-zeros; a symmetric Gauss-Seidel step counts as two products. Three dot products and
three updates an iteration, and one more of each and one product before the first.
"""

import dataclasses

from pagewire.apps.hpcg.multigrid import Multigrid


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FlopCount:
    """Of all ranks together."""

    ddot: float
    waxpby: float
    spmv: float
    multigrid: float

    @property
    def total(self) -> float:
        return self.ddot + self.waxpby + self.spmv + self.multigrid


def count_flops(multigrid: Multigrid, *, num_sets: int, num_iterations: int) -> FlopCount:
    """num_iterations: of all sets together."""
    finest = multigrid.finest
    *upper, coarsest = (float(operator.num_global_nonzeros) for operator in multigrid.operators)
    # Smoother before and after the coarser grid: 4 each; the residual between them: 2.
    cycle = sum(10.0 * nonzeros for nonzeros in upper) + 4.0 * coarsest
    vector = (3.0 * num_iterations + num_sets) * 2.0 * finest.num_global_rows
    return FlopCount(
        ddot=vector,
        waxpby=vector,
        spmv=(num_iterations + num_sets) * 2.0 * finest.num_global_nonzeros,
        multigrid=num_iterations * cycle,
    )
