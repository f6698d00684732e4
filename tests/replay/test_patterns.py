"""Patterns: every message has its receive, at any number of ranks; who sends what to whom."""

import collections
import math
import textwrap

import pytest
from cli_runs import reported
from hypothesis import given
from hypothesis import strategies as st

from pagewire.cli.main import main
from pagewire.native import lib
from pagewire.native.settings import ConfigError
from pagewire.replay import collectives, patterns, program
from pagewire.replay.check import check
from pagewire.replay.patterns import PATTERNS, Shape, Synthetic, synthesize
from pagewire.replay.records import Call, Compute, Name, Pages, Receive, Send, decode
from pagewire.replay.trace import MATCHES, OPS, Reader

NAMES = ["halo3d", "halo3d:6", "sweep3d", "sweep3d:2", "alltoall", "allreduce",
         "allreduce:halving", "allreduce:ring", "transpose", "incast", "incast:3",
         "random"]  # fmt: skip


@pytest.fixture
def made(tmp_path):
    """Makes a trace and gives each rank's records."""

    def make(name, num_ranks, **shape):
        path = str(tmp_path / "a.pwt")
        num_records = synthesize(name, num_ranks, Shape(**shape), path)
        with Reader(path) as reader:
            assert list(check(reader)) == []
            ranks = [list(reader.records(rank)) for rank in range(num_ranks)]
        assert sum(map(len, ranks)) == num_records
        return ranks

    return make


def of(records, cls):
    return [each for each in records if isinstance(each, cls)]


def _fits(name, num_ranks):
    if name == "transpose":
        return math.isqrt(num_ranks) ** 2 == num_ranks
    return name != "incast:3" or num_ranks >= 3


def test_pattern_without_a_file_is_that_of_its_file(tmp_path):
    trace = Synthetic("halo3d:6", 8, Shape(steps=30, fresh=0.3))
    trace.write(str(tmp_path / "a.pwt"))
    with Reader(str(tmp_path / "a.pwt")) as reader:
        assert reader.meta() == trace.meta() and reader.num_ranks == trace.num_ranks
        for rank in range(8):
            assert list(reader.records(rank)) == list(trace.records(rank))
            assert b"".join(reader.stream(rank, OPS)) == b"".join(trace.stream(rank, OPS))
            assert not list(trace.stream(rank, MATCHES)) and not list(trace.numbers(rank, MATCHES))


@pytest.mark.parametrize(
    ("name", "num_ranks"),
    [(name, n) for name in NAMES for n in (1, 2, 4, 7, 9, 16, 25) if _fits(name, n)],
)
def test_every_message_of_a_pattern_is_received(made, name, num_ranks):
    ranks = made(name, num_ranks, steps=2, fresh=0.3, num_bytes=100_000, compute_ns=8000)
    for records in ranks:
        assert sum(each.ns for each in of(records, Compute)) == 2 * 8000


def test_a_halo_has_26_neighbours_with_faces_edges_and_corners(made):
    ranks = made("halo3d", 27, steps=1, num_bytes=32768)
    for rank, records in enumerate(ranks):
        sends = of(records, Send)
        assert len({each.peer for each in sends}) == 26 and rank not in {s.peer for s in sends}
        sizes = collections.Counter(each.num_bytes for each in sends)
        assert sizes == {32768: 6, 512: 12, 8: 8}  # a face of 64 x 64 words


def test_a_halo_of_6_has_the_faces(made):
    (first, *_) = made("halo3d:6", 27, steps=1)
    assert {each.num_bytes for each in of(first, Send)} == {65536}
    assert sorted(each.peer for each in of(first, Send)) == [1, 2, 3, 6, 9, 18]


def test_a_sweep_comes_from_four_corners(made):
    ranks = made("sweep3d:1", 4, steps=1, compute_ns=80)
    corner = [each for each in ranks[0] if isinstance(each, (Send, Receive, Compute))]
    assert [type(each).__name__ for each in corner] == (
        ["Compute", "Send", "Send"] * 2
        + ["Receive", "Compute", "Send"] * 4
        + ["Receive", "Receive", "Compute"] * 2
    )
    assert {each.ns for each in of(corner, Compute)} == {10}


def test_incast_sends_all_to_the_first(made):
    ranks = made("incast", 5, steps=1, num_bytes=4096)
    data = [[each for each in of(records, Send) if each.num_bytes] for records in ranks]
    assert [[each.peer for each in sends] for sends in data] == [[], [0], [0], [0], [0]]


def test_random_pairs_are_permutations_of_the_seed(made):
    def peers(seed):
        ranks = made("random", 9, steps=5, seed=seed)
        return [[each.peer for each in of(records, Send)] for records in ranks]

    first = peers(1)
    assert first == peers(1) and first != peers(2)


