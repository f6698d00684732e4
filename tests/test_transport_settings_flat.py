"""The node file: what Python writes is what C reads, and any other file is refused by name."""

import dataclasses
import os
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagewire.native import ffi, lib
from pagewire.native.impairments import SITES, ImpairmentsConfig
from pagewire.native.settings import ConfigError
from pagewire.transport.memory.pages import TABLES
from pagewire.transport.settings import flat, impairment_planners, platform
from pagewire.transport.settings.config import REGISTRY, SECTIONS, Config, load
from pagewire.transport.settings.impairment_planners import ImpairmentPlanner

PLATFORM = platform.load("exanest-qfdb")
GOOD = flat.content(Config(), PLATFORM, num_ranks=4)


class Steps(ImpairmentPlanner):
    """Each rank has a plan of its own."""

    def plan(self, *, rank, num_ranks, configured):
        return dataclasses.replace(configured, delay=f"1:{rank + 2}:{rank}", delay_by_ns=rank)


def read(path, node=0):
    """The struct that C reads; AssertionError with its sentence when it refuses."""
    out, reason = ffi.new("pw_node_config *"), ffi.new("char[]", lib.PW_CONFIG_REASON_BYTES)
    code = lib.pw_node_config_read(os.fsencode(path), node, out, reason)
    if code:
        assert out.text == ffi.NULL
        raise AssertionError(code, ffi.string(reason).decode(errors="replace"))
    return ffi.gc(out, lib.pw_node_config_free)


def fields(struct):
    """A struct's integers by field."""
    return {name: getattr(struct, name) for name, _ in ffi.typeof(struct).fields}


def text_of(struct, name):
    return os.fsdecode(ffi.string(getattr(struct, name)))


def refusal(path, content, node=0):
    path.write_bytes(content)
    with pytest.raises(AssertionError) as caught:
        read(path, node)
    code, sentence = caught.value.args
    assert code == lib.PW_ERR_INVALID
    assert sentence.startswith(f"node file '{path}'")
    return sentence.removeprefix(f"node file '{path}'")


def compare(out, config, machine, num_ranks, node):
    """Everything that a node file holds."""
    assert fields(out.costs) == machine.costs.as_dict()
    assert fields(out.settings) == config.engine_settings()
    for idx, name in enumerate(TABLES):
        table, expected = out.tables.table[idx], machine.table(name)
        points = (
            tuple(table.num_bytes)[: table.num_points],
            tuple(table.cost_ns)[: table.num_points],
        )
        assert points == (expected.sizes_bytes, expected.costs_ns)
    run = config.run
    for name in (
        "memory",
        "policy",
        "platform",
        "compute_record",
        "compute_replay",
        "json",
        "trace",
        "html",
        "wire_interface",
    ):
        assert text_of(out.run, name) == getattr(run, name)
    assert text_of(out.run, "scheduling") == config.firmware.scheduling
    for name in ("strict", "quiet", "compute_scale"):
        assert getattr(out.run, name) == getattr(run, name)
    assert out.run.compute == ("measured", "replay", "model", "none").index(run.compute)
    assert out.run.wtime == ("virtual", "wall").index(run.wtime)
    assert out.run.clocks == ("host", "virtual").index(run.clocks)
    assert out.run.wire == ("auto", "mpi", "shm", "tcp").index(run.wire)
    assert out.run.huge_pages == ("never", "host").index(run.huge_pages)
    assert out.run.watchdog_ns == (-1 if run.watchdog_ns is None else run.watchdog_ns)
    assert out.run.num_nodes == num_ranks
    planned = impairment_planners.plan(
        rank=node, num_ranks=num_ranks, configured=config.impairments
    )
    amounts_ns = planned.amounts_ns()
    for idx, (name, site) in enumerate(planned.sites().items()):
        have = out.impairments[idx]
        assert (have.num, have.denom, have.seed, have.limit, have.amount_ns) == (
            *site,
            amounts_ns.get(name, 0),
        )
    changed = [out.changed[idx] for idx in range(out.num_changed)]
    assert {text_of(each, "name"): text_of(each, "text") for each in changed} == {
        name: os.fsdecode(os.fsencode(text)) for name, text in config.not_default().items()
    }


