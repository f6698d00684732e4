"""Extension point FaultInjector: registry, module:Class, and what is refused."""

import dataclasses
import re
import textwrap

import pytest

from pagewire.native.faults import FaultsConfig
from pagewire.native.settings import ConfigError
from pagewire.transport import fault_injectors
from pagewire.transport.fault_injectors import FaultInjector, check_conformance, create, plan

ON = FaultsConfig(packet_loss="1:100:7", delay="1:2:3")


class Odd(FaultInjector):
    """Odd ranks lose every third ACK."""

    def plan(self, *, rank, num_ranks, configured):
        return dataclasses.replace(configured, lost_ack="1:3:7" if rank % 2 else "0:1:0")


class Fickle(FaultInjector):
    count = 0

    def plan(self, *, rank, num_ranks, configured):
        Fickle.count += 1
        return dataclasses.replace(configured, delay=f"1:2:{Fickle.count}")


class Empty(FaultInjector):
    def plan(self, *, rank, num_ranks, configured):
        return None


class Raises(FaultInjector):
    def plan(self, *, rank, num_ranks, configured):
        raise KeyError("nothing")


@pytest.mark.parametrize("name", fault_injectors.REGISTRY)
def test_every_registered_injector_conforms(name):
    check_conformance(create(name))


def test_conformance_finds_what_is_wrong():
    check_conformance(Odd())
    for bad in (Fickle(), Empty()):
        with pytest.raises(AssertionError):
            check_conformance(bad)


def test_uniform_plans_what_is_configured():
    assert plan(rank=3, num_ranks=4, configured=ON) == ON


def test_rank0_alone_fails():
    configured = dataclasses.replace(ON, injector="rank0")
    assert plan(rank=0, num_ranks=2, configured=configured).sites() == ON.sites()
    assert not plan(rank=1, num_ranks=2, configured=configured).any_on


def test_class_of_a_module_is_found():
    configured = FaultsConfig(injector=f"{__name__}:Odd")
    assert plan(rank=1, num_ranks=2, configured=configured).lost_ack == "1:3:7"
    assert not plan(rank=0, num_ranks=2, configured=configured).any_on


def test_registered_class_is_found_by_its_name(monkeypatch):
    monkeypatch.setattr(fault_injectors, "REGISTRY", dict(fault_injectors.REGISTRY))
    fault_injectors.register("odd", Odd)
    assert isinstance(create("odd"), Odd)
    with pytest.raises(ConfigError, match="taken"):
        fault_injectors.register("odd", Odd)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("unifrom", "did you mean 'uniform'"),
        ("no_such_module:X", "no module named 'no_such_module'"),
        (f"{__name__}:Missing", "has no 'Missing'"),
        (f"{__name__}:ON", "is not a subclass of"),
        (f"{__name__}:Empty", "plan() gave NoneType"),
        (f"{__name__}:Raises", "plan() raised KeyError: 'nothing'"),
    ],
)
def test_bad_injector_is_refused_by_name(name, reason):
    with pytest.raises(ConfigError, match=re.escape(reason)):
        plan(rank=0, num_ranks=1, configured=FaultsConfig(injector=name))


def test_documented_example_is_short_and_works(tmp_path, monkeypatch):
    text = fault_injectors.__doc__ or ""
    example = textwrap.dedent(text[text.index("    from pagewire") : text.index("in a file")])
    assert len(example.splitlines()) < 30
    (tmp_path / "cables.py").write_text("import dataclasses\n" + example)
    monkeypatch.chdir(tmp_path)
    configured = FaultsConfig(injector="cables:BadCable")
    check_conformance(create("cables:BadCable"))
    assert plan(rank=1, num_ranks=2, configured=configured).packet_loss == "1:50:7"
    assert not plan(rank=0, num_ranks=2, configured=configured).any_on
