"""Conjugate gradients with multigrid: against dense matrices, HPCG's own checks, and itself.

MPI runs are tiny: with more ranks than cores plain MPICH spins.
"""

import dataclasses
import itertools
import math
import pathlib
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from app_runs import assert_same_bits, load, run_to_state
from cli_runs import reported
from hypothesis import given, settings
from hypothesis import strategies as st

MPI = pytest.importorskip("mpi4py.MPI")
pytest.importorskip("pagewire._kernels")

from pagewire.apps.command import InputError
from pagewire.apps.hpcg import kernels
from pagewire.apps.hpcg.benchmark import Benchmark, Result
from pagewire.apps.hpcg.checks import check_spectrum, check_symmetry, exaggeration, residuals_repeat
from pagewire.apps.hpcg.geometry import Geometry, Triple
from pagewire.apps.hpcg.options import Options, parse_options
from pagewire.apps.hpcg.report import count_flops, report
from pagewire.apps.hpcg.solver import Solution
from pagewire.apps.kernels import KernelError
from pagewire.apps.team import Team

SMALL = ["--nx", "8", "--ny", "16", "--nz", "8", "--iterations", "12"]


def serial(command_line: str) -> Benchmark:
    options = parse_options(command_line.split())
    return Benchmark(options, Team(MPI, MPI.COMM_SELF))


def run_serial(command_line: str) -> tuple[Benchmark, Result]:
    benchmark = serial(command_line)
    return benchmark, benchmark.run(lambda line: None)


def dense(num_points: Triple) -> np.ndarray:
    """The stencil's matrix, point by point."""
    points = [(x, y, z) for z, y, x in itertools.product(*map(range, num_points[::-1]))]
    apart = np.abs(np.array(points)[:, None] - np.array(points)[None]).max(axis=2)
    return np.where(apart == 0, 26.0, np.where(apart == 1, -1.0, 0.0))


def dense_smoother(a: np.ndarray, r: np.ndarray, x: np.ndarray) -> np.ndarray:
    lower, upper = np.tril(a), np.triu(a)
    x = np.linalg.solve(lower, r - np.triu(a, 1) @ x)
    return np.linalg.solve(upper, r - np.tril(a, -1) @ x)


# Options


