"""Settings, platforms and names of counters in C are those of Python, field by field; a setting's
text means the same to both."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from node_configs import assert_same, fields, table_of

from pagewire.native import declared, ffi, lib
from pagewire.native.declared import text
from pagewire.native.impairments import SITES
from pagewire.native.settings import ConfigError
from pagewire.node.strategies.pages import TABLES
from pagewire.run.settings import platform
from pagewire.run.settings.config import REGISTRY, Config, load

NOT_OF_A_NODE = {name for name, row in declared.rows().items() if row.is_of_run}


def listed(at: Any) -> list[Any]:
    found: list[Any] = []
    while each := at(len(found)):
        found.append(each)
    return found


class Refused(Exception):
    pass


def read(*assignments: str) -> Any:
    """pw_node_config of these texts; Refused with the sentence."""
    texts = [ffi.new("char[]", each.encode()) for each in assignments]
    out, reason = ffi.new("pw_node_config *"), ffi.new("pw_sentence *")
    code = lib.pw_node_config_of_texts([*texts, ffi.NULL], out, reason)
    if code < 0:
        assert code == lib.PW_ERR_INVALID
        raise Refused(text(reason.text))
    return out


def same(out: Any, config: Config) -> None:
    """Every field of C is what Python makes of the same settings."""
    assert_same(out, config, platform.load(config.run.platform), config.impairments, 0)


def test_defaults_are_those_of_the_registry() -> None:
    same(read(), Config())


def test_sites_are_in_the_engines_order() -> None:
    enum = ffi.typeof("enum pw_impairment_id").elements
    assert [enum[idx].removeprefix("PW_IMPAIRMENT_").lower() for idx in range(len(SITES))] == list(
        SITES
    )


def test_platforms_are_those_of_the_files() -> None:
    found = {text(each.name): each for each in listed(lib.pw_platform_at)}
    assert sorted(found) == platform.names()
    for name, each in found.items():
        expected = platform.load(name)
        assert text(each.description) == expected.description
        assert fields(each.costs) == expected.costs.as_dict()
        for idx, table_name in enumerate(TABLES):
            assert getattr(lib, f"PW_COST_{table_name.upper()}") == idx
            assert table_of(each.tables.table[idx]) == expected.tables[table_name]


def test_every_setting_has_a_row_and_every_cost() -> None:
    names = {text(row.name) for row in listed(lib.pw_setting_row_at)}
    costs = {f"costs.{name}" for name in platform.Costs.FIELDS}
    assert names == {*REGISTRY, *costs, *(f"tables.{name}" for name in TABLES)}


def test_counters_have_their_names_in_the_order_of_the_struct() -> None:
    counters = ffi.new("pw_counters *")
    words = ffi.cast("uint64_t *", counters)
    for idx, name in enumerate(map(text, listed(lib.pw_counter_name_at))):
        words[idx] = 1000 + idx
        if hasattr(counters, name):
            assert getattr(counters, name) == 1000 + idx
        else:
            field, _, element = name.rpartition("_")
            assert getattr(counters, field)[int(element)] == 1000 + idx
    assert ffi.sizeof("pw_counters") == 8 * (idx + 1)


@pytest.mark.parametrize("name", sorted(NOT_OF_A_NODE))
def test_settings_of_a_run_are_refused_by_name(name: str) -> None:
    with pytest.raises(Refused, match=f"{name} is a setting of a run"):
        read(f"{name}=1")


NUMBERS = st.one_of(
    st.integers(-3, 130).map(str),
    st.sampled_from([str(2**shift) for shift in (10, 16, 20, 32, 40, 63, 64)]),
    st.sampled_from(
        ["0.5", "1.5", "1e-6", "+4", "-0.5", "1e3", "0.3333333", "1.", ".5", "1e", "1e+1"]
    ),
)
UNITS = st.sampled_from(
    ["", "ns", "us", "ms", "s", "B", "KiB", "MiB", "GiB", "kB", "MB", "GB", "kb"]
    + ["k", "K", "M", "G", "m", "g"]
)
WORDS = st.sampled_from(
    ["none", "NONE", "true", "On", "no", "0", "", " ", "model", "2:1:0", "1:2:3", "1:2:3:4"]
    + ["1:1:1", "0:1:0", "1:2", "1:2:3:4:5", "1:2:-3", "page ", "\tall"]
)
TEXTS = st.one_of(
    st.builds("{}{}".format, NUMBERS, UNITS), WORDS, st.builds("{} {}".format, NUMBERS, UNITS)
)


def values(name: str) -> st.SearchStrategy[str]:
    choices = REGISTRY[name].choices
    return TEXTS if choices is None else st.one_of(st.sampled_from(choices), TEXTS)


ASSIGNMENTS = st.lists(
    st.sampled_from(sorted(set(REGISTRY) - NOT_OF_A_NODE)).flatmap(
        lambda name: values(name).map(lambda value: f"{name}={value}")
    ),
    max_size=4,
)


@settings(deadline=None)
@given(assignments=ASSIGNMENTS)
@example(assignments=["run.timeout=none", "run.err=false"])
@example(assignments=["run.timeout=none", "run.err=false", "run.memory=pin"])
@example(assignments=["run.nack_cancels_timer=true", "run.err=false"])
@example(assignments=["run.nack_cancels_timer=true", "impairments.lost_err=1:2:3"])
@example(assignments=["run.timeout=none", "impairments.lost_nack=1:2:3"])
@example(assignments=["impairments.packet_corruption=1:1:3"])
@example(assignments=["impairments.packet_corruption=1:1:3:9"])
@example(
    assignments=[
        "run.translation=static",
        "run.timeout=none",
        "impairments.packet_corruption=1:2:3",
    ]
)
@example(assignments=["smmu.mode=stall", "driver.page_in=touch-a-page"])
@example(assignments=["smmu.mode=stall", "ni.interleave=packet"])
@example(assignments=["firmware.medium_limit=1KiB"])
@example(assignments=["run.platform=exanest-10g", "run.memory=ideal"])
@example(assignments=["run.timeout=1.1us"])
@example(assignments=["memory_backend.fault_fraction=0.25"])
@example(assignments=["memory_backend.fault_fraction=0.30000000000000004"])
def test_a_text_means_the_same_to_c_and_python(assignments: list[str]) -> None:
    try:
        config = load(assignments, environ={})
        platform.load(config.run.platform)
        if config.run.compute == "replay":
            raise ConfigError("not in C")
    except ConfigError:
        with pytest.raises(Refused) as refused:
            read(*assignments)
        assert len(str(refused.value)) > 20
    else:
        same(read(*assignments), config)


def test_a_cost_can_be_given_by_itself() -> None:
    out = read("costs.walk_ns=1234", "run.platform=exanest-10g", "tables.copy=4096:1 8192:2")
    expected = platform.load("exanest-10g").costs.as_dict() | {"walk_ns": 1234}
    assert fields(out.costs) == expected
    assert list(out.tables.table[lib.PW_COST_COPY].cost_ns[0:2]) == [1, 2]


@pytest.mark.parametrize(
    "assignment,sentence",
    [
        ("run.policy=al", "run.policy = 'al': allowed is one of page, block, all"),
        ("run.polic=all", "unknown setting 'run.polic'; there are run.memory, run.policy"),
        ("nonsense", "setting 'nonsense': expected section.name=value"),
        ("x.y=1", "unknown setting 'x.y'; there are those of docs/settings.md"),
        ("smmu.l1_sets=3", "smmu.l1_sets = '3': allowed is a power of two from 1 to 65536"),
        ("run.timeout=5", "run.timeout = '5': allowed is a duration with unit"),
        ("costs.link_mbps=0", "link_mbps = 0: allowed is a whole number from 1"),
        ("run.compute=replay", "run.compute = 'replay' has nothing to replay"),
        ("run.policy=my:Own", "run.policy = 'my:Own': allowed is one of page, block, all"),
    ],
)
def test_what_is_refused_says_value_and_what_is_allowed(assignment: str, sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        read(assignment)
    assert str(refused.value).startswith(sentence)


def test_a_long_name_is_cut_and_not_overrun() -> None:
    with pytest.raises(Refused) as refused:
        read("x" * 5000 + "=1")
    assert len(str(refused.value)) == 511
