"""Signals that end a command: Ctrl-C, and the like of it by batch systems and closed terminals.

They are raised as an exception of our own: the command-line library ends the process without a word
on KeyboardInterrupt.
"""

import contextlib
import signal
from collections.abc import Iterator

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal ends the command, and with it all that the command has started."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number
        """As shells have it."""
        name = signal.Signals(number).name
        self.sentence = "interrupted" + ("" if number == signal.SIGINT else f" by {name}")


_held: list[int] | None = None
"""Those that came while something was being started; None: nothing is."""


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Those that come meanwhile are raised at the block's end: a process that it starts would
    else be there without a name. Begin the `try` that ends it before."""
    global _held
    _held = []
    try:
        yield
    finally:
        came, _held = _held, None
    if came:
        raise Interrupted(came[0])


@contextlib.contextmanager
def ending_signals_raise() -> Iterator[None]:
    """Have them raise Interrupted. Those that the command's starter has it ignore (nohup, a shell's
    background) stay ignored."""

    def interrupt(number: int, _frame: object) -> None:
        if _held is None:
            raise Interrupted(number)
        _held.append(number)

    earlier = {
        number: signal.signal(number, interrupt)
        for number in _NUMBERS
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)
    }
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
