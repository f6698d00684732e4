"""Extrapolation: the trace of the bigger run is the one that the program would have made; what
obeys no rule is refused with rank and call."""

import os

import pytest
from programs import call
from trace_texts import receive, send, write_trace

from pagewire.cli.main import main
from pagewire.replay import collectives, patterns, prediction
from pagewire.replay.check import check
from pagewire.replay.curves import CURVES, fit
from pagewire.replay.extrapolate import extrapolate, read_run
from pagewire.replay.grids import Fixed, Flipped, Grid, Offset, Seen, counterpart, find_rules
from pagewire.replay.records import MULTI, Compute, Done, Meet, Name, Receive, Send, TraceError
from pagewire.replay.trace import Reader


def ring(program, shape):
    """A token goes around, and the last rank tells the first."""
    left, right = (program.rank - 1) % program.size, (program.rank + 1) % program.size
    for _ in range(shape.steps):
        if program.rank == 0:
            program.send(right, program.filled("token", shape.num_bytes))
            program.recv(left, program.landing("token", shape.num_bytes))
        else:
            program.recv(left, program.landing("token", shape.num_bytes))
            program.compute(shape.compute_ns)
            program.send(right, program.filled("token", shape.num_bytes))
        yield


def pairs(program, shape):
    """Ranks of even number with the next."""
    peer = program.rank ^ 1
    for _ in range(shape.steps):
        came = program.irecv(peer, program.landing(0, shape.num_bytes))
        went = program.isend(peer, program.filled(0, shape.num_bytes))
        program.waitall([came, went])
        yield


def rooted(program, shape):
    """Collectives with a root, and a short one of all."""
    group = collectives.world(program)
    for _ in range(shape.steps):
        collectives.broadcast(group, program.filled("data", shape.num_bytes))
        collectives.reduce(group, shape.num_bytes)
        program.compute(shape.compute_ns)
        collectives.scan(group, 8)
        collectives.barrier(group)
        yield


def gathered(program, shape):
    """Rank 0 receives from every other rank, each into its own part of one array."""
    for _ in range(shape.steps):
        if program.rank:
            program.send(0, program.filled(0, shape.num_bytes))
        else:
            array = program.landing("all", shape.num_bytes * program.size)
            for rank in range(1, program.size):
                program.recv(rank, array.part(rank * shape.num_bytes, shape.num_bytes))
        yield


OWN = {"ring": ring, "pairs": pairs, "rooted": rooted, "gathered": gathered}


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Makes a pattern's trace; its path."""
    monkeypatch.chdir(tmp_path)
    for name, pattern in OWN.items():
        monkeypatch.setitem(patterns.PATTERNS, name, pattern)

    def make(name, num_ranks, **shape):
        path = f"{num_ranks}.pwt"
        given = {"num_bytes": 20_000, "steps": 2, "compute_ns": 3000, **shape}
        patterns.synthesize(name, num_ranks, patterns.Shape(**given), path)
        return path

    return make


def run_of(path):
    with Reader(path) as reader:
        return read_run(reader)


def predict(make, name, sizes, size, **shape):
    """The bigger run; shape: functions of the number of ranks."""
    runs = [run_of(make(name, n, **{key: of(n) for key, of in shape.items()})) for n in sizes]
    make(name, size, **{key: of(size) for key, of in shape.items()})
    return extrapolate(runs, size)


@pytest.mark.parametrize(
    ("name", "sizes", "size"),
    [
        ("halo3d:6", (27, 64), 125),
        ("halo3d:26", (27, 36), 64),
        ("halo3d:6", (8, 12), 16),
        ("sweep3d", (9, 16), 36),
        ("ring", (4, 8), 33),
        ("ring", (3, 5, 7), 12),
        ("pairs", (4, 8), 30),
        ("allreduce", (4, 8), 64),
        ("allreduce", (6, 8), 64),
        ("allreduce:ring", (4, 8), 10),
        ("rooted", (5, 8), 23),
    ],
)
def test_the_bigger_run_is_that_of_the_program(made, name, sizes, size):
    bigger = predict(made, name, sizes, size)
    with Reader(f"{size}.pwt") as reader:
        for rank in range(size):
            assert list(bigger.records(rank)) == list(reader.records(rank)), rank


@pytest.mark.parametrize(
    ("name", "sizes", "size", "num_bytes"),
    [
        ("alltoall", (4, 8), 16, 20_000),
        ("incast", (4, 8), 16, 20_000),
        ("gathered", (4, 8), 16, 20_000),
        ("allreduce", (6, 12), 20, 16_000),  # longer ones go in halves, which lie elsewhere
    ],
)
def test_memory_of_another_place_takes_the_same_time(made, name, sizes, size, num_bytes):
    bigger = predict(made, name, sizes, size, num_bytes=lambda _: num_bytes)
    with Reader(f"{size}.pwt") as reader:
        for each in prediction.compare(bigger, reader):
            assert each.predicted == each.recorded, each


