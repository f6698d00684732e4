"""The LU solve: against numpy, its own residual test, and itself on other grids and with other
broadcasts.

MPI runs are tiny: with more ranks than cores plain MPICH spins. Bits of x depend on the grid, since
products of other shapes are rounded another way; they must not depend on anything else.
"""

import json
import pathlib
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from app_runs import load, run_mpi, run_to_state
from cli_runs import ran
from hypothesis import given
from hypothesis import strategies as st

MPI = pytest.importorskip("mpi4py.MPI")

from pagewire.apps.command import AppError, InputError
from pagewire.apps.hpl.broadcast import neighbors
from pagewire.apps.hpl.factorization import Factorization
from pagewire.apps.hpl.grid import Grid, choose_shape
from pagewire.apps.hpl.layout import Axis
from pagewire.apps.hpl.matrix import Matrix, elements
from pagewire.apps.hpl.options import Options, parse_options
from pagewire.apps.hpl.panel import plan_swaps
from pagewire.apps.hpl.report import SECTIONS
from pagewire.apps.hpl.solution import back_substitute, gather_solution, scaled_residual
from pagewire.apps.hpl.triangular import invert_diagonal_blocks, solve_unit_lower, solve_upper
from pagewire.apps.team import Team
from pagewire.apps.timing import Stopwatch


def system(n: int, seed: int = 42) -> tuple[np.ndarray, np.ndarray]:
    whole = elements(n, seed, np.arange(n), np.arange(n + 1))
    return whole[:, :n], whole[:, n]


def solve_serial(command_line: str, spoil=None) -> tuple[np.ndarray, float]:
    """x and the residual on one rank; `spoil` changes the matrix first."""
    options = parse_options(command_line.split())
    grid = Grid(Team(MPI, MPI.COMM_SELF), 1, 1)
    matrix = Matrix(options, grid)
    matrix.generate()
    if spoil is not None:
        spoil(matrix.values)
    Factorization(matrix, grid, Stopwatch(MPI.Wtime, SECTIONS)).run()
    x = back_substitute(matrix, grid)
    matrix.generate()
    residual = scaled_residual(matrix, grid, x)
    solution = gather_solution(matrix, grid, x)
    grid.close()
    assert solution is not None
    return solution, residual


def solve_mpi(num_ranks: int, path: pathlib.Path, *arguments: object) -> np.ndarray:
    return run_to_state("hpl", num_ranks, path, *arguments)["x"]


# Options and grid


@pytest.mark.parametrize(
    ("command_line", "value"),
    [
        ("--N 0", "0"),
        ("--N 2000000", "2000000"),
        ("--NB 0", "0"),
        ("--NB 5000", "5000"),
        ("--P 0", "0"),
        ("--Q -1", "-1"),
        ("--seed -1", "-1"),
    ],
)
def test_bad_option_is_an_error_with_value_limit_remedy(command_line: str, value: str) -> None:
    with pytest.raises(InputError, match=rf" is {re.escape(value)}; allowed: .* Remedy: "):
        parse_options(command_line.split())


@pytest.mark.parametrize(
    ("num_ranks", "given_p", "given_q", "shape"),
    [
        (1, None, None, (1, 1)),
        (4, None, None, (2, 2)),
        (6, None, None, (2, 3)),
        (7, None, None, (1, 7)),
        (12, None, None, (3, 4)),
        (6, 6, None, (6, 1)),
        (6, None, 2, (3, 2)),
        (6, 3, 2, (3, 2)),
    ],
)
def test_grid_is_nearly_square_or_as_given(num_ranks, given_p, given_q, shape) -> None:
    assert choose_shape(Options(p=given_p, q=given_q), num_ranks) == shape


@pytest.mark.parametrize(
    ("given_p", "given_q", "message"),
    [
        (2, 2, r"2 x 2 = 4; allowed: 6, the number of ranks\. Remedy: start 4 ranks"),
        (4, None, r"--P is 4; allowed: a divisor of 6"),
        (None, 4, r"--Q is 4; allowed: a divisor of 6"),
    ],
)
def test_grid_of_another_size_than_the_ranks_is_refused(given_p, given_q, message) -> None:
    with pytest.raises(InputError, match=message):
        choose_shape(Options(p=given_p, q=given_q), 6)


@given(length=st.integers(0, 60), block=st.integers(1, 20), num_procs=st.integers(1, 6))
def test_each_index_has_one_owner(length: int, block: int, num_procs: int) -> None:
    axes = [Axis(length, block, coord, num_procs) for coord in range(num_procs)]
    held = np.concatenate([axis.global_indices() for axis in axes])
    assert sorted(held) == list(range(length))
    for axis in axes:
        mine = axis.global_indices()
        assert all(axis.owner(index) == axis.coord for index in mine.tolist())
        assert axis.local(mine).tolist() == list(range(axis.num_local))
        for index in range(length + 1):
            assert axis.num_before(index) == np.count_nonzero(mine < index)


# Parts