def values(declaration):
    """Values of a setting over all that it takes, its limits among them."""
    if declaration.section == "impairments" and declaration.field in SITES:
        numbers = st.tuples(
            st.integers(0, 10), st.integers(11, 10**9), st.integers(0, 2**63 - 1),
            st.integers(0, 2**63 - 1),
        )  # fmt: skip
        return numbers.map(lambda each: ":".join(map(str, each)))
    if declaration.choices is not None:
        own = [] if declaration.extensions is None else ["my.module:Own"]
        if declaration.name == "impairments.planner":
            own = [f"{__name__}:Steps"]
        made = st.sampled_from([*declaration.choices, *own])
    elif declaration.kind == "bool":
        made = st.booleans()
    elif declaration.kind in ("path", "text"):
        made = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
    elif declaration.kind == "float":
        made = st.floats(declaration.minimum, declaration.maximum)
    else:
        low = -(2**63) if declaration.minimum is None else int(declaration.minimum)
        high = 2**63 - 1 if declaration.maximum is None else int(declaration.maximum)
        made = st.integers(low, high) | st.sampled_from([low, high])
        if declaration.power_of_two:
            powers = [2**each for each in range(63) if low <= 2**each <= high]
            made = st.sampled_from(powers)
    return made | st.none() if declaration.none_allowed else made


@st.composite
def configurations(draw):
    """A few settings changed at a time, else nearly all would be refused together."""
    names = draw(st.lists(st.sampled_from(sorted(REGISTRY)), max_size=12, unique=True))
    sections = {section: {} for section in SECTIONS}
    for name in names:
        sections[REGISTRY[name].section][REGISTRY[name].field] = draw(values(REGISTRY[name]))
    try:
        return Config(**{name: SECTIONS[name](**given) for name, given in sections.items()})
    except ConfigError:
        return Config()


@settings(max_examples=150, deadline=None)
@given(configurations(), st.sampled_from(platform.names()), st.integers(1, 5), st.data())
def test_what_is_written_is_what_is_read(tmp_path_factory, config, name, num_ranks, data):
    path = tmp_path_factory.mktemp("flat") / "node.conf"
    machine = platform.load(name)
    flat.write(str(path), config, machine, num_ranks=num_ranks)
    node = data.draw(st.integers(0, num_ranks - 1))
    compare(read(path, node), config, machine, num_ranks, node)


@pytest.mark.parametrize("name", REGISTRY)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_every_setting_survives_the_way_through_the_file(tmp_path_factory, name, data):
    declaration = REGISTRY[name]
    given_here = {declaration.field: data.draw(values(declaration))}
    try:
        config = Config(**{declaration.section: SECTIONS[declaration.section](**given_here)})
    except ConfigError:
        return  # goes with another setting only
    path = tmp_path_factory.mktemp("flat") / "node.conf"
    flat.write(str(path), config, PLATFORM, num_ranks=2)
    compare(read(path, 1), config, PLATFORM, 2, 1)


def test_path_of_bytes_that_are_no_text_survives(tmp_path):
    path = tmp_path / "node.conf"
    config = load([f"run.json={os.fsdecode(bytes(range(33, 256)))} = \\n\n"], environ={})
    flat.write(str(path), config, PLATFORM, num_ranks=1)
    compare(read(path), config, PLATFORM, 1, 0)


def test_longest_path_fits_and_a_longer_one_is_refused(tmp_path):
    path = tmp_path / "node.conf"
    config = load(["run.json=" + "\\" * 4095], environ={})
    flat.write(str(path), config, PLATFORM, num_ranks=1)
    compare(read(path), config, PLATFORM, 1, 0)
    config = load([f"run.json={'x' * 4096}"], environ={})
    with pytest.raises(ConfigError, match="run.json = .*: 4096 bytes long, allowed are 4095"):
        flat.content(config, PLATFORM, num_ranks=1)


@pytest.mark.parametrize(
    ("text", "reason"), [("a\0b", "holds a zero byte"), ("\ud800", "cannot be written")]
)
def test_text_that_no_file_can_hold_is_refused(text, reason):
    config = Config(run=dataclasses.replace(Config().run, json=text))
    with pytest.raises(ConfigError, match=f"run.json = .*: {reason}"):
        flat.content(config, PLATFORM, num_ranks=1)


def test_table_with_too_many_points_is_refused():
    points = tuple(range(17))
    tables = {**PLATFORM.tables, "unpin": platform.CostTable(points, points)}
    machine = dataclasses.replace(PLATFORM, tables=tables)
    with pytest.raises(ConfigError, match="tables.unpin has 17 points, allowed are 16"):
        flat.content(Config(), machine, num_ranks=1)


