"""Whole runs through the command line: the app on the emulated NI beside plain mpi4py."""

import functools
import platform

import pytest
from app_runs import assert_same_bits, load, run_to_state
from cli_runs import command, ran, reported
from native_programs import needs_provider, on_bad_networks

SMALL = ["--size", "6", "--steps", "20", "--thermo", "10"]


@pytest.fixture(scope="module")
def plain_state(tmp_path_factory):
    """The state of so many ranks of plain MPI."""
    path = tmp_path_factory.mktemp("plain") / "state.npz"
    return functools.cache(lambda num_ranks: run_to_state("lammps", num_ranks, path, *SMALL))


MODEL = ["--set", "memory_backend.backend=model", "--set", "memory_backend.fault_fraction=0.3"]
MINI = ["--set", "run.translation=mini", "--timeout", "250us", "--set", "firmware.block=4KiB"]
# Lines that come and go, pages that are unpinned: at times that no host decides, and at a mark well
# below the 22 pages that a rank has pinned at most.
SMALL_MINI = ["--compute", "none"] + [
    word
    for assignment in ("vmh_entries=64", "vmh_line_pages=8", "high_water_pages=16",
                       "low_water_pages=8", "water_period=100us")
    for word in ("--set", f"mini.{assignment}")
]  # fmt: skip
LOSSY = ["--set", "odp.rnr_timer=100us", "--set", "impairments.packet_loss=1:2000:1"]
FABRIC = ["--transport", "fabric"]


def of_smmu(total, has_faults):
    assert total["blocks"] > 0 and total["mpi_bytes"] > 0
    assert (total["translation_faults"] > 0) == has_faults


def of_mini(total, is_static=False, is_small=False):
    """Also its base system, with static tables."""
    assert total["nacks"] == 0
    assert total["translation_faults"] == total["fault_interrupts"] == total["pages_paged_in"] == 0
    # in bytes of the rank with the most; in pages of both
    peak_pages = total["pinned_peak_bytes"] / 4096
    assert peak_pages <= total["vmh_pinned_peak"] <= 2 * peak_pages
    assert 0 < total["pinned_mean_bytes"] <= total["pinned_peak_bytes"]
    if is_static:
        assert total["static_pages"] > 0 and total["timeouts"] == 0
    else:
        assert total["vmh_misses_receive"] > 0 and total["blocks_dropped"] > 0
        # a request whose buffer is not known looks it up once more when it comes again
        assert total["cbh_lookups"] == 2 * total["cbh_misses"] > 0
    assert not is_small or total["vmh_evictions"] > 0 and total["vmh_pages_unpinned"] > 0


def of_odp(total, *counters, none_of=()):
    """On-demand paging, and NP-RDMA."""
    assert total["nacks"] == total["err_messages"] == total["fault_interrupts"] == 0
    assert all(total[name] > 0 for name in counters)
    assert all(total[name] == 0 for name in none_of)


