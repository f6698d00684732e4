"""The lookup benchmark runs and gives a row for each kind."""

from pagewire.native import lib


def test_bad_arguments_are_refused() -> None:
    assert lib.pw_bench_lookup_ns(5, 1) == lib.PW_ERR_INVALID
    assert lib.pw_bench_lookup_ns(0, 0) == lib.PW_ERR_INVALID
    assert lib.pw_bench_trace_ns(False, 0) == lib.PW_ERR_INVALID
