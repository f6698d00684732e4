"""What every replaced method that is not one piece of C begins and ends with."""

import functools
from collections.abc import Callable
from typing import Any

from pagewire.native import lib
from pagewire.transport.facade.patching import replace_all
from pagewire.transport.facade.rank import here

_enter = lib.pw_call_enter
_leave = lib.pw_call_leave


def replace_calls(owner: type, bodies: dict[str, Callable[..., Any]], prefix: str = "") -> None:
    """Replace methods by bodies that are bracketed: as calls of the methods' names, behind
    `prefix`."""
    replace_all(owner, {name: bracket(prefix + name, body) for name, body in bodies.items()})


def bracket(name: str, body: Callable[..., Any]) -> Callable[..., Any]:
    """`body` as the program's call `name`: counted, and its time is the MPI library's."""
    call = here.calls.index(name)
    messaging = here.messaging

    @functools.wraps(body)
    def bracketed(*args: Any, **kwargs: Any) -> Any:
        _enter(messaging, call, 1)
        try:
            return body(*args, **kwargs)
        finally:
            _leave(messaging)

    return bracketed
