"""Every command and code block of README.md and docs/*.md works as it is shown.

Always: each command is taken by the command line, up to where it would start ranks or something
that takes long, and done where it does neither; Python runs; C compiles; pages of FIRST_PAGES and
blocks marked `always` run their commands whole. With PAGEWIRE_TEST_DOCS=all every block runs whole
(minutes).
"""

import os
import pathlib
import shutil
import subprocess
import tomllib
from collections.abc import Callable

import doc_blocks
import doc_commands
import doc_folder
import pytest
from doc_blocks import LANGUAGES, PAGES, ROOT, Block, blocks_of, shows, steps_of

FIRST_PAGES = ("README.md", "index.md")
"""Pages whose commands always run, as those of blocks that say so."""

EVERYTHING = os.environ.get("PAGEWIRE_TEST_DOCS") == "all"
LIMIT_S = 1200 if EVERYTHING else 150

COMMANDS = ("sh", "console")
WITH_WORK = [
    page for page in PAGES if any(b.language in (*COMMANDS, "python") for b in blocks_of(page))
]
WITH_C = [block for page in PAGES for block in blocks_of(page) if block.language == "c"]
WITH_TOML = [block for page in PAGES for block in blocks_of(page) if block.language == "toml"]


def name(page: pathlib.Path) -> str:
    return page.name


@pytest.fixture
def folder(tmp_path, monkeypatch) -> pathlib.Path:
    doc_folder.fill(tmp_path)
    monkeypatch.chdir(tmp_path)
    environment = doc_folder.environment(tmp_path)
    for variable in set(os.environ) - set(environment):
        monkeypatch.delenv(variable)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    return tmp_path


def write_files(page: pathlib.Path, folder: pathlib.Path) -> None:
    """The files that blocks of a page are; big.py is the README's everywhere."""
    for source in (ROOT / "README.md", page):
        for block in blocks_of(source):
            if block.file:
                (folder / block.file).write_text(block.runnable(), encoding="utf-8")


def shell(command: str, folder: pathlib.Path) -> str:
    """What it printed, errors too; it must succeed."""
    done = subprocess.run(
        ["bash", "-euc", command],
        check=False,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}"
    return done.stdout


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_says_its_language(page):
    unknown = [
        f"{block.place}: {block.language or 'no language'}"
        for block in blocks_of(page)
        if block.language not in LANGUAGES and not block.language.startswith("{")
    ]
    assert not unknown


class Page:
    """Runs the blocks of a page one after the other: files and names stay for those behind."""

    def __init__(self, page: pathlib.Path, folder: pathlib.Path, read_printed: Callable[[], str]):
        self.page, self.folder, self.read_printed = page, folder, read_printed
        self.names: dict[str, object] = {"__name__": page.stem}

    def run_commands(self, block: Block) -> None:
        first = block.always or (self.page.name in FIRST_PAGES and not block.run_elsewhere)
        whole = (EVERYTHING or first) and not block.not_run
        steps = steps_of(block.language, block.runnable())
        steps = [step for step in steps if doc_commands.is_for_this_host(step.command)]
        os.chdir(self.folder)
        for step in steps:
            where = pathlib.Path.cwd()
            try:
                done, printed = doc_commands.check(step.command)
            except Exception as error:
                raise AssertionError(f"{block.place}: {step.command}: {error}") from error
            # A block of sh is run as one script, below.
            if whole and not done and block.language == "console":
                done, printed = True, shell(step.command, where)
            if done and step.output:
                check_output(block, step.output, printed)
        os.chdir(self.folder)
        if whole and block.language == "sh":
            script = [step.command for step in steps if doc_commands.is_run(step.command)]
            shell("\n".join(script), self.folder)

    def run_python(self, block: Block) -> str:
        code = compile(block.runnable(), block.place, "exec")
        if block.not_run or block.file:
            return ""
        if block.ranks:
            pathlib.Path("page_program.py").write_text(block.runnable(), encoding="utf-8")
            return shell(f"pagewire launch -n {block.ranks} --quiet page_program.py", self.folder)
        exec(code, self.names)  # noqa: S102
        return self.read_printed()

    def run_tests(self) -> None:
        """Functions of its blocks that are tests, when all names are there."""
        for name in [each for each in self.names if each.startswith("test_")]:
            self.names[name]()  # type: ignore[operator]


