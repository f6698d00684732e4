"""The documents agree with the tree: costs with the platform file, citations with headings, links
with files."""

import ast
import functools
import pathlib
import re
import tomllib

import pytest

from pagewire.run.settings import config

ROOT = pathlib.Path(__file__).resolve().parents[2]
MACHINE = ROOT / "docs" / "machine.md"
PLATFORM = ROOT / "run" / "settings" / "platforms" / "exanest-qfdb.toml"
ROOT_GUIDES = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")]
GUIDES = [*ROOT_GUIDES, *sorted((ROOT / "docs").rglob("*.md"))]
DOCUMENTS = [ROOT / "CHANGELOG.md", *GUIDES]
ROOMS = re.findall(r"^(\w+):", (ROOT / "rooms.txt").read_text(encoding="utf-8"), re.MULTILINE)
CODE = [*ROOMS, ".ci", "docs", "examples", "include", "tests"]

# docs/NAME.md, "Heading"; the heading may go on in the next line of a comment, and quotes may be
# escaped.
CITATION = re.compile(r'docs/([\w-]+\.md), \\?"([^"\\]+)\\?"')
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def test_the_machine_page_lists_the_costs_of_the_platform():
    """The table comes out of the file when the site is built; no page has one of its own."""
    assert "```{pagewire-costs} exanest-qfdb\n```" in MACHINE.read_text(encoding="utf-8")
    names = tomllib.loads(PLATFORM.read_text(encoding="utf-8"))["costs"]
    for page in GUIDES:
        lines = page.read_text(encoding="utf-8").splitlines()
        assert not [line for line in lines if line.startswith(tuple(f"| `{x}` |" for x in names))]


def test_costs_in_the_text_are_those_of_the_platform_file():
    costs = tomllib.loads(PLATFORM.read_text(encoding="utf-8"))["costs"]
    text = " ".join(MACHINE.read_text(encoding="utf-8").split())
    stated = re.findall(r"`(\w+)` (\d+ [a-zA-Z/]+)", text)
    assert len(stated) > 10
    assert stated == [(name, f"{costs[name]['value']} {costs[name]['unit']}") for name, _ in stated]


@functools.cache
def headings(path: pathlib.Path) -> frozenset[str]:
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return frozenset(re.findall(r"^#+ (.+?)\s*$", text, flags=re.MULTILINE))


def anchor(heading: str) -> str:
    """A heading's anchor on GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def sources() -> list[pathlib.Path]:
    suffixes = {".py", ".c", ".h", ".toml", ".md", ".build", ".txt"}
    files = [path for path in ROOT.iterdir() if path.is_file()]
    for folder in CODE:
        files += (path for path in (ROOT / folder).rglob("*") if path.is_file())
    return [path for path in files if path.suffix in suffixes or path.name == "mpirun.sh"]


def citations(path: pathlib.Path) -> list[tuple[str, str]]:
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"\n[ \t]*(?:\*|#|//)?[ \t]*", " ", text)
    return CITATION.findall(text)


def test_citations_name_a_heading_that_exists():
    unknown = [
        f'{path.relative_to(ROOT)}: docs/{name}, "{heading}"'
        for path in sources()
        if path != pathlib.Path(__file__).resolve()
        for name, heading in citations(path)
        if not (ROOT / "docs" / name).is_file() or heading not in headings(ROOT / "docs" / name)
    ]
    assert not unknown


def test_nothing_cites_what_is_not_in_the_repository():
    word = "MECHANI" + "SMS"
    assert [path for path in sources() if word in path.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_relative_links_resolve(document):
    broken = []
    for target in LINK.findall(document.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, fragment = target.partition("#")
        path = (document.parent / name).resolve() if name else document
        found = path.exists() and (not fragment or fragment in map(anchor, headings(path)))
        if not found:
            broken.append(target)
    assert not broken


def test_every_page_is_in_the_navigation_once():
    """A page that docs/index.md does not list is found by nobody; no site is built with one."""
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    trees = re.findall(r"```\{toctree\}\n(.*?)```", text, flags=re.DOTALL)
    lines = [line for tree in trees for line in tree.splitlines()]
    docs = ROOT / "docs"
    entries = [line for line in lines if line and not line.startswith(":")]
    by_entry = {each: list(docs.glob(f"{each}.md")) for each in entries}
    assert all(by_entry.values()), "entries that name no page"
    listed = sorted(path for entry in entries for path in by_entry[entry])
    assert listed == sorted({*docs.rglob("*.md")} - {docs / "index.md"})


def test_documents_named_in_the_code_exist():
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources()
        for name in re.findall(r"\bdocs/[\w-]+\.md\b", path.read_text(encoding="utf-8"))
        if not (ROOT / name).is_file() and name != "docs/NAME.md"
    }
    assert not missing


@pytest.mark.parametrize("document", GUIDES, ids=lambda path: path.name)
def test_settings_named_in_documents_exist(document):
    sections = "|".join(config.SECTIONS)
    text = document.read_text(encoding="utf-8")
    named = re.findall(rf"(?:`|--set )((?:{sections})\.[a-z]\w*)(?![\w(*/])", text)
    assert set(named) <= set(config.REGISTRY)


def test_rooms_are_what_their_packages_say():
    """docs/architecture.md has every room, in the words with which its package begins."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", text, re.MULTILINE))
    packages = {
        room: ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text("utf-8")))
        for room in ROOMS
    }
    assert list(rows) == ROOMS
    assert {room: (said or "").splitlines()[:1] for room, said in packages.items()} == {
        room: [said] for room, said in rows.items()
    }


@functools.cache
def words_of_the_engine() -> frozenset[str]:
    headers = [path for path in sources() if path.suffix in (".h", ".c")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in headers)
    return frozenset(re.findall(r"\b[pP][wW]_\w+", text))


@pytest.mark.parametrize("document", GUIDES, ids=lambda path: path.name)
def test_names_and_files_in_documents_exist(document):
    text = document.read_text(encoding="utf-8")
    names = set(re.findall(r"\b(?:pw|PW)_\w*\w\b", text))
    assert names <= words_of_the_engine()
    files = re.findall(r"`((?:\w+/)+\w+\.(?:py|c|h|md|toml))`", text)
    assert [name for name in files if not (ROOT / name).is_file()] == []
