"""Files that a run leaves, and durations, as Python's clock reads them."""

import array
import errno
import os
import resource
import stat
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagewire.native import ffi, lib
from pagewire.run.settings.config import load
from pagewire.transport.facade.clock import replayed_durations


def write(path, data):
    """The status code and errno."""
    code = lib.pw_output_write(os.fsencode(path), data, len(data))
    return code, ffi.errno if code else 0


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("path", ["out", "./out", "folder/out"])
def test_file_is_made_and_nothing_else_is_left(tmp_path, path):
    (tmp_path / "folder").mkdir()
    assert write(path, b"text") == (lib.PW_OK, 0)
    assert (tmp_path / path).read_bytes() == b"text"
    assert len(list(tmp_path.rglob("*"))) == 2


def test_file_is_replaced_and_keeps_its_mode(tmp_path):
    path = tmp_path / "out"
    path.write_text("a much longer text")
    path.chmod(0o640)
    assert write(path, b"new") == (lib.PW_OK, 0)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("absolute", [True, False])
def test_links_stay_and_their_target_is_written(tmp_path, exists, absolute):
    (tmp_path / "folder").mkdir()
    target = tmp_path / "folder" / "target"
    if exists:
        target.write_text("old")
    first, second = tmp_path / "first", tmp_path / "folder" / "second"
    second.symlink_to(target if absolute else "target")
    first.symlink_to(second if absolute else "folder/second")
    for path in (first, "first"):
        assert write(path, b"new") == (lib.PW_OK, 0)
        assert first.is_symlink() and second.is_symlink()
        assert target.read_bytes() == b"new"
        target.unlink()
    assert len(list(tmp_path.rglob("*"))) == 3


def test_links_in_a_circle_are_an_error(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert write("a", b"x") == (lib.PW_ERR_HOST, errno.ELOOP)


def test_pipe_is_written_to(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    found = []
    reader = threading.Thread(target=lambda: found.append(path.read_bytes()))
    reader.start()
    assert write(path, b"through") == (lib.PW_OK, 0)
    reader.join()
    assert found == [b"through"]
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.parametrize(
    ("path", "failed"),
    [
        ("/dev/full", errno.ENOSPC),
        ("full", errno.ENOSPC),
        ("/dev/none", errno.ENOENT),
        ("none/out", errno.ENOENT),
        (".", errno.EISDIR),
        ("x" * 300, errno.ENAMETOOLONG),
    ],
)
def test_failure_is_told_by_errno_and_devices_stay(tmp_path, path, failed):
    (tmp_path / "full").symlink_to("/dev/full")
    assert write(path, b"x") == (lib.PW_ERR_HOST, failed)
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    assert [each.name for each in tmp_path.iterdir()] == ["full"]


def test_standard_output_is_written_behind_what_stands_there(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"first")
    with path.open("ab") as file:
        assert write(f"/proc/self/fd/{file.fileno()}", b"second") == (lib.PW_OK, 0)
    assert path.read_bytes() == b"firstsecond"


def test_full_disk_leaves_the_old_file_and_no_second_one(tmp_path):
    path = tmp_path / "out"
    path.write_text("old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))  # Python ignores SIGXFSZ
    try:
        assert write(path, b"x" * 200) == (lib.PW_ERR_HOST, errno.EFBIG)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def read_durations(file, rank):
    """The durations, or code and sentence."""
    out, num = ffi.new("int64_t **"), ffi.new("uint64_t *")
    reason = ffi.new("char[]", lib.PW_CONFIG_REASON_BYTES)
    code = lib.pw_durations_read(os.fsencode(file), rank, out, num, reason)
    if code:
        assert out[0] == ffi.NULL
        return code, ffi.string(reason).decode()
    return list(out[0][0 : num[0]])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 2**63 - 1), max_size=50), st.integers(0, 2**32 - 1))
def test_durations_of_c_are_those_of_pythons_clock(tmp_path_factory, durations, rank):
    path = tmp_path_factory.mktemp("durations") / "file"
    reason = ffi.new("char[]", lib.PW_CONFIG_REASON_BYTES)
    given_here = ffi.new("int64_t[]", durations)
    code = lib.pw_durations_write(os.fsencode(path), rank, given_here, len(durations), reason)
    assert code == lib.PW_OK
    chosen = load(["run.compute=replay", f"run.compute_replay={path}"], environ={}).run
    found, count = replayed_durations(chosen, rank)
    assert list(found[0:count]) == durations
    assert read_durations(path, rank) == durations


def test_durations_that_python_recorded_are_read(tmp_path):
    (tmp_path / "file.3").write_bytes(array.array("q", [5, -1, 2**63 - 1]).tobytes())
    assert read_durations("file", 3) == [5, -1, 2**63 - 1]


@pytest.mark.parametrize(
    ("file", "code", "why"),
    [
        ("none", lib.PW_ERR_HOST, "No such file or directory"),
        ("odd", lib.PW_ERR_INVALID, "it is no list of 8-byte numbers"),
        ("folder", lib.PW_ERR_INVALID, "it is no regular file"),
        ("x" * 4096, lib.PW_ERR_INVALID, "the path is too long"),
    ],
)
def test_replay_that_cannot_be_read_is_refused(tmp_path, file, code, why):
    (tmp_path / "odd.1").write_bytes(b"x" * 15)
    (tmp_path / "folder.1").mkdir()
    found, sentence = read_durations(file, 1)
    assert found == code
    assert sentence.startswith(f"run.compute_replay: '{file[:590]}")
    assert f"({why}); record it first with run.compute_record" in sentence


def test_durations_that_cannot_be_written_are_an_error_with_the_file():
    reason = ffi.new("char[]", lib.PW_CONFIG_REASON_BYTES)
    given_here = ffi.new("int64_t[]", [1])
    code = lib.pw_durations_write(b"none/file", 2, given_here, 1, reason)
    assert (code, ffi.errno) == (lib.PW_ERR_HOST, errno.ENOENT)
    expected = "run.compute_record: 'none/file.2' was not written: No such file or directory"
    assert ffi.string(reason).decode() == expected
    assert lib.pw_durations_write(b"x" * 4096, 2, given_here, 1, reason) == lib.PW_ERR_INVALID
    assert ffi.string(reason).decode().endswith("was not written: the path is too long")
