"""The compiled engine, `lib`, and its `ffi`; the only module that imports `pagewire._native`.

Every function of `lib` answers 0 or a negative `PW_ERR_*` unless its header says otherwise. `check`
turns a negative code into an exception.
"""

import os

from pagewire._native import ffi, lib

__all__ = ["EngineError", "check", "ffi", "lib"]

# The code, by its name in types.h, and what it means.
_TEXTS = {
    "PW_ERR_NOMEM": "the host has no memory for a table",
    "PW_ERR_INVALID": "an argument is out of its range",
    "PW_ERR_FULL": "a table or a limit is full",
    "PW_ERR_MALFORMED": "a frame failed its checks",
    "PW_ERR_ADDRESS": "an address is outside any mapping",
    "PW_ERR_CONTEXT": "no context bank for the protection domain",
    "PW_ERR_PROTECTION": "the protection domain, key, bounds or mapping forbids the access",
    "PW_ERR_HOST": "a system call of the host failed",
    "PW_ERR_UNRECOVERABLE": "nothing configured can bring the block through",
    "PW_ERR_DEADLOCK": "a read request keeps the acknowledgements behind it from being read; "
    "set firmware.read_mailbox to separate, or raise firmware.read_buffer_requests",
}
_NAMES = {int(getattr(lib, name)): name for name in _TEXTS}


class EngineError(RuntimeError):
    """A call of the engine failed; `code` is its negative `PW_ERR_*`."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def check(code: int, what: str) -> int:
    """`code` when it is not negative, else EngineError; `what` says what was tried.

    Call it directly on the call of the engine: for PW_ERR_HOST it reads that call's errno.
    """
    if code >= 0:
        return code
    name = _NAMES.get(code)
    if name is None:
        raise EngineError(code, f"{what}: unknown status code {code}")
    text = f"{what}: {name} ({code}), {_TEXTS[name]}"
    if code == lib.PW_ERR_HOST and ffi.errno:
        text += f": {os.strerror(ffi.errno)}"
    raise EngineError(code, text)
