"""Unimem's experiments and its stream sockets': what must come out of the mechanism, quickly."""

import functools
import os

import pytest
from sockets_runs import run

from pagewire.cli.experiments import (
    registry,
    unimem_atomics,
    unimem_mailbox,
    unimem_memcached,
    unimem_sockets,
)
from pagewire.cli.kit.points import Points
from pagewire.cli.kit.result import Options
from pagewire.native import EngineError
from pagewire.run.settings import config, platform
from pagewire.unimem.streams.stream_nodes import StreamNodes

COSTS = platform.load("exanest-qfdb").costs


def options():
    return Options(environ=dict(os.environ), quick=True)


def nodes_of(memory, num_connections=1, ring_bytes=16384, **more):
    """Two nodes with pages that nobody has touched."""
    settings = {"run.memory": memory, "memory_backend.backend": "model",
                "memory_backend.fault_fraction": "1", **more}  # fmt: skip
    one = config.load([f"{name}={text}" for name, text in settings.items()], environ={})
    return StreamNodes([one, one], num_connections=num_connections, ring_bytes=ring_bytes)


def send_all(nodes, source, target, data):
    """Until all of it is there; what has come."""
    sent, got = source.send(data), b""
    while len(got) < len(data):
        node = nodes.step()
        assert node is not None
        got += target.receive()
        sent += source.send(data[sent:])
    return got


@functools.cache
def memcached(load, state, memory):
    return unimem_memcached.measure(
        options(), unimem_memcached.LOADS[load], unimem_memcached.STATES[state], memory, 24
    )


@pytest.mark.parametrize(
    ("memory", "pinned", "resident", "faults"),
    [("part", 0, 0, True), ("pretouch", 0, 4, False), ("pin", 4, 4, False)],
)
def test_strategy_when_a_connection_is_made_acts_on_the_ring_of_the_receiver(
    memory, pinned, resident, faults
):
    with nodes_of(memory) as nodes:
        nodes.listen(1, 80, 1)
        before_ns = nodes.now_ns(1)
        near, far = nodes.join(0, 1, 80)
        assert nodes.resident_pages(1) == resident
        assert nodes.pinned_peak_bytes(1) == pinned * 4096
        tables = platform.load("exanest-qfdb").tables
        if memory == "pin":
            assert nodes.now_ns(1) - before_ns >= tables["pin_absent"].cost_ns(4 * 4096)
        data = bytes(range(256)) * 128
        assert send_all(nodes, near, far, data) == data
        assert (nodes.counter(1, "translation_faults_destination") > 0) is faults


def test_program_when_its_ring_cannot_be_pinned_is_refused_and_why_is_said():
    ran = run(
        "time.sleep(60)",
        """
try:
    socket.create_connection(("10.77.0.1", 9))
except OSError as error:
    assert error.errno == errno.EADDRNOTAVAIL, error
else:
    raise SystemExit("it was pinned")
""",
        options=("--memory", "pin", "--set", "strategy.locked_limit=8KiB"),
    )
    assert "strategy.locked_limit allows 2" in ran.stderr
    assert "connections are taken" not in ran.stderr


def test_sender_when_the_receiver_is_slow_waits_for_its_credit_in_virtual_time():
    """Bytes of the second ring cannot be here before the first was read."""
    with nodes_of("ideal") as nodes:
        nodes.listen(1, 80, 1)
        near, far = nodes.join(0, 1, 80)
        assert near.send(bytes(20_000)) == 16384
        while nodes.step() is not None:
            pass
        nodes.compute(1, 5_000_000)
        read_ns = nodes.now_ns(1)
        assert len(far.receive()) == 16384
        num_sent = near.send(bytes(3616))
        assert num_sent == 0 and nodes.now_ns(0) < read_ns
        while not num_sent:
            assert nodes.step() is not None
            num_sent = near.send(bytes(3616))
        assert nodes.now_ns(0) >= read_ns


def test_virtual_times_of_sockets_are_equal_in_each_run_and_come_from_the_platform():
    sizes = [64, 4096, 65536]
    found = unimem_sockets.virtual(options(), 65536, sizes)
    assert found == unimem_sockets.virtual(options(), 65536, sizes)
    latencies = [latency for latency, _ in found]
    assert latencies == sorted(latencies)
    # The write and its acknowledgement, and then the message: three hops, and an interrupt.
    assert latencies[0] * 1e3 > 3 * COSTS.hop_ns + COSTS.handler_ns
    assert 0 < found[-1][1] * 8 < COSTS.link_mbps  # MB/s


def test_small_ring_when_messages_are_long_costs_round_trips():
    small = unimem_sockets.virtual(options(), 4096, [65536])
    large = unimem_sockets.virtual(options(), 65536, [65536])
    assert small[0][0] > 1.5 * large[0][0] and small[0][1] < large[0][1]