@pytest.mark.parametrize("fresh", [0.0, 0.25, 1.0])
def test_a_share_of_receives_lands_in_new_memory(made, fresh):
    """New memory is never told of, and never used twice."""
    ranks = made("halo3d:6", 8, steps=100, fresh=fresh, num_bytes=5000)
    receives = [each for records in ranks for each in of(records, Receive)]
    news = [each for each in receives if each.region == program.FRESH]
    assert abs(len(news) / len(receives) - fresh) < 0.03
    for records in ranks:
        places = [
            (r.offset, r.num_bytes) for r in of(records, Receive) if r.region == program.FRESH
        ]
        assert len(set(places)) == len(places)
        assert {each.state for each in of(records, Pages)} == {lib.PW_PAGE_PRESENT}
        told = {page for each in of(records, Pages) if each.region == program.REUSED
                for page in range(each.page, each.page + each.count)}  # fmt: skip
        used = {
            page
            for each in of(records, Receive)
            if each.region == program.REUSED
            for page in range(each.offset // 4096, (each.offset + 5000 - 1) // 4096 + 1)
        }
        assert used <= told  # fmt: skip


def test_a_trace_of_many_ranks_is_written_one_rank_at_a_time(tmp_path, monkeypatch):
    """What is in memory is the writer's of the rank under way."""
    most = 0
    end_rank = patterns.Writer.end_rank

    def watch(self, rank):
        nonlocal most
        most = max(most, sum(len(buffer) for buffer, _ in self._buffers.values()))
        end_rank(self, rank)

    monkeypatch.setattr(patterns.Writer, "end_rank", watch)
    synthesize("halo3d", 64, Shape(steps=50), str(tmp_path / "a.pwt"))
    assert most <= lib.PW_PWT_CHUNK_BYTES + 4096


@pytest.mark.parametrize(
    "name, num_ranks, text",
    [
        ("halo2d", 4, "pattern 'halo2d': allowed is one of halo3d, sweep3d.*did you mean"),
        ("halo3d:5", 4, "halo3d:5: allowed is 6 or 26"),
        ("sweep3d:x", 4, "sweep3d:x: allowed is 1 and more"),
        ("alltoall:2", 4, "alltoall:2: allowed is nothing"),
        ("allreduce:tree", 4, "allreduce:tree: allowed is doubling, halving or ring"),
        ("transpose", 5, "a square number of ranks: 5 is none, 4 and 9 are"),
        ("incast:5", 4, "incast:5 of 4 ranks"),
        ("nowhere:pattern", 4, "no module named 'nowhere'"),
        ("json:dumps", 4, "'dumps' of module 'json' is no generator function"),
    ],
)
def test_what_is_no_pattern_is_refused(tmp_path, name, num_ranks, text):
    with pytest.raises(ConfigError, match=text):
        synthesize(name, num_ranks, Shape(), str(tmp_path / "a.pwt"))
    assert not list(tmp_path.iterdir())


def test_a_pattern_that_raises_is_an_error_of_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raising_pattern.py").write_text(
        textwrap.dedent("""
            def broken(program, shape):
                yield
                1 / program.rank
        """)
    )
    text = "pattern 'raising_pattern:broken', rank 0 of 2, raised ZeroDivisionError"
    with pytest.raises(ConfigError, match=text):
        synthesize("raising_pattern:broken", 2, Shape(), "a.pwt")


