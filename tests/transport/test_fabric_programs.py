"""Programs of MPI in C and Fortran over the libfabric provider.

What both transports promise of every call is test_every_call.py's; these are the provider's own:
other settings, bad networks, ways of starting, what mpi4py cannot say.

They check themselves: what they get is compared with what they compute. On plain MPICH they must
pass too, which is the check of them.
"""

import re
import shutil

import pytest
from native_programs import (
    SOURCES,
    fortran,
    launch_with_report,
    needs_mpicc,
    needs_provider,
    on_bad_networks,
    plain,
    programs,
)

pytestmark = needs_mpicc

MESSAGES = (
    "pingpong", "bandwidth", "all_to_all_by_hand", "order", "unexpected", "wildcards", "nothing",
    "probe", "matched", "truncation", "synchronous", "completion", "testing",
)  # fmt: skip
MEMORY = ("remapped", "moved", "children", "shared_buffer", "large")
TYPES = ("types_matrix", "types_struct", "types_indexed", "types_collective")
COLLECTIVES = (
    "reductions", "reductions_nonblocking", "reductions_persistent", "reduction_types",
    "reduction_places", "neighbours_grid", "neighbours_graph", "intercomm", "communicators",
    "split",
)  # fmt: skip
WINDOWS = (
    "one_sided_fence", "one_sided_pscw", "one_sided_locks", "one_sided_strides",
    "one_sided_dynamic", "one_sided_shared", "accumulate", "accumulate_native", "atomics",
    "atomics_native", "accumulate_types",
)  # fmt: skip
OTHERS = ("wtime", "session", "files", "port", "regions")
ALONE = ("pingpong_large", "threads", "spawn", "spawned")
"""In runs of their own: they take long, start otherwise, or print what is not theirs."""

TOGETHER = (*MESSAGES, *MEMORY, *TYPES, *COLLECTIVES, *WINDOWS, *OTHERS)


def ok(*names: str) -> list[str]:
    return [f"ok {name}" for name in names]


def test_every_program_of_the_sources_is_run():
    text = "".join(path.read_text(encoding="utf-8") for path in SOURCES.glob("*.c"))
    there = re.findall(r"^CHECK_PROGRAM\((\w+)\)", text, re.MULTILINE)
    assert sorted(there) == sorted([*TOGETHER, *ALONE])


def test_programs_pass_on_plain_mpich():
    done = plain(3, programs(), *TOGETHER)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ok(*TOGETHER)


@needs_provider
@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_programs_pass_over_the_ni(num_ranks, tmp_path):
    lines, report = launch_with_report(tmp_path, num_ranks, programs(), *TOGETHER)
    assert lines == ok(*TOGETHER)
    totals = report["totals"]
    assert totals["malformed_frames"] == totals["crc_errors"] == totals["transfers_failed"] == 0
    if num_ranks > 1:
        assert totals["transfers"] > 0 and totals["translation_faults"] > 0


def settings(**values: str) -> tuple[str, ...]:
    return tuple(
        word
        for name, text in values.items()
        for word in ("--set", f"{name.replace('__', '.')}={text}")
    )


@needs_provider
@pytest.mark.parametrize(
    ("options", "counts"),
    [
        (settings(run__memory="pretouch"), {"touch_ns": True, "translation_faults": False}),
        (settings(run__policy="all", run__timeout="100us"), {"translation_faults": True}),
        (settings(run__err="false", run__timeout="50us"), {"errs_sent": False, "timeouts": True}),
        (settings(run__eager_limit="0"), {"eager_bytes": False}),
        (settings(smmu__mode="stall"), {"accesses_stalled": True}),
    ],
    ids=lambda value: "-".join(value[1::2]) if isinstance(value, tuple) else "",
)
def test_programs_pass_with_other_settings(options, counts, tmp_path):
    names = ("bandwidth", "order", "unexpected", "probe", "truncation", "completion", "children",
             "types_matrix", "one_sided_locks", "reductions")  # fmt: skip
    if "run.err=false" not in options:  # a timeout for each page: minutes of virtual time
        names += ("pingpong", "remapped")
    lines, report = launch_with_report(tmp_path, 2, programs(), *names, options=options)
    assert lines == ok(*names)
    for name, is_there in counts.items():
        assert (report["totals"][name] > 0) == is_there, name


@needs_provider
@on_bad_networks
def test_programs_pass_over_a_bad_network(sites, tmp_path):
    names = ("order", "unexpected", "completion", "types_struct", "reductions", "one_sided_fence",
             "atomics")  # fmt: skip
    options = settings(
        run__timeout="100us", **{f"impairments__{name}": text for name, text in sites.items()}
    )
    lines, report = launch_with_report(tmp_path, 3, programs(), *names, options=options)
    assert lines == ok(*names)
    for name in sites:
        assert report["totals"]["impairments"][name]["injected"] > 0
    assert report["totals"]["retransmitted_blocks"] > 0


@needs_provider
def test_programs_pass_over_tcp(tmp_path):
    """Not by shared memory, as the other tests here."""
    names = ("pingpong", "unexpected", "completion", "reductions", "one_sided_locks")
    options = settings(run__wire="tcp")
    lines, _ = launch_with_report(tmp_path, 3, programs(), *names, options=options)
    assert lines == ok(*names)


@needs_provider
def test_large_messages(tmp_path):
    lines, report = launch_with_report(tmp_path, 2, programs(), "pingpong_large")
    assert lines == ok("pingpong_large")
    assert report["totals"]["rdma_bytes"] >= 2 * (4 << 20) * 2 + 2 * (16 << 20)


THREADS = ("threads", "reductions", "one_sided_locks")


@pytest.mark.parametrize(
    ("num_ranks", "words", "names"),
    [
        (3, ("--threads", *THREADS), THREADS),
        (2, ("spawn",), ("spawn", "spawned")),
    ],
)
def test_threads_and_spawned_processes_on_plain_mpich(num_ranks, words, names):
    done = plain(num_ranks, programs(), *words)
    assert sorted(done.stdout.splitlines()) == sorted(ok(*names))


@needs_provider
@pytest.mark.parametrize(
    ("num_ranks", "words", "names"),
    [
        (3, ("--threads", *THREADS), THREADS),
        (2, ("spawn",), ("spawn", "spawned")),
    ],
)
def test_threads_and_spawned_processes_over_the_ni(num_ranks, words, names, tmp_path):
    lines, _ = launch_with_report(tmp_path, num_ranks, programs(), *words)
    assert sorted(lines) == sorted(ok(*names))


needs_fortran = pytest.mark.skipif(not shutil.which("gfortran"), reason="needs gfortran")


@needs_fortran
def test_fortran_on_plain_mpich():
    done = plain(3, fortran("gfortran"))
    assert done.stdout.split() == ["ok", "fortran"], done.stderr


@needs_provider
@needs_fortran
def test_fortran_over_the_ni(tmp_path):
    lines, report = launch_with_report(tmp_path, 3, fortran("gfortran"))
    assert [line.strip() for line in lines] == ok("fortran")
    assert report["totals"]["mpi_calls"]["Sendrecv"]["calls"] == 6
