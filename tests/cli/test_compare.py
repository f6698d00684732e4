"""`pagewire compare` of swept settings: what is refused, what the rows refer to, table, files, and
what Ctrl-C leaves."""

import contextlib
import csv
import io
import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import time

import json_schemas
import pytest
from cli_runs import PAGEWIRE, clean_environment, started
from rich.console import Console

from pagewire.cli.commands import compare_files, compare_plan, compare_table, repetitions, sweep
from pagewire.cli.kit import progress
from pagewire.cli.main import main
from pagewire.native.settings import ConfigError
from pagewire.run.page import page
from pagewire.run.settings import config

COLOR = re.compile(r"\x1b\[(\d+;)*([34]\d|9[0-7]|10[0-7])(;\d+)*m")
PATIENCE_S = 100.0
"""A busy machine; what is promised is two seconds, which the last test prints."""


def rows(*sweeps: str, memory: str | None = "pretouch,part", policy: str | None = None):
    return compare_plan.choices(memory, policy, sweep.parse(sweeps), config.load(environ={}))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--sweep", "run.timeouts=1ms"], "did you mean 'run.timeout'"),
        (["--sweep", "run.timeout"], "expected section.name=VALUE,VALUE"),
        (["--sweep", "run.timeout="], "a value is empty"),
        (["--sweep", "run.timeout=1ms,,2ms"], "a value is empty"),
        (["--sweep", "run.timeout=1ms,2"], "the unit is missing"),
        (["--sweep", "smmu.l2_ways=2,x"], "smmu.l2_ways = 'x'"),
        (["--sweep", "run.timeout=1ms,1000us"], "'1000us', which is 1ms stands there twice"),
        (["--sweep", "run.timeout=1ms", "--sweep", "run.timeout=2ms"], "is given twice"),
        (["--sweep", "run.timeout=1ms,2ms", "--timeout", "3ms"], "also given a value of its own"),
        (["--sweep", "run.memory=part", "--memory", "pin"], "name one axis twice"),
        (["--sweep", "run.translation=mini"], "name the units in --memory"),
        (["--sweep", "run.json=a,b"], "--json has all runs"),
        (["--memory", "part,part"], "'part' stands there twice"),
        (
            ["--sweep", "run.err=true,false", "--sweep", "run.timeout=1ms,none"],
            "nothing would send a faulted block again",  # each is fine alone
        ),
        (
            [
                *("--sweep", f"run.eager_limit={','.join(map(str, range(1, 31)))}"),
                *("--sweep", f"run.timeout={','.join(f'{each}us' for each in range(10, 30))}"),
            ],
            "30 x 20 values with 1 strategies make 600 rows, at most 512",
        ),
        (["--runs", "9000"], "makes 18,000 runs, at most 10,000"),
        (["--sweep", "run.timeout=1ms,2ms", "--baseline", "3ms"], "'3ms' names no row"),
        (["--sweep", "run.timeout=1ms,2ms", "--baseline", "run.timeout=3ms"], "choose of part/"),
        (["--policy", "page,all", "--baseline", "part"], "choose of pretouch, part/page, part/all"),
        (["--csv", "/nowhere/a.csv"], "there is no folder '/nowhere'"),
    ],
)
def test_bad_comparison_is_refused_before_anything_runs(capfd, tmp_path, words, said):
    program = tmp_path / "program.py"
    program.write_text("raise SystemExit('it ran')\n")
    assert main(["compare", "-n", "2", *words, str(program)]) == 2
    out, err = capfd.readouterr()
    assert said in err and err.startswith("pagewire: error: ") and err.count("\n") == 1
    assert out == "" and "it ran" not in err


