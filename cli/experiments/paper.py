"""The page that puts the application tables of PART beside what the paper says of them.

That stands with all other sentences of the sources in conditions.py.
"""

import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pagewire.cli.experiments.conditions import CONDITIONS
from pagewire.cli.kit.conditions import lines_of
from pagewire.native.output import OutputError, write_file

PAGE = "part-tables.md"
REASONS = "## Why they differ"
"""What stands below this heading is written by hand, and stays when the page is made again."""

_HEAD = """\
# The application tables beside the paper's

[How it is made](../experiments.md#on-record). *Here*: virtual time of the emulated machine.
"""


def write_page(folder: pathlib.Path) -> None:
    """Make it of the tables on record in the folder; raises OutputError."""
    documents = [_read(path) for path in sorted(folder.glob("part-table*.json"))]
    texts = [_section(each) for each in documents if "recorded" in each]
    if not texts:
        return
    path = folder / PAGE
    reasons = "Written by hand: a row for each difference above 1 %.\n"
    if path.exists():
        reasons = path.read_text(encoding="utf-8").partition(f"{REASONS}\n\n")[2] or reasons
    write_file(str(path), "\n".join((_HEAD, *texts, f"{REASONS}\n\n{reasons}")))


def _read(path: pathlib.Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OutputError(
            f"'{path.parent / PAGE}' was not written: '{path}' cannot be read ({error}); run its "
            "experiment again, or delete it"
        ) from None
    return document


def _section(document: Mapping[str, Any]) -> str:
    recorded, name = document["recorded"], document["name"]
    settings = {**document["settings_varied"], **document["settings_not_default"]}
    made = [
        f"{recorded['date']}, {', '.join(recorded['host'].values())}",
        f"`{recorded['command']}`",
        f"sizes {document['sizes']}, repetitions {document['repetitions']}",
        f"platform {document['platform']['name']}",
        *(f"{setting} {text}" for setting, text in settings.items()),
    ]
    conditions = lines_of(name, CONDITIONS.get(name, ()), document["rows"], "")
    said = [
        (each.quantity, f"{each.condition}, {each.source}", each.ours_text) for each in conditions
    ]
    columns = document["columns"]
    heads = [each["title"] + (f" ({each['unit']})" if each["unit"] else "") for each in columns]
    cells = [[_text(row.get(each["key"])) for each in columns] for row in document["rows"]]
    return "\n".join(
        [
            f"## {name}: {document['title']}",
            "",
            "; ".join(made) + ".",
            "",
            *_table(("quantity", "paper", "here"), said),
            "",
            *_table(heads, cells),
            "",
            *(f"- {note}" for note in document["notes"]),
            "",
        ]
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for cells in (heads, ["---"] * len(heads), *rows):
        yield f"| {' | '.join(cells)} |"


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.5g}" if isinstance(value, float) else str(value)
