"""What every conformance test does: ask an object made-up questions, then another one the same.

A room with a kind of class that users write makes one `Conformance` of its questions. For the
classes' authors; needs no test framework.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """What an object said to a question, as texts or values that can be compared and printed."""

    question: object
    value: object


class Conformance:
    """Called with a class, or whatever makes its objects: how many answers were looked at.

    AssertionError says what is wrong with the class.
    """

    def __init__(self, ask: Callable[[Any], Iterable[Answer]]) -> None:
        """ask: all questions, in the same order at each call; AssertionError when the object
        raises, or an answer cannot be used."""
        self._ask = ask

    def answers(self, asked: Any) -> list[Answer]:
        """What an object answers."""
        return list(self._ask(asked))

    def check_repeats(self, make: Callable[[], Any], first: Sequence[Answer]) -> None:
        """AssertionError when another object does not answer the same questions alike."""
        for one, other in zip(first, self.answers(make()), strict=True):
            if one.value != other.value:
                raise AssertionError(
                    f"answered {one.value} once and {other.value} in a second run of the same "
                    "questions: use no clock, no unseeded random numbers, nothing that outlives "
                    f"the object ({one.question})"
                )

    def __call__(self, make: Callable[[], Any]) -> int:
        given = self.answers(make())
        self.check_repeats(make, given)
        return len(given)