def test_rows_are_the_product_with_units_as_typed():
    names = [row.name for row in rows("run.timeout=100us,1.0ms", "smmu.l2_ways=2,4")]
    assert names == [
        f"{strategy}, run.timeout={timeout}, smmu.l2_ways={ways}"
        for strategy in ("pretouch", "part/page")
        for timeout in ("100us", "1.0ms")
        for ways in ("2", "4")
    ]
    assert [row.name for row in rows("run.policy=page,all", memory="part")] == [
        "part/page",
        "part/all",
    ]
    assert [row.strategy for row in rows("run.timeout=1ms,2ms", memory=None)] == ["part/page"] * 2
    assert [row.strategy for row in rows(memory=None)] == ["pretouch", "part/page"]


def test_baseline_fixes_what_it_names_and_else_keeps_the_row_s_own():
    chosen = rows("run.timeout=100us,1ms")
    pretouch = [row.name for row in compare_plan.references(chosen, "pretouch")]
    assert pretouch == ["pretouch, run.timeout=100us", "pretouch, run.timeout=1ms"] * 2
    slow = [row.name for row in compare_plan.references(chosen, "run.timeout=1000us")]
    assert slow == ["pretouch, run.timeout=1ms"] * 2 + ["part/page, run.timeout=1ms"] * 2
    both = {row.name for row in compare_plan.references(chosen, "part, run.timeout=1ms")}
    assert both == {"part/page, run.timeout=1ms"}
    assert set(compare_plan.references(chosen, "")) == {chosen[0]}
    with pytest.raises(ConfigError, match="run.memory stands there twice"):
        compare_plan.references(chosen, "pretouch,part")


FIGURES = [column.key for column in (compare_table.TIME, *compare_table.COLUMNS)]


def entry(row: compare_plan.Choice, *times_s: float) -> dict:
    """Of a row whose runs took so long."""
    reports = [
        {
            "ranks": [{"rank": 0, "virtual_time_ns": round(each * 1e9)}],
            "totals": {"virtual_time_ns": round(each * 1e9)},
            "summary": {
                **dict.fromkeys(FIGURES, 1234567),
                "virtual_time_s": each,
                "received_hashes": ["a"],
                "stale_transfers": 0,
            },
        }
        for each in times_s
    ]
    return {
        "name": row.name,
        "sweep": dict(row.point),
        "baseline": row.name,
        "slowdown": 0.25,
        **{key: getattr(row, key) for key in ("memory", "policy", "translation")},
        **reports[0]["summary"],
        "received_alike": [True],
        **({"repetitions": repetitions.of_reports(reports)} if len(reports) > 1 else {}),
    }


def test_mean_and_deviation_of_repetitions_are_in_table_and_csv():
    entries = [entry(row, 1.0, 2.0, 3.0) for row in rows("run.timeout=100us,1ms", memory="part")]
    assert entries[0]["repetitions"]["mean"]["virtual_time_s"] == 2.0
    assert entries[0]["repetitions"]["deviation"]["virtual_time_s"] == 1.0
    console = Console(width=240, file=io.StringIO())
    console.print(compare_table.table(entries, "title"))
    shown = console.file.getvalue()
    assert "2.000000" in shown and "1.000000" in shown and "deviation" in shown
    (first, _) = csv.DictReader(io.StringIO(compare_files.as_csv(entries)))
    assert (first["virtual_time_s"], first["virtual_time_s_deviation"]) == ("2.0", "1.0")
    assert (first["run.timeout"], first["runs"]) == ("100us", "3")


