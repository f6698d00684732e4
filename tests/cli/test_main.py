"""The command: dispatch, one-line errors, launching, and runs in which a rank fails."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest
import typer
from cli_runs import BIN, PAGEWIRE, compared, ran, started
from cli_runs import command as pagewire
from refusals import refused

from pagewire.cli.commands import compare_table, dispatch
from pagewire.cli.launch import options, program
from pagewire.run.settings import config

ROOT = pathlib.Path(__file__).resolve().parents[2]
needs_mpi = pytest.mark.skipif(
    importlib.util.find_spec("pagewire.transport.facade.loader") is None
    or not (BIN / "mpiexec").exists(),
    reason="needs the MPI facade and mpiexec",
)

BARRIER = "from mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n"


@pytest.fixture
def script(tmp_path):
    def write(text: str) -> str:
        path = tmp_path / "script.py"
        path.write_text(text)
        return str(path)

    return write


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["launch", "-n", "0", "x.py"], "-n 0: the number of ranks must be from 1 to 1024"),
        (["launch", "-n", "-3", "x.py"], "-n -3"),
        (["launch", "-n", "1025", "x.py"], "-n 1025"),
        (["launch", "-n", "two", "x.py"], "two"),
        (["launch", "-n", "2"], "no program given"),
        (["launch", "x.py"], "-n"),
        (["launch", "-n", "2", "lamps"], "unknown program 'lamps'"),
        (["launch", "-n", "2", "none.py"], "program 'none.py': no such file"),
        (["launch", "-n", "2", "/"], "is a folder"),
        (["launch", "-n", "2", "/etc/passwd"], "is not a .py file"),
        (["launch", "-n", "2", "-m"], "-m needs the name of a module"),
        (["launch", "-n", "2", "-m", "nothing_here.x"], "no module named 'nothing_here'"),
        (["launch", "-n", "2", "--memory", "prt", "SELF"], "one of part, part-prefetch, pretouch"),
        (["launch", "-n", "2", "--policy", "nil:B", "SELF"], "no module named 'nil'"),
        *(
            (["launch", "-n", "2", "--set", assignment, "SELF"], expected)
            for assignment, expected in (
                ("firmware.scheduling=nil:B", "firmware.scheduling = 'nil:B': no module"),
                ("impairments.planner=nil:B", "impairments.planner = 'nil:B': no module"),
                ("impairments.planner=uni", "did you mean 'uniform'"),
                ("run.memori=pin", "did you mean 'run.memory'"),
                ("network.failed=1 to", "links '1 to'"),
                ("network.model=links", "only nodes of one process can share links"),
                ("run.ranks_per_node=2", "only ranks of one process can share a node"),
            )
        ),
        (
            ["launch", "-n", "4", "--set", "network.topology=torus:2", "SELF"],
            "torus:2' has 2 places for 4 nodes",
        ),
        (["launch", "-n", "2", "--platform", "exanest", "SELF"], "unknown platform 'exanest'"),
        (["launch", "-n", "2", "--config", "/none.toml", "SELF"], "/none.toml"),
        (["launch", "-n", "2", "--json", "/none/x.json", "SELF"], "no folder '/none'"),
        *(
            (
                ["launch", "-n", "2", "--transport", transport, "--trace", "/none/x", "hpl"],
                "run.trace = '/none/x': there is no folder",
            )
            for transport in ("facade", "fabric")
        ),
        (["launch", "-n", "2", "--nothing", "SELF"], "--nothing"),
        (["launch", "-n", "2", "--no-err", "--timeout", "none", "SELF"], "faulted block"),
        (["compare", "-n", "0", "SELF"], "-n 0"),
        (["compare", "-n", "2", "--memory", "part,pni", "SELF"], "did you mean 'pin'"),
        (["compare", "-n", "2", "--memory", ",", "SELF"], "name at least one"),
        (["compare", "-n", "2", "--policy", "part", "SELF"], "one of page, block, all"),
        (["compare", "-n", "2", "--compute", "fast", "SELF"], "one of replay, measured"),
        (["compare", "-n", "2", "--runs", "0", "SELF"], "--runs 0: allowed is 1 to 10000"),
        (["compare", "-n", "2", "--equal", "SELF"], "--equal needs runs"),
        *(
            (
                ["compare", "-n", "2", "--memory", text, "--set", "run.translation=mini", "SELF"],
                "leave run.translation out",
            )
            for text in ("all", "part,static")
        ),
        (["run"], "usage: pagewire run"),
        (["run", "--memory"], "--memory needs a value"),
        (["run", "--memry", "x", "SELF"], "did you mean '--memory'"),
        (["run", "--memory", "x", "SELF"], "one of part"),
        (["run", "nothing"], "unknown program 'nothing'"),
        (["nothing"], "nothing"),
        (["info", "--set", "ni.fifo_depth=0"], "from 1 to 512"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(words, expected):
    assert expected in refused(*(__file__ if word == "SELF" else word for word in words))


def test_process_of_a_refused_command_ends_with_2():
    done = pagewire("launch", "-n", "0", "x.py")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("pagewire: error: -n 0: the number of ranks must be")


def test_words_after_the_program_belong_to_it():
    with_value = dispatch.options_with_value(
        typer.main.get_command(dispatch.application()), "launch"
    )

    def separate(words: list[str]) -> list[str]:
        return options.separate_program(words, with_value)

    assert separate(["-n", "2", "a", "--memory", "x"]) == ["-n", "2", "--", "a", "--memory", "x"]
    assert separate(["-n2", "-m", "b", "-n"]) == ["-n2", "--", "-m", "b", "-n"]
    assert separate(["--quiet", "--", "a", "-n"]) == ["--quiet", "--", "--", "a", "-n"]
    assert options.parse(["--memory", "pin", "-q", "a.py", "-q"]) == (
        ["run.memory=pin", "run.quiet=true"],
        "",
        ["a.py", "-q"],
    )


def test_every_option_for_a_setting_names_one():
    assert {f"run.{name}" for name in options.OPTIONS} <= set(config.REGISTRY)


def test_command_line_reaches_the_ranks_as_such(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    environ = {"PAGEWIRE_RUN_MEMORY": "ideal"}
    options.apply(options.as_environment(["run.memory=pin", "run.json=x.json"]), environ)
    loaded = config.load(environ=environ)
    assert loaded.run.memory == "pin"
    assert loaded.run.json == str(tmp_path / "x.json")
    assert loaded.sources["run.memory"] == "command line"


def test_apps_are_listed_without_being_imported():
    listed = ran("apps").stdout
    assert all(name in listed for name in program.apps())
    code = "import sys; from pagewire.cli.launch import program; program.apps(); "
    code += "print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, check=True)
    assert not {b"numpy", b"mpi4py", b"pagewire.apps.lammps"} & set(loaded.stdout.split())


def test_info_shows_settings_costs_and_host():
    done = ran("info", "--set", "run.timeout=2ms", environ={"PAGEWIRE_RUN_MEMORY": "pin"})
    for text in ("environment", "command line", "2ms", "page_in_fixed_ns", "PART 5.2", "POPULATE"):
        assert text in done.stdout
    [row] = [line for line in done.stdout.splitlines() if line.startswith("│ run.timeout ")]
    value, default, unit = (cell.strip() for cell in row.split("│")[2:5])
    assert (value, default, unit) == ("2ms", "1ms", "")  # a duration is shown with its unit


def test_info_shows_in_which_file_a_cost_stands():
    done = ran("info", "--platform", "exanest-10g")
    cells = [[cell.strip() for cell in line.split("│")] for line in done.stdout.splitlines()]
    files = {line[1]: line[4] for line in cells if len(line) > 6}
    assert (files["link_mbps"], files["walk_ns"]) == ("exanest-10g", "exanest-qfdb")
    assert files["copy"] == "exanest-qfdb"


def test_info_smmu_shows_settings_and_register_layout():
    done = ran("info", "--smmu", "--set", "smmu.hupcf=0")
    assert "16 context banks" in done.stdout and "0x61 (M CFRE CFIE)" in done.stdout
    for text in ("smmu.l2_ways", "smmu.mode", "WNR", "MULTI", "CFCFG", "HUPCF", "TnR", "FAR_HIGH"):
        assert text in done.stdout
    assert "run.policy" not in done.stdout


def test_info_as_configuration_file_is_read_back(tmp_path):
    done = pagewire("info", "-c", "--set", "run.timeout=none", "--set", "run.memory=ideal")
    file = tmp_path / "settings.toml"
    file.write_text(done.stdout)
    loaded = config.load(environ={}, config_path=str(file))
    assert loaded.not_default() == {"run.memory": "ideal", "run.timeout": "none"}


NOT_OF_A_RANK = {
    "typer", "rich", "numpy", "traceback", "tempfile", "shutil", "difflib", "importlib.resources",
    "pagewire.run.report.report", "pagewire.smmu.registers",
}  # fmt: skip
"""What takes long to load, and few programs' ranks need before they use MPI."""


