"""Collectives of a recorded program at another number of ranks.

What a collective did is compared with what `collectives` makes of it at the recorded size; where
they are alike, it can be made at any. So its bytes and the places of its buffers become known.
"""

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from pagewire.replay import collectives
from pagewire.replay.collectives import Group
from pagewire.replay.program import Buffer, Program, Reused
from pagewire.replay.records import Receive, Record, Send

SENT, _RECEIVED = 3, 4
"""Places of the program's own; those below are the library's (collectives)."""


def _blocks(region: int, group: Group, num_bytes: int) -> list[Buffer]:
    return [Buffer(region, idx * num_bytes, num_bytes) for idx in range(group.size)]


def _at_root(group: Group, region: int, num_bytes: int) -> list[Buffer] | None:
    return _blocks(region, group, num_bytes) if group.rank == 0 else None


Item = Send | Receive | tuple[int, ...]
"""A message, or the numbers of those that are waited for."""
Maker = Callable[[Group, int], None]


def _gather(group: Group, num_bytes: int) -> None:
    blocks = _at_root(group, _RECEIVED, num_bytes)
    collectives.gather(group, Buffer(SENT, 0, num_bytes), blocks)


def _gather_each(group: Group, num_bytes: int) -> None:
    blocks = _at_root(group, _RECEIVED, num_bytes)
    collectives.gather_each(group, Buffer(SENT, 0, num_bytes), blocks)


def _scatter(group: Group, num_bytes: int) -> None:
    blocks = _at_root(group, SENT, num_bytes)
    collectives.scatter(group, blocks, Buffer(_RECEIVED, 0, num_bytes))


def _scatter_each(group: Group, num_bytes: int) -> None:
    blocks = _at_root(group, SENT, num_bytes)
    collectives.scatter_each(group, blocks, Buffer(_RECEIVED, 0, num_bytes))


def _allgather(group: Group, num_bytes: int) -> None:
    collectives.allgather(group, _blocks(_RECEIVED, group, num_bytes))


def _alltoall(group: Group, num_bytes: int) -> None:
    sent, received = (_blocks(region, group, num_bytes) for region in (SENT, _RECEIVED))
    collectives.alltoall(group, sent, received)


def _reduce_scatter(group: Group, num_bytes: int) -> None:
    collectives.reduce_scatter(group, [num_bytes] * group.size)


_MAKERS: dict[str, tuple[Maker, ...]] = {
    "Barrier": (lambda group, _: collectives.barrier(group),),
    "Bcast": (lambda group, each: collectives.broadcast(group, Buffer(SENT, 0, each)),),
    "Reduce": (collectives.reduce,),
    "Allreduce": (
        collectives.allreduce,
        collectives.allreduce_doubling,
        collectives.allreduce_ring,
    ),
    "Gather": (_gather,),
    "Gatherv": (_gather_each,),
    "Scatter": (_scatter,),
    "Scatterv": (_scatter_each,),
    "Allgather": (_allgather,),
    "Allgatherv": (_allgather,),
    "Alltoall": (_alltoall,),
    "Alltoallv": (_alltoall,),
    "Reduce_scatter": (_reduce_scatter,),
    "Reduce_scatter_block": (_reduce_scatter,),
    "Scan": (collectives.scan,),
    "Exscan": (collectives.scan,),
}


class _Script(Program):
    """Keeps what a collective does; regions are places."""

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank, size, lambda *_: None, Reused())
        self.made: list[Item] = []
        self._counted = itertools.count()

    @contextlib.contextmanager
    def call(self, name: str) -> Iterator[None]:
        yield

    def post_send(
        self,
        peer: int,
        buffer: Buffer,
        tag: int = 0,
        context: int = 0,
        *,
        is_synchronous: bool = False,
    ) -> int:
        length, place, offset = buffer.num_bytes, buffer.region, buffer.offset
        self.made.append(Send(peer, context, tag, self.rank, length, place, offset))
        return next(self._counted)

    def post_receive(
        self, peer: int | None, buffer: Buffer, tag: int | None = 0, context: int = 0
    ) -> int:
        length, place, offset = buffer.num_bytes, buffer.region, buffer.offset
        self.made.append(Receive(peer, context, tag or 0, peer or 0, length, place, offset))
        return next(self._counted)

    def finish(self, operations: Sequence[int]) -> None:
        self.made.append(tuple(operations))

    def scratch(self, which: int, num_bytes: int, *, is_touched: bool) -> Buffer:
        return Buffer(which, 0, num_bytes)


class Remade(NamedTuple):
    """A collective that can be made at any size, as it was on a rank."""

    maker: Maker
    num_bytes: int
    places: tuple[tuple[int, tuple[int, int]], ...]
    """Region and offset of each place that the rank used."""

    def script(self, rank: int, size: int, num_bytes: int) -> Sequence[Item]:
        """What a rank does; regions are places."""
        return _script(self.maker, rank, size, num_bytes)

    def growth(self, size: int, at: int, num_bytes: int) -> float:
        """How much longer the memory of rank 0 becomes, which has most."""
        before, behind = (
            max((each.offset + each.num_bytes for each in _messages(script)), default=0)
            for script in (self.script(0, size, self.num_bytes), self.script(0, at, num_bytes))
        )
        return behind / before if before else 1.0


@functools.lru_cache(maxsize=65536)
def _script(maker: Maker, rank: int, size: int, num_bytes: int) -> list[Item]:
    made = _Script(rank, size)
    maker(collectives.world(made), num_bytes)
    return made.made


def _messages(script: Iterable[Record | Item]) -> list[Send | Receive]:
    return [each for each in script if isinstance(each, (Send, Receive))]


def is_collective(name: str) -> bool:
    """By this project's names, or MPI's."""
    return name.removeprefix("MPI_") in _MAKERS


def find(name: str, rank: int, size: int, recorded: Sequence[Record]) -> Remade | None:
    """What a collective was, if it can be made; `recorded`: the records of its call."""
    seen = _messages(recorded)
    lengths = [each.num_bytes for each in seen]
    sent = [each.num_bytes for each in seen if isinstance(each, Send)]
    guesses = dict.fromkeys(
        (max(lengths, default=0), min(lengths, default=0), sum(sent[:size]), sum(lengths[:2]))
    )
    for maker in _MAKERS[name.removeprefix("MPI_")]:
        for num_bytes in guesses:
            places = _places(seen, _messages(_script(maker, rank, size, num_bytes)))
            if places is not None:
                return Remade(maker, num_bytes, places)
    return None


def _places(
    seen: Sequence[Send | Receive], made: Sequence[Send | Receive]
) -> tuple[tuple[int, tuple[int, int]], ...] | None:
    """Where the places are, if both are alike."""
    if len(seen) != len(made):
        return None
    places: dict[int, tuple[int, int]] = {}
    for one, other in zip(seen, made, strict=True):
        alike = (type(one), one.peer, one.num_bytes) == (type(other), other.peer, other.num_bytes)
        where = one.region, one.offset - other.offset
        if not alike or (one.num_bytes and places.setdefault(other.region, where) != where):
            return None
    return tuple(places.items())
