"""Why a replay stands still: who waits for what, a cycle of waits, what has no other side."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from pagewire.native import ffi, lib

_ANY = int(lib.PW_ANY_NODE)
_NOBODY = _ANY - 1
_RUNS = int(lib.PW_PROGRAM_RUNS)
_AT_END = (int(lib.PW_PROGRAM_DRAINS), int(lib.PW_PROGRAM_ENDED))
_GROUP = int(lib.PW_PROGRAM_WAITS_GROUP)
_MESSAGE = int(lib.PW_PROGRAM_WAITS_MESSAGE)
_TURN = int(lib.PW_PROGRAM_WAITS_TURN)
_KINDS = {
    int(lib.PW_OPERATION_SEND): "send",
    int(lib.PW_OPERATION_RECEIVE): "receive",
    int(lib.PW_OPERATION_ARRIVED): "message",
    int(lib.PW_OPERATION_READ): "get",
    int(lib.PW_OPERATION_WRITE): "put",
    int(lib.PW_OPERATION_ATOMIC): "atomic operation",
}
_ONE_SIDED = ("get", "put", "atomic operation")
_NAMED_MAX = 16
"""Ranks, and messages, that a report names."""


class Place(NamedTuple):
    """Where a rank's program is (pw_program_place)."""

    rank: int
    waits: int
    kind: str
    peer: int | None
    """None: any."""
    operation: int
    tag: int | None
    """None: any."""
    num_bytes: int
    group: int
    members: int
    num_records: int
    num_calls: int
    call: str
    is_cut: bool
    num_verified: int
    num_lost: int
    lost: str

    @classmethod
    def of(cls, rank: int, c: Any) -> Self:
        return cls(
            rank=rank,
            waits=c.waits,
            kind=_KINDS.get(c.kind, ""),
            peer=_peer(c.peer),
            operation=c.operation,
            tag=_tag(c),
            num_bytes=c.num_bytes,
            group=c.group,
            members=c.members,
            num_records=c.num_records,
            num_calls=c.num_calls,
            call=_text(c.call),
            is_cut=bool(c.is_cut),
            num_verified=c.num_verified,
            num_lost=c.num_lost,
            lost=_text(c.lost),
        )

    @property
    def is_at_end(self) -> bool:
        return self.waits in _AT_END

    def __str__(self) -> str:
        where = (
            f"rank {self.rank} in {self.call or 'a call without a name'} (call {self.num_calls})"
        )
        if self.waits == _GROUP:
            return f"{where} waits for all {self.members} ranks of group {self.group:#x}"
        if self.waits == _TURN:
            return f"{where} waits for frames that its recorded turn took: the replay went apart"
        if self.waits == _MESSAGE:
            return f"{where} waits for a message {self._other_side}"
        which = f"its operation {self.operation}, " if self.operation else ""
        side = f"with rank {self.peer}" if self.kind in _ONE_SIDED else self._other_side
        return f"{where} waits for {which}a {self.kind} of {self.num_bytes:,} B {side}"

    @property
    def _other_side(self) -> str:
        return _other_side(self.kind, self.peer, self.tag)


class Unmatched(NamedTuple):
    """A message without another side (pw_program_unmatched)."""

    rank: int
    kind: str
    peer: int | None
    tag: int | None
    num_bytes: int

    @classmethod
    def of(cls, rank: int, c: Any) -> Self:
        return cls(rank, _KINDS.get(c.kind, ""), _peer(c.peer), _tag(c), c.num_bytes)

    def __str__(self) -> str:
        other = _other_side(self.kind, self.peer, self.tag)
        if self.kind == "message":
            return f"rank {self.rank} never received {self.num_bytes:,} B {other}"
        return f"a {self.kind} of rank {self.rank}, {self.num_bytes:,} B {other}"


def _text(c: Any) -> str:
    return str(ffi.string(c).decode(errors="replace"))


def _peer(number: int) -> int | None:
    return None if number == _ANY else int(number)


def _tag(c: Any) -> int | None:
    return None if c.ignore == 2**64 - 1 else int(c.tag)


def _other_side(kind: str, peer: int | None, tag: int | None) -> str:
    if peer is None:
        whom = "from any rank"
    elif peer == _NOBODY:
        whom = "that took no message when recorded"
    else:
        whom = f"{'to' if kind == 'send' else 'from'} rank {peer}"
    return f"{whom}, {'any tag' if tag is None else f'tag {tag}'}"


def cycle(places: Sequence[Place]) -> list[int]:
    """Ranks that wait for each other, each for the next and the last for the first; empty: none."""
    seen: dict[int, int] = {}  # rank: from which beginning on it was visited
    for first in range(len(places)):
        way: list[int] = []
        rank: int | None = first
        while rank is not None and rank not in seen:
            seen[rank] = first
            way.append(rank)
            rank = _waits_for(places, rank)
        if rank is not None and seen[rank] == first and rank in way:
            return way[way.index(rank) :]
    return []


def _waits_for(places: Sequence[Place], rank: int) -> int | None:
    place = places[rank]
    if place.is_at_end or place.waits in (_RUNS, _GROUP):
        return None
    peer = place.peer
    return peer if peer is not None and peer < len(places) else None


def explain(places: Sequence[Place], unmatched: Sequence[Unmatched]) -> str:
    """The report of a replay in which nothing can go on."""
    waiting = [place for place in places if not place.is_at_end]
    lines = [f"nothing can go on: {len(waiting):,} of {len(places):,} ranks wait"]
    lines += _named([str(each) for each in waiting], "ranks")
    found = cycle(places)
    if found:
        lines.append(
            "a cycle of waits: "
            + " -> ".join(f"rank {rank}" for rank in [*found[:_NAMED_MAX], found[0]])
            + (f" ({len(found):,} ranks)" if len(found) > _NAMED_MAX else "")
        )
    if unmatched:
        lines.append("without another side:")
        lines += _named([str(each) for each in unmatched], "messages")
    return "\n".join(lines)


def _named(texts: Sequence[str], what: str) -> list[str]:
    lines = [f"  {each}" for each in texts[:_NAMED_MAX]]
    if len(texts) > _NAMED_MAX:
        lines.append(f"  and {len(texts) - _NAMED_MAX:,} {what} more")
    return lines
