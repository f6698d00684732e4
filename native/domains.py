"""Protection domains of an engine, one a process: each takes a scratchpad page and a context
bank."""

from typing import Any

from pagewire.native import EngineError, check, lib


def open_domain(ni: Any, pdid: int) -> None:
    """Open a domain; EngineError says which of the two has run out."""
    code = lib.pw_ni_open_domain(ni, pdid)
    if code == lib.PW_ERR_FULL:
        raise EngineError(
            code,
            f"protection domain {pdid}: the R5's scratchpad has {lib.PW_CHANNEL_PAGES} pages, one "
            "a protection domain, and all are taken; more context banks do not help",
        )
    if code == lib.PW_ERR_CONTEXT:
        raise EngineError(
            code,
            f"protection domain {pdid}: every context bank of the SMMU is in use; "
            "raise smmu.num_context_banks",
        )
    check(code, f"protection domain {pdid}, which must be new and from 1 to 65535")
