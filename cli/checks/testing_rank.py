"""One rank of the MPI tests: pytest, with the output of ranks above 0 kept for when they fail.

The first test that fails on a rank ends the rank at once, before its fixtures and MPI come to their
ends: the other ranks wait for it in a call of the test, or will in one of its fixtures. The
launcher then ends them.
"""

import os
import pathlib
import sys
from typing import Any, NoReturn

import pytest

from pagewire.cli.launch.witness import rank_of_environment, tell_of_end


class _EndAtFirstFailure:
    """A plugin of pytest's."""

    def __init__(self, output: pathlib.Path) -> None:
        self._output = output
        self._reporter: Any = None

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._reporter = session.config.pluginmanager.get_plugin("terminalreporter")

    @pytest.hookimpl(trylast=True)  # after the reporter
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.failed:
            return
        self._output.with_suffix(".file").write_text(report.nodeid.partition("::")[0], "utf-8")
        self._reporter.summary_errors()
        self._reporter.summary_failures()
        self._reporter.short_test_summary()
        self._reporter.summary_stats()
        _leave(1, self._output)


def _leave(code: int, output: pathlib.Path) -> NoReturn:
    sys.stdout.flush()
    if output.exists():
        output.rename(output.with_suffix(".failed"))
    os._exit(code)


def _run(directory: str, words: list[str]) -> int:
    rank = rank_of_environment()
    output = pathlib.Path(directory) / f"{rank}.output"
    if rank:
        descriptor = os.open(output, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
    code = int(pytest.main(words, plugins=[_EndAtFirstFailure(output)]))
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        _leave(code, output)
    return code


if __name__ == "__main__":
    tell_of_end()
    sys.exit(_run(sys.argv[1], sys.argv[2:]))
