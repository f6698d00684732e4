"""Platform files: every value has unit and source, conversions, and what is refused."""

import copy
import dataclasses
import re
import tomllib

import pytest

from pagewire.native import ffi
from pagewire.native.settings import ConfigError
from pagewire.run.settings import platform
from pagewire.run.settings.platform import Costs, CostTable


@pytest.fixture
def document():
    return copy.deepcopy(
        tomllib.loads((platform.FOLDER / "exanest-qfdb.toml").read_text(encoding="utf-8"))
    )


def refused(document) -> str:
    with pytest.raises(ConfigError) as caught:
        platform.parse(document, "test")
    return str(caught.value)


def test_compute_takes_the_longer_of_arithmetic_and_memory():
    rates = platform.load("exanest-qfdb").rates
    assert rates.duration_ns(3.12e9, 0) == 1_000_000_000
    assert rates.duration_ns(1, 5.7e9 / 8) == 1_000_000_000


@pytest.mark.parametrize("name", platform.names())
def test_every_value_of_a_bundled_platform_has_a_unit_and_a_source(name):
    machine = platform.load(name)
    assert set(machine.cost_origins) == {
        *Costs.FIELDS,
        *(field.name for field in dataclasses.fields(platform.Rates)),
    }
    assert set(machine.tables) == set(machine.table_origins) == set(platform.TABLES)
    for origin in (*machine.cost_origins.values(), *machine.table_origins.values()):
        assert origin.unit
        assert re.match(
            r"(PART|PSI|R5|D3\.6|MINI|UTLB|NP|PCI Express|Linux|Akaros)\b", origin.source
        )


def test_default_platform_has_the_constants_of_the_papers():
    costs = platform.load("exanest-qfdb").costs
    assert (costs.walk_ns, costs.handler_ns, costs.netlink_ns) == (600, 1_000, 7_000)
    assert (costs.page_in_fixed_ns, costs.page_in_page_ns) == (6_000, 3_000)
    assert (costs.link_mbps, costs.link_between_mbps, costs.hop_ns) == (17_000, 10_000, 150)
    assert costs.smmu_clock_ps == 3_003
    assert all(type(value) is int for value in costs.as_dict().values())


def test_costs_are_those_of_the_engines_struct():
    costs = platform.load("exanest-qfdb").costs
    assert tuple(costs.as_dict()) == tuple(name for name, _ in ffi.typeof("pw_costs").fields)
    assert costs == platform.load("exanest-qfdb").costs
    with pytest.raises(AttributeError, match="did you mean 'walk_ns'"):
        _ = costs.walks_ns
    with pytest.raises(AttributeError):
        costs.walk_ns = 1  # type: ignore[misc]
    some = dict(list(costs.as_dict().items())[1:])
    with pytest.raises(ConfigError, match=f"differ in {Costs.FIELDS[0]}"):
        Costs(some)


def test_prototype_differs_from_the_qfdb_in_its_links_alone():
    qfdb, prototype = platform.load("exanest-qfdb"), platform.load("exanest-10g")
    mine, theirs = prototype.costs.as_dict(), qfdb.costs.as_dict()
    assert {name for name in mine if mine[name] != theirs[name]} == {"link_mbps"}
    assert prototype.costs.link_mbps == prototype.costs.link_between_mbps == 10_000
    assert (prototype.rates, prototype.tables) == (qfdb.rates, qfdb.tables)


def test_juno_is_the_prototype_but_for_what_its_deliverable_says():
    juno, prototype = platform.load("exanode-juno"), platform.load("exanest-10g")
    mine, theirs = juno.costs.as_dict(), prototype.costs.as_dict()
    assert {name for name in mine if mine[name] != theirs[name]} == {"packetizer_payload_bytes"}
    assert (juno.rates, juno.tables) == (prototype.rates, prototype.tables)
    stated = {name for name, each in juno.cost_origins.items() if each.platform == "exanode-juno"}
    assert all(juno.cost_origins[name].source.startswith("D3.6") for name in stated)
    for origins in (juno.cost_origins, juno.table_origins):
        for name, origin in origins.items():
            is_taken = origin.assumed.startswith("as exanest-10g: D3.6 does not give it")
            assert is_taken == (name not in stated), name


def derive(folder, name, base, *costs):
    """A platform file with a base and these costs."""
    lines = [f'description = "{name}"', f'base = "{base}"']
    for cost in costs:
        lines += [f"[costs.{cost}]", "value = 7", 'unit = "ns"', f'source = "{name}"']
    (folder / f"{name}.toml").write_text("\n".join(lines), encoding="utf-8")


def test_base_gives_what_a_file_does_not_say(tmp_path):
    (tmp_path / "deep").mkdir()
    derive(tmp_path / "deep", "first", "exanest-10g", "hop", "walk")
    derive(tmp_path, "second", "deep/first.toml", "walk")
    first, second = (
        platform.load(str(tmp_path / each)) for each in ("deep/first.toml", "second.toml")
    )
    costs = platform.load("exanest-10g").costs.as_dict()
    assert second.costs.as_dict() == first.costs.as_dict() == costs | {"hop_ns": 7, "walk_ns": 7}
    origins = second.cost_origins
    names = ("walk_ns", "hop_ns", "link_mbps", "walk_accesses")
    files = ["second", "first", "exanest-10g", "exanest-qfdb"]
    assert [origins[name].platform for name in names] == files
    assert (origins["walk_ns"].source, origins["hop_ns"].source) == ("second", "first")
    assert second.description == "second" and second.tables == first.tables


