"""A program whose ranks say who they are and then do one thing for ever, or die by themselves.

Usage: process_program.py HOW [FILE]. Rank 0 and rank 1 are partners; further ranks wait for rank 0.
Rounds last until FILE is there, and take it away.
"""

import os
import signal
import sys

import numpy as np

how = sys.argv[1]


def end_is_told():
    try:
        os.unlink(sys.argv[2])
    except IndexError:
        return True
    except FileNotFoundError:
        return False
    return True


if how == "start":
    print("ready", os.environ.get("PMI_RANK", "0"), os.getpid(), flush=True)
    signal.pause()

from mpi4py import MPI

world = MPI.COMM_WORLD
data = np.full(200_000, float(world.rank))
world.Allreduce(np.ones(1), np.zeros(1))
print("ready", world.rank, os.getpid(), flush=True)
last = world.rank == world.size - 1
if how == "send":
    while True:
        if world.rank == 0:
            world.Recv(data, 1)
        elif world.rank == 1:
            world.Send(data, 0)
        else:
            world.Recv(data, 0)
elif how == "collective":
    while True:
        world.Allreduce(data, np.empty_like(data))
elif how == "blocked":  # each waits for what never comes
    world.Recv(data, (world.rank + 1) % world.size, 9)
elif how == "computing":  # the last one never comes
    if last:
        signal.pause()
    world.Barrier()
elif how == "finalize":
    if last:
        signal.pause()
    MPI.Finalize()
elif how == "rounds":  # ends well, and says what came out
    turn, is_told = 0, False
    while turn < 60 or not is_told:
        total = np.empty_like(data)
        world.Allreduce(data, total)
        data = total / world.size + (turn if turn < 60 else 0)
        turn += 1
        is_told = world.bcast(is_told or (world.rank == 0 and end_is_told()))
    print("result", data.sum(), flush=True)
elif last and how == "exit without Finalize":
    os._exit(0)
elif last and how == "os._exit":
    os._exit(3)
elif last and how == "sys.exit":
    sys.exit(4)
elif last and how == "exception":
    raise ValueError("made up")
elif last and how == "abort":
    world.Abort(7)
elif last and how == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
else:
    world.Recv(data, world.rank, 9)
