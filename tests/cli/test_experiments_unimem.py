"""Unimem's experiments: what must come out of the mechanism, in the quick form."""

import functools
import os

import pytest

from pagewire.cli.experiments import registry, unimem_atomics, unimem_mailbox
from pagewire.cli.kit.points import Points
from pagewire.cli.kit.result import Options
from pagewire.native import EngineError
from pagewire.run.settings import platform


def options(**given):
    environ = {k: v for k, v in os.environ.items() if not k.startswith("PAGEWIRE_RUN")}
    return Options(environ={**environ, **given}, quick=True)


@functools.cache
def rows(name):
    return registry.EXPERIMENTS[name].run(options()).rows


def costs():
    return platform.load("exanest-qfdb").costs


def service_us():
    """What the atomic service's core does for an operation on a word."""
    c = costs()
    parts = (c.mailbox_read_ns, c.mailbox_read_ns, c.atomic_decode_ns, c.atomic_lookup_ns,
             c.atomic_access_ns)  # fmt: skip
    return sum(parts) / 1e3


def test_a_hop_is_gone_twice_and_the_service_bounds_the_rate(monkeypatch):
    some = {each: unimem_atomics.OPERATIONS[each] for each in ("faa", "read64", "write128", "free")}
    monkeypatch.setattr(unimem_atomics, "OPERATIONS", some)
    for row in rows("unimem-operations"):
        more_ns = (row["latency_1"] - row["latency_0"]) * 1e3
        assert more_ns == pytest.approx(2 * costs().hop_ns), row
        assert row["latency_0"] < row["latency_1"] < row["latency_3"], row
        assert 1 / row["latency_0"] < row["rate_0"] / 1e3, row
        if row["operation"] != "free":
            assert 0.8 < row["rate_0"] / 1e3 * service_us() <= 1, row
            assert row["rate_3"] < row["rate_1"] < row["rate_0"], row


def test_contention_is_for_the_owner_not_for_the_word():
    found = {(row["words"], row["threads"]): row for row in rows("unimem-contention")}
    for num_threads in (1, 8, 64):
        one = found["one word", num_threads]
        assert one["rate"] == found["a word each, one owner", num_threads]["rate"]
        assert one["latency"] <= one["slowest"]
    most = found["one word", 64]
    assert 0.9 < most["rate"] * service_us() <= 1
    assert most["latency"] > 0.8 * 64 * service_us()
    assert found["a word each, at the next node", 64]["rate"] > 6 * most["rate"]


def test_lost_additions_are_an_error(monkeypatch):
    monkeypatch.setitem(
        unimem_atomics.OPERATIONS, "faa",
        lambda thread, page: thread.write64(page, thread.read64(page) + 1),
    )  # fmt: skip
    with pytest.raises(EngineError, match="24 additions of 1 gave"):
        unimem_atomics._count(options(), 8, "one_word")


def test_the_mailbox_is_for_what_is_small():
    found = rows("unimem-mailbox")
    assert found[0]["bursts"] < found[0]["packets"] < found[0]["rdma"]
    assert found[-1]["rdma"] < found[-1]["bursts"] < found[-1]["packets"]
    more_words = (found[-1]["num_bytes"] - found[0]["num_bytes"]) / 16
    assert found[-1]["bursts"] - found[0]["bursts"] >= more_words * costs().mailbox_read_ns / 1e3


def test_wrong_data_of_a_mailbox_is_an_error(monkeypatch):
    monkeypatch.setattr(unimem_mailbox, "_word", lambda data: (0, 0))
    with pytest.raises(EngineError, match="16 bytes by bursts: wrong data"):
        unimem_mailbox._through_mailbox(options(), "bursts", [16])


def test_a_stopped_experiment_has_the_table_of_what_was_measured():
    points = Points()
    stopped = Options(environ=options().environ, quick=True, points=points)
    first = unimem_mailbox.WAYS["bursts"][0]
    points.take(first, lambda: [1.0, 2.0, 3.0])
    points.stop()
    result = unimem_mailbox.mailbox(stopped)
    assert [each.key for each in result.columns] == ["num_bytes", "bursts"]
    assert result.rows[0] == {"num_bytes": 16, "bursts": 1.0}
