"""Code blocks of README.md, CONTRIBUTING.md and docs/*.md, with what a comment before says of
their test.

`<!-- test: file big.py -->`: the block is that file, for the blocks behind it.
`<!-- test: ranks 2 -->`: Python that runs as a program on so many ranks.
`<!-- test: some lines -->`: what is printed has these lines in this order, and others.
`<!-- test: numbers vary -->`: figures of the output shown are those of one run of many.
`<!-- test: replace "A" "B" -->`: run with B in place of A, which would take too long.
`<!-- test: in the source tree -->`: the page's commands are run in a copy of this project.
`<!-- test: not run: REASON -->`: checked, but run nowhere.
`<!-- test: run by tests/FILE.py -->`: that test runs it always, this one with all others only.
`<!-- test: always -->`: its commands always run, ranks and all: what somebody new does first.
`<!-- test: in C: TEXT -->`: the program that a block in C is a part of, at BLOCK.
Several may follow each other.
"""

import dataclasses
import pathlib
import re
import shlex

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LANGUAGES = {"sh", "console", "python", "c", "toml", "text"}

_FENCE = re.compile(r"^( *)```(.*)$")
_COMMENT = re.compile(r"<!-- test: (.*?) ?-->", re.DOTALL)


@dataclasses.dataclass
class Block:
    """One block as it is shown, and how it is run."""

    page: pathlib.Path
    line: int
    language: str
    text: str
    file: str = ""
    ranks: int = 0
    numbers_vary: bool = False
    some_lines: bool = False
    not_run: str = ""
    in_tree: bool = False
    run_elsewhere: bool = False
    always: bool = False
    around: str = "BLOCK"
    replaced: list[tuple[str, str]] = dataclasses.field(default_factory=list)

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def runnable(self) -> str:
        """The text with its replacements; each must be of use."""
        text = self.text
        for old, new in self.replaced:
            assert old in text, f"{self.place}: there is no {old!r} to replace"
            text = text.replace(old, new)
        return text

    def take(self, said: str) -> None:
        """One comment before the block."""
        kind, _, rest = said.partition(" ")
        if kind == "file":
            self.file = rest
        elif kind == "ranks":
            self.ranks = int(rest)
        elif said.startswith("run by "):
            assert (ROOT / said.removeprefix("run by ")).is_file(), f"{self.place}: {said}"
            self.run_elsewhere = True
        elif said == "in the source tree":
            self.in_tree = True
        elif said == "always":
            self.always = True
        elif said == "some lines":
            self.some_lines = True
        elif said == "numbers vary":
            self.numbers_vary = True
        elif said.startswith("not run: ") and said.removeprefix("not run: ").strip():
            self.not_run = said.removeprefix("not run: ")
        elif said.startswith("in C: ") and "BLOCK" in said:
            self.around = said.removeprefix("in C: ")
        elif kind == "replace":
            old, new = shlex.split(rest)
            self.replaced.append((old, new))
        else:
            raise AssertionError(f"{self.place}: no such comment: test: {said}")


def blocks_of(page: pathlib.Path) -> list[Block]:
    """Every block of a page, in order."""
    found: list[Block] = []
    said: list[str] = []
    inside: Block | None = None
    indent = ""
    comment = ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if inside is not None:
            if fence and not fence[2].strip():
                found.append(inside)
                inside = None
            else:
                inside.text += line.removeprefix(indent) + "\n"
        elif fence:
            indent = fence[1]
            inside = Block(page, number, fence[2].strip(), "")
            for each in said:
                inside.take(each)
            said = []
        elif comment or line.startswith("<!-- test: "):
            comment += line + "\n"
            if "-->" in line:
                said.append(_COMMENT.match(comment)[1])  # type: ignore[index]
                comment = ""
        elif line.strip():
            assert not said, f"{page.name}:{number}: a comment `test:` stands before no block"
    assert inside is None and not said and not comment, page
    return found


def all_blocks() -> list[Block]:
    return [block for page in PAGES for block in blocks_of(page)]


@dataclasses.dataclass
class Step:
    """One command of a block, with the output shown below it."""

    command: str
    output: str = ""


def steps_of(language: str, text: str) -> list[Step]:
    """The commands of a block of sh or console; lines that go on are joined."""
    steps: list[Step] = []
    goes_on = False
    for line in text.splitlines():
        if goes_on:
            steps[-1].command += "\n" + line
        elif language == "sh":
            if line.strip() and not line.lstrip().startswith("#"):
                steps.append(Step(line))
        elif line.startswith("$ "):
            steps.append(Step(line[2:]))
        elif steps:
            steps[-1].output += line + "\n"
            continue
        goes_on = bool(steps) and steps[-1].command.endswith("\\")
    return steps


_FRAME = "".join(map(chr, range(0x2500, 0x2580))) + " "
_NUMBER = re.compile(r"[-+]?\d[\d.,]*")


def shows(
    expected: str, printed: str, *, numbers_vary: bool = False, some_lines: bool = False
) -> bool:
    """Whether a page's output is what was printed, from some line on. A line of `...` stands for
    any lines, `...` in a line for any part of it; spaces and the lines of a table do not count."""
    wanted = [_pattern(line, numbers_vary) for line in _plain(expected)]
    if some_lines:
        wanted = [each for pattern in wanted for each in (pattern, None)]
    lines = _plain(printed)
    return any(_follow(wanted, lines, start) for start in range(len(lines) + 1))


def _plain(text: str) -> list[str]:
    lines = (re.sub(r"[\s━─]+", " ", line).strip() for line in text.splitlines())
    return [line for line in lines if line.strip(_FRAME)]


def _pattern(line: str, numbers_vary: bool) -> str | None:
    """None: any lines."""
    if line == "...":
        return None
    parts = []
    for part in line.split("..."):
        texts = _NUMBER.split(part) if numbers_vary else [part]
        parts.append(r"[-+]?[\d.,]+".join(map(re.escape, texts)))
    return ".*".join(parts)


def _follow(wanted: list[str | None], lines: list[str], start: int) -> bool:
    for idx, pattern in enumerate(wanted):
        if pattern is None:
            rest = wanted[idx + 1 :]
            return any(_follow(rest, lines, each) for each in range(start, len(lines) + 1))
        if start == len(lines) or not re.fullmatch(pattern, lines[start]):
            return False
        start += 1
    return True