@pytest.mark.parametrize(
    "shape",
    [
        {"compute_ns": lambda size: 2_400_000 // size},
        {"num_bytes": lambda size: 96_000 // size, "compute_ns": lambda size: size * 1000},
        {"num_bytes": lambda size: 1000 * size},
        {"compute_ns": lambda size: 1000 * (size.bit_length() - 1)},
    ],
)
def test_bytes_and_compute_follow_the_number_of_ranks(made, shape):
    bigger = predict(made, "allreduce", (4, 8), 32, **shape)
    with Reader("32.pwt") as reader:
        for each in prediction.compare(bigger, reader):
            assert each.predicted == each.recorded, each


def test_faces_follow_the_sides_that_they_have_in_common(made):
    """27 and 36 ranks are 3 x 3 x 3 and 4 x 3 x 3: what is exchanged along x stays, all else has
    3/4 of it; in 5 x 3 x 3 it has 3/5."""

    def faces(program, shape):
        dims = patterns.grid_of(program.size, 3)
        strides = 1, dims[0], dims[0] * dims[1]
        for axis, (side, stride) in enumerate(zip(dims, strides, strict=True)):
            at = program.rank // stride % side
            up, down = (program.rank + ((at + by) % side - at) * stride for by in (1, -1))
            length = 720_000 * side // program.size
            came = program.irecv(down, program.landing(axis, length), axis)
            went = program.isend(up, program.filled(axis, length), axis)
            program.waitall([came, went])
        yield

    patterns.PATTERNS["faces"] = faces
    try:
        bigger = predict(made, "faces", (27, 36), 45)
    finally:
        del patterns.PATTERNS["faces"]
    with Reader("45.pwt") as reader:
        assert [each.num_bytes for each in bigger.records(7) if isinstance(each, Send)] == [
            each.num_bytes for each in reader.records(7) if isinstance(each, Send)
        ]
    told = {each.call: each.bytes for each in bigger.assumptions()}
    assert told["MPI_Isend"] == "constant, 1/(x z), 1/(x y)"


def test_a_rank_without_an_own_message_size_receives_the_longest(made):
    """Which rank of the smaller run stands for a sender and which for its receiver is not told: the
    receive must take what any of them sends."""

    def uneven(program, shape):
        left, right = (program.rank - 1) % program.size, (program.rank + 1) % program.size
        lengths = [1000 + 100 * (rank % 3) for rank in (left, program.rank)]
        came = program.irecv(left, program.landing(0, lengths[0]))
        went = program.isend(right, program.filled(0, lengths[1]))
        program.waitall([came, went])
        yield

    patterns.PATTERNS["uneven"] = uneven
    try:
        bigger = predict(made, "uneven", (6, 9), 20)
    finally:
        del patterns.PATTERNS["uneven"]
    for rank in range(20):
        (sent,) = (each for each in bigger.records(rank) if isinstance(each, Send))
        received = (each for each in bigger.records(sent.peer) if isinstance(each, Receive))
        assert next(received).num_bytes >= sent.num_bytes


def recorded(tmp_path, size):
    """As the facade records: names without MPI_, eager messages, a meeting, a probe of the root."""
    ranks = []
    for rank in range(size):
        records = [Name(0, "Allreduce"), Name(1, "Barrier"), Compute(700)]
        inside = []
        mine, theirs = -16384, 0
        for bit in range(size.bit_length() - 1):
            peer = rank ^ 1 << bit
            inside += [Receive(peer, 5, 1, peer, 8, 0, theirs),
                       Send(peer, 5, 1, rank, 8, 0, mine, 4), Done(1)]  # fmt: skip
            if peer > rank:
                mine, theirs = theirs, mine
        records += call(0, *inside)
        records += call(1, Meet(99, size))
        ranks.append(records)
    path = tmp_path / f"r{size}.pwt"
    return write_trace(path, ranks, meta={"eager_limit": 64}, regions=[[0, 4096 + 80]] * size)


def test_a_recorded_collective_stays_eager_and_all_meet(tmp_path):
    runs = [run_of(recorded(tmp_path, size)) for size in (4, 8)]
    bigger = extrapolate(runs, 16)
    want = run_of(recorded(tmp_path, 16))
    with Reader(recorded(tmp_path, 16)) as reader:
        for rank in range(16):
            assert list(bigger.records(rank)) == list(reader.records(rank))
            assert dict([tuple(bigger.numbers(rank, 5))]) == want.regions[rank]
    assert bigger.meta() == {
        "eager_limit": 64, "num_ranks": 16, "extrapolated": {"from": [4, 8], "grid": "16"},
    }  # fmt: skip


# ---- refusals


@pytest.mark.parametrize(
    ("name", "sizes", "size", "text"),
    [
        ("ring", (4,), 8, "runs of 4 ranks; needed are 2 or 3 sizes"),
        ("ring", (4, 4), 8, "runs of 4, 4 ranks; needed are 2 or 3 sizes"),
        ("ring", (3, 4, 5, 6), 8, "needed are 2 or 3 sizes"),
        ("ring", (4, 8), 8, "8 ranks are not more than the recorded 8"),
        ("ring", (1, 8), 9, "has 1 rank"),
        ("halo3d:6", (8, 16), 32, "y.1 or y-1, which are one .* 4 x 2 x 2, but two .* 4 x 4 x 2"),
        ("halo3d:6", (27, 64), 127, "64, which becomes 127|has a side of 4, which becomes 1"),
        ("random", (8, 16), 32, "rank . of .*call .* which should do the same in a grid of"),
        ("transpose", (9, 16), 25, "rank .* of 16, call .* in a grid of"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(made, name, sizes, size, text):
    with pytest.raises(TraceError, match=text):
        predict(made, name, sizes, size)


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (receive(None), "rank 0 of 2, call 1 .MPI_Recv.: a receive from any cannot be"),
        (receive(1, flags=MULTI), "a receive of several messages cannot be"),
        (Meet(5, 1), "rank 0 of 2, call 1 .MPI_Recv.: a meeting of 1 of 2 ranks cannot be"),
        (Done(7), "rank 0: record 4: DONE names operation -8 of 0"),
    ],
)
def test_what_has_no_place_in_a_bigger_run_is_refused(tmp_path, record, text):
    ranks = [[Name(0, "MPI_Recv"), *call(0), *call(0, record)], []]
    with pytest.raises(TraceError, match=text):
        run_of(write_trace(tmp_path / "a.pwt", ranks))


def test_a_collective_of_another_root_is_refused(tmp_path):
    sent = [send(peer, tag=1, rank=1) for peer in (0, 2)]
    ranks = [[Name(0, "MPI_Bcast"), *call(0, *sent)] for _ in range(3)]
    with pytest.raises(TraceError, match="rank 0 of 3, call 0 .MPI_Bcast.: its messages are not"):
        run_of(write_trace(tmp_path / "a.pwt", ranks))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"source": 3}, "of a communicator whose ranks are not those of all"),
        ({"tag": lambda rank: rank}, "has context 0 and tag 2, that of rank 1 of 8, .* tag 1"),
        ({"peer": lambda rank, size: (rank * rank + 1) % size}, "has peer .* no rule for a grid"),
    ],
)
def test_messages_without_a_rule_are_refused(tmp_path, change, text):
    runs = []
    for size in (4, 8):
        ranks = []
        for rank in range(size):
            peer = change.get("peer", lambda rank, size: (rank + 1) % size)(rank, size)
            tag = change.get("tag", lambda rank: 0)(rank)
            message = Send(peer, 0, tag, change.get("source", rank), 8, 0, 0)
            ranks.append([Name(0, "MPI_Send"), *call(0, message, Done(0))])
        runs.append(run_of(write_trace(tmp_path / f"{size}.pwt", ranks)))
    with pytest.raises(TraceError, match=text):
        extrapolate(runs, 16)


