"""Whole runs with on-demand paging: the bits of plain MPI arrive, whatever is lost."""

import json

import pytest
from test_cli_runs import SMALL, command, plain, same_state


@pytest.fixture(scope="module")
def plain_state(tmp_path_factory):
    path = tmp_path_factory.mktemp("plain") / "state.npz"
    plain(2, *SMALL, "--dump-state", str(path))
    return path


@pytest.mark.parametrize(
    "options",
    [
        ["--set", "odp.rnr_timer=100us", "--set", "impairments.packet_loss=1:500:1"],
        ["--set", "odp.prefetch=true", "--transport", "fabric"],
    ],
    ids=["lossy", "prefetch-fabric"],
)  # fmt: skip
def test_lammps_gives_the_bits_of_plain_mpi(options, plain_state, tmp_path):
    state, report = tmp_path / "state.npz", tmp_path / "report.json"
    program = ["lammps", *SMALL, "--fresh-buffers", "--dump-state", str(state)]
    run = ["launch", "-n", "2", "--memory", "odp", *options, "--json", str(report), "--quiet"]
    done = command(*run, *program)
    assert done.returncode == 0, done.stderr
    assert same_state(plain_state, state)
    total = json.loads(report.read_text())["totals"]
    assert total["transfers"] > 0 and total["odp_faults"] > 0
    assert total["nacks"] == total["err_messages"] == total["fault_interrupts"] == 0
    if "--transport" in options:
        assert total["odp_prefetches"] > 0
    else:
        assert total["rnr_nacks"] > 0 and total["sequence_nacks"] > 0
