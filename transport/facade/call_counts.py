"""Counts a program's MPI calls, in the node (call_counts.h): how often each, and which bytes went
by the NI and which around it.

Bytes of a call that the NI carries are those of the messages that the call sent: what a broadcast
passes on counts at the rank that does so, a receive counts none. Bytes of a call that MPI carries
natively are those of the buffer that it was given, where the call tells them.
"""

import os
import sys
from typing import Any

from pagewire.native import check, ffi, lib


class NotCarriedError(RuntimeError):
    """With run.strict: a call that the NI does not carry."""


class MpiCalls:
    """The counts of one rank by name."""

    __slots__ = ("_c", "_is_strict", "_libraries", "_names_libraries", "_rank", "_tells")

    def __init__(self, c: Any, rank: int, *, is_strict: bool = False, tells: bool = False) -> None:
        """c: the node's pw_call_counts. tells: of the first call that goes around the NI, and of
        libraries that call MPI themselves."""
        self._c = c
        self._rank = rank
        self._is_strict = is_strict
        self._tells = tells
        self._names_libraries = tells
        self._libraries: set[str] = set()

    def index(self, name: str) -> int:
        """What stands for a name in C."""
        return check(lib.pw_call_index(self._c, name.encode()), f"count of calls of {name}")

    def go_around(self, num_bytes: int) -> None:
        """The call that has begun is MPI's own; NotCarriedError when run.strict is set."""
        current = self._c.call[self._c.current]
        current.not_carried_calls += 1
        current.not_carried_bytes += num_bytes
        if not self._is_strict and not self._tells:
            return
        name = ffi.string(current.name).decode()
        if self._is_strict:
            raise NotCarriedError(
                f"run.strict: the NI does not carry this call of {name}; use blocking "
                "collectives and point-to-point calls on intracommunicators, or unset run.strict"
            )
        if not name.startswith("File."):  # no transport carries files
            self._tells = False
            sentence = (
                f"the NI does not carry this call of {name} nor others like it: they take the "
                "virtual time of a call alone; --transport fabric carries them"
            )
            _tell(sentence, self._rank, "around")

    def libraries_call(self, names: list[str]) -> None:
        """Libraries were loaded whose own calls of MPI nobody counts; NotCarriedError when
        run.strict is set."""
        new = [name for name in names if name not in self._libraries]
        self._libraries.update(new)
        if new and self._is_strict:
            raise NotCarriedError(
                f"run.strict: the NI does not carry what {', '.join(new)} sends by MPI; take "
                "--transport fabric, or unset run.strict"
            )
        if new and self._names_libraries:
            sentence = (
                f"the NI does not carry what {', '.join(new)} sends by MPI: it is not counted and "
                "its time is compute; --transport fabric carries it"
            )
            _tell(sentence, self._rank, f"around-{new[0]}")


def _tell(sentence: str, rank: int, name: str) -> None:
    """One rank of those that a launcher has started on this host says it, the one that makes the
    file `name`; else the first one."""
    directory = os.environ.get("PAGEWIRE_LAUNCH_DIR", "")
    if not directory and rank:
        return
    try:
        if directory:
            os.close(os.open(f"{directory}/{name}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    sys.stderr.write(f"[rank {rank}] pagewire: {sentence}\n")
    sys.stderr.flush()
