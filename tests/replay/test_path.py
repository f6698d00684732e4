"""The critical path through a replay: it is the whole run, what is slower shows in its part, and it
goes over the rank that is late."""

import collections
import json

import json_schemas
import pytest
from programs import BLOCK_BYTES, HandMade, call, halo, present, receive, send, written

from pagewire.cli.main import main
from pagewire.native.settings import ConfigError
from pagewire.replay import path
from pagewire.replay import records as r
from pagewire.replay.replay import Replay, Settings
from pagewire.replay.told import Buffer, Told

NAMES = [r.Name(0, "Recv"), r.Name(1, "Send"), r.Name(2, "Win_fence")]


def found(trace, *assignments):
    made = path.found(trace, Settings.of(trace.meta(), assignments))
    assert sum(made.pieces.values()) == made.run_ns  # each ns once
    return made


def by(made, *fields):
    sums = collections.Counter()
    for piece, ns in made.pieces.items():
        key = tuple(getattr(piece, field) for field in fields)
        sums[key if len(fields) > 1 else key[0]] += ns
    return sums


def exchange(num_bytes, *, sender_ns=0, receiver_ns=0):
    """A message; the buffer that it comes to is fresh."""
    sends = [present(3, num_bytes), r.Compute(sender_ns)]
    sends += call(1, send(1, num_bytes, region=3), r.Done(0))
    receives = [r.Compute(receiver_ns), *call(0, receive(0, num_bytes, region=4), r.Done(0))]
    return HandMade([*NAMES, *sends, r.End()], [*NAMES, *receives, r.End()])


@pytest.mark.parametrize(
    "memory",
    [
        *("part", "pretouch", "pin", "pin-cache", "pin-all", "bounce", "odp", "np-rdma", "ats"),
        *("firehose", "backup-ring", "ideal"),
    ],
)
def test_path_is_the_whole_run(memory):
    found(halo(6, [1, 2], steps=3, num_bytes=5 * BLOCK_BYTES), f"run.memory={memory}")


@pytest.mark.parametrize(
    ("part", "memory", "cost", "more"),
    [
        ("page-in", "part", "costs.page_in_page", 1000),
        ("page-in", "part", "costs.handler", 700),
        ("page-in", "pretouch", "costs.mpi_call", 0),
        ("NACK, ERR, timeout", "part", "costs.err_send", 500),
        ("R5", "part", "costs.r5_read_request_word", 10),
        ("page walk", "ideal", "costs.walk", 300),
        ("MPI calls", "ideal", "costs.poll", 90),
        ("wire", "ideal", "costs.hop", 110),
    ],
)
def test_what_takes_longer_shows_in_its_part(part, memory, cost, more):
    """A single block, which nothing else gets in the way of."""
    trace = exchange(4096)
    costs = Settings.of({}).platform.costs.as_dict()
    before = found(trace, f"run.memory={memory}")
    after = found(trace, f"run.memory={memory}", f"{cost}={costs[f'{cost[6:]}_ns'] + more}ns")
    changed = by(after, "part") - by(before, "part")
    assert set(changed) == ({part} if more else set())
    assert changed[part] == after.run_ns - before.run_ns
    assert (changed[part] >= more) and changed[part] % max(more, 1) == 0


def test_late_sender_is_on_the_path():
    made = found(exchange(BLOCK_BYTES, sender_ns=900_000, receiver_ns=400_000), "run.memory=ideal")
    assert by(made, "rank", "part")[0, "compute"] == 900_000
    assert by(made, "rank", "part")[1, "compute"] == 0
    assert made.ranks[-1] == 0


def test_late_receiver_is_on_the_path():
    made = found(exchange(BLOCK_BYTES, sender_ns=400_000, receiver_ns=900_000), "run.memory=ideal")
    assert by(made, "rank", "part")[1, "compute"] == 900_000
    assert by(made, "rank", "part")[0, "compute"] == 0


def test_short_message_leaves_with_its_sender():
    made = found(exchange(8, sender_ns=100_000))
    parts = by(made, "rank", "part")
    assert parts[0, "compute"] == 100_000 and parts[1, "wire"] > 0 and parts[1, "MPI calls"] > 0
    assert by(made, "part")["page-in"] == 0


