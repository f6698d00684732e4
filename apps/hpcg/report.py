"""What rank 0 prints at the end, with the names and the order of HPCG's report."""

from collections.abc import Iterator, Mapping

from pagewire.apps.hpcg.benchmark import Benchmark, Result
from pagewire.apps.hpcg.checks import SPECTRAL_LIMITS
from pagewire.apps.hpcg.multigrid import Multigrid

_SYMMETRY = "Departure from Symmetry |x'Ay-y'Ax|/(2*||x||*||A||*||y||)/epsilon"


def report(benchmark: Benchmark, result: Result) -> str:
    """All lines, `key=value` each, `::` between the parts of a key."""
    flops = count_flops(
        benchmark.multigrid,
        num_sets=len(result.solutions),
        num_iterations=sum(s.num_iterations for s in result.solutions),
    )
    lines = [
        "HPCG-like mini-app of pagewire; not a result of the HPCG benchmark",
        *_problem(benchmark, result),
        *_checks(result),
        *_performance(result, flops),
        "Final Summary=",
        (
            f"Final Summary::HPCG result is {'VALID' if result.is_valid else 'INVALID'} "
            f"with a GFLOP/s rating of={_rate(sum(flops.values()), result.seconds):.6g}"
        ),
    ]
    return "\n".join(lines)


def _problem(benchmark: Benchmark, result: Result) -> Iterator[str]:
    geometry = benchmark.geometry
    yield f"Machine Summary::Distributed Processes={benchmark.team.num_ranks}"
    for axis, num in zip("xyz", geometry.num_global_points, strict=True):
        yield f"Global Problem Dimensions::Global n{axis}={num}"
    for axis, num in zip("xyz", geometry.num_boxes, strict=True):
        yield f"Processor Dimensions::np{axis}={num}"
    for axis, num in zip("xyz", geometry.num_points, strict=True):
        yield f"Local Domain Dimensions::n{axis}={num}"
    yield "########## Problem Summary  ##########="
    yield f"Setup Information::Setup Time={result.setup_seconds:.6g}"
    finest, *coarse = benchmark.multigrid.operators
    yield f"Linear System Information::Number of Equations={finest.num_global_rows}"
    yield f"Linear System Information::Number of Nonzero Terms={finest.num_global_nonzeros}"
    yield f"Multigrid Information::Number of coarse grid levels={len(coarse)}"
    for level, operator in enumerate(coarse, start=1):
        prefix = "Multigrid Information::Coarse Grids"
        yield f"{prefix}::Grid Level={level}"
        yield f"{prefix}::Number of Equations={operator.num_global_rows}"
        yield f"{prefix}::Number of Nonzero Terms={operator.num_global_nonzeros}"
    buffers = "fresh in each exchange" if benchmark.options.fresh_buffers else "kept"
    yield f"Halo Information::Buffers={buffers}"


def _checks(result: Result) -> Iterator[str]:
    spectrum, symmetry = result.spectrum, result.symmetry
    yield "########## V&V Testing Summary  ##########="
    yield f"Spectral Convergence Tests::Result={_passed(spectrum.passed)}"
    for name, most, limit in (
        ("Unpreconditioned", spectrum.plain, SPECTRAL_LIMITS[False]),
        ("Preconditioned", spectrum.preconditioned, SPECTRAL_LIMITS[True]),
    ):
        yield f"Spectral Convergence Tests::{name}::Maximum iteration count={most}"
        yield f"Spectral Convergence Tests::{name}::Expected iteration count={limit}"
    yield f"{_SYMMETRY}::Result={_passed(symmetry.passed)}"
    yield f"{_SYMMETRY}::Departure for SpMV={symmetry.spmv:.6g}"
    yield f"{_SYMMETRY}::Departure for MG={symmetry.multigrid:.6g}"
    yield "########## Iterations Summary  ##########="
    solutions = result.solutions
    yield f"Iteration Count Information::CG iterations per set={solutions[0].num_iterations}"
    yield f"Iteration Count Information::Number of sets={len(solutions)}"
    total = sum(s.num_iterations for s in solutions)
    yield f"Iteration Count Information::Total number of iterations={total}"
    yield "########## Reproducibility Summary  ##########="
    yield f"Reproducibility Information::Result={_passed(result.repeats)}"
    scaled = [s.scaled_residual for s in solutions]
    mean = sum(scaled) / len(scaled)
    variance = sum((s - scaled[0]) ** 2 for s in scaled) / len(scaled)
    yield f"Reproducibility Information::Scaled residual mean={mean:.17g}"
    yield f"Reproducibility Information::Scaled residual variance={variance:.6g}"


def _performance(result: Result, flops: Mapping[str, float]) -> Iterator[str]:
    seconds = {name: mean for name, (_, mean, _) in result.section_seconds.items()}
    # HPCG's DDOT has the global sum in it.
    seconds["DDOT"] += seconds.pop("DDOT Allreduce")
    yield "########## Performance Summary (times in sec) ##########="
    for name, value in seconds.items():
        yield f"Benchmark Time Summary::{name}={value:.6g}"
    yield f"Benchmark Time Summary::Total={result.seconds:.6g}"
    yield f"Benchmark Time Summary::Mean of a set={result.seconds / len(result.solutions):.6g}"
    total = sum(flops.values())
    for name, value in flops.items():
        yield f"Floating Point Operations Summary::Raw {name}={value:.6g}"
    yield f"Floating Point Operations Summary::Total={total:.6g}"
    for name, value in flops.items():
        yield f"GFLOP/s Summary::Raw {name}={_rate(value, seconds[name]):.6g}"
    yield f"GFLOP/s Summary::Raw Total={_rate(total, result.seconds):.6g}"
    least, mean, most = result.section_seconds["DDOT Allreduce"]
    yield f"DDOT Timing Variations::Min DDOT MPI_Allreduce time={least:.6g}"
    yield f"DDOT Timing Variations::Max DDOT MPI_Allreduce time={most:.6g}"
    yield f"DDOT Timing Variations::Avg DDOT MPI_Allreduce time={mean:.6g}"


def count_flops(multigrid: Multigrid, *, num_sets: int, num_iterations: int) -> dict[str, float]:
    """Floating-point operations as HPCG counts them (HPCG Technical Specification, section on
    metrics), of all ranks together, by section of the report.

    A multiplication and an addition for each entry: of a dot product's vectors, of a vector update,
    of the matrix' non-zeros; a symmetric Gauss-Seidel step counts as two products. Three dot
    products and three updates an iteration, and one more of each and one product before the first.
    num_iterations: of all sets together.
    """
    finest = multigrid.finest
    *upper, coarsest = (float(operator.num_global_nonzeros) for operator in multigrid.operators)
    # Smoother before and after the coarser grid: 4 each; the residual between them: 2.
    cycle = sum(10.0 * nonzeros for nonzeros in upper) + 4.0 * coarsest
    vector = (3.0 * num_iterations + num_sets) * 2.0 * finest.num_global_rows
    return {
        "DDOT": vector,
        "WAXPBY": vector,
        "SpMV": (num_iterations + num_sets) * 2.0 * finest.num_global_nonzeros,
        "MG": num_iterations * cycle,
    }


def _passed(passed: bool) -> str:
    return "PASSED" if passed else "FAILED"


def _rate(flops: float, seconds: float) -> float:
    """GFLOP/s; 0 where a clock stood still."""
    return flops / seconds / 1e9 if seconds > 0 else 0.0
