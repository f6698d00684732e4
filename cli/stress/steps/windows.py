"""Steps of one-sided communication: epochs of a window, each operation on a place of its own."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from mpi4py import MPI

from pagewire.cli.stress.steps.kit import Area, Place


def window(
    place: Place,
    *,
    make: str,
    sync: str,
    num_bytes: int,
    num_rounds: int,
    operations: Sequence[Sequence[Any]],
    memory: str = "heap",
    offset: int = 0,
) -> Iterator[None]:
    """Rounds of operations [kind, origin, target, first, bytes]: Put, Rput, Get, Rget. In a round
    the places of puts at a target do not meet each other, nor those of gets."""
    comm, rank, size = place.comm, place.rank, place.size
    area = Area(num_bytes, offset, memory)
    content = [place.payload(each, num_bytes).copy() for each in range(size)]
    area.fill(content[rank])
    win, base = _make_window(make, comm, area, num_bytes)
    bases = comm.allgather(base)
    if make == "allocate":  # its memory is the window's own
        np.frombuffer(win.tomemory(), np.uint8)[:] = content[rank]
        win.Fence()
    for turn in range(num_rounds):
        into: list[tuple[Area, Any, Sequence[Any]]] = []
        after = [each.copy() for each in content]
        kept: list[Area] = []
        mine = []
        for idx, operation in enumerate(operations):
            kind, origin, target, first, length = operation
            sent = place.payload(size + idx, length, turn)
            if kind.endswith("put") or kind == "Put":
                after[target][first : first + length] = sent
            if origin != rank:
                continue
            own = Area(length, idx % 61, memory)
            kept.append(own)
            if kind in ("Put", "Rput"):
                own.fill(sent)
            else:
                into.append((own, content[target][first : first + length], operation))
            mine.append((kind, own, target, bases[target] + first))
        epoch = _epoch(sync, win, comm, size)
        next(epoch)
        requests = [
            _operate(win, kind, own, target, first, sync) for kind, own, target, first in mine
        ]
        if turn == 0:
            yield
        for request in requests:
            if request is not None:
                request.Wait()
        for _ in epoch:
            pass
        for own, expected, operation in into:
            own.check(place, expected, f"round {turn}, {operation}")
        content = after
        if make == "allocate":
            got = np.frombuffer(win.tomemory(), np.uint8)
            place.check(got, content[rank], f"window after round {turn}")
        else:
            area.check(place, content[rank], f"window after round {turn}")
        comm.Barrier()  # nobody begins the next round while a window is being looked at
    if make == "dynamic":
        win.Detach(area.bytes)
    win.Free()


def _make_window(make: str, comm: Any, area: Area, num_bytes: int) -> tuple[Any, int]:
    """The window, and the displacement of its first byte."""
    if make == "allocate":
        return MPI.Win.Allocate(num_bytes, 1, comm=comm), 0
    if make == "create":
        return MPI.Win.Create(area.bytes, 1, comm=comm), 0
    win = MPI.Win.Create_dynamic(comm=comm)
    win.Attach(area.bytes)
    return win, int(MPI.Get_address(area.bytes))


def _operate(win: Any, kind: str, own: Area, target: int, first: int, sync: str) -> Any:
    length = own.bytes.size
    if sync in ("fence", "pscw"):
        kind = {"Rput": "Put", "Rget": "Get"}.get(kind, kind)
    if sync == "lock":
        win.Lock(target, MPI.LOCK_SHARED)
    request = getattr(win, kind)([own.bytes, MPI.BYTE], target, (first, length, MPI.BYTE))
    if sync == "lock":
        if request is not None:
            request.Wait()
        win.Unlock(target)
        return None
    return request


def _epoch(sync: str, win: Any, comm: Any, size: int) -> Iterator[None]:
    """Opened up to the first yield, closed behind it; all is in place then."""
    group = comm.group
    if sync == "fence":
        win.Fence()
        yield
        win.Fence()
    elif sync == "pscw":
        win.Post(group)
        win.Start(group)
        yield
        win.Complete()
        win.Wait()
    else:
        if sync == "lock_all":
            win.Lock_all()
        comm.Barrier()
        yield
        if sync == "lock_all":
            win.Flush_all()
        comm.Barrier()
        if sync == "lock_all":
            win.Unlock_all()
        for target in [comm.rank]:  # sees what others have put here
            win.Lock(target, MPI.LOCK_EXCLUSIVE)
            win.Sync()
            win.Unlock(target)
        comm.Barrier()
    group.Free()


def atomics(
    place: Place, *, name: str, target: int, num_items: int, num_rounds: int, sync: str = "lock"
) -> Iterator[None]:
    """All ranks work on the same items of one window: sums, counters, one winner of a swap."""
    comm, rank, size = place.comm, place.rank, place.size
    memory = np.zeros(num_items, np.uint64)
    win = MPI.Win.Create(memory, 8, comm=comm)
    addends = [place.payload(each, 8 * num_items).view(np.uint64) for each in range(size)]
    total = np.add.reduce(addends)
    got = np.zeros(num_items, np.uint64)
    fetched: list[int] = []
    yield
    comm.Barrier()
    if sync == "lock_all":
        win.Lock_all()
    for turn in range(num_rounds):
        if sync == "lock":
            win.Lock(target, MPI.LOCK_SHARED)
        where = (0, num_items, MPI.UINT64_T)
        if name == "Accumulate":
            win.Accumulate([addends[rank], MPI.UINT64_T], target, where, MPI.SUM)
        elif name == "Raccumulate":
            win.Raccumulate([addends[rank], MPI.UINT64_T], target, where, MPI.SUM).Wait()
        elif name == "Get_accumulate":
            win.Get_accumulate(
                [addends[rank], MPI.UINT64_T], [got, MPI.UINT64_T], target, where, MPI.SUM
            )
        elif name == "Fetch_and_op":
            one, before = np.ones(1, np.uint64), np.zeros(1, np.uint64)
            win.Fetch_and_op(one, before, target, turn % num_items, MPI.SUM)
            win.Flush(target)
            fetched.append(int(before[0]))
        else:
            own, before = np.array([rank + 1], np.uint64), np.full(1, 99, np.uint64)
            win.Compare_and_swap(own, np.zeros(1, np.uint64), before, target, turn % num_items)
            win.Flush(target)
            fetched.append(int(before[0]))
        if sync == "lock":
            win.Unlock(target)
    if sync == "lock_all":
        win.Unlock_all()
    comm.Barrier()
    win.Lock(rank, MPI.LOCK_EXCLUSIVE)
    win.Sync()
    result = memory.copy()
    win.Unlock(rank)
    everyone = comm.allgather(fetched)
    comm.Barrier()
    win.Free()
    if rank == target and name.lower().endswith("accumulate"):
        place.check(result, total * np.uint64(num_rounds), name)
    elif name == "Fetch_and_op":
        for item in range(num_items):
            seen = [each[turn] for each in everyone for turn in range(item, num_rounds, num_items)]
            place.equal(sorted(seen), list(range(len(seen))), f"counter {item}")
    elif name == "Compare_and_swap":
        for item in range(min(num_items, num_rounds)):
            first = sorted(each[item] for each in everyone)
            winner = first[-1]
            place.equal(first, [0] + [winner] * (size - 1), f"swap of item {item}")
            if rank == target:
                place.equal(everyone[winner - 1][item] if winner else 0, 0, "winner saw")
