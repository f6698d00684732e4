"""Directives whose content comes out of pagewire itself, so that no table can be stale.

pagewire-settings SECTION: the settings of a section. pagewire-names: what can be named in settings
that take a class. pagewire-commands: each command's --help. pagewire-experiments: the experiments
there are. pagewire-notebook FILE: the cells of a notebook. pagewire-costs PLATFORM: every cost of a
platform, with its source. pagewire-protocol: the firmware's table of a block's life.
pagewire-schema NAME: the keys of a JSON file.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import pathlib
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import resources
from typing import Any
from unittest import mock

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from pagewire.cli.commands import check_commands
from pagewire.cli.commands import dispatch as commands
from pagewire.cli.experiments.registry import EXPERIMENTS
from pagewire.cli.main import main
from pagewire.native.settings import allowed
from pagewire.r5sched import protocol
from pagewire.run import settings
from pagewire.run.settings import config

HELP_COLUMNS = 80


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def settings_of(section: str) -> str:
    current = config.load(environ={})
    parts = []
    for each in current.settings():
        if each.declaration.section != section:
            continue
        text, takes = each.declaration.help, f"Takes {allowed(each.declaration)}."
        if each.declaration.extensions:  # the names and what they are have a table of their own
            text = text.partition(":")[0]
            takes = "Takes a [name](#names-that-a-setting-takes), or a class of yours."
        default = f"`{each.default_text}`" if each.default_text else "empty"
        parts.append(f"`{each.name}`, default {default}\n: {text}. {takes}\n")
    return "\n".join(parts)


def names() -> str:
    parts = []
    for registry in config.EXTENSIONS:
        rows = [
            (code(name), each.help, "C" if each.cls is None else "Python")
            for name, each in registry.entries().items()
        ]
        parts += [f"`{registry.setting}`, of {registry.base.__name__}:", ""]
        parts += [table(("name", "is", "runs in"), rows), ""]
    return "\n".join(parts)


def experiments() -> str:
    rows = [(code(name), each.title, each.source) for name, each in EXPERIMENTS.items()]
    return table(("name", "shows", "of"), rows)


def help_of(words: Sequence[str]) -> str:
    return printed([*words, "--help"])


def printed(words: Sequence[str]) -> str:
    """What `pagewire WORDS` prints in a terminal of 80 columns, without color."""
    text = io.StringIO()
    shape = {"COLUMNS": str(HELP_COLUMNS), "NO_COLOR": "1", "TERM": "dumb"}
    # The name that help says is that of the program that runs: here Sphinx.
    name = mock.patch.object(sys, "argv", ["pagewire"])
    package = mock.patch.object(sys.modules["__main__"], "__package__", None)
    terminal = mock.patch.dict(os.environ, shape)
    argparse_leaves = contextlib.suppress(SystemExit)
    with terminal, name, package, contextlib.redirect_stdout(text), argparse_leaves:
        main(words)
    lines = [line.rstrip() for line in text.getvalue().splitlines()]
    return "\n".join(lines).strip("\n")


def command_names(group: Any) -> list[str]:
    return [commands.command_name(each) for each in group.registered_commands]


def helps() -> str:
    parts = [f"## pagewire\n\n```text\n{help_of([])}\n```"]
    application = commands.application()
    for name in command_names(application):
        # The help of `test` is pytest's, pages of it.
        text = inspect.getdoc(check_commands.test) if name == "test" else help_of([name])
        parts.append(f"## pagewire {name}\n\n```text\n{text}\n```")
    for group in application.registered_groups:
        for inner in command_names(group.typer_instance):
            text = help_of([str(group.name), inner])
            parts.append(f"## pagewire {group.name} {inner}\n\n```text\n{text}\n```")
    return "\n\n".join(parts)


def costs(platform: str) -> str:
    """What the platform's file says; other platforms are held against it nowhere."""
    path = resources.files(settings) / "platforms" / f"{platform}.toml"
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    rows = []
    for section in ("costs", "rates"):
        for name, entry in document[section].items():
            full = name if section == "costs" else f"{section}.{name}"
            rows.append((full, f"{entry['value']} {entry['unit']}", entry))
    for name, entry in document["tables"].items():
        points = ", ".join(f"{size}: {time}" for size, time in entry["points"])
        value = f"{points} ({entry['size_unit']}: {entry['time_unit']})"
        rows.append((f"tables.{name}", value, entry))
    return table(
        ("cost", "value", "source", "assumed because"),
        [
            (code(name), value, entry["source"], entry.get("assumed", ""))
            for name, value, entry in rows
        ],
    )


def keys(name: str) -> str:
    """The keys of each object of a JSON file, with what the schema says of them."""
    schema = json.loads(printed(["schema", name]))
    objects = {"": schema, **schema.get("$defs", {})}
    parts = []
    for title, each in objects.items():
        rows = [
            (code(key), entry.get("description") or _referred(entry))
            for key, entry in each.get("properties", {}).items()
            if key != "$schema"
        ]
        if rows:
            head = f"`{title}`: {each.get('description', '')}" if title else "The file:"
            parts += [head, "", table(("key", "is"), rows), ""]
    return "\n".join(parts)


def _referred(entry: Mapping[str, str]) -> str:
    return "see " + code(entry.get("$ref", "").rpartition("/")[2])


def notebook(path: str) -> str:
    """The cells of a notebook, which has no outputs; headings in bold, as the page has its own."""
    text = (pathlib.Path(__file__).parents[1] / path).read_text(encoding="utf-8")
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            parts.append(f"```python\n{source}\n```")
        else:
            parts.append(re.sub(r"^#+ (.*)$", r"**\1**", source, flags=re.MULTILINE))
    return "\n\n".join(parts)


class Generated(SphinxDirective):
    """Parses what `write` returns as Markdown."""

    optional_arguments = 1
    write: Callable[[str], str]

    def run(self) -> list[nodes.Node]:
        text = type(self).write(self.arguments[0] if self.arguments else "")
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def directive(write: Callable[[str], str]) -> type[Generated]:
    return type("Generated", (Generated,), {"write": staticmethod(write)})


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("pagewire-settings", directive(settings_of))
    app.add_directive("pagewire-names", directive(lambda _: names()))
    app.add_directive("pagewire-experiments", directive(lambda _: experiments()))
    app.add_directive("pagewire-notebook", directive(notebook))
    app.add_directive("pagewire-costs", directive(costs))
    app.add_directive("pagewire-protocol", directive(lambda _: protocol.document()))
    app.add_directive("pagewire-schema", directive(keys))
    app.add_directive("pagewire-commands", directive(lambda _: helps()))
    return {"parallel_read_safe": True}
