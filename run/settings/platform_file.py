"""Platform files that are written: a base platform, and the entries that are another's.

What is changed says where it is from; the rest is the base's, which `base` names.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from pagewire.native.output import write_file
from pagewire.native.settings import ConfigError
from pagewire.run.settings import platform, platform_document

_TOP = ("description", "base", "assumed")
"""Keys beside the sections."""


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
    document, origin = platform_document.read(base)
    if not base.endswith(".toml"):
        document = {"base": base}
    # Else a file of the user's, which may be the one that is written now: its own entries go along.
    elif str(document.get("base", "")).endswith(".toml"):
        document["base"] = str(origin.absolute().parent / document["base"])
    top = {**document, "description": description}
    lines = [f"# {line}".rstrip() for line in comment]
    lines += ["", *(f"{key} = {_value(top[key])}" for key in _TOP if key in top)]
    for section in platform_document.SECTIONS:
        own = {
            name.partition(".")[2]: entry
            for name, entry in changes.items()
            if name.startswith(f"{section}.")
        }
        for name, entry in (document.get(section, {}) | own).items():
            lines += ["", f"[{section}.{name}]"]
            lines += [f"{key} = {_value(value)}" for key, value in entry.items()]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    """As TOML has it: JSON's texts, numbers and lists are TOML's too, but for what a name of a file
    or of a host may have in it."""
    if isinstance(value, str):
        value = value.encode("utf-8", "replace").decode().replace("\x7f", "?")
    return json.dumps(value, ensure_ascii=False)
