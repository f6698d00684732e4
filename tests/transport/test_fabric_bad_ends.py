"""How runs over the libfabric provider end that go wrong: soon, and with a sentence that says
why."""

import pathlib
import subprocess
import sys
import tempfile
import time

import pytest
from cli_runs import BIN, started
from native_programs import ends, launch, needs_mpicc, needs_provider, old_libfabric

from pagewire.cli.launch import fabric

pytestmark = [needs_mpicc, needs_provider]

SOON_S = 10
"""From what goes wrong to the run's end, on a busy machine; the launcher's grace is 2 s."""


def ended_soon(num_ranks: int, how: str, **options) -> subprocess.CompletedProcess[str]:
    """A run that went wrong, and ended soon after that."""
    with tempfile.TemporaryDirectory() as folder:
        sign = pathlib.Path(folder, "sign")  # of the moment: programs' clocks are virtual
        done = launch(num_ranks, ends(), how, str(sign), **options)
        assert time.time() - sign.stat().st_mtime < SOON_S
    return done


def failure(num_ranks: int, how: str, **options) -> tuple[int, str]:
    """Exit code and the launcher's last sentence."""
    return said_by(launch(num_ranks, ends(), how, **options))


def said_by(done: subprocess.CompletedProcess[str]) -> tuple[int, str]:
    """Exit code and the launcher's last sentence."""
    assert "pagewire report" not in done.stdout
    said = [line for line in done.stderr.splitlines() if line.startswith("pagewire: ")]
    assert said, done.stderr
    return done.returncode, said[-1].removeprefix("pagewire: ")


def test_a_message_that_nobody_received_is_named():
    """MPICH's MPI_Finalize fails then, over any transport, and mpiexec ends the run. Pools of
    workers do that: schwimmbad's sends its last message twice."""
    done = launch(3, ends(), "unreceived")
    assert done.returncode != 0
    assert "rank 2: error: MPI_Finalize failed; MPICH's does when there is a mess" in done.stderr


@pytest.mark.parametrize(
    ("how", "code", "sentence"),
    [
        ("killed", 137, "rank 2 was killed by signal 9 (SIGKILL)"),
        ("segfault", 139, "rank 2 was killed by signal 11 (SIGSEGV)"),
        ("code", 5, "rank 2 ended with exit code 5"),
        ("exit", 1, "rank 2 left with exit code 0 but without MPI Finalize"),
        ("_exit", 1, "rank 2 left with exit code 0 but without MPI Finalize"),
    ],
)
def test_rank_that_goes_is_named_and_the_others_end(how, code, sentence):
    ended_with, said = said_by(ended_soon(3, how))
    assert sentence in said
    assert ended_with == code


@pytest.mark.parametrize(
    ("how", "given", "expected"),
    [("abort", 7, 7), ("abort_0", 0, 1), ("abort_512", 512, 1), ("abort_minus", -1, 255)],
)
def test_abort_ends_the_run_with_its_code(how, given, expected):
    assert said_by(ended_soon(3, how)) == (
        expected,
        f"rank 2 called MPI_Abort with code {given}; every rank was ended",
    )


def test_error_of_mpi_that_is_fatal_ends_the_run():
    done = launch(2, ends(), "truncated")
    assert done.returncode != 0
    assert "Message truncated" in done.stderr


@pytest.mark.parametrize("how", ["unmapped_send", "unmapped_receive"])
@pytest.mark.parametrize("memory", ["part", "pretouch"])
def test_buffer_that_is_unmapped_in_flight_ends_the_run(how, memory):
    done = ended_soon(2, how, options=("--memory", memory))
    assert done.returncode != 0
    assert "was a buffer unmapped while it was in use" in done.stderr


def test_program_without_mpi_is_told_so():
    code, said = failure(2, "no_mpi")
    assert code == 1
    assert "used no MPI" in said


@pytest.mark.parametrize(
    ("how", "call"), [("around", "Init"), ("around_in_session", "Comm_create_from_group")]
)
def test_mpi_without_the_provider_is_told_of_as_soon_as_it_has_chosen(how, call):
    code, said = said_by(ended_soon(3, how))
    assert code == 1
    assert f"is past MPI_{call} without the provider 'pagewire'" in said
    assert "libmpi.so.12 has no libfabric of 1.17 or newer" in said and "Leave --mpi out" in said
    assert said.endswith("; every rank was ended")


