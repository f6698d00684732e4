"""pagewire.lab: exact times, absent pages, policies of the user's, groups of transfers, errors."""

import cProfile
import csv
import io
import json
import pathlib
import re
import sys

import pytest
from cli_runs import started

from pagewire.driver.policy_host import PolicyError
from pagewire.lab import Lab, PageFault, PageInPolicy, Transfer
from pagewire.lab.buffer import Buffer, buffers_of_one_gigabyte
from pagewire.native import EngineError
from pagewire.native.settings import ConfigError
from pagewire.run.settings import config

ROOT = pathlib.Path(__file__).resolve().parents[2]
GIGABYTE = 1 << 30


class AllOfIt(PageInPolicy):
    """As the engine's own `all`."""

    def __init__(self) -> None:
        self.faults: list[PageFault] = []

    def pages(self, *, fault: PageFault) -> range:
        self.faults.append(fault)
        return range(fault.page, fault.transfer.stop)


class Raises(PageInPolicy):
    def pages(self, *, fault: PageFault) -> range:
        raise ArithmeticError("on purpose")


def test_example_runs_and_more_pages_ahead_are_faster(tmp_path):
    words = [sys.executable, "-P", str(ROOT / "examples" / "lab_policies.py")]
    done = started(words, tmp_path, code=0)
    rows = [line.split() for line in done.stdout.splitlines()]
    names = [" ".join(row[:-4]) for row in rows]
    assert names == ["page", "block", "ahead 8", "ahead 32", "all"]
    times = [float(row[-4]) for row in rows]
    assert times == sorted(times, reverse=True) and times[0] > times[-1]


@pytest.mark.parametrize("nodes", [1, 2, 5])
@pytest.mark.parametrize("operation", ["write", "read"])
def test_equal_transfers_take_equal_times_and_faults_take_longer(nodes, operation):
    lab = Lab(nodes=nodes)
    move = getattr(lab, operation)
    plain = move(20_000)
    assert plain.counters["translation_faults_destination"] == 0
    for absent, source_absent in (("all", None), (None, "all"), ([1, 3], [0])):
        first, again = (move(20_000, absent=absent, source_absent=source_absent) for _ in "ab")
        assert first.latency_ns == again.latency_ns > plain.latency_ns
        faults = first.counters
        assert (faults["translation_faults_destination"] > 0) == (absent is not None)
        assert (faults["translation_faults_source"] > 0) == (source_absent is not None)
    assert move(20_000).latency_ns == plain.latency_ns


def test_what_is_absent_comes_in_once():
    outcome = Lab().write("32KiB", absent=[7, 2, 2])
    assert (outcome.absent_pages, outcome.counters["pages_paged_in"]) == (2, 2)
    assert Lab().write("32KiB", absent=0.0).absent_pages == 0
    assert Lab().write("32KiB", absent=1.0).absent_pages == 8
    some = [Lab(seed=seed).write("256KiB", absent=0.5).absent_pages for seed in (1, 1, 2)]
    assert some[0] == some[1] != some[2] and 0 < some[0] < 64


def test_policy_of_the_users_takes_as_long_as_the_engines_own():
    lab = Lab(policy="page")
    one_object = AllOfIt()
    outcomes = [
        lab.write("64KiB", absent="all", policy=policy) for policy in ("all", AllOfIt, one_object)
    ]
    assert len({each.latency_ns for each in outcomes}) == 1
    assert outcomes[0].latency_ns < lab.write("64KiB", absent="all").latency_ns
    assert [each.policy.rpartition(":")[2] for each in outcomes] == ["all", "AllOfIt", "AllOfIt"]
    assert one_object.faults and all(fault.at_destination for fault in one_object.faults)


def test_policy_class_has_an_object_for_each_node():
    made = []

    class Counted(AllOfIt):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    lab = Lab(nodes=3, policy=Counted)
    lab.write(4096, absent="all", target=2)
    assert [bool(each.faults) for each in made] == [False, False, True]


def test_policy_that_raises_is_named_and_the_next_transfer_works():
    lab = Lab(policy=Raises)
    for _ in range(2):
        with pytest.raises(PolicyError, match="Raises' raised ArithmeticError: on purpose"):
            lab.write(4096, absent="all")
    assert lab.write(4096).latency_ns == Lab().write(4096).latency_ns


