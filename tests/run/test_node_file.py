"""The node file: what Python writes is what C reads, and any other file is refused by name."""

import contextlib
import dataclasses
import os
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from node_configs import assert_same, fields, table_of

from pagewire.native import declared, ffi, lib
from pagewire.native.impairments import SITES, ImpairmentsConfig
from pagewire.native.settings import ConfigError
from pagewire.run.settings import impairment_planners, node_file, platform
from pagewire.run.settings.config import REGISTRY, SECTIONS, Config, load
from pagewire.run.settings.impairment_planners import ImpairmentPlanner

PLATFORM = platform.load("exanest-qfdb")
GOOD = node_file.content(Config(), PLATFORM, num_ranks=4)


class Steps(ImpairmentPlanner):
    """Each rank has a plan of its own."""

    def plan(self, *, rank, num_ranks, configured):
        return dataclasses.replace(configured, delay=f"1:{rank + 2}:{rank}", delay_by_ns=rank)


def read(path, node=0):
    """The struct that C reads; AssertionError with its sentence when it refuses."""
    out, reason = ffi.new("pw_node_config *"), ffi.new("pw_sentence *")
    code = lib.pw_node_config_read(os.fsencode(path), node, out, reason)
    if code:
        raise AssertionError(code, declared.text(reason.text))
    return out


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
    planned = impairment_planners.plan(
        rank=node, num_ranks=num_ranks, configured=config.impairments
    )
    assert_same(out, config, machine, planned, num_ranks)


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
    path = tmp_path_factory.mktemp("node") / "node.conf"
    machine = platform.load(name)
    node_file.write(str(path), config, machine, num_ranks=num_ranks)
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
    path = tmp_path_factory.mktemp("node") / "node.conf"
    node_file.write(str(path), config, PLATFORM, num_ranks=2)
    compare(read(path, 1), config, PLATFORM, 2, 1)


def test_path_of_bytes_that_are_no_text_survives(tmp_path):
    path = tmp_path / "node.conf"
    config = load([f"run.json={os.fsdecode(bytes(range(33, 256)))} = \\n\n"], environ={})
    node_file.write(str(path), config, PLATFORM, num_ranks=1)
    compare(read(path), config, PLATFORM, 1, 0)


def test_longest_path_fits_and_a_longer_one_is_refused(tmp_path):
    path = tmp_path / "node.conf"
    config = load(["run.json=" + "\\" * 4095], environ={})
    node_file.write(str(path), config, PLATFORM, num_ranks=1)
    compare(read(path), config, PLATFORM, 1, 0)
    with pytest.raises(ConfigError, match="run.json = .*: 4096 bytes long, allowed are 4095"):
        load([f"run.json={'x' * 4096}"], environ={})


@pytest.mark.parametrize(
    ("text", "reason"), [("a\0b", "holds a zero byte"), ("\ud800", "cannot be written")]
)
def test_text_that_no_file_can_hold_is_refused(text, reason):
    with pytest.raises(ConfigError, match=f"run.json = .*: {reason}"):
        Config(run=dataclasses.replace(Config().run, json=text))


def test_costs_and_tables_that_the_engine_has_no_room_for_are_refused(tmp_path):
    path, points = tmp_path / "node.conf", tuple(range(17))
    tables = {**PLATFORM.tables, "unpin": platform.CostTable(points, points)}
    costs = platform.Costs({**PLATFORM.costs.as_dict(), "hop_ns": 2**63})
    for change, name in (({"tables": tables}, "tables.unpin"), ({"costs": costs}, "costs.hop_ns")):
        machine = dataclasses.replace(PLATFORM, **change)
        sentence = refusal(path, node_file.content(Config(), machine, num_ranks=1))
        assert f": {name} = '" in sentence