def test_number_beyond_64_bits_is_refused():
    costs = platform.Costs({**PLATFORM.costs.as_dict(), "hop_ns": 2**63})
    machine = dataclasses.replace(PLATFORM, costs=costs)
    with pytest.raises(ConfigError, match="costs.hop_ns = 9223372036854775808: allowed is"):
        flat.content(Config(), machine, num_ranks=1)


def test_planner_is_asked_for_every_rank(tmp_path):
    path = tmp_path / "node.conf"
    config = Config(impairments=ImpairmentsConfig(planner=f"{__name__}:Steps", delay="1:9:9"))
    flat.write(str(path), config, PLATFORM, num_ranks=12)
    lines = [line for line in path.read_text().splitlines() if ".delay" in line]
    assert lines == [
        "impairments.delay = 1 9 9 0 50000",
        *(f"impairments.delay.{rank} = 1 {rank + 2} {rank} 0 {rank}" for rank in range(12)),
        "changed.impairments.delay = 1:9:9",
    ]
    for node in (0, 9, 10, 11):
        compare(read(path, node), config, PLATFORM, 12, node)


def test_plan_of_another_node_is_not_this_ones(tmp_path):
    path = tmp_path / "node.conf"
    config = load(["impairments.planner=rank0", "impairments.lost_ack=1:3:7"], environ={})
    flat.write(str(path), config, PLATFORM, num_ranks=3)
    for node in range(3):
        compare(read(path, node), config, PLATFORM, 3, node)


def with_value(key, value):
    """The good file with another value of a key."""
    pattern = re.compile(rb"^" + re.escape(key.encode()) + rb" = .*$", re.MULTILINE)
    changed, count = pattern.subn(f"{key} = {value}".encode().replace(b"\\", b"\\\\"), GOOD)
    assert count == 1
    return changed


def number_of(key):
    lines = GOOD.decode().splitlines()
    return next(idx for idx, line in enumerate(lines, 1) if line.startswith(f"{key} = "))