def test_table_fits_80_columns_and_says_what_has_no_room(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    chosen = rows("run.timeout=100us,1ms", "smmu.l2_ways=2,4")
    entries = [entry(row, 1.0 + idx) for idx, row in enumerate(chosen)]
    compare_table.show(entries, "title")
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out and "100us" in out and "smmu.l2_ways" in out
    omission = " ".join(out.split())
    assert "No room for: faults" in omission and "--csv and --json have all" in omission


def test_table_has_the_columns_that_are_asked_for(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    entries = [entry(row, 1.0 + idx) for idx, row in enumerate(rows(memory="pretouch,part"))]
    compare_table.show(entries, "title", compare_table.chosen("wall_time_s, err_messages"))
    out = capsys.readouterr().out
    assert "wall" in out and out.index("wall") < out.index("ERRs") and "faults" not in out
    compare_table.show(entries, "title", compare_table.chosen("all"))
    out = capsys.readouterr().out
    assert "(KiB)" in out and "No room for" not in out
    with pytest.raises(ConfigError, match="'wall_time': allowed is .*did you mean 'wall_time_s'"):
        compare_table.chosen("err_messages,wall_time")


def test_page_names_the_values_of_swept_settings():
    (row, _) = rows("run.timeout=100us,1ms", memory="part")
    assert page.name_of(entry(row, 1.0)) == row.name


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "term", "quiet", "has_bar", "num_lines"),
    [
        (Terminal, "xterm", False, True, 1),
        (Terminal, "dumb", False, False, 3),
        (io.StringIO, "xterm", False, False, 3),
        (Terminal, "xterm", True, False, 0),
    ],
)
def test_progress_is_a_bar_or_lines_or_nothing(
    monkeypatch, stream, term, quiet, has_bar, num_lines
):
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stderr", stream())
    with progress.Display(4, quiet=quiet) as display:
        display.begin("first")
        display.end()
        progress.add_virtual(1_500_000_000)
        display.begin("second", is_hidden=True)
        progress.tick()  # the program's own output is on the screen
        display.end()
        display.skip()
        display.begin("third")
    said = sys.stderr.getvalue()
    assert said.count("pagewire: run ") == num_lines
    assert ("\x1b[" in said and "\r" in said) == has_bar
    assert has_bar == ("of ~0:00, virtual 1.500 s" in said)
    assert quiet or ("run 2 of 4: second" in said and "run 4 of 4" in said)
    assert not quiet or said == ""


PROGRAM = """
import os, pathlib, sys, time
import numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
data = np.arange(20_000, dtype=float)
world.Allreduce(data, np.empty_like(data))
if os.environ["PAGEWIRE_RUN_TIMEOUT"] == sys.argv[2]:
    pathlib.Path(sys.argv[1], f"{world.rank}.pid").write_text(str(os.getpid()))
    while True:
        world.Allreduce(data, np.empty_like(data))
"""


def command(folder: pathlib.Path, hangs_at: str) -> list[str]:
    program = folder / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    return [
        *(*PAGEWIRE, "compare", "-n", "2", "--quiet-app"),
        *("--compute", "none", "--sweep", "run.timeout=200us,1ms,30ms,50ms"),
        *("--json", "out.json", "--csv", "out.csv", "--plot", "out.svg"),
        *(str(program), str(folder), hangs_at),
    ]


@pytest.mark.timeout(240)
def test_swept_rows_refer_to_the_baseline_and_received_the_same(tmp_path):
    words = command(tmp_path, "never")
    words[words.index("--sweep") + 1] = "run.timeout=20us,1ms"
    words[words.index("--sweep") : words.index("--sweep")] = ["--baseline", "run.timeout=1ms", "-q"]
    done = started(words, cwd=tmp_path, environ={"COLUMNS": "80"}, timeout_s=PATIENCE_S, code=0)
    assert done.stderr == "", "--quiet"
    assert "Received data: identical" in done.stdout and "rows of run.timeout=1ms" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    found = json.loads((tmp_path / "out.json").read_text())
    json_schemas.check("compare", found)
    first, second = found["entries"]
    assert "incomplete" not in found and "run.timeout" not in found["settings"]
    assert [each["settings"]["run.timeout"] for each in found["reports"]] == ["20us", "1ms"]
    assert first["timeouts"] > second["timeouts"], "the setting does what it says"
    assert first["slowdown"] == first["virtual_time_s"] / second["virtual_time_s"] - 1
    assert (second["slowdown"], second["baseline"]) == (0, "part/page, run.timeout=1ms")
    assert all(first["received_hashes"]) and first["received_alike"] == [True, True]
    lines = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert [float(each["virtual_time_s"]) for each in lines] == [
        first["virtual_time_s"],
        second["virtual_time_s"],
    ]
    assert (tmp_path / "out.svg").stat().st_size > 1000