def test_planner_is_asked_for_every_rank(tmp_path):
    path = tmp_path / "node.conf"
    config = Config(impairments=ImpairmentsConfig(planner=f"{__name__}:Steps", delay="1:9:9"))
    node_file.write(str(path), config, PLATFORM, num_ranks=12)
    lines = [line for line in path.read_text().splitlines() if ".delay" in line]
    assert lines == [
        "impairments.delay=1:9:9",
        *(
            f"@{rank} impairments.{text}"
            for rank in range(12)
            for text in (f"delay=1:{rank + 2}:{rank}", f"delay_by={rank}ns")
        ),
    ]
    for node in (0, 9, 10, 11):
        compare(read(path, node), config, PLATFORM, 12, node)


def with_line(line):
    """The good file with one more line, before its end."""
    return GOOD.removesuffix(b"end\n") + line + b"\nend\n"


TABLE = "tables.unpin = '{}': allowed is 1 to 16 points bytes:ns with a space between, sizes rising"
SITE = "impairments.delay = '{}': allowed is num:denom:seed or num:denom:seed:limit"
COST = "costs.hop_ns = '{}': allowed is a whole number from 0 to 1000000000000"
SCALE = "run.compute_scale = '{}': allowed is a number from 0 to 1e+06"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        *((f"costs.hop_ns={text}", COST.format(text))
          for text in ("", "12x", "1us", "-1", "1.5", "9223372036854775808", "9" * 30)),
        *((f"run.compute_scale={text}", SCALE.format(text))
          for text in ("", "1,5", "inf", "nan", "1e999", "0x10", "-1")),
        *((f"tables.unpin={text}", TABLE.format(text))
          for text in ("", "4096:1  8192:2", "4096:1,8192:2", "4096:2 8192:1", "4096:1 4096:2",
                       "4096", "4096:-1", "4096:9223372036854775808")),
        *((f"impairments.delay={text}", SITE.format(text))
          for text in ("", "1:2", "1:2:3:4:5", "3:2:1", "0:0:1", "1:1000000001:1", "1:2:x")),
        ("run.compute=nothing", "run.compute = 'nothing': allowed is one of measured, replay"),
        ("run.watchdog=1ns", "run.watchdog = '1ns': allowed is a duration with unit"),
        ("run.quiet=2", "run.quiet = '2': allowed is true or false"),
        (f"run.memory={'x' * 256}", f"run.memory = '{'x' * 200}...': 256 bytes long, allowed are"),
        ("run.json=a\\tb", "'run.json=a\\tb': expected \\ before \\ or n alone"),
        ("run.json=a\\", "'run.json=a\\': expected \\ before \\ or n alone"),
        ("costs.hop=1", "unknown setting 'costs.hop'; there are costs."),
        ("hop_ns=1", "unknown setting 'hop_ns'"),
        ("impairments.delays=0:1:0", "unknown setting 'impairments.delays'; there are"),
        ("@x impairments.delay=0:1:0", "'@x impairments.delay=0:1:0': expected `@NODE name=value`"),
        ("@-1 run.err=no", "'@-1 run.err=no': expected `@NODE name=value`"),
        ("@0 run.err=maybe", "run.err = 'maybe': allowed is true or false"),
        ("", "setting '': expected section.name=value"),
        ("# a comment", "setting '# a comment': expected section.name=value"),
        ("\x01\x7f\x1b[31m", "setting '???[31m': expected section.name=value"),
        ("a\0b=1", "'a': expected text, no byte 0"),
        ("end", "'end': expected nothing behind `end`"),
    ],
)  # fmt: skip
def test_bad_line_is_refused_with_its_number_and_what_is_allowed(tmp_path, line, reason):
    sentence = refusal(tmp_path / "node.conf", with_line(line.encode()))
    number = GOOD.count(b"\n") + (line == "end")
    assert sentence.startswith(f", line {number}: {reason}"), sentence


@pytest.mark.parametrize(
    "name",
    [each.split("=")[0] for each in GOOD.decode().splitlines() if each[:5] in ("costs", "table")],
)
def test_cost_that_is_missing_is_named(tmp_path, name):
    without = re.sub(rf"{name}=.*\n", "", GOOD.decode()).encode()
    assert refusal(tmp_path / "node.conf", without).startswith(f": {name} is missing; the file is")


