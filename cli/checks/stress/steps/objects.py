"""Steps that send Python objects, by pickle."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from mpi4py import MPI

from pagewire.cli.checks.stress.steps.kit import Place


def make_object(place: Place, sender: int, num_bytes: int) -> Any:
    content = place.payload(sender, num_bytes)
    return {
        "sender": sender,
        "content": content.tobytes(),
        "array": content[: num_bytes // 4 * 4].view(np.int32).copy(),
        ("nested", sender): [None, 1.5, {"text": "x" * (num_bytes % 97)}],
    }


def check_object(place: Place, got: Any, sender: int, num_bytes: int, what: str) -> None:
    expected = make_object(place, sender, num_bytes)
    place.equal(type(got), dict, what)
    place.equal(sorted(map(str, got)), sorted(map(str, expected)), f"{what}: keys")
    place.check(np.frombuffer(got["content"], np.uint8), place.payload(sender, num_bytes), what)
    place.check(got["array"], expected["array"], f"{what}: array")
    place.equal(got["nested", sender], expected["nested", sender], what)


def object_message(
    place: Place, *, source: int, dest: int, send: str, receive: str, num_bytes: int
) -> Iterator[None]:
    """One object from rank to rank."""
    comm = place.comm
    request = sending = got = None
    if place.rank == dest and receive == "irecv":
        request = comm.irecv(bytearray(4 * num_bytes + 4096), source, place.tag)
    if place.rank == source:
        sending = getattr(comm, send)(make_object(place, source, num_bytes), dest, place.tag)
    if place.rank == dest:
        if receive == "recv":
            got = comm.recv(None, source, place.tag)
        elif receive == "mprobe":
            got = comm.mprobe(source, place.tag).recv()
        elif receive == "improbe":
            found = None
            while found is None:
                found = comm.improbe(source, place.tag)
            got = found.irecv().wait()
    yield
    if request is not None:
        got = request.wait()
    if sending is not None:
        sending.wait()
    if place.rank == dest:
        check_object(place, got, source, num_bytes, "object")


def object_collective(place: Place, *, name: str, root: int, num_bytes: int) -> Iterator[None]:
    """A collective of objects; each rank's has another length."""
    comm, rank, size = place.comm, place.rank, place.size

    def length(sender: int, other: int = 0) -> int:
        return num_bytes * (1 + (sender + other) % 3) // 3

    mine = make_object(place, rank, length(rank))
    if name == "bcast":
        got = comm.bcast(mine if rank == root else None, root)
        check_object(place, got, root, length(root), name)
    elif name == "gather":
        got = comm.gather(mine, root)
        if rank == root:
            for sender in range(size):
                check_object(place, got[sender], sender, length(sender), name)
        else:
            place.equal(got, None, name)
    elif name == "scatter":
        objects = [make_object(place, each, length(each)) for each in range(size)]
        got = comm.scatter(objects if rank == root else None, root)
        check_object(place, got, rank, length(rank), name)
    elif name == "allgather":
        for sender, got in enumerate(comm.allgather(mine)):
            check_object(place, got, sender, length(sender), name)
    elif name == "alltoall":
        parts = [(rank, each, place.payload(rank, length(rank, each)).tobytes())
                 for each in range(size)]  # fmt: skip
        for sender, got in enumerate(comm.alltoall(parts)):
            expected = place.payload(sender, length(sender, rank)).tobytes()
            place.equal(got, (sender, rank, expected), name)
    elif name in ("reduce", "allreduce"):
        own = [rank], {rank: length(rank)}
        if name == "reduce":
            got = comm.reduce(own, joined, root)
        else:
            got = comm.allreduce(own, joined)
        if name == "allreduce" or rank == root:
            everything = list(range(size)), {each: length(each) for each in range(size)}
            place.equal((sorted(got[0]), got[1]), everything, name)
    else:
        got = getattr(comm, name)(rank + 1, MPI.SUM)
        first = sum(range(1, rank + 1)) if rank or name == "scan" else None
        place.equal(got, first + rank + 1 if name == "scan" and first is not None else first, name)
    yield


def joined(one: Any, other: Any) -> Any:
    """An associative operation on pairs."""
    return one[0] + other[0], one[1] | other[1]
