"""The host of an engine: made from a run's settings, run, looked at, closed."""

import pytest
from engine_pair import BLOCK, PAGE, Buffer, Pair, pattern

from pagewire.lab.engine import NEVER, PDID, Engine
from pagewire.lab.joined import FOREVER, Joined
from pagewire.native import EngineError, check, lib
from pagewire.native.settings import ConfigError
from pagewire.run.settings.config import load
from pagewire.run.settings.platform import load as load_platform

PLATFORM = load_platform("exanest-qfdb")


class Kept(Joined):
    """Two engines as a run's settings make them; keeps kinds and times of the events."""

    def __init__(self, *assignments):
        loaded = load(assignments, environ={})
        super().__init__(Engine.of_config(loaded, PLATFORM, node, 2) for node in range(2))
        self.nis = [engine.ni for engine in self.engines]
        self.found = []

    def write(self, source, destination, num_bytes, at_ns=0):
        addresses = source.address, destination.address
        Pair.write_raw(self, *addresses, num_bytes, at_ns, pdid=PDID)

    def handle(self, node, event):
        check(event.error, "transfer")
        self.found.append((node, event.kind, event.time_ns))


def test_joined_engines_move_the_bytes_and_come_to_rest() -> None:
    joined = Kept()
    source, destination = Buffer(3 * BLOCK), Buffer(3 * BLOCK)
    source.fill(pattern(3 * BLOCK))
    joined.write(source, destination, 3 * BLOCK)
    joined.run()
    assert destination.read() == source.read()
    assert {(node, kind) for node, kind, _ in joined.found} == {
        (0, lib.PW_HOST_WRITE_DONE),
        (1, lib.PW_HOST_ARRIVED),
    }
    assert joined.is_quiet and all(engine.next_ns == NEVER for engine in joined.engines)
    (bank,) = joined.engines[1].context_banks()
    assert bank.pdid == PDID
    assert joined.engines[1].counters()["fault_interrupts"] > 0


def test_one_by_one_lets_the_handler_post_at_an_events_time() -> None:
    joined = Kept()
    buffers = Buffer(PAGE), Buffer(PAGE)
    for buffer in buffers:
        buffer.touch()
    posted = []

    def handle(node, event):
        Kept.handle(joined, node, event)
        if event.kind == lib.PW_HOST_WRITE_DONE and len(posted) < 3:
            posted.append(event.time_ns)
            joined.write(*buffers, PAGE, event.time_ns)

    joined.handle = handle
    joined.write(*buffers, PAGE)
    joined.run(one_by_one=True)
    done = [time_ns for _, kind, time_ns in joined.found if kind == lib.PW_HOST_WRITE_DONE]
    assert len(done) == 4 and done[:3] == posted and done == sorted(set(done))


def test_trace_names_its_kinds_and_is_in_time_order() -> None:
    joined = Kept()
    joined.trace_start(1000)
    buffers = Buffer(PAGE), Buffer(PAGE)
    joined.write(*buffers, PAGE)
    joined.run()
    records = joined.trace()
    assert {"nack_sent"} <= {record.kind for record in records}
    assert [record.time_ns for record in records] == sorted(record.time_ns for record in records)


def test_engine_runs_no_further_than_its_horizon() -> None:
    kept = Kept()
    engine = kept.engines[0]
    buffers = Buffer(PAGE), Buffer(PAGE)
    for buffer in buffers:
        buffer.touch()
    kept.write(*buffers, PAGE, 1_000_000)
    assert engine.run(999, lambda event: None) == 0
    assert 1_000_000 <= engine.next_ns < FOREVER
    assert not list(engine.bursts())


def test_settings_and_costs_must_be_those_of_the_engine() -> None:
    costs, settings = PLATFORM.costs.as_dict(), load(environ={}).engine_settings()
    with pytest.raises(ConfigError, match="pw_settings .* hupcf"):
        Engine(costs, {name: value for name, value in settings.items() if name != "hupcf"})
    with pytest.raises(ConfigError, match="pw_costs .* tea_ns"):
        Engine(costs | {"tea_ns": 1}, settings)


def test_context_manager_closes_and_a_refusal_says_what() -> None:
    costs, settings = PLATFORM.costs.as_dict(), load(environ={}).engine_settings()
    with Engine(costs, settings) as engine:
        assert engine.is_quiet
    with pytest.raises(EngineError, match="engine"):
        Engine(costs, settings, node=3, num_nodes=2)
