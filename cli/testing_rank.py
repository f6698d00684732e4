"""One rank of the MPI tests: pytest, with the output of ranks above 0 kept for when they fail."""

import os
import pathlib
import sys

from pagewire.cli.run import rank_of_environment, run_witnessed


def _run(directory: str, words: list[str]) -> int:
    rank = rank_of_environment()
    output = pathlib.Path(directory) / f"{rank}.output"
    if rank:
        descriptor = os.open(output, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
    import pytest

    code = int(pytest.main(words))
    sys.stdout.flush()
    if rank and code:
        output.rename(output.with_suffix(".failed"))
    return code


if __name__ == "__main__":
    run_witnessed(lambda: _run(sys.argv[1], sys.argv[2:]))
