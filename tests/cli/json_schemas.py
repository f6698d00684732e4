"""What pagewire writes as JSON, held against the schemas that it ships."""

from typing import Any

import jsonschema

from pagewire.cli.commands import schema


def errors(name: str, document: Any) -> list[str]:
    """Where a document is not as its schema says; each with the path in it."""
    found = jsonschema.Draft202012Validator(schema.load(name)).iter_errors(document)
    return [f"{each.json_path}: {each.message[:300]}" for each in found]


def check(name: str, document: Any) -> None:
    """The document is as its schema says."""
    wrong = errors(name, document)
    assert not wrong, f"schema {name} ({len(wrong)} errors):\n" + "\n".join(wrong[:5])