@pytest.mark.parametrize(
    ("command_line", "message"),
    [
        ("--nx 12", "--nx is 12; allowed: multiples of 8, .* Remedy: give 16, or --levels 3."),
        ("--ny 33", "--ny is 33; .* Remedy: give 40, or --levels 1."),
        ("--size 20 --levels 4", "--nx is 20; allowed: multiples of 8, .* give 24, or --levels 3."),
        ("--size 6 --levels 3", "--nx is 6; allowed: multiples of 4, .* give 8, or --levels 2."),
        ("--nz 0", "--nz is 0; allowed: at least 1. Remedy: "),
        ("--nx -8", "--nx is -8; allowed: at least 1. Remedy: "),
        ("--size 0", "--nx is 0; allowed: at least 1. Remedy: "),
        ("--size 1296", "points and ghosts of a rank is 2186875592; allowed: at most .* Remedy: "),
        ("--sets 0", "--sets is 0; allowed: at least 1. Remedy: "),
        ("--iterations 0", "--iterations is 0; allowed: at least 1. Remedy: "),
        ("--levels 0", r"--levels is 0; allowed: 1 \.\. 4. Remedy: "),
        ("--levels 5", r"--levels is 5; allowed: 1 \.\. 4. Remedy: "),
        ("--size 8 --ny 8", "--size is 8 and --ny is given too; allowed: one of the two. Remedy: "),
        ("--size", "expected one argument. Remedy: see --help."),
        ("--sets two", "invalid int value: 'two'. Remedy: see --help."),
    ],
)  # fmt: skip
def test_bad_option_is_an_error_with_value_limit_remedy(command_line: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_options(command_line.split())


def test_defaults_and_sizes() -> None:
    assert parse_options([]) == Options()
    given = parse_options(["--nx", "6", "--nz", "2", "--ny", "4", "--levels", "2"])
    assert given.num_points == (6, 4, 2)


# Kernels


@pytest.mark.parametrize("num_points", [(1, 1, 1), (2, 1, 1), (1, 1, 3), (3, 2, 4), (5, 5, 5)])
def test_operator_and_smoother_equal_the_dense_ones(num_points: Triple) -> None:
    nx, ny, nz = num_points
    operator = serial(f"--levels 1 --nx {nx} --ny {ny} --nz {nz}").multigrid.finest
    a = dense(num_points)
    generator = np.random.default_rng(3)
    r, x = generator.normal(size=len(a)), generator.normal(size=len(a))
    y = np.empty(len(a))
    operator.multiply(x, y)
    assert y == pytest.approx(a @ x, abs=1e-12)
    assert operator.num_global_nonzeros == np.count_nonzero(a)
    assert operator.diagonal().tolist() == [26.0] * len(a)
    assert operator.right_hand_side().tolist() == a.sum(axis=1).tolist()
    smoothed = x.copy()
    operator.smooth(r, smoothed)
    assert smoothed == pytest.approx(dense_smoother(a, r, x), abs=1e-12)


@pytest.mark.parametrize("levels", [2, 3])
def test_v_cycle_equals_the_dense_one(levels: int) -> None:
    num_points = (8, 4, 4)

    def cycle(points: Triple, r: np.ndarray, level: int) -> np.ndarray:
        a = dense(points)
        x = dense_smoother(a, r, np.zeros(len(a)))
        if level == levels:
            return x
        grid = np.arange(len(a)).reshape(points[::-1])[::2, ::2, ::2].ravel()
        half = (points[0] // 2, points[1] // 2, points[2] // 2)
        x[grid] += cycle(half, (r - a @ x)[grid], level + 1)
        return dense_smoother(a, r, x)

    multigrid = serial(f"--levels {levels} --nx 8 --ny 4 --nz 4").multigrid
    r = np.random.default_rng(4).normal(size=math.prod(num_points))
    z = multigrid.finest.halo.new_vector()
    multigrid.apply(r, z)
    assert z == pytest.approx(cycle(num_points, r, 1), abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(n=st.integers(0, 2000), seed=st.integers(0, 2**32 - 1))
def test_dot_equals_the_exact_sum(n: int, seed: int) -> None:
    x, y = np.random.default_rng(seed).normal(size=(2, n + 1))
    assert kernels.dot(n, x, y) == pytest.approx(math.fsum(x[:n] * y[:n]), abs=1e-11)


def test_kernels_refuse_what_is_too_short_or_of_another_type() -> None:
    columns = np.full((3, 3, 3), -1, dtype=np.int32)
    columns[1, 1, 1] = 0
    rows = kernels.build_rows(columns, 1)
    good = np.zeros(1)
    for bad in (np.zeros(0), np.zeros(1, dtype=np.float32), np.zeros((2, 2))[:, 0]):
        for call in (kernels.spmv, kernels.symgs):
            for x, y in ((good, bad), (bad, good)):
                with pytest.raises(KernelError, match="a kernel needs double"):
                    call(rows, x, y)
    with pytest.raises(ValueError, match="read-only"):
        rows.columns[0, 0] = 7


@pytest.mark.parametrize(("place", "column"), [((0, 0, 0), 1), ((1, 1, 1), -1)])
def test_map_that_names_no_column_or_no_diagonal_is_refused(place: Triple, column: int) -> None:
    columns = np.full((3, 3, 3), -1, dtype=np.int32)
    columns[1, 1, 1] = 0
    columns[place] = column
    with pytest.raises(KernelError, match="bad index"):
        kernels.build_rows(columns, 1)


# Checks and counting


@pytest.mark.parametrize(
    "command_line", ["--size 8", "--size 16", "--nx 8 --ny 24 --nz 16", "--size 5 --levels 1"]
)
def test_checks_pass_and_x_becomes_1(command_line: str) -> None:
    benchmark, result = run_serial(f"{command_line} --iterations 30")
    assert result.is_valid, report(benchmark, result)
    assert result.spectrum.plain > 5 and result.spectrum.preconditioned >= 1
    assert np.abs(benchmark.x - 1).max() < 1e-12
    # Recursive residuals fall on below what x can hold.
    assert result.solutions[0].residuals[-1] < 1e-12 * result.solutions[0].residuals[0]


def test_spectrum_check_restores_the_diagonal_and_needs_the_exaggeration() -> None:
    benchmark = serial("--size 16")
    check_spectrum(benchmark.solver, benchmark.b)
    assert benchmark.multigrid.finest.diagonal().tolist() == [26.0] * 4096
    for preconditioned, limit in ((False, 12), (True, 2)):
        benchmark.x[...] = 0.0
        solution = benchmark.solver.solve(
            benchmark.b,
            benchmark.x,
            max_iterations=50,
            tolerance=1e-12,
            preconditioned=preconditioned,
        )
        assert solution.num_iterations > limit
        assert np.abs(benchmark.x - 1).max() < 1e-9


def test_exaggeration_marks_the_first_nine_global_rows() -> None:
    parts = [
        exaggeration(Geometry(num_points=(4, 2, 2), num_boxes=(2, 2, 1), rank=rank)).reshape(
            2, 2, 4
        )
        for rank in range(4)
    ]
    whole = np.block([[parts[0], parts[1]], [parts[2], parts[3]]]).ravel()
    assert (whole / 1e6).tolist() == [*range(2, 11)] + [1] * (64 - 9)


def test_symmetry_check_finds_one_wrong_entry() -> None:
    benchmark = serial("--size 16")
    assert check_symmetry(benchmark.solver).passed
    benchmark.multigrid.finest.rows.values[777, 12] *= 1 + 1e-6
    symmetry = check_symmetry(benchmark.solver)
    assert symmetry.spmv > 1 and symmetry.multigrid > 1 and not symmetry.passed


def test_residuals_must_repeat_to_the_last_bit_and_be_finite() -> None:
    one, other = Solution(residuals=(1.0, 0.5)), Solution(residuals=(1.0, math.nextafter(0.5, 1)))
    assert residuals_repeat([one, one])
    assert not residuals_repeat([one, other])
    lost = Solution(residuals=(1.0, math.nan))
    assert not residuals_repeat([lost, lost])


def test_more_iterations_than_double_precision_has_use_for_end_early() -> None:
    for command_line in ("--size 1 --levels 1", "--size 2 --levels 2 --iterations 4000"):
        benchmark, result = run_serial(command_line)
        assert result.is_valid and result.solutions[0].num_iterations < 4000
        assert np.abs(benchmark.x - 1).max() < 1e-14


def test_flops_are_counted_as_hpcg_does() -> None:
    counts = count_flops(serial("--size 8").multigrid, num_sets=2, num_iterations=100)
    # (3 n - 2)^3 non-zeros on grids of 8, 4, 2, 1.
    assert counts["DDOT"] == counts["WAXPBY"] == 302 * 2 * 512
    assert counts["SpMV"] == 102 * 2 * 10648
    assert counts["MG"] == 100 * (10 * (10648 + 1000 + 64) + 4 * 1)


def test_declared_work_is_the_counted_one(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = serial("--size 8")
    declared = []
    fake = SimpleNamespace(compute=lambda *, flops, num_bytes: declared.append((flops, num_bytes)))
    monkeypatch.setitem(sys.modules, "pagewire.transport", fake)
    monkeypatch.setitem(sys.modules, "pagewire.transport.facade.loader", SimpleNamespace())
    benchmark.solver.solve(benchmark.b, benchmark.x, max_iterations=10, tolerance=0.0)
    counted = sum(count_flops(benchmark.multigrid, num_sets=1, num_iterations=10).values())
    between_levels = 10 * 2 * (64 + 8 + 1)
    assert sum(flops for flops, _ in declared) == counted + between_levels
    assert sum(num_bytes for _, num_bytes in declared) > 6 * counted
    monkeypatch.setitem(sys.modules, "pagewire.transport", SimpleNamespace())
    benchmark.multigrid.finest.multiply(benchmark.x, benchmark.x.copy())


# Ranks


def test_rank_counts_solve_the_same_system(tmp_path: pathlib.Path) -> None:
    """The smoother is each rank's own, so that ways differ; the first residual and the end do
    not."""
    size = ["--nx", "16", "--ny", "16", "--nz", "16", "--iterations", "40"]
    alone = run_to_state("hpcg", 1, tmp_path / "1.npz", *size)
    assert np.abs(alone["x"] - 1).max() < 1e-11
    # With neighbours at faces, edges and corners.
    part = ["--size", "8", "--iterations", "40", "--sets", "1"]
    many = run_to_state("hpcg", 8, tmp_path / "8.npz", *part)
    assert many["x"].shape == alone["x"].shape == (16, 16, 16)
    assert many["residuals"][0] == pytest.approx(alone["residuals"][0], rel=1e-14)
    assert np.abs(many["x"] - 1).max() < 1e-11


def test_plain_runs_repeat_and_fresh_buffers_give_the_same_bits(tmp_path: pathlib.Path) -> None:
    kept = run_to_state("hpcg", 4, tmp_path / "a.npz", *SMALL)
    assert kept["num_iterations"].tolist() == [12, 12] and kept["residuals"].shape == (26,)
    assert_same_bits(kept, run_to_state("hpcg", 4, tmp_path / "b.npz", *SMALL, "--fresh-buffers"))


def test_ni_gives_the_bits_of_plain_mpi(tmp_path: pathlib.Path) -> None:
    num_ranks = 2
    plain = run_to_state("hpcg", num_ranks, tmp_path / "plain.npz", *SMALL)
    faults = []
    for buffers in ([], ["--fresh-buffers"]):
        path = tmp_path / "ni.npz"
        words = ["hpcg", *SMALL, *buffers, "--dump-state", str(path)]
        printed, report = reported(tmp_path, num_ranks, "--memory", "part", "--quiet", *words)
        assert "HPCG result is VALID" in printed
        faults.append(report["summary"]["translation_faults"])
        assert_same_bits(plain, load(path))
    kept, fresh = faults
    assert kept < fresh  # a buffer of the heap may be there from the start


def test_report_has_the_lines_of_hpcg() -> None:
    benchmark, result = run_serial("--size 8 --iterations 5")
    lines = dict(line.partition("=")[::2] for line in report(benchmark, result).splitlines())
    assert lines["Global Problem Dimensions::Global nx"] == "8"
    assert lines["Linear System Information::Number of Nonzero Terms"] == "10648"
    assert lines["Iteration Count Information::Total number of iterations"] == "10"
    assert lines["Reproducibility Information::Scaled residual variance"] == "0"
    total = float(lines["Floating Point Operations Summary::Total"])
    rating = float(lines["Final Summary::HPCG result is VALID with a GFLOP/s rating of"])
    assert rating == pytest.approx(total / result.seconds / 1e9, rel=1e-4)
    broken = dataclasses.replace(
        result, solutions=(result.solutions[0], Solution(residuals=(1.0, 0.5)))
    )
    assert "HPCG result is INVALID with" in report(benchmark, broken)