def pids_of(folder: pathlib.Path) -> list[int]:
    with contextlib.suppress(ValueError):  # of a file that is being written
        return [int(path.read_text()) for path in folder.glob("*.pid")]
    return []


def is_alive(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except FileNotFoundError:
        return False


def ends_of(pids: list[int]) -> float:
    """Seconds until all are gone."""
    begun_s = time.monotonic()
    while any(map(is_alive, pids)):
        assert time.monotonic() < begun_s + PATIENCE_S, "a rank is left over"
        time.sleep(0.01)
    return time.monotonic() - begun_s


@pytest.mark.timeout(240)
def test_ctrl_c_on_a_terminal_keeps_the_rows_that_ended(tmp_path):
    words = command(tmp_path, "1ms")
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(tmp_path)
        environ = {**clean_environment(), "TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "80"}
        os.execve(words[0], words, environ)
    said, pids, ended_s, deadline_s = b"", [], 0.0, time.monotonic() + PATIENCE_S
    while True:
        assert time.monotonic() < deadline_s, said
        if select.select([terminal], [], [], 0.02)[0]:
            try:
                text = os.read(terminal, 65536)
            except OSError:
                break
            said += text
            if not text:
                break
        if not pids and len(pids_of(tmp_path)) == 2:
            pids = pids_of(tmp_path)
            os.write(terminal, b"\x03")  # the terminal signals its whole foreground group
            ended_s = ends_of(pids)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 130
    out = said.decode()
    print(f"ranks gone {ended_s:.3f} s after Ctrl-C")
    assert "run 2 of 4" in out and "\x1b[2K" in out, "no bar"
    assert not COLOR.search(out), "a color in spite of NO_COLOR"
    assert "INCOMPLETE, 1 of 4 runs" in " ".join(out.split())
    assert "missing: part/page, run.timeout=1ms; part/page, run.timeout=30ms; " in out
    assert "Received data: identical" in out
    found = json.loads((tmp_path / "out.json").read_text())
    json_schemas.check("compare", found)
    assert [each["sweep"] for each in found["entries"]] == [{"run.timeout": "200us"}]
    assert found["incomplete"] == {
        "reason": "interrupted",
        "planned_runs": 4,
        "missing_runs": [f"part/page, run.timeout={each}" for each in ("1ms", "30ms", "50ms")],
    }
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0] == "# incomplete: 3 of 4 runs are missing" and len(lines) == 3
    assert (tmp_path / "out.svg").stat().st_size > 1000


@pytest.mark.timeout(240)
def test_interrupt_of_the_launcher_alone_ends_the_ranks_too(tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environ = {**clean_environment(), "TMPDIR": str(temporary)}
    with subprocess.Popen(
        command(tmp_path, "200us"), cwd=tmp_path, env=environ, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    ) as run:  # fmt: skip
        deadline_s = time.monotonic() + PATIENCE_S
        while len(pids_of(tmp_path)) < 2:
            assert run.poll() is None and time.monotonic() < deadline_s
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)
        ended_s = ends_of(pids_of(tmp_path))
        out, err = run.communicate(timeout=PATIENCE_S)
    print(f"ranks gone {ended_s:.3f} s after SIGINT")
    assert run.returncode == 130
    assert out == "" and "\x1b" not in err and "\r" not in err
    first, *rest = err.splitlines()
    assert first.startswith("pagewire: run 1 of 4: ")
    assert first.endswith(" on 2 ranks, part/page, run.timeout=200us")
    assert rest == [
        "pagewire: no run of the comparison had ended: nothing is shown or written",
        "pagewire: interrupted; every rank was ended",
    ]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("out.")]
    assert list(temporary.iterdir()) == []
