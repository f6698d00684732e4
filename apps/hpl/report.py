"""What rank 0 prints, laid out like HPL's output."""

from pagewire.apps.hpl.factor import NBMIN
from pagewire.apps.hpl.grid import Grid
from pagewire.apps.hpl.options import Options
from pagewire.apps.hpl.solution import EPSILON, THRESHOLD
from pagewire.apps.timing import Stopwatch

SECTIONS = ("rfact", "mxswp", "bcast", "laswp", "update", "trsv")

_DOUBLE_LINE = "=" * 80
_LINE = "-" * 80
_BCAST_NAMES = {"ring": "1ring", "binomial": "binomial tree"}
_BCAST_LETTERS = {"ring": "0", "binomial": "B"}


def opening(options: Options, grid: Grid) -> str:
    """The header: what the symbols mean, and the parameters."""

    return f"""\
{_DOUBLE_LINE}
pagewire.apps.hpl  --  mini-app after HPLinpack 2.3, High-Performance Linpack benchmark
{_DOUBLE_LINE}

An explanation of the input/output parameters follows:
T/V    : Wall time / encoded variant.
N      : The order of the coefficient matrix A.
NB     : The partitioning blocking factor.
P      : The number of process rows.
Q      : The number of process columns.
Time   : Time in seconds to solve the linear system.
Gflops : Rate of execution for solving the linear system.

The following parameter values will be used:

N      : {options.n:>7}
NB     : {options.nb:>7}
PMAP   : Row-major process mapping
P      : {grid.num_rows:>7}
Q      : {grid.num_columns:>7}
PFACT  :   Right
NBMIN  : {NBMIN:>7}
NDIV   :       2
RFACT  :   Right
BCAST  : {_BCAST_NAMES[options.bcast]:>7}
DEPTH  : {options.depth:>7}
SWAP   : Spread-roll (long)

{_LINE}

- The matrix A is randomly generated for each test.
- The following scaled residual check will be computed:
      ||Ax-b||_oo / ( eps * ( || x ||_oo * || A ||_oo + || b ||_oo ) * N )
- The relative machine precision (eps) is taken to be               {EPSILON:.6e}
- Computational tests pass if scaled residuals are less than {THRESHOLD:>19.1f}

{_DOUBLE_LINE}
T/V                N    NB     P     Q               Time                 Gflops
{_LINE}"""


def timing(options: Options, grid: Grid, stopwatch: Stopwatch) -> str:
    """The line of the run and where its time went: of all ranks at rank 0. Collective."""
    rows = grid.world.measured_rows(
        [stopwatch.loop_seconds, *(stopwatch.section_seconds[name] for name in SECTIONS)]
    )
    seconds = float(rows[:, 0].max())
    n = options.n
    gflops = (2 / 3 * n + 3 / 2) * n * n / 1e9 / seconds if seconds > 0 else 0.0
    variant = f"WR{options.depth}{_BCAST_LETTERS[options.bcast]}R2R{NBMIN}"
    most = rows[:, 1:].max(axis=0)
    return "\n".join(
        [
            (
                f"{variant:<8}{n:>12} {options.nb:>5} {grid.num_rows:>5} {grid.num_columns:>5} "
                f"{seconds:>18.2f}     {gflops:>18.3e}"
            ),
            "--VVV" * 15 + "-",
            *(
                f"Max aggregated wall time {name:<6} . . : {value:>18.6f}"
                for name, value in zip(SECTIONS, most, strict=True)
            ),
            _LINE,
        ]
    )


def closing(residual: float, passed: bool) -> str:
    """The verdict."""
    verdict = "PASSED" if passed else "FAILED"
    return f"""\
||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)= {residual:>18.8e} ...... {verdict}
{_DOUBLE_LINE}

Finished      1 tests with the following results:
         {int(passed):>6} tests completed and passed residual checks,
         {int(not passed):>6} tests completed and failed residual checks,
         {0:>6} tests skipped because of illegal input values.
{_LINE}

End of Tests.
{_DOUBLE_LINE}"""