def test_changed_bytes_of_a_stream_are_an_error(monkeypatch):
    monkeypatch.setattr(unimem_sockets, "_goes_on", lambda got, data, at: len(data) != 64)
    with pytest.raises(EngineError, match="64 bytes: wrong data"):
        unimem_sockets.virtual(options(), 4096, [64])


def test_columns_say_whose_time_they_are():
    result = registry.EXPERIMENTS["unimem-sockets"].run(options())
    for each in result.columns[1:]:
        assert ("virtual" in each.title) != ("wall" in each.title), each
        assert all(row[each.key] > 0 for row in result.rows)


@pytest.mark.parametrize("memory", ["part", "pin", "odp"])
def test_memcached_when_run_again_takes_the_same_virtual_time(memory):
    first = memcached("large", "three_quarters", memory)
    memcached.cache_clear()
    assert memcached("large", "three_quarters", memory) == first


def test_faults_are_where_the_mechanism_has_them():
    fresh = {memory: memcached("large", "fresh", memory) for memory in ("part", "pretouch", "pin")}
    assert fresh["part"]["faults"] > 0
    assert fresh["pretouch"]["faults"] == fresh["pin"]["faults"] == 0
    assert fresh["part"]["p99"] > fresh["pretouch"]["p99"]
    assert fresh["part"]["set_up"] < fresh["pretouch"]["set_up"] < fresh["pin"]["set_up"]
    assert fresh["part"]["pinned"] == 0 < fresh["pin"]["pinned"]
    in_use = memcached("large", "warm", "part")
    assert in_use["faults"] == in_use["major_faults"] == 0
    assert in_use["rate"] > fresh["part"]["rate"]


def test_memory_that_is_short_is_slow_with_faults_and_refused_with_pins():
    in_use, short = (memcached("large", state, "part") for state in ("warm", "less_than_half"))
    assert short["faults"] > 0 and short["major_faults"] > 0
    assert short["rate"] < in_use["rate"] / 2
    assert short["resident"] <= 0.45 * 2 < in_use["resident"]
    with pytest.raises(EngineError, match="cannot be pinned"):
        memcached("large", "less_than_half", "pin")


def test_changed_values_of_a_store_are_an_error(monkeypatch):
    take = unimem_memcached._End.take

    def take_wrong(self, has_key):
        found = take(self, has_key)
        return found if found is None or not found[3] or has_key else (*found[:3], b"x")

    monkeypatch.setattr(unimem_memcached._End, "take", take_wrong)
    memcached.cache_clear()
    with pytest.raises(EngineError, match="wrong data"):
        memcached("large", "fresh", "part")


def test_percentile_is_a_value_that_was_measured():
    assert unimem_memcached.percentile(list(range(1, 101)), 0.99) == 99
    assert unimem_memcached.percentile([5], 0.5) == 5


@functools.cache
def rows(name):
    return registry.EXPERIMENTS[name].run(options()).rows


def service_us():
    """What the atomic service's core does for an operation on a word."""
    parts = (COSTS.mailbox_read_ns, COSTS.mailbox_read_ns, COSTS.atomic_decode_ns,
             COSTS.atomic_lookup_ns, COSTS.atomic_access_ns)  # fmt: skip
    return sum(parts) / 1e3


def test_a_hop_is_gone_twice_and_the_service_bounds_the_rate(monkeypatch):
    some = {each: unimem_atomics.OPERATIONS[each] for each in ("faa", "read64", "write128", "free")}
    monkeypatch.setattr(unimem_atomics, "OPERATIONS", some)
    for row in rows("unimem-operations"):
        more_ns = (row["latency_1"] - row["latency_0"]) * 1e3
        # two hops, and the links' line code of two packets, which a node's own do not have
        assert more_ns == pytest.approx(2 * COSTS.hop_ns + 3), row
        assert row["latency_0"] < row["latency_1"] < row["latency_2"], row
        assert (row["asleep"] - row["latency_0"]) * 1e3 == pytest.approx(COSTS.atomic_wakeup_ns), (
            row
        )
        assert 1 / row["latency_0"] < row["rate_0"] / 1e3, row
        if row["operation"] != "free":
            assert 0.8 < row["rate_0"] / 1e3 * service_us() <= 1, row
            assert row["rate_2"] < row["rate_1"] < row["rate_0"], row


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
    assert found[-1]["bursts"] - found[0]["bursts"] >= more_words * COSTS.mailbox_read_ns / 1e3


def test_wrong_data_of_a_mailbox_is_an_error(monkeypatch):
    monkeypatch.setattr(unimem_mailbox, "_parts", lambda data, num_bytes: [bytes(num_bytes)])
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