def test_elements_depend_on_their_place_and_seed_alone() -> None:
    whole = elements(50, 7, np.arange(50), np.arange(51))
    rows, columns = np.array([3, 49, 0]), np.array([50, 2])
    assert elements(50, 7, rows, columns).tobytes() == whole[np.ix_(rows, columns)].tobytes()
    assert len(np.unique(whole)) == whole.size
    assert -0.5 <= whole.min() < -0.49 and 0.49 < whole.max() < 0.5
    assert abs(whole.mean()) < 0.02
    assert whole.var() == pytest.approx(1 / 12, rel=0.05)
    assert not np.intersect1d(whole, elements(50, 8, np.arange(50), np.arange(51))).size


@given(
    seed=st.integers(0, 2**32 - 1),
    first=st.integers(0, 3),
    width=st.integers(1, 8),
    num_rows=st.integers(1, 40),
    num_procs=st.integers(1, 4),
)
def test_plan_moves_rows_as_the_swaps_do(seed, first, width, num_rows, num_procs) -> None:
    first *= width
    end = min(first + width, first + num_rows)
    length = first + num_rows
    generator = np.random.default_rng(seed)
    pivots = np.array([generator.integers(j, length) for j in range(first, end)])
    expected = np.arange(length)
    for j, pivot in enumerate(pivots, first):
        expected[[j, pivot]] = expected[[pivot, j]]
    axes = [Axis(length, width, coord, num_procs) for coord in range(num_procs)]
    plans = [plan_swaps(pivots, first, axis) for axis in axes]
    top_owner = axes[0].owner(first)
    result = np.arange(length)
    came_up = np.empty(end - first, np.int64)
    for coord, (axis, plan) in enumerate(zip(axes, plans, strict=True)):
        mine = axis.global_indices()
        group = plan.up_order[plan.up_starts[coord] : plan.up_starts[coord + 1]]
        came_up[group] = mine[plan.my_up_rows]
        places = plans[top_owner].down_places[coord]
        result[mine[plan.my_down_rows]] = places + first
        if coord != top_owner:
            assert len(places) == len(group)
    result[first:end] = came_up
    assert result.tolist() == expected.tolist()


@pytest.mark.parametrize("order", [1, 2, 31, 32, 33, 64, 100])
def test_triangular_systems_are_solved(order: int) -> None:
    generator = np.random.default_rng(order)
    square = generator.uniform(-1, 1, (order, order)) / order**0.5 + np.eye(order)
    rhs = generator.uniform(-1, 1, (order, 3))
    forward = rhs.copy()
    solve_unit_lower(square, invert_diagonal_blocks(square), forward)
    lower = np.tril(square, -1) + np.eye(order)
    assert lower @ forward == pytest.approx(rhs, abs=1e-12)
    assert np.triu(square) @ solve_upper(square, rhs[:, 0]) == pytest.approx(rhs[:, 0], abs=1e-9)


@pytest.mark.parametrize("kind", ["ring", "binomial"])
@pytest.mark.parametrize("num_procs", range(1, 18))
def test_broadcast_reaches_each_process_once(kind: str, num_procs: int) -> None:
    reached = [0]
    for each in reached:
        reached += neighbors(kind, each, num_procs)[1]
    assert sorted(reached) == list(range(num_procs))
    for each in range(num_procs):
        for successor in neighbors(kind, each, num_procs)[1]:
            assert neighbors(kind, successor, num_procs)[0] == each
    assert neighbors(kind, 0, num_procs)[0] is None


# Serial


@pytest.mark.parametrize("n", [1, 2, 7, 64, 150])
@pytest.mark.parametrize("nb", [1, 5, 32, 64, 200])
def test_solution_is_that_of_numpy(n: int, nb: int) -> None:
    x, residual = solve_serial(f"--N {n} --NB {nb}")
    a, b = system(n)
    accuracy = 100 * np.linalg.cond(a) * 2.0**-53
    assert np.abs(x - np.linalg.solve(a, b)).max() <= accuracy * np.abs(x).max()
    assert residual < 16


def test_residual_is_that_of_the_definition() -> None:
    x, residual = solve_serial("--N 100 --NB 30")
    a, b = system(100)
    norm = np.linalg.norm
    size = norm(a, np.inf) * norm(x, np.inf) + norm(b, np.inf)
    # Rounding of A x itself is as large as what is measured.
    assert residual == pytest.approx(norm(a @ x - b, np.inf) / (2**-53 * size * 100), rel=0.9)


def test_wrong_matrix_fails_the_residual_test() -> None:
    def spoil(values: np.ndarray) -> None:
        values[5, 7] += 1e-6

    _, residual = solve_serial("--N 60 --NB 16", spoil)
    assert residual > 16


def test_zero_column_is_an_error_that_names_it() -> None:
    def spoil(values: np.ndarray) -> None:
        values[:, 20] = 0

    with pytest.raises(AppError, match=r"pivot of column 21 is 0; .*Remedy: another --seed"):
        solve_serial("--N 60 --NB 16", spoil)


