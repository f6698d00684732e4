"""Steps of one-sided communication: epochs of a window, each operation on a place of its own."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from mpi4py import MPI

from pagewire.cli.checks.stress.steps.kit import Area, Place


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
        mine, into, after = _prepare_round(place, operations, content, turn, memory)
        epoch = _epoch(sync, win, comm, size)
        next(epoch)
        requests = [
            _operate(win, kind, own, target, bases[target] + first, sync)
            for kind, own, target, first in mine
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


def _prepare_round(
    place: Place,
    operations: Sequence[Sequence[Any]],
    content: Sequence[Any],
    turn: int,
    memory: str,
) -> tuple[list[Any], list[Any], list[Any]]:
    """What this rank does, what comes of its gets, and what every window holds afterwards."""
    mine, into = [], []
    after = [each.copy() for each in content]
    for idx, operation in enumerate(operations):
        kind, origin, target, first, length = operation
        sent = place.payload(place.size + idx, length, turn)
        if kind in ("Put", "Rput"):
            after[target][first : first + length] = sent
        if origin != place.rank:
            continue
        own = Area(length, idx % 61, memory)
        if kind in ("Put", "Rput"):
            own.fill(sent)
        else:
            into.append((own, content[target][first : first + length], operation))
        mine.append((kind, own, target, first))
    return mine, into, after


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
        win.Lock(comm.rank, MPI.LOCK_EXCLUSIVE)  # sees what others have put here
        win.Sync()
        win.Unlock(comm.rank)
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
        if name.lower().endswith("accumulate"):
            _accumulate(win, name, addends[rank], got, target)
        else:
            fetched.append(_fetch(win, name, rank, target, turn % num_items))
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
            _check_swap(place, [each[item] for each in everyone], item, rank == target)


def _accumulate(win: Any, name: str, addends: Any, got: Any, target: int) -> None:
    """Add to the target's items, by one of three calls. got: written to up to the epoch's end."""
    where = (0, addends.size, MPI.UINT64_T)
    own = [addends, MPI.UINT64_T]
    if name == "Get_accumulate":
        win.Get_accumulate(own, [got, MPI.UINT64_T], target, where, MPI.SUM)
        return
    request = getattr(win, name)(own, target, where, MPI.SUM)
    if request is not None:
        request.Wait()


def _fetch(win: Any, name: str, rank: int, target: int, item: int) -> int:
    """Count an item, or try to be the first to put one's number there; what was there before."""
    if name == "Fetch_and_op":
        before = np.zeros(1, np.uint64)
        win.Fetch_and_op(np.ones(1, np.uint64), before, target, item, MPI.SUM)
    else:
        before = np.full(1, 99, np.uint64)
        own = np.array([rank + 1], np.uint64)
        win.Compare_and_swap(own, np.zeros(1, np.uint64), before, target, item)
    win.Flush(target)
    return int(before[0])


def _check_swap(place: Place, seen: Sequence[int], item: int, is_target: bool) -> None:
    """One has seen 0 and won, all others its number."""
    winner = max(seen)
    place.equal(sorted(seen), [0] + [winner] * (place.size - 1), f"swap of item {item}")
    if is_target:
        place.equal(seen[winner - 1] if winner else 0, 0, "winner saw")
