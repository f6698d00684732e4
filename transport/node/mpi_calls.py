"""Counts a program's MPI calls: how often each, and which bytes went by the NI and which around it.

Bytes of a call that the NI carries are those of the messages that the call sent: what a broadcast
passes on counts at the rank that does so, a receive counts none. Bytes of a call that MPI carries
natively are those of the buffer that it was given, where the call tells them.
"""

import dataclasses


@dataclasses.dataclass(slots=True)
class CallCount:
    """Of one name of a call."""

    calls: int = 0
    """All of them."""
    bytes: int = 0
    """Sent by the NI."""
    not_carried_calls: int = 0
    """Those that went around the NI."""
    not_carried_bytes: int = 0


class NotCarriedError(RuntimeError):
    """With run.strict: a call that the NI does not carry."""


class MpiCalls:
    """The counts of one rank by name; `current` is the call that the rank is in, or was last in."""

    __slots__ = ("_counts", "_is_strict", "_name", "current")

    def __init__(self, is_strict: bool = False) -> None:
        self._counts: dict[str, CallCount] = {}
        self._is_strict = is_strict
        self._name = ""
        self.current = CallCount()

    def begin(self, name: str) -> None:
        """The program calls."""
        count = self._counts.get(name)
        if count is None:
            count = self._counts[name] = CallCount()
        count.calls += 1
        self._name = name
        self.current = count

    def go_around(self, num_bytes: int) -> None:
        """The call that has begun is MPI's own; NotCarriedError when run.strict is set."""
        self.current.not_carried_calls += 1
        self.current.not_carried_bytes += num_bytes
        if self._is_strict:
            raise NotCarriedError(
                f"run.strict: the NI does not carry this call of {self._name}; use blocking "
                "collectives and point-to-point calls on intracommunicators, or unset run.strict"
            )

    def number_of(self, name: str) -> int:
        """How often a call was made."""
        return self._counts[name].calls if name in self._counts else 0

    def as_dict(self) -> dict[str, dict[str, int]]:
        """Fields of CallCount by name, for the report."""
        return {name: dataclasses.asdict(count) for name, count in self._counts.items()}