def test_the_command_writes_a_trace(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    words = ["trace", "synth", "incast", "-n", "3", "--bytes", "1MiB", "--compute", "2us",
             "--steps", "2", "--fresh", "0.5", "--seed", "7", "-o", "a.pwt"]  # fmt: skip
    assert main(words) == 0
    with Reader("a.pwt") as reader:
        assert reader.meta() == {
            "program": ["synth", "incast"],
            "synth": {"num_bytes": 1 << 20, "steps": 2, "compute_ns": 2000, "fresh": 0.5,
                      "seed": 7, "argument": ""},
        }  # fmt: skip
    assert main([*words, "--fresh", "1.5"]) == 2
    assert main([*words, "--compute", "2"]) == 2
    errors = capfd.readouterr().err
    assert "synth.fresh" in errors and "the unit is missing" in errors


def run_all(size, of_rank):
    """Each rank's program by `of_rank`; the sends and receives of each, in order."""
    found = []
    for rank in range(size):
        parts = []
        made = program.Program(rank, size, lambda data, _, parts=parts: parts.append(data),
                               program.Reused())  # fmt: skip
        of_rank(collectives.world(made))
        made.flush()
        found.append(list(decode(b"".join(parts))))
    return found


def check_pairs(ranks):
    """Between two ranks the n-th send has the length of the n-th receive."""
    sent, received = collections.defaultdict(list), collections.defaultdict(list)
    for rank, records in enumerate(ranks):
        for each in records:
            if isinstance(each, Send):
                assert each.context == collectives.CONTEXT and each.tag == collectives.TAG
                sent[rank, each.peer].append(each.num_bytes)
            elif isinstance(each, Receive):
                received[each.peer, rank].append(each.num_bytes)
    assert sent == received


def block(group, num_bytes):
    return group.program.filled(0, num_bytes)


def blocks(group, num_bytes, name="blocks"):
    whole = group.program.landing(name, num_bytes * group.size)
    return [whole.part(rank * num_bytes, num_bytes) for rank in range(group.size)]


def at_root(group, root, num_bytes):
    return blocks(group, num_bytes) if group.rank == root else None


COLLECTIVES = {
    "barrier": lambda group, root, n: collectives.barrier(group),
    "broadcast": lambda group, root, n: collectives.broadcast(group, block(group, n), root),
    "gather": lambda group, root, n: collectives.gather(
        group, block(group, n), at_root(group, root, n), root
    ),
    "scatter": lambda group, root, n: collectives.scatter(
        group, at_root(group, root, n), block(group, n), root
    ),
    "allgather": lambda group, root, n: collectives.allgather(group, blocks(group, n)),
    "alltoall": lambda group, root, n: collectives.alltoall(
        group, blocks(group, n, "sent"), blocks(group, n)
    ),
    "allreduce": lambda group, root, n: collectives.allreduce(group, n),
    "allreduce_doubling": lambda group, root, n: collectives.allreduce_doubling(group, n),
    "allreduce_halving": lambda group, root, n: collectives.allreduce_halving(group, n),
    "allreduce_ring": lambda group, root, n: collectives.allreduce_ring(group, n),
    "reduce": lambda group, root, n: collectives.reduce(group, n, root),
    "reduce_scatter": lambda group, root, n: collectives.reduce_scatter(group, [n] * group.size),
    "scan": lambda group, root, n: collectives.scan(group, n),
}


@pytest.mark.parametrize("name", COLLECTIVES)
@given(
    size=st.integers(1, 20), root=st.integers(0, 19), num_bytes=st.sampled_from([1, 1000, 20000])
)
def test_a_collective_receives_what_it_sends(name, size, root, num_bytes):
    check_pairs(run_all(size, lambda group: COLLECTIVES[name](group, root % size, num_bytes)))


PROGRAM = """
import sys
import numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
size, short, long = world.size, 1000, 20000
def part(num_bytes):
    return np.zeros(num_bytes, np.uint8)
def at_root(num_bytes):
    return part(num_bytes * size) if world.rank == 1 else None
for _ in range(int(sys.argv[1])):
    world.Barrier()
    for n in short, long:
        world.Bcast(part(n), 1)
        world.Gather(part(n), at_root(n), 1)
        world.Scatter(at_root(n), part(n), 1)
        world.Allgather(part(n), part(n * size))
        world.Alltoall(part(n * size), part(n * size))
        world.Allreduce(part(n), part(n))
        world.Reduce(part(n), at_root(n) if world.rank != 1 else part(n), MPI.SUM, 1)
        world.Reduce_scatter(part(n * size), part(n), [n] * size)
        world.Scan(part(n), part(n))
"""


@pytest.mark.parametrize("size", [4, 5])
def test_collectives_are_the_messages_of_the_facade(tmp_path, size):
    """Each rank sends as many, and as many bytes, to the same peers as it does in a run."""
    path = tmp_path / "collectives.py"
    path.write_text(PROGRAM)

    def peers(times):
        _, report = reported(tmp_path, size, "--quiet", "--compute", "none", str(path), str(times))
        return [
            {int(peer): (each["messages"], each["bytes"]) for peer, each in rank["peers"].items()}
            for rank in report["ranks"]
        ]

    once, twice = peers(1), peers(2)
    ran = [
        {
            peer: tuple(b - a for a, b in zip(before.get(peer, (0, 0)), after[peer], strict=True))
            for peer in after
        }
        for before, after in zip(once, twice, strict=True)
    ]

    def all_of_them(group):
        collectives.barrier(group)
        for n in (1000, 20000):
            for name, collective in COLLECTIVES.items():
                if name != "barrier" and not name.startswith("allreduce_"):
                    collective(group, 1, n)

    made = []
    for records in run_all(size, all_of_them):
        counted = collections.defaultdict(lambda: (0, 0))
        for each in records:
            if isinstance(each, Send):
                messages, num_bytes = counted[each.peer]
                counted[each.peer] = messages + 1, num_bytes + each.num_bytes
        made.append(dict(counted))
    assert made == ran


def test_every_pattern_is_named_in_its_help():
    from pagewire.cli.commands import trace

    assert all(name in trace.synth.__doc__ for name in PATTERNS)


def test_names_are_told_before_calls(made):
    for records in made("sweep3d", 4, steps=1):
        names = set()
        for each in records:
            if isinstance(each, Name):
                names.add(each.idx)
            elif isinstance(each, Call):
                assert each.name_idx in names
