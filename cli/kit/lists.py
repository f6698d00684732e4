"""Names and what they are, printed below each other."""

import shutil
import sys
import textwrap
from collections.abc import Mapping


def print_list(texts: Mapping[str, str]) -> None:
    """Each name with its text: wrapped beside the name in a terminal, one line each elsewhere."""
    indent = max(map(len, texts), default=0) + 2
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    for name, text in texts.items():
        print(
            textwrap.fill(
                text, width, initial_indent=name.ljust(indent), subsequent_indent=" " * indent
            )
        )
