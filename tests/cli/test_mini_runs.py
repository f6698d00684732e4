"""Whole runs with miNI, or its base system, in place of the SMMU: the bits of plain MPI arrive."""

import json

import pytest
from test_runs import SMALL, command, plain, same_state

MINI = ["--set", "run.translation=mini", "--timeout", "250us", "--set", "firmware.block=4KiB"]


@pytest.fixture(scope="module")
def plain_state(tmp_path_factory):
    path = tmp_path_factory.mktemp("plain") / "state.npz"
    plain(2, *SMALL, "--dump-state", str(path))
    return path


@pytest.mark.parametrize(
    "options",
    [
        [*MINI, "--platform", "vmmc-myrinet"],
        # lines that come and go, pages that are unpinned: at times that no host decides, and at a
        # mark well below the 22 pages that a rank has pinned at most
        [*MINI, "--compute", "none", "--set", "mini.vmh_entries=64",
         "--set", "mini.vmh_line_pages=8", "--set", "mini.high_water_pages=16",
         "--set", "mini.low_water_pages=8", "--set", "mini.water_period=100us"],
        [*MINI, "--transport", "fabric"],
        ["--set", "run.translation=static"],
    ],
    ids=["mini", "mini-small", "mini-fabric", "static"],
)  # fmt: skip
def test_lammps_gives_the_bits_of_plain_mpi(options, plain_state, tmp_path):
    state, report = tmp_path / "state.npz", tmp_path / "report.json"
    done = command("launch", "-n", "2", *options, "--json", str(report), "--quiet", "lammps",
                   *SMALL, "--fresh-buffers", "--dump-state", str(state))  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert same_state(plain_state, state)
    total = json.loads(report.read_text())["totals"]
    assert total["transfers"] > 0 and total["nacks"] == 0
    assert total["translation_faults"] == total["fault_interrupts"] == total["pages_paged_in"] == 0
    # in bytes of the rank with the most; in pages of both
    peak_pages = total["pinned_peak_bytes"] / 4096
    assert peak_pages <= total["vmh_pinned_peak"] <= 2 * peak_pages
    assert 0 < total["pinned_mean_bytes"] <= total["pinned_peak_bytes"]
    if "run.translation=static" in options:
        assert total["static_pages"] > 0 and total["timeouts"] == 0
    else:
        assert total["vmh_misses_receive"] > 0 and total["blocks_dropped"] > 0
        assert total["cbh_misses"] == total["cbh_lookups"] > 0
    if "mini.vmh_entries=64" in options:
        assert total["vmh_evictions"] > 0 and total["vmh_pages_unpinned"] > 0


def test_static_table_that_is_too_small_ends_the_run_with_a_sentence():
    done = command("launch", "-n", "2", "--set", "run.translation=static",
                   "--set", "mini.static_pages=1", "--quiet", "lammps", *SMALL)  # fmt: skip
    assert done.returncode != 0
    assert "PW_ERR_" in done.stderr