@pytest.mark.parametrize(
    ("num_ranks", "options", "judge"),
    [
        (4, ["--memory", "part", "--policy", "page"], lambda total: of_smmu(total, True)),
        (2, ["--memory", "part", "--policy", "all", "--timeout", "20us"],
         lambda total: of_smmu(total, True)),
        (2, MODEL, lambda total: of_smmu(total, True)),
        *((2, ["--memory", memory], lambda total: of_smmu(total, False))
          for memory in ("pretouch", "ideal", "pin")),
        (2, [*MINI, "--platform", "vmmc-myrinet"], of_mini),
        (2, [*MINI, *SMALL_MINI], lambda total: of_mini(total, is_small=True)),
        (2, [*MINI, *FABRIC], of_mini),
        (2, ["--set", "run.translation=static"], lambda total: of_mini(total, is_static=True)),
        (2, ["--memory", "odp", *LOSSY],
         lambda total: of_odp(total, "odp_faults", "rnr_nacks", "sequence_nacks")),
        (2, ["--memory", "odp", "--set", "odp.prefetch=true", *FABRIC],
         lambda total: of_odp(total, "odp_faults", "odp_prefetches")),
        (2, ["--memory", "np-rdma"],
         lambda total: of_odp(total, "two_sided_retries", none_of=("odp_faults",))),
        (2, ["--memory", "ats"],
         lambda total: of_odp(total, "ats_groups", "ats_hits", "blocks_kept")),
        (2, ["--memory", "ats", "--set", "ats.while_pending=pause", *FABRIC],
         lambda total: of_odp(total, "ats_groups", "blocks_kept", none_of=("blocks_dropped",))),
        (2, ["--memory", "backup-ring", "--set", "odp.backup_blocks=1"],
         lambda total: of_odp(total, "odp_faults", "blocks_kept", none_of=("rnr_nacks",))),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else None,
)  # fmt: skip
def test_lammps_on_the_ni_gives_the_bits_of_plain_mpi(
    num_ranks, options, judge, plain_state, tmp_path
):
    state = tmp_path / "state.npz"
    words = ["--quiet", "lammps", *SMALL, "--fresh-buffers", "--dump-state", str(state)]
    _, document = reported(tmp_path, num_ranks, *options, *words)
    assert_same_bits(plain_state(num_ranks), load(state))
    assert document["totals"]["transfers"] > 0
    judge(document["totals"])


def test_static_table_that_is_too_small_ends_the_run_with_a_sentence():
    done = command("launch", "-n", "2", "--set", "run.translation=static",
                   "--set", "mini.static_pages=1", "--quiet", "lammps", *SMALL)  # fmt: skip
    assert done.returncode != 0
    assert "PW_ERR_" in done.stderr


RAW = """
import ctypes
import numpy as np
from mpi4py import MPI
world, data = MPI.COMM_WORLD, np.ones(1 << 20, np.uint8)
for turn in range(3):
    world.Send(data, 1) if world.rank == 0 else world.Recv(data, 0)
    if turn == 1:
        page = ctypes.c_void_p(data.ctypes.data + 8191 & ~4095)
        assert ctypes.CDLL(None).syscall({number}, page, 65536, 4) == 0
"""
MADVISE = 28 if platform.machine() == "x86_64" else 233


@pytest.mark.parametrize("transport", ["facade", pytest.param("fabric", marks=needs_provider)])
def test_page_lost_without_an_event_ends_a_checked_run_with_a_sentence(transport, tmp_path):
    program = tmp_path / "raw.py"
    program.write_text(RAW.format(number=MADVISE))
    words = ["launch", "-n", "2", "--transport", transport, "--set", "residency.source=events"]
    _, whole = reported(tmp_path, 2, "--transport", transport, *words[5:], str(program))
    if "events" not in whole["totals"]["page_sources"]:
        pytest.skip("no events here")
    done = command(*words, "--set", "residency.check=true", str(program))
    assert done.returncode != 0
    assert "it is not as residency.source = events had it" in done.stderr


def test_sixteen_ranks_on_few_cores_finish():
    words = ["lammps", "--size", "8", "--steps", "1"]
    assert "on 16 procs" in ran("launch", "-n", "16", "--quiet", *words, timeout_s=240).stdout


@on_bad_networks
def test_lammps_with_impairments_keeps_its_trajectory(sites, plain_state, tmp_path):
    state = tmp_path / "state.npz"
    options = [
        word for name, text in sites.items() for word in ("--set", f"impairments.{name}={text}")
    ]
    words = ["lammps", *SMALL, "--fresh-buffers", "--dump-state", str(state)]
    printed, whole = reported(tmp_path, 4, "--timeout", "100us", *options, *words)
    assert_same_bits(plain_state(4), load(state))
    for name in sites:
        counts = whole["totals"]["impairments"][name]
        assert 0 < counts["injected"] < counts["eligible"]
        assert f"{name.replace('_', ' ')}, injected" in printed
        assert whole["summary"][f"{name}_injected"] == counts["injected"]
        assert (
            sum(rank["impairments"][name]["injected"] for rank in whole["ranks"])
            == counts["injected"]
        )
    assert whole["summary"]["timeouts"] + whole["summary"]["nacks"] > 0


@pytest.mark.parametrize("transport", ["facade", "fabric"])
def test_last_words_of_ranks_that_end_together_arrive(transport, tmp_path):
    """hydra drops what it has not read when a rank aborts."""
    program = tmp_path / "words.py"
    program.write_text(
        "import sys\nfrom mpi4py import MPI\nworld = MPI.COMM_WORLD\n"
        "for line in range(3000):\n    print(f'rank {world.rank} says {line}', file=sys.stderr)\n"
        "world.Barrier()\nprint(f'rank {world.rank} says goodbye', file=sys.stderr)\n"
        "world.Barrier()\nworld.Abort(3)\n"
    )
    done = command("launch", "-n", "2", "--transport", transport, str(program))
    assert done.returncode != 0
    said = sorted(line for line in done.stderr.splitlines() if " says " in line)
    words = [*map(str, range(3000)), "goodbye"]
    assert said == sorted(f"rank {rank} says {word}" for rank in range(2) for word in words)
