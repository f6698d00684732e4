"""Memory backends by themselves."""

from typing import Any

from pagewire.native import check, ffi, lib


def backend(kind: int, **options: int) -> Any:
    """A pw_memory, for as long as somebody holds it. options: of pw_memory_model_options."""
    out = ffi.new("pw_memory **")
    code = lib.pw_memory_create(kind, ffi.new("pw_memory_model_options *", options), out)
    check(code, "memory")
    return ffi.gc(out[0], lib.pw_memory_destroy)
