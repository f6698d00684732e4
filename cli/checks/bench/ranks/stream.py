"""Rank 0 sends to rank 1, message after message, and writes the wall time of it all in s."""

import json
import sys
import time


def main() -> int:
    import numpy as np
    from mpi4py import MPI

    path, num_bytes, num_messages = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    world = MPI.COMM_WORLD
    buffer = np.ones(num_bytes, np.uint8)
    world.Barrier()
    start_s = time.perf_counter()
    for _ in range(num_messages):
        if world.Get_rank() == 0:
            world.Send(buffer, 1)
        else:
            world.Recv(buffer, 0)
    world.Barrier()
    wall_s = time.perf_counter() - start_s
    if world.Get_rank() == 0:
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"wall_s": wall_s}, file)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
