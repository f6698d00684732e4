"""Whatever stands where the launcher looks for what the ranks left: it is read, or the rank is
named, and a record that is none is passed over."""

import pathlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pagewire.cli.kit import watch
from pagewire.run.report import report

fuzzed = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine takes its time."""
REPORT = b'{"blocks": 3, "nacks_by_code": [0, 1], "mpi_calls": {"Send": {"calls": 1}}}'
NOTE = b'{"rank": 1, "time_ns": 5, "code": 1, "reason": "failed: because"}'


def damaged(whole: bytes) -> st.SearchStrategy[bytes]:
    """The bytes cut short, with some replaced, or others."""
    at = st.integers(0, len(whole))
    replaced = st.tuples(at, st.integers(0, 9), st.binary(max_size=6)).map(
        lambda change: whole[: change[0]] + change[2] + whole[change[0] + change[1] :]
    )
    nested = st.integers(2000, 3000).map(lambda depth: b"[" * depth)
    return replaced | at.map(lambda end: whole[:end]) | st.binary(max_size=60) | nested


@fuzzed
@given(damaged(REPORT))
def test_a_damaged_report_is_read_or_its_rank_named(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    folder = tmp_path_factory.getbasetemp() / "reports"
    folder.mkdir(exist_ok=True)
    (folder / "0.report").write_bytes(REPORT)
    (folder / "1.report").write_bytes(content)
    try:
        per_rank = report.collect(folder, 2)
    except report.IncompleteError as error:
        assert "rank 1" in str(error)
        return
    assert len(per_rank) == 2 and isinstance(per_rank[1], dict)


@fuzzed
@given(damaged(NOTE))
def test_a_damaged_record_hides_no_other(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    folder = tmp_path_factory.getbasetemp() / "records"
    folder.mkdir(exist_ok=True)
    (folder / "0.note").write_bytes(NOTE)
    (folder / "1.note").write_bytes(content)
    (folder / "2.end").write_bytes(b'{"rank": 2, "time_ns": 4, "code": 0}')
    assert 1 <= len(watch.failures(folder)) <= 2
    assert watch.unfinished(folder) == []


@pytest.mark.parametrize("content", [b"7", b"[]", b"{}", b'{"rank": 0}', b'{"time_ns": null}'])
def test_json_that_is_no_record_is_passed_over(tmp_path: pathlib.Path, content: bytes) -> None:
    (tmp_path / "0.note").write_bytes(content)
    assert watch.failures(tmp_path) == []
