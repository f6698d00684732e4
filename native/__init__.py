"""What all rooms stand on: C structures, memory backends, machine facts, binding to Python.

The compiled engine, `lib`, and its `ffi`; the only module that imports `pagewire._native`.

Every function of `lib` answers 0 or a negative `PW_ERR_*` unless its header says otherwise. `check`
turns a negative code into an exception.
"""

import os

from pagewire._native import ffi, lib

__all__ = ["EngineError", "check", "describe", "ffi", "lib"]


class EngineError(RuntimeError):
    """A call of the engine failed; `code` is its negative `PW_ERR_*`."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def describe(code: int) -> str:
    """Name of a negative status code, what it means, and what to do."""
    name = lib.pw_status_name(code)
    if name == ffi.NULL:
        return f"unknown status code {code}"
    meaning = ffi.string(lib.pw_status_text(code)).decode()
    return f"{ffi.string(name).decode()} ({code}), {meaning}"


def error_of(code: int, what: str) -> EngineError:
    """What a negative code means; `what` says what was tried.

    Call it directly behind the call of the engine: for PW_ERR_HOST it reads that call's errno.
    """
    text = f"{what}: {describe(code)}"
    if code == lib.PW_ERR_HOST and ffi.errno:
        text += f": {os.strerror(ffi.errno)}"
    return EngineError(code, text)


def check(code: int, what: str) -> int:
    """`code` when it is not negative, else error_of is raised."""
    if code < 0:
        raise error_of(code, what)
    return code