def test_declared_work_is_that_of_an_lu_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = []
    fake = SimpleNamespace(compute=lambda *, flops, num_bytes: declared.append(flops))
    monkeypatch.setitem(sys.modules, "pagewire.transport", fake)
    monkeypatch.delitem(sys.modules, "pagewire.transport.facade.loader", raising=False)
    solve_serial("--N 300 --NB 32")
    assert not declared  # the package alone emulates nothing
    monkeypatch.setitem(sys.modules, "pagewire.transport.facade.loader", SimpleNamespace())
    solve_serial("--N 300 --NB 32")
    assert sum(declared) == pytest.approx(2 / 3 * 300**3 + 3 / 2 * 300**2, rel=0.02)


# Ranks


@pytest.mark.parametrize(
    ("num_ranks", "n", "nb", "p", "q"),
    [
        (3, 97, 10, 3, 1),
        (4, 160, 32, 1, 4),
        (4, 9, 64, 2, 2),
        (4, 1, 1, 4, 1),
        (6, 130, 13, 3, 2),
    ],
)  # fmt: skip
def test_residual_passes_on_any_grid(num_ranks, n, nb, p, q, tmp_path: pathlib.Path) -> None:
    x = solve_mpi(num_ranks, tmp_path / "x", "--N", n, "--NB", nb, "--P", p, "--Q", q)
    a, b = system(n)
    accuracy = 100 * np.linalg.cond(a) * 2.0**-53
    assert np.abs(x - np.linalg.solve(a, b)).max() <= accuracy * np.abs(x).max()


def test_bits_do_not_depend_on_broadcast_depth_buffers(tmp_path) -> None:
    """Rows of three processes: to two, a ring and a tree send alike."""
    size = ["--N", 120, "--NB", 12, "--P", 2]
    first = solve_mpi(6, tmp_path / "0", *size, "--depth", 0, "--bcast", "ring")
    for idx, rest in enumerate(
        (
            ["--depth", 0, "--bcast", "binomial"],
            ["--depth", 1, "--bcast", "binomial", "--fresh-buffers"],
            ["--depth", 1, "--workspace", "fresh"],
        ),
        1,
    ):
        assert solve_mpi(6, tmp_path / str(idx), *size, *rest).tobytes() == first.tobytes()


def test_log_has_the_line_of_hpl() -> None:
    done = run_mpi("hpl", 2, "--N", 64, "--NB", 16, "--seed", 1)
    assert done.returncode == 0, done.stderr
    head = "T/V                N    NB     P     Q               Time                 Gflops"
    assert head in done.stdout.splitlines()
    assert re.search(
        r"^WR10R2R16 {10}64    16     1     2 +\d+\.\d\d +\d\.\d{3}e[+-]\d\d$",
        done.stdout,
        re.MULTILINE,
    )
    assert re.search(
        r"^\|\|Ax-b\|\|_oo/\(eps\*\(.*\)\*N\)= +\d\.\d{8}e[+-]\d\d \.\.\.\.\.\. PASSED$",
        done.stdout, re.MULTILINE,
    )  # fmt: skip


# On the emulated NI


def test_ni_gives_the_bits_of_plain_mpi(tmp_path: pathlib.Path) -> None:
    size = ["--N", "150", "--NB", "24"]
    expected = solve_mpi(4, tmp_path / "plain", *size)
    options = ["--fresh-buffers", "--bcast", "binomial", "--dump-state", str(tmp_path / "ni")]
    ran("launch", "-n", "4", "--memory", "part", "--quiet", "hpl", *size, *options)
    assert load(tmp_path / "ni")["x"].tobytes() == expected.tobytes()


def pages_in(tmp_path: pathlib.Path, *words: str) -> int:
    """Brought in for a run on two ranks under PART."""
    report = tmp_path / "report.json"
    size = ["--N", "512", "--NB", "64"]
    ran("launch", "-n", "2", "--memory", "part", "--compute", "model", "--quiet",
        "--json", str(report), "hpl", *size, *words)  # fmt: skip
    return int(json.loads(report.read_text())["totals"]["pages_paged_in"])


def test_fresh_workspace_faults_at_each_panel_and_a_kept_one_at_the_first_two(tmp_path):
    """Two columns of processes: a panel goes from one to the other, into one buffer of each."""
    rows = [512 - 64 * idx for idx in range(1, 9)]  # below the diagonal block
    panels = [-(-8 * (64 * each + 64 * 64 + 64 + 1) // 4096) for each in rows]
    assert pages_in(tmp_path, "--P", "1") == panels[0] + panels[1]
    assert pages_in(tmp_path, "--P", "1", "--workspace", "fresh") == sum(panels)


def test_fresh_workspace_is_that_of_the_swaps_too(tmp_path):
    """Two rows of processes exchange rows alone."""
    kept = pages_in(tmp_path, "--P", "2")
    assert 0 < 2 * kept < pages_in(tmp_path, "--P", "2", "--workspace", "fresh")