def check_output(block: Block, expected: str, printed: str) -> None:
    as_shown = shows(
        expected, printed, numbers_vary=block.numbers_vary, some_lines=block.some_lines
    )
    assert as_shown, f"{block.place} printed\n{printed[-3000:]}\ninstead of\n{expected}"


@pytest.mark.timeout(2400 if EVERYTHING else 300)
@pytest.mark.parametrize("page", WITH_WORK, ids=name)
def test_blocks_work(page, folder, capsys, monkeypatch):
    write_files(page, folder)
    if EVERYTHING and any(block.in_tree for block in blocks_of(page)):
        doc_folder.copy_tree(folder)
    monkeypatch.syspath_prepend(folder)
    work = Page(page, folder, lambda: capsys.readouterr().out)
    printed = ""
    for block in blocks_of(page):
        if block.language in COMMANDS:
            work.run_commands(block)
        elif block.language == "python":
            printed = work.run_python(block)
        elif block.language == "text" and printed:
            check_output(block, block.text, printed)
            printed = ""
    work.run_tests()


@pytest.mark.parametrize("block", WITH_C, ids=lambda block: block.place)
def test_c_compiles(block, tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler")
    source = tmp_path / "block.c"
    source.write_text(block.around.replace("BLOCK", block.runnable()), encoding="utf-8")
    command = [compiler, "-std=c11", "-Wall", "-Werror", "-Wno-unused", "-fsyntax-only"]
    done = subprocess.run(
        [*command, f"-I{ROOT / 'include'}", source],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, f"{block.place}:\n{done.stderr}"


@pytest.mark.parametrize("block", WITH_TOML, ids=lambda block: block.place)
def test_toml_is_read(block):
    assert tomllib.loads(block.runnable())


def test_the_pages_have_blocks_of_each_kind():
    counts = {each: 0 for each in ("sh", "console", "python", "c", "toml")}
    for block in doc_blocks.all_blocks():
        if block.language in counts:
            counts[block.language] += 1
    assert counts["sh"] > 20 and counts["console"] > 3 and counts["python"] > 12, counts
    assert counts["c"] > 2 and counts["toml"] > 0, counts


@pytest.mark.parametrize(
    "expected, printed, same",
    [
        ("a  b\n", "a b\n", True),
        ("a b\n", "a c\n", False),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a\n...\nd\n", "a\nb\n", False),
        ("x ... z\n", "x y z\n", True),
        ("1.5 us\n", "1.6 us\n", False),
    ],
)
def test_output_is_compared(expected, printed, same):
    assert shows(expected, printed) is same


def test_some_lines_are_in_order():
    assert shows("a\nd\n", "a\nb\nc\nd\ne\n", some_lines=True)
    assert not shows("d\na\n", "a\nb\nc\nd\ne\n", some_lines=True)


def test_numbers_may_vary_and_nothing_else():
    assert shows("-0.5 ms in 12,000\n", "17.25 ms in 3\n", numbers_vary=True)
    assert not shows("-0.5 ms\n", "0.5 s\n", numbers_vary=True)


@pytest.mark.parametrize(
    "command",
    [
        "pagewire launch -n 2 --police all program.py",
        "pagewire launch -n 2 --set run.policies=all program.py",
        "pagewire launch -n 2 --policy nobody:Nothing program.py",
        "pagewire launch -n 2 not_there.py",
        "./mpirun.sh experiment part-fig99",
        "./mpirun.sh bench --only nothing",
        "./mpirun.sh fuzz nothing",
        "pip install 'pagewire[nothing]'",
        "mpiexec -n 2 python not_there.py",
        "no-such-program",
    ],
)
def test_a_wrong_command_is_found(command, folder):
    with pytest.raises((Exception, SystemExit)):
        doc_commands.check(command)