# ---- rules and curves


def test_a_rank_stands_at_the_same_ends():
    small, big = Grid((3, 3)), Grid((5, 4))
    assert [counterpart(rank, big, small) for rank in range(20)] == [
        *(0, 1, 1, 1, 2), *(3, 4, 4, 4, 5), *(3, 4, 4, 4, 5), *(6, 7, 7, 7, 8)
    ]  # fmt: skip


def test_the_same_steps_either_way_are_both_told():
    grid = Grid((4, 2))
    assert find_rules([Seen(0, grid, 4)]) == [Offset((0, 1)), Offset((0, -1))]
    assert find_rules([Seen(5, grid, 4)]) == [Offset((-1, 0))]


def test_a_fixed_rank_and_a_flipped_bit_are_rules():
    grid = Grid((8,))
    assert find_rules([Seen(3, grid, 0), Seen(5, grid, 0)]) == [Fixed(0)]
    assert find_rules([Seen(3, grid, 7), Seen(5, grid, 7)]) == [Fixed(-1)]
    assert find_rules([Seen(3, grid, 1), Seen(5, grid, 7)]) == [Flipped(2)]
    assert find_rules([Seen(3, grid, 1), Seen(5, grid, 6)]) == []


@pytest.mark.parametrize("curve", CURVES, ids=lambda each: each.name)
def test_a_curve_is_found(curve):
    seen = {size: 500 * curve.at(size) for size in (4, 8)}
    found = fit(seen, 64)
    assert (found.curve, found.residual) == (curve.name, 0.0)
    assert found.factor == pytest.approx(curve.at(64) / curve.at(8))


