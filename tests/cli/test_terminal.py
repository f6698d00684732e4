"""What a user's terminal gets of `pagewire`: completion, version, width, color, exit codes."""

import os
import pathlib
import pty
import re
import subprocess
import sys

import pytest
from cli_runs import started

from pagewire.cli.commands import completion
from pagewire.cli.commands.dispatch import application, command_name
from pagewire.cli.main import main

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGEWIRE = pathlib.Path(sys.executable).parent / "pagewire"
COMMANDS = [command_name(each) for each in application().registered_commands]
OWN_HELP = ("test",)
"""Commands that read their words by themselves."""
FORGETFUL = """
from pagewire.driver.policy import PageInPolicy

class Forgetful(PageInPolicy):
    def pages(self, *, fault):
        return None
"""
COMPLETE = """
eval "$(_PAGEWIRE_COMPLETE=source_bash "$1")"
complete -p pagewire
for words in "pagewire la" "pagewire launch --memory part,pin-c" "pagewire launch --set smmu.l2_w"
do
    read -ra COMP_WORDS <<<"$words"
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _pagewire_completion "$1"
    echo "${COMPREPLY[*]}"
done
"""


def test_bash_completes_commands_and_values():
    done = started(["bash", "-c", COMPLETE, "bash", str(PAGEWIRE)], code=0)
    lines = done.stdout.splitlines()
    assert lines[0].endswith("-F _pagewire_completion pagewire")
    assert lines[1:] == ["launch", "part,pin-cache", "smmu.l2_ways="]


@pytest.mark.parametrize(
    ("offer", "begun", "offered"),
    [
        (completion.one_of("run.policy"), "", {"page", "block", "all"}),
        (completion.one_of("run.policy"), "page,b", {"page,block"}),
        (completion.one_of("run.json"), "", set()),
        (completion.assignment, "run.time", {"run.timeout="}),
        (completion.platform, "exanest-q", {"exanest-qfdb"}),
        (completion.app, "hp", {"hpcg", "hpl"}),
        (completion.experiment, "psi-t", {"psi-table4.1"}),
        (completion.bench_groups, "lookups,o", {"lookups,one-sided"}),
        (completion.experiment, "al", {"all"}),
    ],
)
def test_what_is_offered(offer, begun, offered):
    assert set(offer(begun)) == offered


@pytest.mark.parametrize("words", [["--version"], ["-V"]])
def test_version_is_one_line_and_stands_in_the_help(words, capsys):
    assert main(words) == 0
    assert re.fullmatch(r"pagewire \d+\.\d+\.\d+\S*\n", capsys.readouterr().out)
    assert main(["--help"]) == 0
    assert "--version" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["", *(name for name in COMMANDS if name not in OWN_HELP)])
def test_help_fits_eighty_columns(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    assert main([*command.split(), "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 5
    assert [line for line in lines if len(line) > 80] == []


def in_a_terminal(*words: str, **environ: str) -> str:
    """What a command writes when its output is a terminal."""
    outside = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    ours, its = pty.openpty()
    try:
        with subprocess.Popen(
            [PAGEWIRE, *words],
            stdin=its,
            stdout=its,
            stderr=its,
            env={**outside, "TERM": "xterm-256color", **environ},
        ) as process:
            os.close(its)
            found = b""
            try:
                while part := os.read(ours, 65536):
                    found += part
            except OSError:  # the last one has closed it
                pass
            assert process.wait(timeout=60) == 0
    finally:
        os.close(ours)
    return found.decode()


@pytest.mark.parametrize("words", [["apps"], ["experiment", "--list"]])
def test_lists_fit_a_terminal_and_take_one_line_a_name_elsewhere(words, capsys):
    lines = in_a_terminal(*words, COLUMNS="60").splitlines()
    assert max(map(len, lines)) <= 60
    assert main(words) == 0
    plain = capsys.readouterr().out.splitlines()
    assert max(map(len, plain)) > 80
    assert "".join("".join(lines).split()) == "".join("".join(plain).split())


def test_help_of_a_command_in_the_list_ends_at_its_column(capsys, monkeypatch):
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    assert main(["--help"]) == 0
    assert "command that uses MPI) on RANKS ranks." in capsys.readouterr().out


def test_no_color_turns_colors_off():
    color = re.compile(r"\x1b\[[0-9;]*3[0-9]")
    assert color.search(in_a_terminal("--help"))
    assert not color.search(in_a_terminal("--help", NO_COLOR="1"))


def test_page_has_the_exit_codes_that_commands_give(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    codes = re.findall(r"^\| (\d+) \|", text, flags=re.MULTILINE)
    (tmp_path / "forgetful.py").write_text(FORGETFUL)
    given = [
        main(["apps"]),
        main(["test", "--policy", "forgetful:Forgetful"]),
        main(["info", "--set", "run.timeout=1"]),
    ]
    assert [str(code) for code in given] == codes
