"""pagewire calibrate --against: costs come back out of latencies that the emulator made of them."""

import dataclasses
import functools

import numpy as np
import pytest

pytest.importorskip("scipy", reason="pip install 'pagewire[calibrate]'")

from pagewire.cli.calibrate import fit, fitting, points, solve
from pagewire.cli.commands import dispatch
from pagewire.lab import Lab
from pagewire.native.settings import ConfigError
from pagewire.run.settings import config, platform
from pagewire.run.settings.platform import Costs

BASE = "exanest-qfdb"
SETTINGS = config.load([], environ={})
ALTERED = {"page_in_page_ns": 5000, "netlink_ns": 9000, "link_mbps": 10_000}


def altered(**costs: int) -> platform.Platform:
    base = platform.load(BASE)
    return dataclasses.replace(base, costs=Costs({**base.costs.as_dict(), **costs}))


@functools.cache
def table(sizes=(64, 4096, 16384, 40000), policies=("page", "all"), absent=("none", "all")) -> str:
    """What the altered machine takes."""
    lab = Lab(platform=altered(**ALTERED))
    lines = ["size_bytes,latency_us,absent,policy"]
    for size in sizes:
        for pages in absent:
            for policy in policies if pages == "all" else policies[:1]:
                outcome = lab.write(size, absent=None if pages == "none" else pages, policy=policy)
                lines.append(f"{size},{outcome.latency_us},{pages},{policy}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def fitted():
    measured = points.parse(table(), SETTINGS)
    return measured, fit.fit(platform.load(BASE), measured, SETTINGS)


def sums_of(found: fit.Fit, verdict: fitting.Verdict) -> dict[str, float]:
    """Fitted ns of what is determined by itself."""
    return {fitting.sum_of(found.groups[idx]): found.groups[idx].fitted_ns for idx in verdict.alone}


def test_what_is_determined_is_recovered(fitted):
    measured, found = fitted
    alone = sums_of(found, fitting.judge(found))
    assert alone["page_in_page"] == pytest.approx(5000, rel=0.01)
    assert alone["handler"] == pytest.approx(1000, rel=0.02)
    assert alone["link (1 KiB)"] == pytest.approx(8192 / 10, rel=0.01)
    assert alone["tasklet_other + page_in_fixed + netlink"] == pytest.approx(19_000, rel=0.01)
    assert found.deviation < 1e-3
    for point, before, after in zip(
        measured, found.base_latencies_ns, found.latencies_ns, strict=True
    ):
        assert abs(after - point.latency_ns) < abs(before - point.latency_ns) / 10


def test_what_cannot_be_told_apart_is_said(fitted):
    _, found = fitted
    verdict = fitting.judge(found)
    groups = [[each.label for each in group.members] for group in found.groups]
    assert ["tasklet_other", "page_in_fixed", "netlink"] in groups
    assert ["user_wakeup", "err_send"] in groups
    unused = {each.label for each in found.unused}
    assert {"r5_read_request_word", "major_fault", "odp_fault", "mpi_call"} <= unused
    assert not unused & {label for group in groups for label in group}
    # Constant parts of a transfer: more unknowns than these points have equations for.
    assert found.directions.rank < len(found.groups)
    assert verdict.together and verdict.sums
    # Each sum that is printed is one of the true machine's costs.
    costs = altered(**ALTERED).costs
    for row in verdict.sums:
        pairs = [(row[idx], group) for idx, group in enumerate(found.groups) if row[idx]]
        value = sum(factor * group.fitted_ns for factor, group in pairs)
        true = sum(
            factor * weight * getattr(costs, each.field)
            for factor, group in pairs
            for weight, each in zip(group.weights, group.members, strict=True)
        )
        assert value == pytest.approx(true, rel=0.02, abs=30)


def test_command_writes_a_platform_that_repeats_the_table(tmp_path, capsys):
    source, path = tmp_path / "table.csv", tmp_path / "fitted.toml"
    source.write_text("# a comment\n\n" + table(sizes=(64, 4096, 8192), absent=("none",)))
    assert dispatch.main(["calibrate", "--against", str(source), "-o", str(path)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "3 points of 3 different transfers determine" in printed
    assert "No point depends on these" in printed
    written = platform.load(str(path))
    message = written.cost_origins["r5_start_block_ns"]
    assert message.source.startswith("fitted to table.csv, ")
    assert "r5_start_block + " in message.assumed and "alone" in message.assumed
    assert written.cost_origins["netlink_ns"].platform == "exanest-qfdb"
    assert written.cost_origins["mpi_call_ns"].platform == "exanest-qfdb"
    lab = Lab(settings={"run.platform": str(path)})
    for point in points.read(str(source), SETTINGS):
        outcome = lab.write(point.transfer.num_bytes)
        assert outcome.latency_ns == pytest.approx(point.latency_ns, rel=0.01)


def test_as_many_sums_as_points_is_no_good_fit(tmp_path, capsys):
    source = tmp_path / "table.csv"
    source.write_text("size_bytes,latency_us\n64,5.0\n")
    assert dispatch.main(["calibrate", "--against", str(source)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "As many sums as points" in printed
    assert "1 points of 1 different transfers determine 1 sums" in printed


def test_columns_that_are_multiples_are_one_group():
    first = np.array([1.0, 2.0, 3.0])
    matrix = np.stack([first, 2 * first, np.array([1.0, 0, 0]), np.zeros(3)], axis=1)
    assert solve.groups_of(matrix) == [[0, 1], [2]]


def test_what_other_fits_say_bounds_what_is_known(fitted):
    _, found = fitted
    first = np.zeros(len(found.groups))
    first[0] = 1
    now_ns = [group.fitted_ns for group in found.groups]
    other = dataclasses.replace(found, others=((now_ns[0] + 700, *now_ns[1:]),))
    assert found.doubt_ns(first) < 600
    assert other.doubt_ns(first) == pytest.approx(700)


def test_null_space_and_sums():
    # The third column is the sum of the first two: three unknowns, two equations.
    matrix = np.array([[1.0, 0, 1], [0, 1, 1], [1, 1, 2]])
    seen = solve.directions_of(matrix, 0.0)
    assert seen.rank == 2 and not any(seen.is_alone(idx) for idx in range(3))
    found = solve.sums(seen, [0, 1, 2])
    assert len(found) == 2
    for row in found:  # along the null direction (1, 1, -1) no sum changes
        assert row @ np.array([1.0, 1, -1]) == pytest.approx(0, abs=1e-9)
    limits = np.zeros(3), np.full(3, 9.0)
    wanted = solve.factors(matrix, matrix @ [1.5, 1, 1], seen, np.ones(3), limits)
    assert matrix @ wanted == pytest.approx(matrix @ [1.5, 1, 1])
    assert np.linalg.norm(wanted - 1) < np.linalg.norm([0.5, 0, 0])  # the nearest of all
    assert (solve.factors(matrix, matrix @ [-5, 1, 1], seen, np.ones(3), limits) >= 0).all()


def test_noise_closes_directions_that_it_covers():
    matrix = np.diag([1.0, 0.01])
    assert solve.directions_of(matrix, 0.0).rank == 2
    noisy = solve.directions_of(matrix, 0.02)
    assert noisy.rank == 1 and noisy.is_alone(0) and not noisy.is_alone(1)
    assert noisy.error(np.array([100.0, 0]), 0.02) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "it is empty"),
        ("# only this\n", "it is empty"),
        ("size_bytes,latency_us\n", "no points"),
        ("size_bytes\n64\n", "column 'latency_us' is missing"),
        ("size_bytes,latency_ns\n64,4000\n", "'latency_ns' has another unit"),
        ("size,latency_us\n64,4\n", "'size' has another unit"),
        ("size_bytes,latency_us,absnt\n64,4,1\n", "unknown column 'absnt'"),
        ("size_bytes,latency_us,latency_us\n64,4,4\n", "column 'latency_us' is there twice"),
        ("size_bytes,latency_us\n64\n", "line 2: 1 cells, and 2 columns"),
        ("size_bytes,latency_us\n64,-4\n", "latency_us = '-4': allowed is a number above 0"),
        ("size_bytes,latency_us\n64,0\n", "above 0"),
        ("size_bytes,latency_us\n64,nan\n", "latency_us = 'nan'"),
        ("size_bytes,latency_us\n64,inf\n", "latency_us = 'inf'"),
        ("size_bytes,latency_us\n64,4us\n", "without a unit"),
        ("size_bytes,latency_us\n64,\n", "latency_us = ''"),
        ("#\nsize_bytes,latency_us\n4KiB,4\n", "line 3: size_bytes = '4KiB'.*without a unit"),
        ("size_bytes,latency_us\n0,4\n", "size_bytes = '0'"),
        ("size_bytes,latency_us\n-64,4\n", "size_bytes = '-64'"),
        ("size_bytes,latency_us\n99999999999,4\n", "size_bytes = '99999999999'"),
        ("size_bytes,latency_us\n6.5,4\n", "size_bytes = '6.5'"),
        ("size_bytes,latency_us,absent\n64,4,2\n", "absent = '2': allowed .* from 0 to 1"),
        ("size_bytes,latency_us,absent\n64,4,0.5\n", "absent = '0.5'"),
        ("size_bytes,latency_us,operation\n64,4,send\n", "operation = 'send'"),
        ("size_bytes,latency_us,memory\n64,4,bounce\n", "memory = 'bounce'"),
        ("size_bytes,latency_us,until\n64,4,end\n", "until = 'end'"),
        ('size_bytes,latency_us\n"64,4\n', "no CSV|quotes"),
    ],
)
def test_bad_tables_name_what_is_wrong(tmp_path, text, expected):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(ConfigError, match=expected) as caught:
        points.read(str(path), SETTINGS)
    assert str(caught.value).startswith(f"--against '{path}': ")


def test_table_of_many_bytes_is_refused():
    lines = [f"{(4 << 20) - idx},1000" for idx in range(5)]
    with pytest.raises(ConfigError, match="take fewer large sizes"):
        points.parse("\n".join(["size_bytes,latency_us", *lines]), SETTINGS)


def test_optional_columns_are_read():
    text = (
        "latency_us , size_bytes,operation,absent,source_absent,policy,memory,until\n"
        "4.5,8192,read,all,1,all,pretouch,arrival\n"
        "4,8192,,,,,,\n"
    )
    first, second = (each.transfer for each in points.parse(text, SETTINGS))
    assert first == points.Transfer(8192, "read", 2, 1, "all", "pretouch", "arrival")
    assert second == points.Transfer(
        8192, "write", 0, 0, SETTINGS.run.policy, SETTINGS.run.memory, "completion"
    )
