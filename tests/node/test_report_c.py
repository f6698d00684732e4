"""The report that C writes: JSON that says what the structs hold, and what Python's node would."""

import errno
import json
import os
import resource

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagewire.native import ffi, lib
from pagewire.native.impairments import KEPT, SITES
from pagewire.run.report import report
from pagewire.run.report.counters import COUNTER_GROUPS, MEMORY_KEYS, TIME_KEYS
from pagewire.run.settings.config import Config

UINT64 = st.sampled_from([0, 1, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)
INT64 = st.sampled_from([0, -1, -(2**63), 2**63 - 1]) | st.integers(-(2**63), 2**63 - 1)
NAMES = st.binary(min_size=1, max_size=48).map(lambda name: name.replace(b"\0", b"?")) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12
).map(str.encode)


class Input:
    """A pw_report_input of its own structs, zero at first."""

    def __init__(self):
        self.counters = ffi.new("pw_counters *")
        self.sites = ffi.new("pw_impairment_site[]", lib.PW_IMPAIRMENT_SITES)
        self.interrupt_times = ffi.new("pw_time_histogram *")
        self.tallies = ffi.new("pw_tallies *")
        self.clock = ffi.new("pw_clock *")
        self.calls = ffi.new("pw_call_counts *")
        self.node = ffi.new("pw_node_counters *")
        self.struct = ffi.new("pw_report_input *", vars(self))

    def bytes(self):
        num_bytes = lib.pw_report_write(self.struct, ffi.NULL, 0)
        buffer = ffi.new("char[]", num_bytes + 1)
        assert lib.pw_report_write(self.struct, buffer, num_bytes + 1) == num_bytes
        text = ffi.string(buffer)
        assert len(text) == num_bytes
        return text

    def parsed(self):
        return json.loads(self.bytes(), object_pairs_hook=unique)


def unique(pairs):
    result = dict(pairs)
    assert len(result) == len(pairs), "a key is there twice"
    return result


def integers(draw, struct, skip=()):
    """Draw the integers of a struct; what is in each field then."""
    drawn = {}
    for name, field in ffi.typeof(struct).fields:
        kind = field.type
        if name in skip or kind.kind not in ("primitive", "array"):
            continue
        element = kind.item if kind.kind == "array" else kind
        numbers = {"uint64_t": UINT64, "int64_t": INT64}.get(element.cname)
        if numbers is None:
            continue
        if kind.kind == "array":
            drawn[name] = draw(st.lists(numbers, min_size=kind.length, max_size=kind.length))
            getattr(struct, name)[0 : kind.length] = drawn[name]
        else:
            drawn[name] = draw(numbers)
            setattr(struct, name, drawn[name])
    return drawn


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_counters_are_exact_to_64_bits_and_their_sums_beyond(data):
    given_here = Input()
    drawn = integers(data.draw, given_here.counters[0])
    parsed = given_here.parsed()
    nacks = drawn.pop("nacks")
    assert {name: parsed[name] for name in drawn} == drawn
    assert (parsed["nacks_by_code"], parsed["nacks"]) == (nacks, sum(nacks))
    for kind in ("translation_faults", "permission_faults"):
        assert parsed[kind] == drawn[f"{kind}_source"] + drawn[f"{kind}_destination"]
    assert parsed["mpi_sends"] == drawn["eager_messages"] + drawn["rdma_messages"]
    assert parsed["mpi_bytes"] == drawn["eager_bytes"] + drawn["rdma_bytes"]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_times_and_facts_of_the_host_are_exact(data):
    given_here = Input()
    clock = integers(data.draw, given_here.clock[0])
    given_here.clock.compute = data.draw(st.integers(0, 3))
    node = integers(data.draw, given_here.node[0])
    wall_ns, rss_bytes = data.draw(st.integers(0, 2**63 - 1)), data.draw(UINT64)
    given_here.struct.wall_ns, given_here.struct.peak_rss_bytes = wall_ns, rss_bytes
    sources = given_here.struct.page_sources = data.draw(st.integers(0, 15))
    bin_ns, bins = data.draw(INT64), data.draw(st.lists(UINT64, min_size=256, max_size=256))
    given_here.interrupt_times.bin_ns = bin_ns
    given_here.interrupt_times.bins[0:256] = bins
    parsed = given_here.parsed()
    assert parsed["virtual_time_ns"] == clock["now_ns"]
    for name in ("compute_ns", "mpi_ns", "sleep_ns"):
        assert parsed[name] == clock[name]
    ways = ("bursts_short", "bursts_in_place", "bursts_copied", "bursts_by_message")
    for name in ("touch_ns", "pin_ns", "yields", "sleeps", *ways):
        assert parsed[name] == node[name]
    assert parsed.get("without_marks", 0) == (node["without_marks"] != 0)
    assert parsed["interrupt_times"] == {"bin_ns": bin_ns, "bins": bins}
    assert parsed["wall_time_s"] == wall_ns / 1e9
    assert parsed["peak_rss_bytes"] == rss_bytes
    names = ("mincore", "pagemap", "PROCMAP_QUERY", "PAGEMAP_SCAN")
    assert parsed["page_sources"] == [name for i, name in enumerate(names) if sources & 1 << i]
    replays = given_here.clock.compute == lib.PW_COMPUTE_REPLAY
    assert ("replay_missing" in parsed, "replay_unused" in parsed) == (replays, replays)
    if replays:
        assert parsed["replay_missing"] == clock["replay_missing"]
        unused = (clock["num_replay"] - clock["next_replay"]) % 2**64
        assert parsed["replay_unused"] == unused


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_sites_that_are_on_are_counted(data):
    given_here = Input()
    expected = {}
    for idx, name in enumerate(SITES):
        drawn = integers(data.draw, given_here.sites[idx], skip=["num"])
        given_here.sites[idx].num = num = data.draw(st.integers(0, 2))
        if num:
            keys = ["eligible", "injected", *(["late_after_end"] if name in KEPT else [])]
            expected[name] = {key: drawn[key] for key in keys}
    assert given_here.parsed()["impairments"] == expected


