"""The trace of a recorded run, made of what its ranks wrote: for the launcher, at the run's end."""

import contextlib
import os
import sys
from typing import Any

from pagewire.native import ffi, lib
from pagewire.run.settings.config import Config

_OUTPUTS = ("run.record", "run.json", "run.html", "run.trace", "run.quiet", "run.compute_record")

VERSION = 1
"""Of what META holds."""


def merge(num_ranks: int, settings: Config, program: str) -> None:
    """Make one file of the ranks' parts, as run.record says, also when they did not end well; the
    parts go. Raises OutputError."""
    from pagewire.replay import trace  # its parts take long to load

    path = settings.run.record
    parts = [f"{path}.{rank}" for rank in range(num_ranks)]
    there = [part for part in parts if os.path.exists(part)]
    if not there:
        return
    for sentence in trace.merge(parts, path, _meta(num_ranks, settings, program)):
        print(f"pagewire: {sentence}", file=sys.stderr)
    for part in there:
        os.unlink(part)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{part}.tail")


def _meta(num_ranks: int, settings: Config, program: str) -> dict[str, Any]:
    return {
        "version": VERSION,
        "pagewire": ffi.string(lib.pagewire_version()).decode(),
        "program": [program],
        "num_ranks": num_ranks,
        "transport": settings.run.transport,
        "settings": {
            name: text for name, text in settings.not_default().items() if name not in _OUTPUTS
        },
        "platform": settings.run.platform,
        "eager_limit": settings.run.eager_limit_bytes,
    }