def test_line_of_another_node_is_not_taken(tmp_path):
    path = tmp_path / "node.conf"
    path.write_bytes(with_line(b"@2 run.err=false"))
    assert [read(path, node).settings.err_enabled for node in range(4)] == [1, 1, 0, 1]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", ": it does not end with `end`: it was cut off"),
        (GOOD[:-1], ": it does not end with `end`: it was cut off"),
        (GOOD.removesuffix(b"end\n"), ": it does not end with `end`: it was cut off"),
        (b"format=1\n", ", line 1: 'format=1': expected `format=2`; the file is of another"),
        (GOOD.partition(b"\n")[2], ", line 1: 'nodes=4': expected `format=2`"),
        (b"format=2\nnodes=0\n", ", line 2: 'nodes=0': expected `nodes=NUMBER`"),
        (b"format=2\nrun.err=no\n", ", line 2: 'run.err=no': expected `nodes=NUMBER`"),
        (b"format=2\n" + b"x" * (1 << 22), ": it has more than 4194304 bytes"),
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
    path = tmp_path_factory.mktemp("node") / "node.conf"
    path.write_bytes(content)
    try:
        read(path)
    except AssertionError as error:
        code, sentence = error.args
        assert code == lib.PW_ERR_INVALID and sentence.startswith(f"node file '{path}'")
        assert all(" " <= each != "\x7f" for each in sentence)
    with contextlib.suppress(ConfigError):
        node_file.read_settings(str(path))


def test_node_beyond_the_run_is_refused(tmp_path):
    path = tmp_path / "node.conf"
    assert refusal(path, GOOD, node=4).startswith(": node 4 in a run of 4 (nodes=): start")


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
        ("driver.err_by=a:B", "driver.err_by = 'a:B' is a class in Python"),
        ("firmware.scheduling=a:B", "firmware.scheduling = 'a:B' is a class in Python"),
        ("run.memory=pin", ""),
    ],
)
def test_class_in_python_is_refused_by_a_program_without(tmp_path, assignment, sentence):
    path = tmp_path / "node.conf"
    node_file.write(str(path), load([assignment], environ={}), PLATFORM, num_ranks=1)
    reason = ffi.new("pw_sentence *")
    code = lib.pw_node_config_check_native(read(path), reason)
    assert code == (lib.PW_ERR_INVALID if sentence else lib.PW_OK)
    assert declared.text(reason.text).startswith(sentence)


def test_a_node_is_made_as_the_file_says(tmp_path):
    path = tmp_path / "node.conf"
    chosen = ["run.compute=model", "run.compute_scale=0.25", "run.compute_record=x"]
    node_file.write(str(path), load(chosen, environ={}), PLATFORM, num_ranks=1)
    wire, made, reason = ffi.new("pw_wire **"), ffi.new("pw_node **"), ffi.new("pw_sentence *")
    opening = ffi.new("pw_node_opening *", {"pdid": 1})
    assert lib.pw_wire_join(1, wire) == lib.PW_OK
    assert lib.pw_node_open(read(path), opening, wire[0], made, reason) == lib.PW_OK
    node = ffi.gc(made[0], lib.pw_node_destroy)
    costs, clock = PLATFORM.costs, lib.pw_node_clock(node)
    assert fields(lib.pw_node_costs(node)[0]) == costs.as_dict()
    assert lib.pw_node_ni_settings(node).err_enabled == 1
    unpin = lib.pw_node_tables(node).table[lib.PW_COST_UNPIN]
    assert table_of(unpin) == PLATFORM.table("unpin")
    assert (clock.call_ns, clock.poll_ns, clock.read_ns) == (
        costs.mpi_call_ns,
        costs.poll_ns,
        costs.clock_read_ns,
    )
    assert (clock.compute, clock.scale, clock.is_recording) == (lib.PW_COMPUTE_MODEL, 0.25, 1)
