"""The lookup benchmark runs and gives a row for each kind."""

from pagewire.cli.checks.bench.engines import lookups
from pagewire.native import lib


def test_lookups_have_positive_times() -> None:
    rows = lookups(10_000)
    assert len(rows) == 6
    assert all(row["ns_per_lookup"] > 0 for row in rows)


def test_bad_arguments_are_refused() -> None:
    assert lib.pw_bench_lookup_ns(5, 1) == lib.PW_ERR_INVALID
    assert lib.pw_bench_lookup_ns(0, 0) == lib.PW_ERR_INVALID
    assert lib.pw_bench_trace_ns(False, 0) == lib.PW_ERR_INVALID
