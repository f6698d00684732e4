"""How a mini-app starts and ends. `mpi4py.MPI` is imported here only, so that a launcher can put
another implementation under it first."""

import sys
import traceback
from collections.abc import Callable
from typing import Any

from pagewire.apps.errors import AppError


def run_app(name: str, body: Callable[[Any], int]) -> int:
    """Run `body(MPI)` on all ranks of COMM_WORLD and return its exit code.

    An AppError, which all ranks raise together, is printed once and gives its exit code on all of
    them. A fault of the program itself aborts all ranks.
    """
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    try:
        return body(MPI)
    except AppError as error:
        if world.Get_rank() == 0:
            print(f"{name}: error: {error}", file=sys.stderr, flush=True)
        # A launcher may end all ranks as soon as one fails: not before the line is out.
        world.Barrier()
        return error.exit_code
    except Exception:
        if world.Get_size() == 1:
            raise
        # The others would wait for this rank for ever.
        traceback.print_exc()
        sys.stderr.flush()
        world.Abort(1)
        return 1
