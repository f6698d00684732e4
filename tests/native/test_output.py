"""Output files as Python writes them; tests/node/test_output_file.py has what is written how."""

import os
import subprocess
import sys
import threading

import pytest

from pagewire.native.output import OutputError, is_writable, let_be_read, write_file


def test_text_and_bytes_are_written(tmp_path):
    path = tmp_path / "out"
    write_file(str(path), "ä\n")
    assert path.read_bytes() == "ä\n".encode()
    write_file(str(path), b"\0new")
    assert path.read_bytes() == b"\0new"


@pytest.mark.parametrize(
    ("path", "why"),
    [("/dev/full", "No space left"), ("x" * 4096, "File name too long")],
)
def test_failure_is_an_error_that_names_the_file(path, why):
    with pytest.raises(OutputError, match=f"'{path}' was not written: {why}"):
        write_file(path, "x")


@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_standard_output_is_written_behind_what_stands_there(tmp_path, kind):
    path = tmp_path / "out"
    program = (
        "from pagewire.native.output import write_file; "
        "print('first', flush=True); write_file('/dev/stdout', 'second')"
    )
    with path.open("wb") as file:
        done = subprocess.run(
            [sys.executable, "-P", "-c", program],
            stdout=file if kind == "file" else subprocess.PIPE,
            check=True,
        )
    written = path.read_bytes() if kind == "file" else done.stdout
    assert written == b"first\nsecond"


def test_writable_is_what_can_be_written(tmp_path):
    assert is_writable(str(tmp_path / "new"))
    assert is_writable("/dev/null")
    assert not is_writable(str(tmp_path))
    assert not is_writable(str(tmp_path / "no" / "such"))


def test_what_is_printed_is_read_before_it_goes_on(monkeypatch):
    reading, writing = os.pipe()
    with open(writing, "w", encoding="utf-8") as stream, open(reading, "rb") as reader:
        monkeypatch.setattr(sys, "stderr", stream)
        print("all of it", file=stream)
        read = threading.Timer(0.1, lambda: reader.read1())
        read.start()
        let_be_read()
        assert read.finished.is_set()
