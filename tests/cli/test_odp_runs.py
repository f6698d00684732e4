"""Whole runs with on-demand paging and NP-RDMA: the bits of plain MPI arrive, whatever is lost."""

import json

import pytest
from test_runs import SMALL, command, plain, same_state


@pytest.fixture(scope="module")
def plain_state(tmp_path_factory):
    path = tmp_path_factory.mktemp("plain") / "state.npz"
    plain(2, *SMALL, "--dump-state", str(path))
    return path


@pytest.mark.parametrize(
    "options",
    [
        ["--memory", "odp", "--set", "odp.rnr_timer=100us",
         "--set", "impairments.packet_loss=1:2000:1"],
        ["--memory", "odp", "--set", "odp.prefetch=true", "--transport", "fabric"],
        ["--memory", "np-rdma"],
    ],
    ids=["odp-lossy", "odp-prefetch-fabric", "np-rdma"],
)  # fmt: skip
def test_lammps_gives_the_bits_of_plain_mpi(options, plain_state, tmp_path):
    state, report = tmp_path / "state.npz", tmp_path / "report.json"
    program = ["lammps", *SMALL, "--fresh-buffers", "--dump-state", str(state)]
    run = ["launch", "-n", "2", *options, "--json", str(report), "--quiet"]
    done = command(*run, *program)
    assert done.returncode == 0, done.stderr
    assert same_state(plain_state, state)
    total = json.loads(report.read_text())["totals"]
    assert total["transfers"] > 0
    assert total["nacks"] == total["err_messages"] == total["fault_interrupts"] == 0
    if "np-rdma" in options:
        assert total["two_sided_retries"] > 0 and total["odp_faults"] == 0
        return
    assert total["odp_faults"] > 0
    if "--transport" in options:
        assert total["odp_prefetches"] > 0
    else:
        assert total["rnr_nacks"] > 0 and total["sequence_nacks"] > 0
