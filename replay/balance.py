"""Which messages of a trace nobody receives, and which receives no message fits, by counting.

Order does not count, only numbers: of sends and receives between two ranks with one context, tag
and source. What may take several tags, or comes from any source and the trace does not say from
whom, takes what is left over, the more exact one first.
"""

import collections
from collections.abc import Iterator
from typing import NamedTuple

from pagewire.replay.records import Found, Receive, Send


class Key(NamedTuple):
    """What messages of one kind have in common."""

    sender: int
    source: int
    receiver: int
    context: int
    tag: int


class Wildcard(NamedTuple):
    """What a receive takes that does not name one kind; without `origin` it is from any."""

    origin: tuple[int, int] | None
    """Sender and source."""
    receiver: int
    context: int
    tag: int
    ignored: int

    def fits(self, key: Key) -> bool:
        return (
            (key.receiver, key.context, key.tag & ~self.ignored)
            == (self.receiver, self.context, self.tag)
            and self.origin in (None, (key.sender, key.source))
        )  # fmt: skip


class Balance:
    """Counts messages; `unmatched` tells what is left."""

    def __init__(self) -> None:
        self._left: collections.Counter[Key] = collections.Counter()
        """Sends less receives."""
        self._wildcards: collections.Counter[Wildcard] = collections.Counter()

    def send(self, rank: int, record: Send) -> None:
        self._left[Key(rank, record.source, record.peer, record.context, record.tag)] += 1

    def receive(
        self, rank: int, record: Receive, origin: tuple[int, int] | None, count: int = 1
    ) -> None:
        """origin: sender and source, as far as they are known; count: -1 takes it back."""
        tag, ignored = record.tag & ~record.ignored, record.ignored
        if origin is None or ignored:
            self._wildcards[Wildcard(origin, rank, record.context, tag, ignored)] += count
        else:
            self._left[Key(*origin, rank, record.context, tag)] -= count

    def take(self, rank: int, record: Found) -> None:
        self._left[Key(record.peer, record.source, rank, record.context, record.tag)] -= 1

    def unmatched(self) -> Iterator[str]:
        """A sentence for each kind of message of which too many were sent, or expected."""
        left = collections.Counter(self._left)
        waiting = self._serve_wildcards(left)
        for key, count in sorted(left.items()):
            what = f"(context {key.context}, tag {key.tag})"
            if count > 0:
                yield (
                    f"rank {key.sender}: {_several(count, 'message')} to rank {key.receiver} "
                    f"{what}, which nobody receives"
                )
            elif count < 0:
                yield (
                    f"rank {key.receiver}: {_several(-count, 'receive')} from rank {key.sender} "
                    f"{what}, for which nobody sends"
                )
        for wildcard, count in waiting:
            origin = f"rank {wildcard.origin[0]}" if wildcard.origin else "any rank"
            bits = f" but for bits {wildcard.ignored:#x}" if wildcard.ignored else ""
            yield (
                f"rank {wildcard.receiver}: {_several(count, 'receive')} from {origin} (context "
                f"{wildcard.context}, tag {wildcard.tag}{bits}), for which nobody sends"
            )

    def _serve_wildcards(self, left: collections.Counter[Key]) -> list[tuple[Wildcard, int]]:
        """Give what is left to receives that take several kinds; those that got too little."""
        by_receiver: dict[int, list[Key]] = {}
        if self._wildcards:
            for key, count in left.items():
                if count > 0:
                    by_receiver.setdefault(key.receiver, []).append(key)
        waiting = []
        for wildcard, count in sorted(self._wildcards.items(), key=_generality):
            wanted = count
            for key in filter(wildcard.fits, by_receiver.get(wildcard.receiver, ())):
                taken = min(wanted, left[key])
                left[key] -= taken
                wanted -= taken
            if wanted > 0:
                waiting.append((wildcard, wanted))
        return waiting


def _generality(item: tuple[Wildcard, int]) -> tuple[bool, int, int]:
    wildcard = item[0]
    return wildcard.origin is None, wildcard.ignored.bit_count(), wildcard.receiver


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count > 1)}"
