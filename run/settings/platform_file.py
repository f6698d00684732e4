"""Platform files that are written: a base platform's document with other values in it.

What is changed says where it is from; what is not keeps the base's value and source, and says whose
they are.
"""

import copy
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from pagewire.native.output import write_file
from pagewire.native.settings import ConfigError
from pagewire.run.settings import platform, platform_document

_KEPT = re.compile(r" \(of [^()]*, kept\)$")


def check_path(option: str, path: str) -> None:
    """Whether --platform would take it; raises ConfigError."""
    if path and not path.endswith(".toml"):
        raise ConfigError(f"{option} '{path}': a platform file's name ends in .toml")


def write(
    path: str,
    base: str,
    changes: Mapping[str, Mapping[str, Any]],
    *,
    description: str,
    comment: Sequence[str],
) -> None:
    """Write the base platform with these entries changed, by "section.name".

    description: of the new platform. comment: lines at the top. Raises ConfigError when the
    outcome would not be a platform, OutputError when it cannot be written.
    """
    text = text_of(base, changes, description=description, comment=comment)
    platform.parse(tomllib.loads(text), path)
    write_file(path, text)


def text_of(
    base: str,
    changes: Mapping[str, Mapping[str, Any]],
    *,
    description: str,
    comment: Sequence[str],
) -> str:
    """The same as text."""
    read, origin = platform_document.read(base)
    document = copy.deepcopy(platform_document.with_base(read, origin)[0])
    for section in platform_document.SECTIONS:
        for name, entry in document.get(section, {}).items():
            kept = f" (of {origin.stem}, kept)"
            entry["source"] = _KEPT.sub("", entry["source"]) + kept
            if f"{section}.{name}" in changes:
                document[section][name] = dict(changes[f"{section}.{name}"])
    lines = [f"# {line}".rstrip() for line in comment]
    lines += ["", f"description = {_value(description)}"]
    for section in platform_document.SECTIONS:
        for name, entry in document.get(section, {}).items():
            lines += ["", f"[{section}.{name}]"]
            lines += [f"{key} = {_value(value)}" for key, value in entry.items()]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    """As TOML has it: JSON's texts, numbers and lists are TOML's too, but for what a name of a file
    or of a host may have in it."""
    if isinstance(value, str):
        value = value.encode("utf-8", "replace").decode().replace("\x7f", "?")
    return json.dumps(value, ensure_ascii=False)
