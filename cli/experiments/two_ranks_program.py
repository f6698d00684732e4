"""Rank 0 times messages to rank 1 by MPI.Wtime (virtual) and writes JSON: the list of its
measurements in us, to the ns, in the order of the words.

two_ranks_program PATH isend SIZE:CALLS ...      Isend alone, each call; resident buffers
two_ranks_program PATH reuse SIZE:TIMES ...      fresh buffers, each used so many times
two_ranks_program PATH churn SIZE:MESSAGES ...   buffers mapped and unmapped for each message
two_ranks_program PATH memory SIZE:BUFFERS ...   so many buffers in turn, three rounds
two_ranks_program PATH put SIZE:MESSAGES ...     of 8 bytes, from pages of one buffer at random
"""

import json
import mmap
import random
import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pagewire.transport import MPI

ALIGNMENT_BYTES = 65536
ROUNDS = 3
PAGE_BYTES, WORD_BYTES = 4096, 8


Bytes = NDArray[np.uint8]


def fresh(num_bytes: int) -> Bytes:
    """Pages that nobody has touched; blocks of 16 KB end alike in every run."""
    pages = np.frombuffer(mmap.mmap(-1, num_bytes + ALIGNMENT_BYTES), np.uint8)
    skew = -pages.ctypes.data % ALIGNMENT_BYTES
    return pages[skew : skew + num_bytes]


def send(world: MPI.Intracomm, buffer: Bytes) -> None:
    if world.Get_rank() == 0:
        world.Send(buffer, 1)
    else:
        world.Recv(buffer, 0)


def finish(world: MPI.Intracomm) -> None:
    """Rank 0 knows that all has arrived."""
    answer = np.zeros(1, np.uint8)
    if world.Get_rank() == 1:
        world.Send(answer, 0)
    else:
        world.Recv(answer, 1)


def us_since(start_s: float, num_parts: int = 1) -> float:
    num_ns: int = round((MPI.Wtime() - start_s) / num_parts * 1e9)
    return num_ns / 1e3


def time_of(world: MPI.Intracomm, buffers: Callable[[int], Bytes], num_messages: int) -> float:
    """Of a message, whose buffer is that of its index."""
    world.Barrier()
    start_s = MPI.Wtime()
    for idx in range(num_messages):
        send(world, buffers(idx))
    finish(world)
    return us_since(start_s, num_messages)


def new(world: MPI.Intracomm, num_bytes: int) -> Bytes:
    """A fresh buffer; the sender has written what it sends."""
    buffer = fresh(num_bytes)
    if world.Get_rank() == 0:
        buffer.fill(1)
    return buffer


def isend(world: MPI.Intracomm, num_bytes: int, num_calls: int) -> list[float]:
    """What each Isend takes at rank 0; nothing at rank 1. One warm-up before."""
    buffer = fresh(num_bytes)
    buffer.fill(1)  # every page is written and resident
    found: list[float] = []
    for _ in range(num_calls + 1):
        request = world.Irecv(buffer, 0) if world.Get_rank() == 1 else None
        world.Barrier()
        if world.Get_rank() == 0:
            start_s = MPI.Wtime()
            request = world.Isend(buffer, 1)
            found.append(us_since(start_s))
        assert request is not None
        request.Wait()
        world.Barrier()
    return found[1:]


def put(world: MPI.Intracomm, num_bytes: int, num_messages: int) -> float:
    """Each page of the sender's buffer was sent from once before; the receiver's is one page."""
    pages = new(world, num_bytes).reshape(-1, PAGE_BYTES)[:, :WORD_BYTES]
    order = random.Random(1).choices(range(len(pages)), k=num_messages)
    is_sender = world.Get_rank() == 0
    for page in range(len(pages)):
        send(world, pages[page if is_sender else 0])
    return time_of(world, lambda idx: pages[order[idx] if is_sender else 0], num_messages)


def measure(world: MPI.Intracomm, kind: str, num_bytes: int, count: int) -> float | list[float]:
    if kind == "isend":
        return isend(world, num_bytes, count)
    if kind == "put":
        return put(world, num_bytes, count)
    if kind == "churn":  # each message in memory that was just mapped and is unmapped at once
        return time_of(world, lambda idx: new(world, num_bytes), count)
    num_buffers, rounds = (1, count) if kind == "reuse" else (count, ROUNDS)
    buffers = [new(world, num_bytes) for _ in range(num_buffers)]
    return time_of(world, lambda idx: buffers[idx % num_buffers], num_buffers * rounds)


def main() -> int:
    path, kind, *words = sys.argv[1:]
    world = MPI.COMM_WORLD
    found = [measure(world, kind, *map(int, word.split(":"))) for word in words]
    if world.Get_rank() == 0:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(found, file)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
