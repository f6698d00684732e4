"""Steps on neighbourhoods and between groups, threads, and pressure on memory by itself."""

import os
import queue
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from mpi4py import MPI

from pagewire.cli.checks.stress.steps.kit import Area, Place, Run, Step, execute
from pagewire.cli.checks.stress.steps.pressure import churn, fork


def neighbours(
    place: Place,
    *,
    edges: Sequence[Sequence[int]],
    name: str,
    mode: str,
    counts: Sequence[int],
    dims: Sequence[int] = (),
) -> Iterator[None]:
    """A collective on a neighbourhood: a graph by its edges [source, dest], or a periodic grid by
    its dims. counts: bytes by sender; without v or w, the first."""
    comm, rank = place.comm, place.rank
    if dims:
        own = comm.Create_cart(dims, [True] * len(dims))
        sources = [each for axis in range(len(dims)) for each in own.Shift(axis, 1)]
        dests = sources
    else:
        sources = [source for source, dest in edges if dest == rank]
        dests = [dest for source, dest in edges if source == rank]
        own = comm.Create_dist_graph_adjacent(sources, dests)
    has_counts = name.endswith(("v", "w"))
    out_bytes = counts[rank] if has_counts else counts[0]
    in_bytes = [counts[each] if has_counts else counts[0] for each in sources]
    is_gather = "allgather" in name
    parts = [place.payload(rank, out_bytes, 0 if is_gather or dims else each) for each in dests]
    if is_gather:
        parts = [place.payload(rank, out_bytes)]
    out, into = Area(out_bytes * len(parts), 1), Area(sum(in_bytes), 3)
    if parts:
        out.fill(np.concatenate(parts))
    firsts = [sum(in_bytes[:idx]) for idx in range(len(in_bytes))]
    send: Any = [out.bytes, MPI.BYTE]
    receive: Any = [into.bytes, MPI.BYTE]
    if has_counts:
        receive = [into.bytes, (in_bytes, firsts), MPI.BYTE]
        if not is_gather:
            lengths = [out_bytes] * len(parts)
            send = [out.bytes, (lengths, [out_bytes * i for i in range(len(parts))]), MPI.BYTE]
    if name.endswith("w"):
        send[2], receive[2] = [MPI.BYTE] * len(parts), [MPI.BYTE] * len(sources)
    request = None
    if mode == "blocking":
        getattr(own, f"N{name[1:]}")(send, receive)
    else:
        request = getattr(own, f"I{name}")(send, receive)
    yield
    if request is not None:
        request.Wait()
    came = [
        place.payload(source, length, 0 if is_gather or dims else rank)
        for source, length in zip(sources, in_bytes, strict=True)
    ]
    into.check(place, np.concatenate(came) if came else np.zeros(0, np.uint8), name)
    own.Free()


def intercommunicator(
    place: Place, *, num_left: int, num_bytes: int, merge_high: bool
) -> Iterator[None]:
    """Two groups: messages, Bcast and Allgather between them, then merged."""
    comm, rank, size = place.comm, place.rank, place.size
    is_left = rank < num_left
    local = comm.Split(0 if is_left else 1, rank)
    inter = local.Create_intercomm(0, comm, num_left if is_left else 0, place.tag)
    first_remote = num_left if is_left else 0
    place.equal(inter.remote_size, size - num_left if is_left else num_left, "remote size")
    content = place.payload(rank, num_bytes)
    requests = []
    if local.rank < inter.remote_size:
        out = Area(num_bytes, 5)
        out.fill(content)
        requests.append(inter.Isend([out.bytes, MPI.BYTE], local.rank, 7))
    into = Area(num_bytes, 3)
    gets_one = local.rank < inter.remote_size  # the partner of the same number sends one
    if gets_one:
        requests.append(inter.Irecv([into.bytes, MPI.BYTE], local.rank, 7))
    yield
    MPI.Request.Waitall(requests)
    if gets_one:
        into.check(place, place.payload(first_remote + local.rank, num_bytes), "message")
    told = Area(num_bytes, 1)
    if is_left:
        told.fill(place.payload(0, num_bytes, 1))
        inter.Bcast([told.bytes, MPI.BYTE], MPI.ROOT if rank == 0 else MPI.PROC_NULL)
    else:
        inter.Bcast([told.bytes, MPI.BYTE], 0)
    told.check(place, place.payload(0, num_bytes, 1), "Bcast")
    all_of_them = Area(num_bytes * inter.remote_size, 9)
    inter.Allgather([content, MPI.BYTE], [all_of_them.bytes, MPI.BYTE])
    others = range(first_remote, first_remote + inter.remote_size)
    everything = np.concatenate([place.payload(each, num_bytes) for each in others])
    all_of_them.check(place, everything, "Allgather")
    merged = inter.Merge(is_left == merge_high)
    place.equal(merged.size, size, "merged size")
    ranks = merged.allgather(rank)
    left, right = list(range(num_left)), list(range(num_left, size))
    place.equal(ranks, right + left if merge_high else left + right, "merged order")
    for each in (merged, inter, local):
        each.Free()


def threads(place: Place, *, parts: Sequence[Sequence[Step]]) -> Iterator[None]:
    """Each part in a thread of its own, on a communicator of its own."""
    runs = [Run(place.comm.Dup(), place.run.seed) for _ in parts]
    for run in runs:
        # At the first reduction of objects mpi4py copies the communicator and keeps Python's lock
        # while it waits for the other ranks: in two threads they may wait for ever.
        run.world.allreduce(0)
    results: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def work(run: Run, steps: Sequence[Step]) -> None:
        result: BaseException | None = None
        try:
            execute(run, steps)
        except BaseException as error:  # noqa: BLE001, raised again below
            result = error
        results.put(result)

    started = [
        threading.Thread(target=work, args=(run, part), daemon=True)
        for run, part in zip(runs, parts, strict=True)
    ]
    for thread in started:
        thread.start()
    for _ in started:
        failure = results.get()
        if failure is not None:
            raise failure
    yield
    for run in runs:
        place.run.checked.update(run.checked)
        run.close()
        run.world.Free()


def pressure(place: Place, *, acts: Sequence[str], num_bytes: int) -> Iterator[None]:
    """Between transfers: fork, churn of mappings, a child that reads the memory too."""
    yield
    content = place.payload(place.rank, num_bytes)
    area = Area(num_bytes, 0, "anonymous")
    area.fill(content)
    for act in acts:
        if act == "fork":
            fork()
        elif act == "churn":
            churn(num_bytes)
        else:
            child = os.fork()
            if child == 0:
                os._exit(int(area.bytes[: len(content)].sum()) % 2)
            _, status = os.waitpid(child, 0)
            place.equal(os.waitstatus_to_exitcode(status), int(content.sum()) % 2, "child")
    area.check(place, content, "memory")