def test_rank_loads_nothing_that_few_need(script):
    path = script(
        "import sys\n"
        "from mpi4py import MPI\n"
        "MPI.COMM_WORLD.Allreduce(bytearray(8), bytearray(8))\n"
        "MPI.COMM_WORLD.Dup().allgather('object')\n"
        f"print(sorted({NOT_OF_A_RANK} & set(sys.modules)))"
    )
    if importlib.util.find_spec("pagewire.transport.facade.loader") is None:
        pytest.skip("needs the MPI facade")
    assert pagewire("run", "-q", path).stdout.strip() == "[]"


def test_command_loads_no_other_module_of_commands():
    code = "import sys; from pagewire.cli.commands import dispatch; dispatch.application('launch');"
    code += "print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, check=True)
    others = {f"pagewire.cli.commands.{name}" for name in dispatch.MODULES}
    others -= {f"pagewire.cli.commands.{name}" for name in ("application", "run_commands")}
    assert not (others | {"numpy", "rich", "email"}) & set(loaded.stdout.decode().split())


def test_every_command_is_said_to_be_in_a_module():
    app = dispatch.application()
    names = [dispatch.command_name(each) for each in app.registered_commands]
    names += [str(each.name) for each in app.registered_groups]
    said = [name for names in dispatch.MODULES.values() for name in names]
    assert sorted(["--version", "-V", *names]) == sorted(said)


