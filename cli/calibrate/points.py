"""The table that a machine is fitted to: a CSV file with a line for each measured latency.

Units stand in the columns' names, and no other is guessed. Nothing is skipped: a line that cannot
be used is an error that names it.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import pathlib
from collections.abc import Mapping

from pagewire.lab.buffer import PAGE_BYTES
from pagewire.lab.lab import MEMORIES
from pagewire.lab.transfer import OPERATIONS
from pagewire.native.settings import ConfigError, suggestion
from pagewire.run.settings.config import Config

REQUIRED = ("size_bytes", "latency_us")
OPTIONAL = ("operation", "absent", "source_absent", "policy", "memory", "until")
UNTIL = ("completion", "arrival")
POINTS_MAX = 2000
SIZE_MAX_BYTES = 4 << 20
TOTAL_MAX_BYTES = 16 << 20
"""Of different transfers: each is emulated some hundred times."""
_LATENCY_MAX_US = 1e9


@dataclasses.dataclass(frozen=True, slots=True)
class Transfer:
    """What was measured: what the lab repeats."""

    num_bytes: int
    operation: str
    num_absent: int
    """pages of the destination, from the first on"""
    num_source_absent: int
    policy: str
    memory: str
    until: str
    """completion at the initiator, or arrival at the receiver"""

    def __str__(self) -> str:
        parts = [f"{self.operation} {self.num_bytes} B"]
        if self.num_absent:
            parts.append(f"{self.num_absent} absent, {self.policy}")
        if self.num_source_absent:
            parts.append(f"{self.num_source_absent} absent at the source")
        if self.memory != "part":
            parts.append(self.memory)
        if self.until != UNTIL[0]:
            parts.append("arrival")
        return ", ".join(parts)


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """One line of the table."""

    line: int
    transfer: Transfer
    latency_ns: float


def read(path: str, config: Config) -> list[Point]:
    """The points of a file; config: policy and memory of lines that name none. Raises
    ConfigError."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"--against '{path}': {error.strerror}") from None
    except ValueError:
        raise ConfigError(f"--against '{path}': no text in UTF-8") from None
    try:
        return parse(text, config)
    except (ConfigError, csv.Error) as error:
        what = "no CSV: " if isinstance(error, csv.Error) else ""
        raise ConfigError(f"--against '{path}': {what}{error}") from None


def parse(text: str, config: Config) -> list[Point]:
    """The points of a table's text; lines that begin with # are comments."""
    lines = [(idx, line) for idx, line in enumerate(text.splitlines(), 1)]
    lines = [each for each in lines if each[1].strip() and not each[1].startswith("#")]
    if not lines:
        raise ConfigError("it is empty; its first line names the columns: size_bytes,latency_us")
    rows = list(csv.reader(io.StringIO("\n".join(line for _, line in lines)), strict=True))
    if len(rows) != len(lines):
        raise ConfigError("a text in quotes goes over several lines; a point is one line")
    names = [name.strip() for name in rows[0]]
    _check_names(names)
    if len(rows) == 1:
        raise ConfigError("it has names of columns and no points")
    if len(rows) - 1 > POINTS_MAX:
        raise ConfigError(f"{len(rows) - 1} points are too many; at most {POINTS_MAX}")
    points = []
    for (line, _), cells in zip(lines[1:], rows[1:], strict=True):
        if len(cells) != len(names):
            raise ConfigError(f"line {line}: {len(cells)} cells, and {len(names)} columns")
        texts = {name: cell.strip() for name, cell in zip(names, cells, strict=True)}
        try:
            points.append(_point(line, texts, config))
        except ConfigError as error:
            raise ConfigError(f"line {line}: {error}") from None
    total = sum(each.num_bytes for each in {point.transfer for point in points})
    if total > TOTAL_MAX_BYTES:
        raise ConfigError(
            f"its different transfers are {total} B together, and each is emulated hundreds of "
            f"times; at most {TOTAL_MAX_BYTES} B: take fewer large sizes"
        )
    return points


def _check_names(names: list[str]) -> None:
    known = (*REQUIRED, *OPTIONAL)
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"column '{name}' is there twice")
    for name in REQUIRED:
        if name in names:
            continue
        stem = name.rsplit("_", 1)[0]
        near = [each for each in names if each.startswith(stem) or each == stem.split("_")[0]]
        hint = (
            f"; '{near[0]}' has another unit, or none: convert it, and name it so" if near else ""
        )
        raise ConfigError(f"column '{name}' is missing{hint}; columns are {', '.join(names)}")
    for name in names:
        if name not in known:
            raise ConfigError(
                f"unknown column '{name}'{suggestion(name, known)}; known are {', '.join(known)}"
            )


def _point(line: int, texts: Mapping[str, str], config: Config) -> Point:
    num_bytes = _whole("size_bytes", texts["size_bytes"], 1, SIZE_MAX_BYTES)

    def one_of(name: str, usual: str, known: tuple[str, ...]) -> str:
        text = texts.get(name) or usual
        if text not in known:
            raise ConfigError(
                f"{name} = '{text}'{suggestion(text, known)}: allowed is one of {', '.join(known)}"
            )
        return text

    def pages(name: str) -> int:
        num_pages = -(-num_bytes // PAGE_BYTES)
        text = texts.get(name) or "none"
        text = {"none": "0", "all": str(num_pages)}.get(text, text)
        try:
            return _whole(name, text, 0, num_pages)
        except ConfigError as error:
            raise ConfigError(f"{error} (pages of the transfer), all or none") from None

    transfer = Transfer(
        num_bytes=num_bytes,
        operation=one_of("operation", "write", OPERATIONS),
        num_absent=pages("absent"),
        num_source_absent=pages("source_absent"),
        policy=texts.get("policy") or config.run.policy,
        memory=one_of("memory", config.run.memory, MEMORIES),
        until=one_of("until", UNTIL[0], UNTIL),
    )
    text = texts["latency_us"]
    try:
        latency_us = float(text)
    except ValueError:
        raise ConfigError(
            f"latency_us = '{text}': allowed is a number of us, without a unit"
        ) from None
    if not 0 < latency_us <= _LATENCY_MAX_US:  # nor NaN
        raise ConfigError(
            f"latency_us = '{text}': allowed is a number above 0, at most {_LATENCY_MAX_US:.0e}"
        )
    return Point(line, transfer, latency_us * 1e3)


def _whole(name: str, text: str, least: int, most: int) -> int:
    if not text.isascii() or not text.isdecimal() or not least <= int(text[:20]) <= most:
        raise ConfigError(
            f"{name} = '{text}': allowed is a whole number from {least} to {most}, without a unit"
        )
    return int(text)