RANGE = "allowed is a whole number from -9223372036854775808 to 9223372036854775807"
SITE = "allowed is `num denom seed limit amount_ns` with num <= denom, denom from 1 to 1000000000"
TABLE = "allowed is 1 to 16 points `bytes:ns` with a space between, sizes rising and times not"


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("costs.hop_ns", "", RANGE),
        ("costs.hop_ns", "12x", RANGE),
        ("costs.hop_ns", " 12", RANGE),
        ("costs.hop_ns", "+12", RANGE),
        ("costs.hop_ns", "--12", RANGE),
        ("costs.hop_ns", "1.5", RANGE),
        ("costs.hop_ns", "9223372036854775808", RANGE),
        ("costs.hop_ns", "-9223372036854775809", RANGE),
        ("settings.err_enabled", "99999999999999999999999", RANGE),
        ("run.num_nodes", "0", "allowed is a whole number from 1 to 4294967295"),
        ("run.compute", "4", "allowed is a whole number from 0 to 3"),
        ("run.compute", "none", "allowed is a whole number from 0 to 3"),
        ("run.wtime", "2", "allowed is a whole number from 0 to 1"),
        ("run.clocks", "2", "allowed is a whole number from 0 to 1"),
        ("run.wire", "4", "allowed is a whole number from 0 to 3"),
        ("run.huge_pages", "-1", "allowed is a whole number from 0 to 1"),
        ("run.watchdog_ns", "-2", "allowed is a whole number from -1 to 9223372036854775807"),
        ("run.quiet", "2", "allowed is 0 or 1"),
        ("run.quiet", "true", "allowed is 0 or 1"),
        ("run.compute_scale", "", "allowed is a finite number"),
        ("run.compute_scale", "1,5", "allowed is a finite number"),
        ("run.compute_scale", "inf", "allowed is a finite number"),
        ("run.compute_scale", "1e999", "allowed is a finite number"),
        ("run.compute_scale", "0x10", "allowed is a finite number"),
        ("run.memory", "x" * 256, "allowed is a text of at most 255 bytes"),
        ("run.json", "a\\tb", "allowed is a text in which \\ stands before \\ or n alone"),
        ("run.json", "a\\", "allowed is a text in which \\ stands before \\ or n alone"),
        ("tables.unpin", "", TABLE),
        ("tables.unpin", "4096:1 ", TABLE),
        ("tables.unpin", "4096:1  8192:2", TABLE),
        ("tables.unpin", "4096:1,8192:2", TABLE),
        ("tables.unpin", "4096:2 8192:1", TABLE),
        ("tables.unpin", "4096:1 4096:2", TABLE),
        ("tables.unpin", "4096:-1", TABLE),
        ("tables.unpin", "4096:9223372036854775808", TABLE),
        ("tables.unpin", " ".join(f"{idx}:0" for idx in range(17)), TABLE),
        ("impairments.delay", "", SITE),
        ("impairments.delay", "1 2 3 4", SITE),
        ("impairments.delay", "1 2 3 4 5 6", SITE),
        ("impairments.delay", "1:2:3:4:5", SITE),
        ("impairments.delay", "3 2 1 0 0", SITE),
        ("impairments.delay", "0 0 1 0 0", SITE),
        ("impairments.delay", "1 1000000001 1 0 0", SITE),
        ("impairments.delay", "1 2 1 0 3600000000001", SITE),
        ("impairments.delay", "1 2 18446744073709551616 0 0", SITE),
    ],
)
def test_bad_value_is_refused_with_line_key_and_what_is_allowed(tmp_path, key, value, allowed):
    sentence = refusal(tmp_path / "node.conf", with_value(key, value))
    assert sentence.startswith(f", line {number_of(key)}: {key} = '{value[:200]}': {allowed}")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("costs.hop = 1", "unknown key 'costs.hop'; the file is of another version of pagewire"),
        ("hop_ns = 1", "unknown key 'hop_ns'"),
        (".hop_ns = 1", "unknown key '.hop_ns'"),
        ("cost.hop_ns = 1", "unknown key 'cost.hop_ns'"),
        ("counters.blocks = 1", "unknown key 'counters.blocks'"),
        ("tables.unpins = 1:1", "unknown key 'tables.unpins'"),
        ("impairments.dela = 0 1 0 0 0", "unknown key 'impairments.dela'"),
        ("impairments.delays = 0 1 0 0 0", "unknown key 'impairments.delays'"),
        ("impairments.delay. = 0 1 0 0 0", "unknown key 'impairments.delay.'"),
        ("impairments.delay.x = 0 1 0 0 0", "unknown key 'impairments.delay.x'"),
        ("impairments.delay.-1 = 0 1 0 0 0", "unknown key 'impairments.delay.-1'"),
        ("impairments.delay.1 = 2 1 0 0 0", "impairments.delay.1 = '2 1 0 0 0': allowed is"),
        ("changed. = 1", "unknown key 'changed.'"),
        ("changed.run.json = \\x", "changed.run.json = '\\x': allowed is a text in which"),
        ("format = 1", "unknown key 'format'"),
        ("", "'': expected `name = value`"),
        ("# a comment", "'# a comment': expected `name = value`"),
        (" = 1", "' = 1': expected `name = value`"),
        ("costs.hop_ns=1", "'costs.hop_ns=1': expected `name = value`"),
        ("\x01\x7f\x1b[31m", "'???[31m': expected `name = value`"),
        ("a\0b = 1", "'a' and a byte 0: expected text"),
    ],
)
def test_bad_line_is_refused(tmp_path, line, reason):
    sentence = refusal(tmp_path / "node.conf", GOOD + line.encode() + b"\n")
    assert sentence.startswith(f", line {GOOD.count(10) + 1}: {reason}")


def keys():
    return [line.partition(" = ")[0] for line in GOOD.decode().splitlines()[1:]]


@pytest.mark.parametrize("key", keys())
def test_key_that_is_missing_or_there_twice_is_named(tmp_path, key):
    lines = GOOD.splitlines(keepends=True)
    line = lines[number_of(key) - 1]
    without = b"".join(each for each in lines if each is not line)
    sentence = refusal(tmp_path / "node.conf", without)
    assert sentence == f": {key} is missing (1 of {len(keys())} keys are)"
    sentence = refusal(tmp_path / "node.conf", GOOD + line)
    assert (
        sentence == f", line {len(lines) + 1}: {key} is there twice, first in line {number_of(key)}"
    )


def test_setting_that_was_changed_twice_is_refused(tmp_path):
    twice = GOOD + b"changed.run.json = x\n" * 2
    assert refusal(tmp_path / "node.conf", twice).endswith("changed.run.json is there twice")


def test_too_many_changed_settings_are_refused(tmp_path):
    many = b"".join(b"changed.a%d = 1\n" % idx for idx in range(257))
    sentence = refusal(tmp_path / "node.conf", GOOD + many)
    assert sentence.endswith("changed.a256: allowed are 256 settings that are not default")