def test_base_that_leads_back_is_refused_by_the_files_names(tmp_path):
    for name, base in (("a", "b.toml"), ("b", "c.toml"), ("c", "a.toml")):
        derive(tmp_path, name, base)
    with pytest.raises(ConfigError, match="leads back") as caught:
        platform.load(str(tmp_path / "a.toml"))
    assert str(caught.value).endswith(
        ", ".join(str(tmp_path / f"{name}.toml") for name in ("a", "b", "c", "a"))
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"base": 5}, "base = 5: expected the name or path"),
        ({"base": "exanest"}, "unknown platform 'exanest' (did you mean 'exanest-"),
        ({"base": "none.toml"}, "No such file"),
        ({"base": "exanest-qfdb", "assumed": " "}, "assumed must be a text"),
        ({"base": "exanest-qfdb", "costs": 5}, "'costs' must be a table"),
        ({"base": "exanest-qfdb", "costs": {"hops": {}}}, "unknown key 'costs.hops'"),
        ({"base": "exanest-qfdb", "costs": {"hop": {"value": 1}}}, "missing costs.hop.unit"),
        ({"assumed": "x"}, "unknown key 'assumed'"),
    ],
)
def test_bad_base_is_refused(change, reason):
    assert reason in refused({"description": "d", **change})


def test_hardware_latency_and_payload_rate_follow_from_the_components():
    costs = platform.load("exanest-qfdb").costs
    packet_bytes = 256 + costs.packet_header_bytes
    on_link_ns = packet_bytes * 8 * 1000 / (costs.link_mbps * costs.link_coding_permille / 1000)
    assert costs.ni_send_ns + costs.hop_ns + on_link_ns + costs.ni_receive_ns < 1_000
    payload_mbps = costs.link_between_mbps * costs.link_coding_permille / 1000 * 256 / packet_bytes
    assert payload_mbps > 8_000


@pytest.mark.parametrize(
    ("key", "unit", "value", "field", "expected"),
    [
        ("walk", "us", 0.6, "walk_ns", 600),
        ("link", "Mb/s", 17000, "link_mbps", 17_000),
        ("packet_header", "KiB", 1, "packet_header_bytes", 1024),
        ("link_coding", "percent", 97, "link_coding_permille", 970),
        ("smmu_clock", "GHz", 1, "smmu_clock_ps", 1_000),
        ("smmu_clock", "ns", 3, "smmu_clock_ps", 3_000),
    ],
)
def test_units_are_converted_to_base_units(document, key, unit, value, field, expected):
    document["costs"][key] |= {"value": value, "unit": unit}
    assert getattr(platform.parse(document, "test").costs, field) == expected


def test_unknown_and_missing_keys_are_named(document):
    document["costs"]["walks"] = document["costs"].pop("walk")
    assert "unknown key 'costs.walks' (did you mean 'walk'?)" in refused(document)
    del document["costs"]["walks"]
    assert "missing costs.walk" in refused(document)


def test_missing_parts_of_an_entry_are_named(document):
    for part in ("value", "unit", "source"):
        changed = copy.deepcopy(document)
        del changed["costs"]["hop"][part]
        assert f"missing costs.hop.{part}" in refused(changed)
    document["costs"]["hop"]["sauce"] = "x"
    assert "unknown key 'costs.hop.sauce' (did you mean 'source'?)" in refused(document)


@pytest.mark.parametrize(
    ("part", "value", "expected"),
    [
        ("unit", "GB/s", "allowed is one of ns, us, ms, s"),
        ("unit", ["ns"], "costs.hop.unit"),
        ("value", -1, "from 0"),
        ("value", "150", "expected a number"),
        ("value", float("nan"), "from 0"),
        ("value", 0.5, "not a whole number of ns"),
        ("source", " ", "not empty"),
        ("assumed", 3, "not empty"),
    ],
)
def test_bad_part_of_an_entry_is_refused(document, part, value, expected):
    document["costs"]["hop"][part] = value
    assert expected in refused(document)


def test_what_is_divided_by_is_above_zero(document):
    document["costs"]["link"]["value"] = 0
    assert "must be above 0" in refused(document)


def test_unknown_platform_lists_the_known(tmp_path):
    with pytest.raises(ConfigError, match="did you mean 'exanest-qfdb'"):
        platform.load("exanest-qfbd")
    with pytest.raises(ConfigError, match="No such file"):
        platform.load(str(tmp_path / "none.toml"))
    broken = tmp_path / "broken.toml"
    broken.write_text("[costs\n")
    with pytest.raises(ConfigError, match=r"broken\.toml"):
        platform.load(str(broken))


def test_table_is_linear_between_points_and_keeps_its_last_slope():
    table = CostTable((4096, 8192, 16384), (1_000, 2_000, 6_000))
    sizes = (0, 1, 4096, 6144, 8192, 12288, 16384, 24576)
    assert [table.cost_ns(size) for size in sizes] == [0, 1000, 1000, 1500, 2000, 4000, 6000, 10000]
    assert CostTable((4096,), (2_000,)).cost_ns(1 << 20) == 2_000


def test_tables_of_the_default_platform_go_through_the_papers_points():
    machine = platform.load("exanest-qfdb")
    assert machine.table("touch_resident").cost_ns(1 << 20) == 20_000
    assert machine.table("touch_resident").cost_ns(4 << 20) == 152_000
    assert machine.table("pin_absent").cost_ns(64 << 10) == 49_000
    assert machine.table("unpin").cost_ns(1) == 2_000


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([], "must be a list"),
        ([[4, 3], [4, 5]], "sizes must rise"),
        ([[4, 3], [8, 2]], "times must not fall"),
        ([[4]], "is not [size, time]"),
        ([[4, "x"]], "expected a number"),
    ],
)
def test_bad_points_are_refused(document, points, expected):
    document["tables"]["unpin"]["points"] = points
    assert expected in refused(document)
