"""The host of an engine: made from a run's settings, run, looked at, closed."""

import pytest
from engine_pair import BLOCK, PAGE

from pagewire.lab.buffer import Buffer
from pagewire.lab.engine import Engine
from pagewire.lab.nodes import Nodes
from pagewire.native import EngineError, check, lib
from pagewire.native.settings import ConfigError
from pagewire.ni.engine_view import NEVER, PDID
from pagewire.run.settings.config import load
from pagewire.run.settings.platform import load as load_platform

PLATFORM = load_platform("exanest-qfdb")


@pytest.fixture
def nodes() -> Nodes:
    return Nodes(load(environ={}), PLATFORM)


def touched() -> tuple[Buffer, Buffer]:
    buffers = Buffer(PAGE), Buffer(PAGE)
    for buffer in buffers:
        buffer.touch()
    return buffers


def test_joined_engines_come_to_rest_and_show_what_they_traced(nodes) -> None:
    nodes.trace_start(1000)
    buffers = Buffer(3 * BLOCK), Buffer(3 * BLOCK)
    nodes.write(*buffers, 3 * BLOCK, 0)
    assert nodes.times().keys() == {(0, lib.PW_HOST_WRITE_DONE), (1, lib.PW_HOST_ARRIVED)}
    assert nodes.is_quiet and all(lib.pw_ni_next_ns(each.ni) == NEVER for each in nodes.engines)
    (bank,) = nodes.engines[1].context_banks()
    assert bank.pdid == PDID
    assert nodes.engines[1].counters()["fault_interrupts"] > 0
    records = nodes.trace()
    assert "nack_sent" in {record.kind for record in records}
    assert [record.time_ns for record in records] == sorted(record.time_ns for record in records)


def test_who_watches_can_post_at_an_events_time(nodes) -> None:
    buffers, done = touched(), []

    def handle(node, event):
        check(event.error, "transfer")
        if event.kind == lib.PW_HOST_WRITE_DONE:
            done.append(event.time_ns)
            if len(done) < 4:
                nodes.write(*buffers, PAGE, event.time_ns)

    nodes.write(*buffers, PAGE, 0)
    nodes.watch(handle)
    assert len(done) == 4 and done == sorted(set(done))


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