@settings(max_examples=150, deadline=None)
@given(st.lists(NAMES, max_size=6, unique=True), st.data())
def test_calls_are_counted_by_name_whatever_bytes_it_has(names, data):
    given_here = Input()
    expected = []
    for idx in range(len(names)):
        assert lib.pw_call_index(given_here.calls, b"call %d" % idx) == idx
    for idx, name in enumerate(names):
        call = given_here.calls.call[idx]
        counted = integers(data.draw, call)
        call.name = name[:48]  # with 48 bytes there is no 0 behind them
        if counted["calls"]:  # a call that was never made is left out
            expected.append((name, counted))
    text = given_here.bytes()
    text.decode()  # strictly UTF-8
    calls = json.loads(text, object_pairs_hook=lambda pairs: pairs)
    found = next(value for key, value in calls if key == "mpi_calls")
    assert [dict(fields) for _, fields in found] == [counted for _, counted in expected]
    for (key, _), (name, _) in zip(found, expected, strict=True):
        try:
            assert key == name[:48].decode()
        except UnicodeDecodeError:
            assert "\ufffd" in key


def test_a_name_has_one_index_and_its_own_counts():
    counts = ffi.new("pw_call_counts *")
    longest = b"x" * (lib.PW_CALL_NAME_BYTES - 1)
    names = [b"Send", b"Recv", longest, *(b"call %d" % idx for idx in range(3, lib.PW_CALLS_MAX))]
    for wrong in (longest + b"x", b"", ffi.NULL):
        assert lib.pw_call_index(counts, wrong) == lib.PW_ERR_INVALID
    for _ in range(2):
        assert [lib.pw_call_index(counts, name) for name in names] == [*range(lib.PW_CALLS_MAX)]
    assert lib.pw_call_index(counts, b"one more") == lib.PW_ERR_FULL
    for idx in (1, 0, 0):
        lib.pw_call_begin(counts, idx)
    assert (counts.current, counts.call[0].calls, counts.call[1].calls) == (0, 2, 1)
    assert [ffi.string(counts.call[idx].name) for idx in range(3)] == names[:3]


