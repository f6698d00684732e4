"""Extension point ImpairmentPlanner: registry, module:Class, and what is refused."""

import dataclasses
import re

import pytest

from pagewire.native.impairments import ImpairmentsConfig
from pagewire.native.settings import ConfigError
from pagewire.run.settings.conformance import check_planner
from pagewire.run.settings.impairment_planners import REGISTRY, ImpairmentPlanner, plan

ON = ImpairmentsConfig(packet_loss="1:100:7", delay="1:2:3")


class Odd(ImpairmentPlanner):
    """Odd ranks lose every third ACK."""

    def plan(self, *, rank, num_ranks, configured):
        return dataclasses.replace(configured, lost_ack="1:3:7" if rank % 2 else "0:1:0")


class Fickle(ImpairmentPlanner):
    count = 0

    def plan(self, *, rank, num_ranks, configured):
        Fickle.count += 1
        return dataclasses.replace(configured, delay=f"1:2:{Fickle.count}")


class Empty(ImpairmentPlanner):
    def plan(self, *, rank, num_ranks, configured):
        return None


class Raises(ImpairmentPlanner):
    def plan(self, *, rank, num_ranks, configured):
        raise KeyError("nothing")


@pytest.mark.parametrize("name", REGISTRY.names())
def test_built_in_planners_conform(name):
    assert check_planner(REGISTRY.load(name)) > 100


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (Fickle, "must follow from its arguments alone"),
        (Empty, "a NoneType"),
        (Raises, "raised KeyError"),
    ],
)
def test_check_finds_a_bad_planner(bad, text):
    check_planner(Odd)
    with pytest.raises(AssertionError, match=text):
        check_planner(bad)


def test_uniform_plans_what_is_configured():
    assert plan(rank=3, num_ranks=4, configured=ON) == ON


def test_rank0_alone_fails():
    configured = dataclasses.replace(ON, planner="rank0")
    assert plan(rank=0, num_ranks=2, configured=configured).sites() == ON.sites()
    assert plan(rank=1, num_ranks=2, configured=configured) == configured.switched_off()


def test_class_of_a_module_is_found():
    configured = ImpairmentsConfig(planner=f"{__name__}:Odd")
    assert plan(rank=1, num_ranks=2, configured=configured).lost_ack == "1:3:7"
    sites = plan(rank=0, num_ranks=2, configured=configured).sites().values()
    assert not any(site.is_on for site in sites)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("unifrom", "did you mean 'uniform'"),
        (f"{__name__}:ON", "is not a subclass of"),
        (f"{__name__}:Empty", "plan() answered a NoneType"),
        (f"{__name__}:Raises", "plan() raised KeyError: 'nothing'"),
    ],
)
def test_bad_planner_is_refused_by_name(name, reason):
    with pytest.raises(ConfigError, match=re.escape(reason)):
        plan(rank=0, num_ranks=1, configured=ImpairmentsConfig(planner=name))
