"""One rank of a mini-app, timed from when all ranks are up and all is imported until all are done.

`pagewire run` starts it on the NI; started by itself it is a rank of plain mpi4py, which never
loads the facade.
"""

import importlib
import json
import pkgutil
import runpy
import sys
import time

from pagewire.cli.launch.witness import tell_of_end


def main() -> int:
    """The app's exit code; rank 0 writes the wall time and all ranks' CPU time in s."""
    path, name, *words = sys.argv[1:]
    package = importlib.import_module(f"pagewire.apps.{name}")
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if not module.name.endswith(".__main__"):
            importlib.import_module(module.name)
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    world.Barrier()
    start_s, start_cpu_s = time.perf_counter(), time.process_time()
    code = _run(package.__name__, words)
    world.Barrier()
    wall_s = time.perf_counter() - start_s
    cpu_s = world.allreduce(time.process_time() - start_cpu_s)
    if world.Get_rank() == 0:
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"wall_s": wall_s, "cpu_s": cpu_s}, file)
    return code


def _run(package: str, words: list[str]) -> int:
    sys.argv[1:] = words
    try:
        runpy.run_module(package, run_name="__main__")
    except SystemExit as end:
        return int(end.code or 0)
    return 0


if __name__ == "__main__":
    tell_of_end()
    raise SystemExit(main())
