"""Receives whose message decides their length: they land where they did, in pages as they were."""

import pytest
from cli_runs import ran
from programs import (
    ABSENT,
    BLOCK_BYTES,
    PRESENT,
    REGIONS,
    ROOMS,
    HandMade,
    call,
    present,
    receive,
    run,
    send,
    written,
)

from pagewire.cli.main import main
from pagewire.replay import records as r
from pagewire.replay.cut import Calls, cut
from pagewire.replay.replay import Replay, ReplayError, Settings
from pagewire.replay.trace import Reader

NAMES = [r.Name(0, "recv"), r.Name(1, "send")]
PAGES = BLOCK_BYTES // 4096
OBJECTS = """
import numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
peer = 1 - world.rank
for step in range(6):  # one message at a time: nothing contends
    data = np.full(60_000 + 1000 * (step % 3), world.rank, np.uint8)
    if world.rank == 0:
        world.send(data, peer, step)
        got = world.recv(source=MPI.ANY_SOURCE, tag=step)
    else:
        wanted = {"source": peer, "tag": step}
        got = world.irecv(**wanted).wait() if step % 2 else world.recv(**wanted)
        world.send(data, peer, step)
    assert got[0] == peer
unheard = world.irecv(source=peer, tag=99)
unheard.Cancel()
world.send(b"short", peer, 7)
world.recv(source=peer, tag=7)
"""


def exchange(*rooms, num_messages=1):
    sends, receives = [present(3, BLOCK_BYTES)], []
    for _ in range(num_messages):
        sends += call(1, send(1, BLOCK_BYTES, region=3), r.Done(0))
        receives += call(0, receive(0, 0, flags=r.UNSIZED), r.Done(0))
    trace = HandMade([*NAMES, *sends, r.End()], [*NAMES, *receives, r.End()])
    trace.add(1, ROOMS, *rooms)
    return trace


def paged_in(trace, *assignments):
    return run(trace, "run.memory=part", *assignments)[1].per_rank[1]["pages_paged_in"]


@pytest.mark.parametrize(
    ("runs", "num_absent"),
    [
        ([(PAGES, PRESENT)], 0),
        ([(PAGES, ABSENT)], PAGES),
        ([(1, PRESENT), (2, ABSENT), (1, PRESENT)], 2),
        ([], PAGES),  # it rode in its envelope, and does not here
    ],
)
def test_pages_are_as_they_were(runs, num_absent):
    numbers = [number for each in runs for number in each]
    trace = exchange(len(runs), 8, r.zigzag(0), *numbers)
    assert paged_in(trace, "run.eager_limit=4KiB") == num_absent


def test_memory_that_is_used_again_is_there():
    room = 1, 8, r.zigzag(0)
    trace = exchange(*room, PAGES, ABSENT, *room, PAGES, PRESENT, num_messages=2)
    assert paged_in(trace) == PAGES


def test_a_part_of_a_trace_has_the_rooms_of_its_receives(tmp_path):
    """And finds the pages there that earlier messages have left."""
    rooms = [1, 8, r.zigzag(0), PAGES, ABSENT, 1, 9, r.zigzag(0), PAGES, ABSENT,
             2, 8, r.zigzag(0), 1, ABSENT, PAGES - 1, PRESENT]  # fmt: skip
    trace = exchange(*rooms, num_messages=3)
    for region in (8, 9):
        trace.add(1, REGIONS, region, region << 32)
    whole, part = written(tmp_path / "whole.pwt", trace), str(tmp_path / "part.pwt")
    with Reader(whole) as reader:
        cut(reader, Calls(1, 3), part)
    with Reader(part) as reader:
        assert list(reader.numbers(1, ROOMS)) == rooms[5:]
        pages = [each for each in reader.records(1) if isinstance(each, r.Pages)]
        assert pages == [r.Pages(8, 0, PAGES, PRESENT)]
        assert paged_in(reader) == PAGES + 1


@pytest.mark.parametrize(
    ("rooms", "said"),
    [
        ((17, 8, 0), "17 runs of pages: allowed is 16"),
        ((1, 8, 0, PAGES, 9), "run 0 of pages"),
        ((1, 8, 0, PAGES), "run 0 of pages"),
        ((2, 8, 0, PAGES, PRESENT, 1 << 40, PRESENT), "run 1 of pages"),
        ((0, 1 << 23, 0), "without a base address"),
    ],
)
def test_rooms_that_make_no_sense_are_refused(rooms, said):
    with pytest.raises(ReplayError, match=f"rank 1, record .*recv.*{said}"):
        run(exchange(*rooms))


# -- a live run


class Without:
    """A trace without one kind of streams."""

    def __init__(self, reader, kind):
        self._reader, self._kind = reader, kind
        self.num_ranks, self.meta = reader.num_ranks, reader.meta

    def stream(self, rank, kind):
        return iter(()) if kind == self._kind else self._reader.stream(rank, kind)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("objects")
    (folder / "objects.py").write_text(OBJECTS)
    words = ["-n", "2", "--quiet", "--compute", "none", "--memory", "part", "-o", "a.pwt"]
    ran("record", *words, "objects.py", cwd=folder)
    return str(folder / "a.pwt")


def test_objects_of_a_live_run_are_replayed_exactly(recorded):
    assert main(["replay", recorded, "--verify"]) == 0
    assert main(["trace", "check", recorded]) == 0


def test_a_replay_needs_to_know_their_memory(recorded):
    with Reader(recorded) as reader:
        trace = Without(reader, ROOMS)
        settings = Settings.of(reader.meta())
        with Replay(trace, settings, verify=True) as replay:
            try:
                assert replay.run() is not None
            except ReplayError as error:
                assert "nothing can go on" in str(error)


def test_each_such_receive_is_told_of(recorded):
    with Reader(recorded) as reader:
        for rank in range(2):
            numbers, num_rooms, num_empty = list(reader.numbers(rank, ROOMS)), 0, 0
            while numbers:
                num_runs = numbers[0]
                num_empty += num_runs == 0
                del numbers[: 3 + 2 * num_runs]
                num_rooms += 1
            assert (num_rooms, num_empty) == (8, 2)  # cancelled, short