@pytest.mark.parametrize(
    "lines",
    [
        b"impairments.delay.1 = 0 1 0 0 0\n" * 2,
        b"impairments.delay.2 = 0 1 0 0 0\nimpairments.delay.1 = 0 1 0 0 0\n",
    ],
)
def test_plans_of_nodes_stand_in_their_order_and_once(tmp_path, lines):
    sentence = refusal(tmp_path / "node.conf", GOOD + lines)
    assert "impairments.delay.1 stands behind impairments.delay and behind those of" in sentence


def test_plan_of_a_node_stands_behind_that_of_all(tmp_path):
    early = GOOD.replace(b"impairments.delay = ", b"impairments.delay.1 = ")
    assert "impairments.delay.1 stands behind impairments.delay" in refusal(
        tmp_path / "node.conf", early
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", ": it ends within a line (0 bytes): it was cut off"),
        (GOOD[:-1], f": it ends within a line ({len(GOOD) - 1} bytes): it was cut off"),
        (b"format = 2\n", ", line 1: 'format = 2': expected `format = 1`; the file is of another"),
        (GOOD.partition(b"\n")[2], ", line 1: 'costs.core_register_read_ns = "),
        (b"format = 1\n" + b"x" * (1 << 22), ": it has more than 4194304 bytes"),
    ],
)
def test_file_that_is_none_is_refused(tmp_path, content, reason):
    assert refusal(tmp_path / "node.conf", content).startswith(reason)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_file_is_read_or_refused_with_a_sentence(tmp_path_factory, data):
    content = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        stop = min(len(content), start + data.draw(st.integers(0, 40)))
        content[start:stop] = data.draw(st.binary(max_size=40))
    path = tmp_path_factory.mktemp("flat") / "node.conf"
    path.write_bytes(content)
    try:
        read(path)
    except AssertionError as error:
        code, sentence = error.args
        assert code == lib.PW_ERR_INVALID and sentence.startswith(f"node file '{path}'")
        assert all(" " <= each != "\x7f" for each in sentence)


def test_node_beyond_the_run_is_refused(tmp_path):
    path = tmp_path / "node.conf"
    assert refusal(path, GOOD, node=4).startswith(": node 4 in a run of 4 (run.num_nodes): start")


def test_file_that_is_not_there_is_an_error_of_the_host(tmp_path):
    for path, reason in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(AssertionError) as caught:
            read(path)
        code, sentence = caught.value.args
        assert (code, reason in sentence) == (lib.PW_ERR_HOST, True)


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        ("run.memory=a:B", "run.memory = 'a:B' is a class in Python"),
        ("run.policy=a:B", "run.policy = 'a:B' is a class in Python"),
        ("firmware.scheduling=a:B", "firmware.scheduling = 'a:B' is a class in Python"),
        ("run.memory=pin", ""),
    ],
)
def test_class_in_python_is_refused_by_a_program_without(tmp_path, assignment, sentence):
    path = tmp_path / "node.conf"
    flat.write(str(path), load([assignment], environ={}), PLATFORM, num_ranks=1)
    reason = ffi.new("char[]", lib.PW_CONFIG_REASON_BYTES)
    code = lib.pw_node_config_check_native(read(path), reason)
    assert code == (lib.PW_ERR_INVALID if sentence else lib.PW_OK)
    assert ffi.string(reason).decode().startswith(sentence)


def test_options_of_a_node_are_those_of_the_file(tmp_path):
    path = tmp_path / "node.conf"
    chosen = ["run.compute=model", "run.compute_scale=0.25", "run.compute_record=x"]
    flat.write(str(path), load(chosen, environ={}), PLATFORM, num_ranks=1)
    config, out = read(path), ffi.new("pw_node_options *")
    lib.pw_node_config_options(config, out)
    assert fields(out.costs[0]) == PLATFORM.costs.as_dict()
    assert out.settings.err_enabled == 1
    assert out.tables.table[lib.PW_COST_UNPIN].num_points == len(PLATFORM.table("unpin").costs_ns)
    costs, clock = PLATFORM.costs, out.clock
    assert (clock.call_ns, clock.poll_ns, clock.read_ns) == (
        costs.mpi_call_ns,
        costs.poll_ns,
        costs.clock_read_ns,
    )
    assert (clock.compute, clock.scale, clock.is_recording) == (lib.PW_COMPUTE_MODEL, 0.25, 1)


def test_tables_and_sites_have_the_numbers_of_the_engine():
    for idx, name in enumerate(TABLES):
        assert getattr(lib, f"PW_COST_{name.upper()}") == idx
    assert len(TABLES) == lib.PW_COST_TABLES
    for idx, name in enumerate(SITES):
        assert getattr(lib, f"PW_IMPAIRMENT_{name.upper()}") == idx
