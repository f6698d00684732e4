"""The compiled engine, `lib`, and its `ffi`; the only module that imports `pagewire._native`.

Every function of `lib` answers 0 or a negative `PW_ERR_*` unless its header says otherwise. `check`
turns a negative code into an exception.
"""

import os

from pagewire._native import ffi, lib

__all__ = ["EngineError", "check", "describe", "ffi", "lib"]

# The code, by its name in types.h: what it means, and what to do.
_TEXTS = {
    "PW_ERR_NOMEM": "the host has no memory for a table; use fewer ranks or smaller tables",
    "PW_ERR_INVALID": "an argument is out of its range; a transfer has at most "
    f"{lib.PW_TRANSFER_MAX_BYTES} bytes",
    "PW_ERR_FULL": "a table or a limit is full; wait for transfers under way, or start fewer",
    "PW_ERR_MALFORMED": "a frame failed its checks; use the same pagewire on all ranks",
    "PW_ERR_ADDRESS": "an address is outside any mapping; keep buffers mapped until transfers end",
    "PW_ERR_CONTEXT": "no context bank for the protection domain; raise smmu.num_context_banks",
    "PW_ERR_PROTECTION": "the protection domain, key, bounds or mapping forbids the access; "
    "write only to writable memory, inside of what the peer has registered",
    "PW_ERR_HOST": "a system call of the host failed",
    "PW_ERR_UNRECOVERABLE": "nothing configured can bring the block through: every attempt of it "
    "failed, or its page cannot be had; raise run.timeout if it is below a block's round trip "
    "(some us), and allow ERRs (run.err)",
    "PW_ERR_DEADLOCK": "a read request keeps the acknowledgements behind it from being read; "
    "set firmware.read_mailbox to separate, or raise firmware.read_buffer_requests",
    "PW_ERR_FRAMES": "pages of a transfer take each other's frames for ever; "
    "raise memory_backend.frame_limit_pages",
}
_NAMES = {int(getattr(lib, name)): name for name in _TEXTS}


class EngineError(RuntimeError):
    """A call of the engine failed; `code` is its negative `PW_ERR_*`."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def describe(code: int) -> str:
    """Name of a negative status code, what it means, and what to do."""
    name = _NAMES.get(code)
    return f"{name} ({code}), {_TEXTS[name]}" if name else f"unknown status code {code}"


def check(code: int, what: str) -> int:
    """`code` when it is not negative, else EngineError; `what` says what was tried.

    Call it directly on the call of the engine: for PW_ERR_HOST it reads that call's errno.
    """
    if code >= 0:
        return code
    text = f"{what}: {describe(code)}"
    if code == lib.PW_ERR_HOST and ffi.errno:
        text += f": {os.strerror(ffi.errno)}"
    raise EngineError(code, text)