def test_page_in_is_of_the_call_that_waits_and_its_buffer():
    made = found(exchange(3 * BLOCK_BYTES), "run.memory=part")
    buffer = Buffer(region=4, offset=0, num_bytes=3 * BLOCK_BYTES)
    paged = {piece for piece in made.pieces if piece.part == "page-in"}
    assert {(each.call, each.rank, each.buffer) for each in paged} <= {
        ("Recv", 1, buffer),
        ("Send", 0, Buffer(3, 0, 3 * BLOCK_BYTES)),
    } and paged


def test_pin_is_of_the_buffer_that_is_posted():
    made = found(exchange(BLOCK_BYTES, receiver_ns=10_000), "run.memory=pin")
    pinned = {piece: ns for piece, ns in made.pieces.items() if piece.part == "pin"}
    assert {each.buffer.region for each in pinned} <= {3, 4} and sum(pinned.values()) > 0


def test_meeting_goes_on_with_who_came_last():
    ranks = [
        [*NAMES, r.Compute(ns), *call(2, r.Meet(9, 3)), r.Compute(100), *call(0), r.End()]
        for ns in (1000, 5000, 3000)
    ]
    made = found(HandMade(*ranks))
    assert by(made, "rank", "part")[1, "compute"] >= 5000
    assert by(made, "part")["compute"] == 5100


@pytest.mark.parametrize("made_of", [r.Get, r.Put])
def test_one_sided_operation(made_of):
    target = [*NAMES, present(5, BLOCK_BYTES), r.Register(BLOCK_BYTES, 5, 0)]
    target += [*call(2, r.Meet(1, 2)), *call(2, r.Meet(2, 2)), r.End()]
    origin = [*NAMES, present(6, BLOCK_BYTES), *call(2, r.Meet(1, 2)), r.Compute(777)]
    moved = made_of(1, BLOCK_BYTES, 6, 0, 5, 0)
    origin += [*call(2, moved, r.Done(0)), *call(2, r.Meet(2, 2)), r.End()]
    made = found(HandMade(origin, target))
    parts = by(made, "part")
    assert parts["compute"] == 777 and parts["wire"] > 0 and parts["R5"] > 0
    assert by(made, "call", "part")["Win_fence", "wire"] == parts["wire"]


def test_too_long_a_run_is_told():
    trace = halo(4, [1])
    with Replay(trace, Settings.of(trace.meta())) as replay:
        told = Told(replay, records_max=100)
        replay.run()
        with pytest.raises(ConfigError, match="more than 100 events"):
            told.finish()


def test_it_changes_no_time():
    trace = halo(5, [1, 2], steps=3)
    settings = Settings.of(trace.meta(), ["run.memory=part"])
    with Replay(trace, settings) as replay:
        replay.run()
        ends = replay.times_ns()
    assert path.found(trace, settings).run_ns == max(ends)


# -- the command


def test_command_shows_and_writes_it(tmp_path, capsys):
    file = written(tmp_path / "app.pwt", halo(4, [1], steps=2))
    files = ["--json", str(tmp_path / "p.json"), "--html", str(tmp_path / "p.html")]
    assert main(["replay", file, "--memory", "part", "--path", *files]) == 0
    said = capsys.readouterr().out
    assert "Waitall" in said and "region" in said
    document = json.loads((tmp_path / "p.json").read_text())
    json_schemas.check("compare", document)
    made = document["replay"]["path"]
    assert sum(each["share"] for each in made["parts"]) == pytest.approx(1)
    assert sum(each["share"] for each in made["calls"]) == pytest.approx(1)
    assert sum(each["ns"] for each in made["pieces"]) == round(made["run_s"] * 1e9)
    for each in made["buffers"]:
        assert sum(each["parts"].values()) == pytest.approx(each["share"])
    page = (tmp_path / "p.html").read_text()
    assert "The critical path" in page and ": region 2 +0" in page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--path", "--memory", "part,pin"], "--path studies one row, and there are 2"),
        (["--path", "--verify"], "with the recorded settings alone"),
    ],
)
def test_what_is_refused(tmp_path, words, said, capsys):
    assert main(["replay", written(tmp_path / "app.pwt", halo(2, [1])), *words]) == 2
    assert said in capsys.readouterr().err
