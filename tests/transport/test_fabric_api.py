"""The provider at libfabric's own interface, without an MPI: tests/c/transport/fabric_api.

MPICH and Open MPI use a part of the interface; these use all that the provider offers, and what it
has to refuse.
"""

import functools
import os
import pathlib
import shutil
import sys
import tempfile

import pytest
from cli_runs import ran, started
from native_programs import needs_provider

from pagewire.cli.launch import fabric

SOURCES = pathlib.Path(__file__).resolve().parents[1] / "c" / "transport" / "fabric_api"
LIBFABRIC = pathlib.Path(sys.prefix, "lib", "mpich", "libfabric.so.1")
FLAGS = ["-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]
HANG_S = 300
"""The program's own limit is less."""

pytestmark = [
    needs_provider,
    pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler"),
    pytest.mark.skipif(
        not pathlib.Path("/usr/include/rdma/fabric.h").exists(),
        reason="needs libfabric's headers (apt-get install libfabric-dev)",
    ),
    pytest.mark.skipif(
        not LIBFABRIC.exists(), reason="needs the libfabric of the mpich wheel (pip install mpich)"
    ),
]

CASES = [
    "hints", "unready", "address_table", "address_map", "options", "messages", "tagged_messages",
    "refused", "formats", "selective", "counters", "waiting_reads", "tags_posted",
    "tags_unexpected", "order", "directed", "truncation", "multi", "multi_counted",
    "multi_cancelled", "cancel", "looks", "claims_of_two", "transfers", "remote_data", "many",
    "forbidden", "thief", "unmapped", "operations", "forbidden_atomics", "concurrent_atomics",
    "two_endpoints", "every_number", "closing", "closed_peer", "unread", "threads",
]  # fmt: skip


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="pagewire-fabric-api-")


@functools.cache
def _program() -> str:
    path = os.path.join(_folder().name, "fabric_api")
    sources = sorted(str(each) for each in SOURCES.glob("*.c"))
    link = [str(LIBFABRIC), f"-Wl,-rpath,{LIBFABRIC.parent}"]
    started(["cc", *FLAGS, *sources, "-o", path, *link], timeout_s=240, code=0)
    return path


@functools.cache
def _node_file(options: tuple[str, ...]) -> str:
    folder = tempfile.mkdtemp(dir=_folder().name)
    ran("env", "-n", "3", "--directory", folder, *options)
    return os.path.join(folder, "node.conf")


def _run(folder: pathlib.Path, case: str, *options: str) -> None:
    environ = {
        "FI_PROVIDER": "pagewire",
        "FI_PROVIDER_PATH": str(fabric.folder()),
        "PAGEWIRE_NODE_FILE": _node_file(options),
        "PAGEWIRE_LAUNCH_DIR": str(folder),
    }
    started([_program(), case], environ=environ, timeout_s=HANG_S, code=0)


def test_every_case_is_run():
    listed = started([_program()], code=0)
    assert sorted(listed.stdout.split()) == sorted(CASES)


@pytest.mark.parametrize("case", CASES)
def test_interface_on_pages_that_come_when_they_are_needed(case, tmp_path):
    _run(tmp_path, case, "--memory", "part")


@pytest.mark.parametrize("case", ["messages", "multi", "transfers", "closing", "threads"])
@pytest.mark.parametrize(
    "options",
    [
        ("--memory", "pretouch"),
        ("--memory", "part", "--eager-limit", "0"),
        ("--memory", "part", "--set", "run.wire=tcp", "--set", "run.wire_interface=lo"),
    ],
    ids=["pretouch", "no_eager", "tcp"],
)
def test_interface_in_runs_of_other_settings(case, options, tmp_path):
    _run(tmp_path, case, *options)