@pytest.mark.skipif(
    importlib.util.find_spec("pagewire.transport.facade.loader") is None,
    reason="needs the MPI facade",
)
class TestRun:
    def test_file_has_its_folder_first_on_the_path_and_its_own_arguments(self, script, tmp_path):
        path = script("import sys; print(sys.argv, sys.path[0], __name__)")
        done = pagewire("run", path, "-n", "3", "--memory", cwd="/")
        assert done.stdout.strip() == f"{[path, '-n', '3', '--memory']} {tmp_path} __main__"

    def test_module_is_found_in_the_working_directory(self, script, tmp_path):
        script("import sys; print(sys.argv[1:], __name__)")
        done = pagewire("run", "-m", "script", "-m", cwd=tmp_path)
        assert done.stdout.strip() == "['-m'] __main__", done.stderr

    def test_folders_of_the_source_tree_do_not_shadow_the_users(self, script):
        path = script("import pagewire.cli, sys; print('cli' in sys.modules)")
        assert pagewire("run", path, cwd=ROOT).stdout.strip() == "False"

    @pytest.mark.parametrize(
        ("leaving", "code"), [("0", 0), ("None", 0), ("7", 7), ("'why'", 1), ("256", 1)]
    )
    def test_exit_code_is_the_programs(self, script, leaving, code):
        done = ran("run", script(f"import sys; sys.exit({leaving})"), code=code)
        assert ("why" in done.stderr) == (leaving == "'why'")

    def test_traceback_names_the_rank_and_starts_in_the_program(self, script):
        path = script("def broken():\n    raise ValueError('bad')\nbroken()\n")
        done = ran("run", path, environ={"PMI_RANK": "3"}, code=1)
        lines = done.stderr.splitlines()
        assert all(line.startswith("[rank 3] ") for line in lines)
        assert f'File "{path}", line 3' in lines[1]
        assert lines[-1] == "[rank 3] ValueError: bad"

    def test_syntax_error_is_the_ranks_error(self, script):
        done = pagewire("run", script("def ("))
        assert done.returncode == 1
        assert "SyntaxError" in done.stderr


