"""Output files: whole or not at all, and never in the place of a device, a pipe or a link."""

import errno
import os
import stat
import subprocess
import sys
import threading

import pytest

from pagewire.native.output import OutputError, is_writable, write_file


def test_file_is_made_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "out.json"
    write_file(str(path), "text\n")
    assert path.read_text() == "text\n"
    assert list(tmp_path.iterdir()) == [path]


def test_file_is_replaced_and_keeps_its_mode(tmp_path):
    path = tmp_path / "out.json"
    path.write_text("a much longer text")
    path.chmod(0o640)
    write_file(str(path), b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("exists", [True, False])
def test_link_stays_and_its_target_is_written(tmp_path, exists):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    if exists:
        target.write_text("old")
    link.symlink_to(target)
    write_file(str(link), "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_pipe_is_written_to(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    found = []
    reader = threading.Thread(target=lambda: found.append(path.read_bytes()))
    reader.start()
    write_file(str(path), "through")
    reader.join()
    assert found == [b"through"]
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_device_is_written_to_and_stays(tmp_path):
    link = tmp_path / "null"
    link.symlink_to("/dev/null")
    write_file(str(link), "gone")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert link.is_symlink()


def test_full_device_is_an_error_that_names_it_and_stays_a_device():
    with pytest.raises(OutputError, match="'/dev/full' was not written: No space left"):
        write_file("/dev/full", "x")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


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


def test_failure_leaves_the_old_file_and_no_second_one(tmp_path, monkeypatch):
    path = tmp_path / "out.json"
    path.write_text("old")

    def fail(*_):
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(OutputError, match="out.json' was not written: .*quota"):
        write_file(str(path), "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_writable_is_what_can_be_written(tmp_path):
    assert is_writable(str(tmp_path / "new"))
    assert is_writable("/dev/null")
    assert not is_writable(str(tmp_path))
    assert not is_writable(str(tmp_path / "no" / "such"))
