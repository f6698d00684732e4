"""`pagewire trace`: what each of its commands prints, writes and refuses."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
from trace_texts import receive, send, write_trace

from pagewire.cli.main import main
from pagewire.replay.records import (
    Call,
    Compute,
    Done,
    Leave,
    Left,
    Lost,
    Name,
    Pages,
    Region,
)
from pagewire.replay.trace import Reader, Writer

RANKS = [
    [Name(0, "MPI_Send"), Region("solve"), Compute(1500), Call(0), send(1),
     Done(0), Leave(), Left(), Lost("MPI_Put")],
    [Name(0, "MPI_Recv"), Pages(0, 0, 3, 1), Region("solve"), Call(0), receive(None), Done(0),
     Leave(), Left()],
]  # fmt: skip


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_trace("a.pwt", RANKS, matches=[[], [1, 0]], times=[[2000, 2100], [2300, 2400]],
                meta={"program": ["solver.py"]})  # fmt: skip
    return "a.pwt"


def test_info_shows_what_is_in_it(path, capsys):
    assert main(["trace", "info", path]) == 0
    printed = re.sub(r" +", " ", capsys.readouterr().out)
    size = os.path.getsize(path)
    for line in (
        "program solver.py",
        "ranks 2",
        "records 19",
        "MPI calls 2",
        "messages 1",
        "bytes sent 65,536",
        "computed (s) 0.000002",
        "pages touched by the program 3",
        "virtual time (s) 0.000002400",
        f"file (bytes) {size:,}",
        f"bytes per MPI call {size / 2:,.1f}",
        "MPI_Send 1",
        "MPI_Recv 1",
        "solve 2",
        "MPI_Put 1",
    ):
        assert f"\n {line}\n" in printed.replace("\n", "\n ").replace(" \n", "\n"), line


def test_print_shows_a_record_a_line(path, capsys):
    assert main(["trace", "print", path, "--rank", "1"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "1 0 NAME idx=0 text='MPI_Recv'",
        "1 1 PAGES region=0 page=0 count=3 state=1",
        "1 2 REGION text='solve'",
        "1 3 CALL MPI_Recv",
        "1 4 RECEIVE peer=any context=0 tag=7 source=0 num_bytes=65536 region=0 offset=0",
        "1 5 DONE operation=0",
        "1 6 LEAVE at 2,300 ns",
        "1 7 LEFT",
        "1 8 END at 2,400 ns",
    ]


def test_print_shows_a_part(path, capsys):
    assert main(["trace", "print", path, "--from", "3", "--count", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "0 3 CALL MPI_Send",
        "0 4 SEND peer=1 context=0 tag=7 source=0 num_bytes=65536 region=0 offset=0",
        "1 3 CALL MPI_Recv",
        "1 4 RECEIVE peer=any context=0 tag=7 source=0 num_bytes=65536 region=0 offset=0",
    ]


def test_print_ends_when_its_reader_does(tmp_path):
    path = write_trace(tmp_path / "a.pwt", [[Compute(ns) for ns in range(100_000)]])
    command = f"{sys.executable} -m pagewire trace print {path} | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 0 COMPUTE ns=0\n", "")


def test_check_says_that_a_trace_is_well(path, capsys):
    assert main(["trace", "check", path]) == 0
    assert capsys.readouterr().out == "a.pwt: ok: 2 ranks, 26 records\n"


def test_check_fails_with_sentences_and_counts_the_rest(tmp_path, capsys):
    path = write_trace(tmp_path / "a.pwt", [[Leave()] * 25])
    assert main(["trace", "check", path]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "rank 0: record 0: LEAVE leaves no call"
    assert len(lines) == 21
    assert lines[-1] == "... and 5 more of a kind of which 20 are shown"


def test_cut_writes_a_phase(path):
    assert main(["trace", "cut", path, "--phase", "solve", "-o", "b.pwt"]) == 0
    with Reader("b.pwt") as reader:
        assert len(list(reader.records(0))) == 9


def test_merge_finds_the_parts_of_a_run_that_was_killed(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    for rank in range(11):
        with Writer(f"run.pwt.{rank}", 11, {}, compresses=False) as writer:
            writer.write(rank, [Compute(rank), Compute(1)])
    data = pathlib.Path("run.pwt.3").read_bytes()
    pathlib.Path("run.pwt.3").write_bytes(data[:-60])
    assert main(["trace", "merge", "run.pwt"]) == 0
    assert "pagewire: 'run.pwt.3' has no index: the run was killed" in capfd.readouterr().err
    with Reader("run.pwt") as reader:
        assert [next(reader.records(rank)) for rank in range(11)] == [Compute(r) for r in range(11)]


def test_anonymise_says_what_went(path, capfd):
    assert main(["trace", "anonymise", path, "-o", "b.pwt"]) == 0
    assert "META: program left out" in capfd.readouterr().err
    assert b"solve" not in pathlib.Path("b.pwt").read_bytes()


@pytest.mark.parametrize(
    "words, text",
    [
        (["info", "none.pwt"], "'none.pwt' cannot be read: No such file"),
        (["print", "a.pwt", "--rank", "2"], "--rank 2: the trace has ranks 0 to 1"),
        (["cut", "a.pwt", "-o", "b.pwt"], "--phase NAME or --calls A:B"),
        (["cut", "a.pwt", "-o", "b.pwt", "--calls", "3:3"], "allowed is A:B with A below B"),
        (["cut", "a.pwt", "-o", "b.pwt", "--calls", "0:2"], "rank 0 has 1 calls"),
        (["merge", "run.pwt"], "there is no 'run.pwt.0'"),
        (["merge", "gap.pwt"], "there is no 'gap.pwt.1', and 'gap.pwt.2' is there"),
    ],
)
def test_bad_words_are_one_line(path, words, text, capfd):
    for rank in (0, 2):
        pathlib.Path(f"gap.pwt.{rank}").touch()
    assert main(["trace", *words]) == 2
    error = capfd.readouterr().err
    assert error.startswith("pagewire: error: ") and error.count("\n") == 1
    assert text in error