def test_rank_of_ones_own_mpiexec_without_the_provider_ends_itself(tmp_path):
    code, said = by_mpiexec(variables(tmp_path, 2), 2, "around")
    assert code != 0
    assert "is past MPI_Init without the provider 'pagewire'" in said


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FI_PROVIDER", "tcp"),
        ("MPIR_CVAR_OFI_USE_PROVIDER", "tcp"),
        ("MPIR_CVAR_CH4_NETMOD", "ucx"),
    ],
)
def test_other_provider_of_the_users_environment_is_refused(name, value):
    code, said = failure(2, "well", environ={name: value})
    assert code == 2
    assert f"{name}={value} in the environment" in said and "unset it" in said


def test_provider_path_of_the_user_does_not_hide_the_provider():
    done = launch(2, ends(), "well", environ={"FI_PROVIDER_PATH": "/nowhere"}, code=0)
    assert "2 ranks, over the fabric" in done.stdout


def test_policy_written_in_python_is_refused_with_a_native_program(tmp_path):
    tmp_path.joinpath("mine.py").write_text(
        "from pagewire.driver.policy import PageInPolicy\n\nclass Policy(PageInPolicy):\n"
        "    def pages(self, *, fault):\n        return range(fault.page, fault.page + 1)\n"
    )
    code, said = failure(2, "well", options=("--policy", "mine:Policy"),
                         environ={"PYTHONPATH": str(tmp_path)})  # fmt: skip
    assert code == 2
    assert "run.policy = 'mine:Policy'" in said and "take one of page, block, all" in said


def variables(folder: pathlib.Path, num_ranks: int) -> dict[str, str]:
    """What `pagewire env` prints, for an mpiexec of one's own."""
    command = f'eval "$({BIN}/pagewire env -n {num_ranks} --directory {folder})" && env -0'
    printed = started(["sh", "-c", command], code=0).stdout
    return dict(line.split("=", 1) for line in printed.split("\0") if "=" in line)


def by_mpiexec(environ: dict[str, str], num_ranks: int, how: str) -> tuple[int, str]:
    """Exit code, and what the ranks said. hydra 5.0.2 drops some of it when ranks end together, so
    they write to a file; it sometimes misses a rank that has aborted in MPI_Init, so it is ended
    after a while."""
    with tempfile.NamedTemporaryFile() as said:
        rank = ["sh", "-c", f'exec "$@" >>{said.name} 2>&1', "sh", ends(), how]
        words = ["timeout", "30", str(BIN / "mpiexec"), "-n", str(num_ranks), *rank]
        return started(words, environ=environ).returncode, said.read().decode()


def test_wrong_provider_path_is_an_error_of_mpi_instead_of_a_run_around_the_ni(tmp_path):
    environ = {**variables(tmp_path, 2), "FI_PROVIDER_PATH": "/nowhere"}
    code, said = by_mpiexec(environ, 2, "well")
    assert code != 0
    assert "getinfo failed" in said and "well" not in said.split()


def test_libfabric_that_is_too_old_is_a_sentence():
    code = "import ctypes, sys; sys.exit(ctypes.CDLL(sys.argv[1]).load(sys.argv[2].encode()))"
    provider = str(fabric.folder() / fabric.PROVIDER)
    done = started([sys.executable, "-c", code, old_libfabric(), provider], code=1)
    assert f"the libfabric in {old_libfabric()} is version 1.10" in done.stderr
    assert "needs at least 1.17" in done.stderr and "use a newer MPI" in done.stderr


def test_node_file_that_is_gone_is_a_sentence(tmp_path):
    environ = variables(tmp_path, 2)
    tmp_path.joinpath("node.conf").unlink()
    code, said = by_mpiexec(environ, 2, "well")
    assert code != 0
    assert "node.conf': it cannot be read" in said


def test_more_ranks_than_the_node_file_has_is_a_sentence(tmp_path):
    code, said = by_mpiexec(variables(tmp_path, 2), 3, "well")
    assert code != 0
    assert "node 2 in a run of 2" in said and "start as many processes" in said


def test_run_of_ones_own_mpiexec_leaves_its_report(tmp_path):
    environ = variables(tmp_path, 2)
    code, said = by_mpiexec(environ, 2, "well")
    assert code == 0, said
    assert sorted(path.name for path in tmp_path.glob("*.report")) == ["0.report", "1.report"]
