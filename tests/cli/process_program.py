"""A program whose ranks say who they are and then do one thing for ever, or die by themselves.

Usage: process_program.py HOW [FILE]. Rank 0 and rank 1 are partners; further ranks wait for rank 0.
Rounds last until FILE is there, and take it away.
"""

import os
import signal
import subprocess
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


def end_badly():
    """Leaves FILE as the sign of the moment: a rank's clocks are virtual."""
    if sys.argv[2:]:
        open(sys.argv[2], "w").close()
    if how == "exception":
        raise ValueError("made up")
    {
        "exit before MPI": lambda: sys.exit(5),
        "exit without Finalize": lambda: os._exit(0),
        "os._exit": lambda: os._exit(3),
        "sys.exit": lambda: sys.exit(4),
        "abort": lambda: world.Abort(7),
        "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "crash": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    }[how]()


if how == "start":
    print("ready", os.environ.get("PMI_RANK", "0"), os.getpid(), flush=True)
    signal.pause()
if how == "exit before MPI" and os.environ.get("PMI_RANK") == "2":
    end_badly()

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
elif how == "child":  # which outlives its rank
    if last:
        subprocess.Popen(["sleep", "300"], start_new_session=True)
else:
    if last:
        end_badly()
    world.Recv(data, world.rank, 9)
