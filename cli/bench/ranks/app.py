"""One rank of a mini-app, timed from when all ranks are up and all is imported until all are done.

`pagewire run` starts it on the NI; started by itself it is a rank of plain mpi4py, which never
loads the facade.
"""

import importlib
import json
import pkgutil
import sys
import time

from pagewire.cli.run import run_witnessed


def main() -> int:
    """The app's exit code; rank 0 writes the wall time in s."""
    path, name, *words = sys.argv[1:]
    package = importlib.import_module(f"pagewire.apps.{name}")
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if not module.name.endswith(".__main__"):
            importlib.import_module(module.name)
    app = importlib.import_module(f"{package.__name__}.main")
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    world.Barrier()
    start_s = time.perf_counter()
    code: int = app.main(words)
    world.Barrier()
    if world.Get_rank() == 0:
        wall_s = time.perf_counter() - start_s
        with open(path, "w", encoding="utf-8") as file:
            json.dump(wall_s, file)
    return code


if __name__ == "__main__":
    if "pagewire.transport.facade.loader" in sys.modules:
        raise SystemExit(main())
    run_witnessed(main)
