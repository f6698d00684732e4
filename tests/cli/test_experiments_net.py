"""Experiments of links that nodes share: what must come out of the mechanism, quickly."""

import dataclasses

import pytest
from experiment_checks import check_files, check_rows, quick

from pagewire.cli.experiments import net_incast, registry
from pagewire.cli.experiments.net_replays import replayed, settings_of
from pagewire.replay.patterns import Shape, Synthetic
from pagewire.replay.slowed import slowed

QUICK = quick()


@pytest.fixture(params=["incast", "halo", "neighbours", "slow-node"])
def result(request):
    return request.param, registry.EXPERIMENTS[f"net-{request.param}"].run(QUICK)


def times(rows, *names):
    return {tuple(row[name] for name in names): row["time_us"] for row in rows}


def check_incast(rows):
    found = times(rows, "senders", "memory", "timeout")
    for senders in (4, 8):
        by_memory = [found[senders, memory, "10ms"] for memory in net_incast.MEMORIES]
        assert by_memory == sorted(by_memory)
    for memory in ("ideal", "pretouch", "pin", "odp"):
        assert found[8, memory, "1ms"] == found[8, memory, "10ms"]
    assert found[8, "part", "10ms"] < found[8, "part", "1ms"]


def check_halo(rows):
    found = times(rows, "topology", "fresh", "memory")
    nets = ("torus", "fat tree", "the machine's own")
    without = [found[each, 0.0, "part"] for each in nets]
    assert without == sorted(without)
    more = [found[each, 0.1, "part"] / found[each, 0.0, "part"] for each in nets]
    assert more == sorted(more, reverse=True)
    (torus,) = {row["longest_wait_us"] for row in rows if row["topology"] == "torus"}
    assert torus < min(row["longest_wait_us"] for row in rows if row["topology"] == nets[-1])


def check_neighbours(rows):
    assert [row["slowdown"] for row in rows if row["neighbour"] == "none"] == [0, 0, 0]
    packed = [row["time_us"] for row in rows if row["placement"] == "packed"]
    assert packed == packed[:1] * 3
    found = times(rows, "placement", "neighbour")
    alone = found["round-robin", "none"]
    assert alone < found["round-robin", "faulting"] < found["round-robin", "resident"]


def check_slow_node(rows):
    found = times(rows, "fresh", "part", "factor")
    base_us = found[0.0, "nothing", 1]
    assert found[0.0, "page-in", 10] == base_us
    more_us = [found[0.0, "compute", factor] - base_us for factor in (2, 10)]
    assert more_us == [pytest.approx(each, rel=0.3) for each in (5 * 100, 5 * 900)]
    assert found[0.1, "page-in", 10] > 1.5 * found[0.1, "nothing", 1]


CHECKS = {
    "incast": check_incast,
    "halo": check_halo,
    "neighbours": check_neighbours,
    "slow-node": check_slow_node,
}


def test_result_is_whole_and_shows_what_its_notes_say(result, tmp_path):
    name, found = result
    CHECKS[name](found.rows)
    experiment = registry.EXPERIMENTS[f"net-{name}"]
    assert experiment.source.startswith("no paper's")
    check_rows(found)
    check_files(experiment, found, experiment.options(QUICK), tmp_path)


def test_incast_without_a_timeout_may_stand_still():
    row = net_incast._row(QUICK, 16, "part", "none")
    assert row["time_us"] == row["fifo_lost"] == net_incast.NO_END


def test_users_settings_count():
    slower = dataclasses.replace(QUICK, environ={"PAGEWIRE_RUN_PLATFORM": "exanest-10g"})
    assert settings_of(slower).platform.name != settings_of(QUICK).platform.name


def test_rank_with_settings_of_its_own_is_the_only_one_that_has_them():
    trace = Synthetic("incast", 3, Shape(compute_ns=10_000, steps=1))
    settings = settings_of(QUICK, "run.memory=ideal")
    slow, _ = slowed(settings, "compute", 3)
    alike, one = (replayed(trace, settings, others) for others in ({}, {1: slow}))
    spent = [[rank["compute_ns"] for rank in each.per_rank] for each in (alike, one)]
    assert spent == [[10_000] * 3, [10_000, 30_000, 10_000]]
