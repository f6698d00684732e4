"""The final state in one file, for comparing two runs bit by bit."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagewire.apps.command import InputError
from pagewire.apps.team import Team


def write_state(path: str, team: Team, arrays: Mapping[str, NDArray[Any]] | None) -> None:
    """Write an .npz of the arrays of the one rank that has them; the others give None. Collective;
    raises InputError on all ranks when the file cannot be written."""
    problem = ""
    if arrays is not None:
        try:
            with open(path, "wb") as file:
                np.savez(file, allow_pickle=False, **arrays)
        except OSError as error:
            problem = f"--dump-state is {path!r}; writing it failed: {error.strerror}. "
    if team.any(bool(problem)):
        raise InputError(problem + "Remedy: name a file in a folder that rank 0 may write to.")