@needs_mpi
class TestLaunch:
    @pytest.mark.parametrize(
        ("setting", "finalize"), [("run.json", "MPI.Finalize()"), ("run.compute_record", "")]
    )
    def test_output_that_cannot_be_written_ends_with_1(self, script, tmp_path, setting, finalize):
        (tmp_path / "out").symlink_to("/dev/full")
        (tmp_path / "out.0").symlink_to("/dev/full")
        program = script(f"from mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n{finalize}\n")
        path = f"{setting}={tmp_path / 'out'}"
        done = ran("launch", "-n", "2", "-q", "--set", path, program, code=1)
        assert "was not written: No space left on device" in done.stderr
        assert "Traceback" not in done.stderr
        assert pathlib.Path("/dev/full").is_char_device()

    @pytest.mark.parametrize(("option", "code"), [("--strict", 1), ("-q", 0), ("--err", 0)])
    def test_first_call_around_the_ni_is_told_once_or_ends_a_strict_run(self, script, option, code):
        program = script(
            "import numpy as np\nfrom mpi4py import MPI\n"
            "MPI.COMM_WORLD.Dup().Barrier()\n"
            "MPI.COMM_WORLD.Ialltoall(np.ones(4), np.ones(4)).Wait()\n"
        )
        done = ran("launch", "-n", "2", option, program, code=code)
        strict = "NotCarriedError: run.strict: the NI does not carry this call of Ialltoall"
        assert (strict in done.stderr) == (option == "--strict")
        told = "the NI does not carry this call of Ialltoall nor others like it"
        assert done.stderr.count(told) == (option == "--err")

    def test_sleep_is_real_with_the_wall_clock(self, script):
        program = script(
            "import time\nsleep = time.sleep\nfrom mpi4py import MPI\n"
            "start = MPI.Wtime()\nsleep(0.3)\n"
            "print(time.sleep is sleep, type(sleep).__name__, MPI.Wtime() - start > 0.29)\n"
        )
        done = pagewire("launch", "-n", "1", "-q", "--set", "run.wtime=wall", program)
        assert done.stdout.strip() == "True builtin_function_or_method True", done.stderr

    def test_timeout_below_a_round_trip_is_explained(self, script):
        program = script(
            "import numpy as np\nfrom mpi4py import MPI\ncomm = MPI.COMM_WORLD\n"
            "data = np.ones(100000)\n"
            "comm.Send(data, 1) if comm.rank == 0 else comm.Recv(data, 0)\n"
        )
        done = ran("launch", "-n", "2", "-q", "--timeout", "1us", program, code=1)
        assert "failed in the NI: PW_ERR_UNRECOVERABLE (-9), " in done.stderr
        assert "raise run.timeout if it is below a block's round trip" in done.stderr

    def test_report_stands_behind_the_programs_output(self, script, tmp_path):
        path = script("from mpi4py import MPI\nprint('x' * 70000)\nMPI.COMM_WORLD.Barrier()\n")
        with (tmp_path / "output").open("w") as file:
            words = ["launch", "-n", "2", "--json", "/dev/stdout", path]
            subprocess.run([*PAGEWIRE, *words], stdout=file, check=True, timeout=120)
        output = (tmp_path / "output").read_text()
        program, _, rest = output.partition("\npagewire report: ")
        assert program.count("x") == 2 * 70000  # mpiexec may mix them
        table, _, document = rest.partition("\n{")
        assert "settings that are not default: run.json = /dev/stdout" in table
        assert len(json.loads("{" + document)["ranks"]) == 2

    @pytest.mark.parametrize(
        ("quiet", "code", "said"),
        [
            ("-q", 0, ""),
            ("--err", 1, "pagewire: error: the report was not printed: No space left on device\n"),
        ],
    )
    def test_report_that_cannot_be_printed_ends_with_1(self, script, quiet, code, said):
        words = [*PAGEWIRE, "launch", "-n", "2", quiet, script(BARRIER)]
        done = started(["sh", "-c", 'exec "$0" "$@" >/dev/full', *words])
        assert (done.returncode, done.stderr) == (code, said)

    def test_run_that_failed_after_finalize_has_no_report(self, script, tmp_path):
        path = script("import sys\nfrom mpi4py import MPI\nMPI.Finalize()\nsys.exit(3)\n")
        file = tmp_path / "report.json"
        done = ran("launch", "-n", "2", "--json", str(file), path, code=3)
        assert "pagewire report" not in done.stdout and not file.exists()

    def test_without_the_launcher_rank_0_reports(self, script, tmp_path):
        words = [*PAGEWIRE, "run", "--json", str(tmp_path / "x.json"), script(BARRIER)]
        done = started([str(BIN / "mpiexec"), "-n", "2", *words], code=0)
        assert done.stdout.count("pagewire report: ") == 1
        assert len(json.loads((tmp_path / "x.json").read_text())["ranks"]) == 2

    def test_node_file_tells_a_rank_without_python_its_settings(self, script, tmp_path):
        (tmp_path / "cables.py").write_text(
            "import dataclasses\n"
            "from pagewire.run.settings.impairment_planners import ImpairmentPlanner\n"
            "class Bad(ImpairmentPlanner):\n"
            "    def plan(self, *, rank, num_ranks, configured):\n"
            "        return dataclasses.replace(configured, lost_ack=f'1:{num_ranks}:{rank}')\n"
        )
        (tmp_path / "sub").mkdir()
        path = script(
            "import os, shutil\nfrom mpi4py import MPI\n"
            "if MPI.COMM_WORLD.rank == 1:\n    shutil.copy(os.environ['PAGEWIRE_NODE_FILE'], 'x')\n"
        )
        words = ["--set", "impairments.planner=cables:Bad", "--platform", "exanest-10g", path]
        ran("launch", "-n", "3", "-q", "--json", "out.json", *words, cwd=tmp_path / "sub")
        assert {
            "format=2",
            "nodes=3",
            "run.quiet=true",
            f"run.json={tmp_path / 'sub' / 'out.json'}",
            "run.platform=exanest-10g",
            "impairments.planner=cables:Bad",
            "@2 impairments.lost_ack=1:3:2",
            "end",
        } <= set((tmp_path / "sub" / "x").read_text().splitlines())
        ranks = json.loads((tmp_path / "sub" / "out.json").read_text())["ranks"]
        assert [list(rank["impairments"]) for rank in ranks] == [["lost_ack"]] * 3

    def test_compare_all_says_that_the_same_bytes_arrived(self, script, tmp_path):
        """With a limit of locked memory that refuses some, which has a row and ends nothing."""
        path = script(
            "import numpy as np\nfrom mpi4py import MPI\ncomm = MPI.COMM_WORLD\n"
            "data = np.full(1 << 18, 7 * (1 - comm.rank), np.uint8)\n"
            "if comm.rank == 0:\n    comm.Send(data, 1)\n"
            "else:\n    comm.Recv(data, 0)\n"
        )
        picture = tmp_path / "compare.png"
        words = ["--plot", str(picture), "--set", "strategy.locked_limit=128KiB", path]
        printed, document = compared(tmp_path, "--memory", "all", "--compute", "none", *words)
        entries = {compare_table.row_name(entry): entry for entry in document["entries"]}
        refused = {name for name, entry in entries.items() if "failure" in entry}
        assert refused == {
            *("pin", "kernel", "pin-all", "pin-cache", "pin-rendezvous"),
            *("bounce", "utlb", "firehose"),
        }
        others = [entry for name, entry in entries.items() if name not in refused]
        assert all(all(entry["received_alike"]) for entry in others)
        assert all(entry["received_hashes"][1] for entry in others)
        assert {"mini", "static"} <= set(entries)
        assert entries["part"]["nic_memory_bytes"] != entries["mini"]["nic_memory_bytes"]
        mini = entries["mini"]
        misses = ("vmh_misses_send", "vmh_misses_receive", "cbh_misses")
        assert mini["translation_misses"] == sum(mini[key] for key in misses) > 0
        assert entries["static"]["translation_misses"] == 0 < entries["part"]["translation_misses"]
        pinned = {
            name: entry["pinned_peak_bytes"] >> 18
            for name, entry in entries.items()
            if name not in refused
        }
        assert {name for name, times in pinned.items() if times} == {"mini", "static"}
        assert all(entries[name]["pinned_mean_bytes"] for name in ("mini", "static"))
        assert "identical on each rank" in printed and picture.stat().st_size > 1000

    def test_program_without_mpi_gives_no_comparison(self, script):
        done = ran("compare", "-n", "2", script("print('hello')"), code=2)
        assert "left no report" in done.stderr