@pytest.mark.parametrize(
    "memory", ["part", "pretouch", "pin", "ideal", "odp", "np-rdma", "ats", "backup-ring"]
)
def test_every_memory_moves_the_bytes(memory):
    lab = Lab(memory=memory)
    outcome = lab.write("64KiB", absent="all", source_absent=[3])
    assert outcome.memory == memory
    assert (outcome.prepare_ns > 0) == (memory in ("pretouch", "pin", "np-rdma"))
    assert outcome.latency_ns > outcome.prepare_ns
    assert lab.write("64KiB", absent="all", source_absent=[3]).latency_ns == outcome.latency_ns
    paged_in = lab.write("64KiB", absent=[1, 6]).counters["pages_paged_in"]
    assert paged_in == {"part": 2, "pretouch": 0}.get(memory, paged_in)
    assert lab.read("64KiB", absent="all").latency_ns > 0


def test_transfers_together_share_what_they_meet_and_are_told_apart():
    lab = Lab(nodes=4)
    asked = [
        Transfer(size="64KiB", initiator=1, target=0, absent="all"),
        Transfer(size="64KiB", initiator=2, target=0),
        Transfer(size=5000, operation="read", initiator=0, target=3),
        Transfer(size="16KiB", initiator=2, target=3, at_us=50_000),
    ]
    alone = lab.sequence(asked)
    group = lab.together(asked)
    assert [each.num_bytes for each in group] == [65536, 65536, 5000, 16384]
    assert group[1].latency_ns > alone[1].latency_ns
    assert group[3].latency_ns == alone[3].latency_ns  # long after the others
    assert group[0].counters == group[3].counters
    assert group[0].counters["pages_paged_in"] == 16
    again = lab.together(asked)
    assert [each.latency_ns for each in again] == [each.latency_ns for each in group]
    assert lab.together([]) == []


def test_as_many_as_there_are_channels_can_go_together():
    lab = Lab(max_size="4KiB")
    many = [Transfer(size=64)] * 32
    assert len({each.latency_ns for each in lab.together(many)}) == 32
    with pytest.raises(ConfigError, match="33 transfers together of process 0 from node 0: it has"):
        lab.together([*many, Transfer(size=64)])
    shared = Lab(max_size="4KiB", processes=2)
    both = [Transfer(size=64, process=process) for process in (0, 1) for _ in range(32)]
    assert len({each.latency_ns for each in shared.together(both)}) == 64


def test_each_process_has_a_context_bank_and_one_alone_is_as_fast_as_ever():
    """A page that comes in for one is still absent for none, and known to that one's TLB alone."""
    plain = Lab().write("64KiB", absent="all")
    lab = Lab(processes=3)
    transfers = [Transfer(size="64KiB", absent="all", process=process) for process in (2, 0, 1)]
    for outcome in lab.sequence(transfers):
        assert outcome.latency_ns == plain.latency_ns
        assert outcome.counters == plain.counters
    banks = lab.nodes.engines[1].context_banks()
    assert [bank.pdid for bank in banks] == [1, 2, 3]
    assert len({bank.fault_ns for bank in banks}) == 3


def test_processes_out_of_reach_are_refused():
    with pytest.raises(ConfigError, match="processes = 17: allowed is a whole number from 1 to 16"):
        Lab(processes=17)
    with pytest.raises(ConfigError, match="process = 2: nodes of this lab have processes 0 to 1"):
        Lab(processes=2).together([Transfer(size=1, process=2)])
    with pytest.raises(EngineError, match="raise smmu.num_context_banks"):
        Lab(processes=3, settings={"smmu.num_context_banks": 2})


def test_records_are_rows_of_one_table():
    outcomes = Lab().sequence([Transfer(size=1), Transfer(size="1KiB")], repetitions=2)
    rows = [each.record("blocks", "nacks") for each in outcomes]
    assert [(row["num_bytes"], row["repetition"]) for row in rows] == [
        (1, 0),
        (1024, 0),
        (1, 1),
        (1024, 1),
    ]
    assert all(isinstance(value, int | float | str) for row in rows for value in row.values())
    assert rows[0]["blocks"] == 1 and rows[0]["latency_us"] == outcomes[0].latency_ns / 1e3
    assert json.loads(json.dumps(rows)) == rows
    writer = csv.DictWriter(io.StringIO(), rows[0])
    writer.writerows(rows)  # ValueError for a row with other columns


def test_settings_are_the_labs_alone_unless_they_are_loaded(monkeypatch):
    monkeypatch.setenv("PAGEWIRE_RUN_TIMEOUT", "7ms")
    own = Lab(settings={"run.err": False, "run.timeout": "200us"})
    assert own.write(4096, absent="all").latency_us > 200
    assert Lab(settings={"run.err": False}).write(4096, absent="all").latency_us < 2000
    loaded = Lab(settings=config.load(["run.err=false"]))
    assert loaded.write(4096, absent="all").latency_us > 7000


