"""Command `pagewire`: sends `run` on its short way and everything else to the command-line library.

Bad input ends with one line on standard error and exit code 2, without a traceback; an output file
that cannot be written with exit code 1.
"""

import signal
import sys
from collections.abc import Sequence

from pagewire.native.output import OutputError
from pagewire.native.settings import ConfigError


def main(words: Sequence[str] | None = None) -> int:
    """Entry of the command; returns the exit code."""
    words = sys.argv[1:] if words is None else words
    try:
        if words[:1] == ["run"] and words[1:2] not in (["--help"], ["-h"]):
            from pagewire.cli.commands import run

            return run.main(words[1:])
        from pagewire.cli.commands import dispatch

        return dispatch.main(words)
    except ConfigError as error:
        print(f"pagewire: error: {error}", file=sys.stderr)
        return 2
    except OutputError as error:
        print(f"pagewire: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # before the command has begun
        print("pagewire: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
