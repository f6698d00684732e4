"""Commands that are refused before they start anything, in this process: saves their own start."""

import contextlib
import io
import os
from collections.abc import Mapping
from unittest import mock

from pagewire.cli.main import main


def refused(*words: str, env: Mapping[str, str] | None = None) -> str:
    """The one line that the command says."""
    errors = io.StringIO()
    with mock.patch.dict(os.environ, env or {}), contextlib.redirect_stderr(errors):
        code = main([*words])
    said = errors.getvalue()
    assert code == 2, said
    assert said.startswith("pagewire: error: ") and len(said.splitlines()) == 1, said
    return said.removeprefix("pagewire: error: ").strip()