def test_closed_lab_makes_new_nis():
    with Lab() as lab:
        first = lab.write(4096)
    assert lab.write(4096).latency_ns == first.latency_ns


def test_wrong_bytes_are_found(monkeypatch):
    lab = Lab()
    lab.write(4096)
    monkeypatch.setattr(Buffer, "read", lambda self, num_bytes=None: bytes(num_bytes or 0))
    with pytest.raises(EngineError, match="write of 4096 B of node 0 to node 1: wrong data"):
        lab.write(4096)


@pytest.mark.parametrize("num_bytes", [4096, 5 << 20, 600 << 20])
def test_buffer_lies_within_one_table_of_a_gigabyte(num_bytes):
    buffers = [Buffer(num_bytes) for _ in range(8)]
    for each in buffers:
        assert each.address % (2 << 20) == 0
        assert each.address // GIGABYTE == (each.address + num_bytes - 1) // GIGABYTE
        each.fill(b"begin")
        assert each.read(5) == b"begin"


def test_buffers_of_a_bench_share_a_gigabyte():
    kept = []
    for _ in range(40):  # 36 MB of addresses each: one of them meets a border
        made = buffers_of_one_gigabyte(6, 4 << 20)
        kept.append(made)
        assert len({each.address // GIGABYTE for each in made}) == 1
        assert len({each.address for each in made}) == 6


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda lab: lab.write(0), "of at least 1B"),
        (lambda lab: lab.write("4XB"), "unknown unit 'XB'"),
        (lambda lab: lab.write("1GiB"), "hold 16777216 B; make it with a larger max_size"),
        (lambda lab: lab.write(4096, absent=[1]), "absent holds 1: a transfer of 4096 B has pages"),
        (lambda lab: lab.write(4096, source_absent=["0"]), "source_absent holds '0'"),
        (lambda lab: lab.write(4096, absent=1), "allowed is 'all', a fraction"),
        (lambda lab: lab.write(4096, absent="most"), "allowed is 'all', a fraction"),
        (lambda lab: lab.write(4096, absent=1.5), "a fraction from 0.0 to 1.0"),
        (lambda lab: lab.write(4096, target=2), "target = 2: this lab has nodes 0 to 1; make it"),
        (lambda lab: lab.read(4096, initiator=-1), "initiator = -1"),
        (lambda lab: lab.write(4096, policy=int), "derived from pagewire.driver.policy"),
        (lambda lab: lab.write(4096, policy="pages"), "did you mean 'page'"),
        (lambda lab: lab.write(4096, memory="bounce"), "need a program: pagewire compare"),
        (lambda lab: lab.write(4096).record("nakcs"), "did you mean 'nacks'"),
        (lambda lab: lab.sequence([], repetitions=0), "repetitions = 0"),
        (lambda lab: lab.together([Transfer(size=1, at_us=-1)]), "at_us = -1: allowed is 0 to"),
        (lambda lab: lab.together([Transfer(size=1, operation="send")]), "one of write, read"),
        (lambda lab: Lab(nodes=0), "from 1 to 65536"),
        (lambda lab: Lab(max_size="2GiB"), "to 1GiB"),
        (lambda lab: Lab(settings=["run.err=false"]), "a dictionary of values"),
        (lambda lab: Lab(settings={"run.timeout": 100}), "the unit is missing"),
        (lambda lab: Lab(settings={"run.timeouts": "1us"}), "did you mean 'run.timeout'"),
        (lambda lab: Lab(settings={"memory_backend.backend": "model"}), "take 'host'"),
        (lambda lab: Lab(policy=AllOfIt, settings={"smmu.mode": "stall"}), "wait for a policy in"),
    ],
)
def test_bad_input_is_told_in_a_sentence(wrong, sentence):
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        wrong(Lab())


def test_nodes_that_take_no_part_are_left_alone():
    """A write among many asks no more of Python than one among two."""
    calls = []
    for num_nodes in (2, 65):
        with Lab(nodes=num_nodes, max_size="64KiB") as lab:
            lab.write("64KiB")
            with cProfile.Profile() as profile:
                lab.write("64KiB")
            calls.append(sum(each.callcount for each in profile.getstats()))
    assert calls[1] == pytest.approx(calls[0], rel=0.05)
