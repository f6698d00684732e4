"""One rank of one file of mpi4py's tests: `one_file.py TESTS MODULE RESULTS [EXCLUDED...]`.

Writes a line for each test when it starts and when it ends to RESULTS.rank, so that what a run left
behind that hung or crashed says where.
"""

import os
import sys
import traceback
import unittest
from typing import Any, TextIO


class Lines(unittest.TestResult):
    """Results as lines `WORD TEST` in a file, tracebacks on standard error."""

    def __init__(self, file: TextIO) -> None:
        super().__init__()
        self._file = file
        self._is_well = True

    def _write(self, word: str, test: Any) -> None:
        self._file.write(f"{word} {test.id().split(' (')[0]}\n")
        self._file.flush()

    def _tell(self, word: str, test: Any, error: Any) -> None:
        self._is_well = False
        self._write(word, test)
        print(word, test.id(), "".join(traceback.format_exception(*error)), file=sys.stderr)

    def startTest(self, test: Any) -> None:
        super().startTest(test)
        self._is_well = True
        self._write("start", test)

    def addSuccess(self, test: Any, _error: Any = None) -> None:
        self._write("pass", test)

    addExpectedFailure = addSuccess

    def addSkip(self, test: Any, reason: str) -> None:
        self._write("skip", test)

    def addUnexpectedSuccess(self, test: Any) -> None:
        self._write("fail", test)

    def addFailure(self, test: Any, err: Any) -> None:
        self._tell("fail", test, err)

    addError = addFailure

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self._tell("fail", test, err)


def tests_of(suite: Any) -> list[Any]:
    """The test cases of a suite, flat."""
    if isinstance(suite, unittest.TestSuite):
        return [test for each in suite for test in tests_of(each)]
    return [suite]


def main(tests: str, module: str, results: str, *excluded: str) -> None:
    sys.path.insert(0, tests)
    sys.dont_write_bytecode = True
    for name in ("cupy", "numba"):  # as mpi4py's main.py without options
        sys.modules[name] = None  # type: ignore[assignment]
    from mpi4py import MPI

    found = tests_of(unittest.defaultTestLoader.loadTestsFromName(module))
    with open(f"{results}.{MPI.COMM_WORLD.Get_rank()}", "w", encoding="utf-8") as file:
        unittest.TestSuite(test for test in found if test.id() not in excluded).run(Lines(file))
        file.write(f"end {module}\n")
    sys.stdout.flush()
    sys.stderr.flush()


if __name__ == "__main__":
    if os.environ.get("FOREIGN_DUMP_S"):  # where a rank hangs
        import faulthandler

        faulthandler.dump_traceback_later(float(os.environ["FOREIGN_DUMP_S"]))
    main(*sys.argv[1:])