def test_three_sizes_tell_a_constant_and_a_curve():
    found = fit({size: 300 + 8000 / size for size in (8, 16, 32)}, 80)
    assert (found.curve, found.residual) == ("a + b 1/P", 0.0)
    assert found.factor == pytest.approx(400 / 550)


def test_a_constant_is_kept_within_the_tolerance():
    seen = {4: 95.0, 8: 105.0}
    assert fit(seen, 64, tolerance=0.06).curve == "constant"
    assert fit(seen, 64, tolerance=0.06).factor == pytest.approx(100 / 105)
    assert fit(seen, 64).curve == "constant"  # no other is off by less than half as much
    assert fit({4: 100.0, 8: 140.0}, 64).curve == "sqrt P"


def test_nothing_at_one_size_is_off_by_all():
    assert fit({4: 0, 8: 0}, 16) == ("constant", 0.0, 1.0)
    assert fit({4: 0, 8: 5}, 16) == ("constant", 1.0, 1.0)


# ---- the command


def test_the_command_writes_a_sound_trace_and_says_what_it_assumed(made, capfd):
    for size in (27, 64):
        made("halo3d:6", size)
    words = ["trace", "extrapolate", "27.pwt", "64.pwt", "--ranks", "80", "-o", "big.pwt"]
    assert main(words) == 0
    printed = capfd.readouterr()
    assert printed.out.splitlines()[0].split() == [
        "80", "ranks,", "5", "x", "4", "x", "4", "peers", "bytes", "compute", "off", "by", "(%)"
    ]  # fmt: skip
    assert "MPI_Isend x-1, y-1, z-1, z+1, y+1, x+1 constant constant 0.0" in " ".join(
        printed.out.split()
    )
    assert "big.pwt: 80 ranks" in printed.err
    with Reader("big.pwt") as reader:
        assert list(check(reader)) == []


def test_the_command_checks_against_a_recorded_run(made, capfd):
    for size in (4, 8, 16):
        made("ring", size, fresh=0.0)
    words = ["trace", "extrapolate", "4.pwt", "8.pwt", "--check", "16.pwt", "-o", "big.pwt"]
    assert main(words) == 0
    lines = [line.split() for line in capfd.readouterr().out.splitlines()]
    assert [line[-1] for line in lines[-4:-1]] == ["+0.00"] * 3
    assert lines[-1] == ["page", "faults", "0", "0"]
    with Reader("big.pwt") as reader:
        assert reader.num_ranks == 16


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["4.pwt", "8.pwt", "-o", "b.pwt"], "needs --ranks N or --check FILE.pwt, and not both"),
        (["4.pwt", "8.pwt", "--ranks", "16", "--check", "8.pwt"], "and not both"),
        (["4.pwt", "8.pwt", "--ranks", "16"], "needs -o FILE.pwt"),
        (["4.pwt", "--ranks", "16", "-o", "b.pwt"], "runs of 4 ranks; needed are 2 or 3 sizes"),
        (["4.pwt", "none.pwt", "--ranks", "16", "-o", "b.pwt"], "'none.pwt' cannot be read"),
    ],
)
def test_bad_words_are_one_line(made, words, text, capfd):
    for size in (4, 8):
        made("ring", size)
    assert main(["trace", "extrapolate", *words]) == 2
    error = capfd.readouterr().err
    assert error.startswith("pagewire: error: ") and error.count("\n") == 1
    assert text in error


def test_a_check_whose_replay_fails_says_so(made, capfd):
    for size in (4, 8):
        made("ring", size)
    waiting = [[Name(0, "MPI_Recv"), *call(0, receive(0), Done(0))], *[[]] * 8]
    write_trace("stuck.pwt", waiting)
    assert main(["trace", "extrapolate", "4.pwt", "8.pwt", "--check", "stuck.pwt"]) == 1
    error = capfd.readouterr().err
    assert "of 'stuck.pwt' and its prediction a replay failed: nothing can go on" in error


def test_a_killed_run_is_refused(made, capfd):
    made("ring", 4)
    with Reader(made("ring", 8)) as reader:
        size = reader.chunks[-1].offset
    os.truncate("8.pwt", size)
    assert main(["trace", "extrapolate", "4.pwt", "8.pwt", "--ranks", "9", "-o", "b.pwt"]) == 2
    assert "has no index: the run was killed" in capfd.readouterr().err