def test_tallies_are_exact():
    given_here = Input()
    tallies = given_here.tallies
    most = 2**64 - 1
    tallies.message_sizes.bins[0:3] = [1, most, 3]
    tallies.fault_waits.bins[64] = 5
    times = tallies.fault_times = ffi.new("pw_time_histogram *")
    times.bin_ns, times.bins[255] = 2048, 7
    heat = tallies.fault_pages
    groups = heat.groups = ffi.new("pw_heat_group[]", 2)
    heat.shift, heat.num_groups = 3, 2
    groups[0].group, groups[0].count = 1, most
    groups[1].group, groups[1].count = 0x7FFFFFFF8, 2
    for peer, messages, num_bytes in [(70000, 1, 2), (1, 4, most)]:
        item = lib.pw_peers_make(
            ffi.addressof(tallies, "peers"), peer, ffi.sizeof("pw_peer_traffic")
        )
        traffic = ffi.cast("pw_peer_traffic *", item)
        traffic.messages, traffic.bytes = messages, num_bytes
    parsed = given_here.parsed()
    assert parsed["message_sizes"] == [1, most, 3, *[0] * 62]
    assert parsed["fault_waits_ns"] == [*[0] * 64, 5]
    assert parsed["fault_times"] == {"bin_ns": 2048, "bins": [*[0] * 255, 7]}
    assert parsed["fault_pages"] == {
        "group_pages": 8, "faults": {"0x8000": most, "0x3fffffffc0000": 2},
    }  # fmt: skip
    assert list(parsed["peers"]) == ["1", "70000"]
    assert parsed["peers"]["1"] == {"messages": 4, "bytes": most}
    lib.pw_peers_clear(ffi.addressof(tallies, "peers"))


def test_keys_are_those_of_todays_node_and_the_table_knows_them():
    parsed = Input().parsed()
    labelled = {key for group in COUNTER_GROUPS.values() for key in group}
    others = {"nacks_by_code", "impairments", "mpi_calls", "interrupt_times", "wall_time_s",
              "peak_rss_bytes", "page_sources", "message_sizes", "peers", "fault_waits_ns",
              "fault_times", "fault_pages"}  # fmt: skip
    assert set(parsed) == labelled | set(TIME_KEYS) | set(MEMORY_KEYS) | others
    assert parsed["nacks_by_code"] == [0] * 8 and parsed["mpi_calls"] == {}
    text = report.table([parsed, parsed], Config(), "a C program")
    assert "a C program, 2 ranks" in text


@pytest.mark.parametrize("short", [0, 1, 2, 100])
def test_buffer_that_is_too_small_is_not_overrun(short):
    given_here = Input()
    num_bytes = len(given_here.bytes())
    capacity = num_bytes - short
    buffer = ffi.new("char[]", b"\x7f" * (num_bytes + 64))
    assert lib.pw_report_write(given_here.struct, buffer, capacity) == num_bytes
    assert ffi.buffer(buffer)[capacity : num_bytes + 64] == b"\x7f" * (num_bytes + 64 - capacity)


def test_what_c_leaves_the_launcher_collects(tmp_path):
    for rank in range(3):
        given_here = Input()
        given_here.counters.blocks = rank
        assert lib.pw_report_leave(given_here.struct, os.fsencode(tmp_path), rank) == lib.PW_OK
    assert [each["blocks"] for each in report.collect(tmp_path, 3)] == [0, 1, 2]
    assert {path.name for path in tmp_path.iterdir()} == {f"{rank}.report" for rank in range(3)}


def test_file_that_cannot_be_written_leaves_nothing_and_errno_tells_why(tmp_path):
    folder = os.fsencode(tmp_path)
    assert lib.pw_report_leave(Input().struct, folder + b"/none", 0) == lib.PW_ERR_HOST
    assert ffi.errno == errno.ENOENT
    (tmp_path / "0.report").mkdir()
    assert lib.pw_report_leave(Input().struct, folder, 0) == lib.PW_ERR_HOST
    assert ffi.errno == errno.EISDIR
    assert lib.pw_report_leave(Input().struct, b"x" * 4090, 1) == lib.PW_ERR_INVALID
    assert [path.name for path in tmp_path.iterdir()] == ["0.report"]


def test_peak_rss_is_that_of_the_process():
    rss_bytes = lib.pw_report_peak_rss_bytes()
    assert 0 < rss_bytes <= resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
