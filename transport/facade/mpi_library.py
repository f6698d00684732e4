"""The MPI library that mpi4py has loaded, as C calls it: see mpi_library.h.

What a C program has from mpi.h is asked of mpi4py: handles, constants, and where in a status the
source and the tag are. The struct is made once and lives as long as the process.
"""

import ctypes
import functools
from typing import Any

from mpi4py import MPI

from pagewire.native import ffi, lib

_STATUS_BYTES = ffi.sizeof("pw_mpi_status")
# Values that no other field of a status holds by chance.
_SOURCE, _TAG = 0x0135_7913, 0x0246_8A24


class MpiLibraryError(RuntimeError):
    """The MPI library cannot be called from C."""


@functools.cache
def mpi_library() -> Any:
    """`pw_mpi_library *` of this process; MpiLibraryError says why there is none."""
    source_offset, tag_offset = _status_offsets()
    facts = ffi.new(
        "pw_mpi_facts *",
        {
            "byte": handle_of(MPI.BYTE),
            "any_source": MPI.ANY_SOURCE,
            "any_tag": MPI.ANY_TAG,
            "source_offset": source_offset,
            "tag_offset": tag_offset,
        },
    )
    library = ffi.new("pw_mpi_library *")
    if lib.pw_mpi_library_load(MPI.__file__.encode(), facts, library):
        raise MpiLibraryError(ffi.string(library.reason).decode())
    return library


def handle_of(mpi_object: Any) -> int:
    """The `pw_mpi_handle` of a communicator, request, message or datatype of mpi4py."""
    num_bytes = MPI._sizeof(mpi_object)
    return int(MPI._handleof(mpi_object)) & ((1 << 8 * num_bytes) - 1)


def _status_offsets() -> tuple[int, int]:
    """Where in a status the source and the tag are, in bytes."""
    num_bytes = MPI._sizeof(MPI.Status)
    if num_bytes > _STATUS_BYTES:
        raise MpiLibraryError(
            f"an MPI status has {num_bytes} bytes, allowed is at most {_STATUS_BYTES}: "
            "this MPI library is not supported"
        )
    status = MPI.Status()
    status.Set_source(_SOURCE)
    status.Set_tag(_TAG)
    data = ctypes.string_at(MPI._addressof(status), num_bytes)
    offsets = tuple(data.find(value.to_bytes(4, "little")) for value in (_SOURCE, _TAG))
    if min(offsets) < 0:
        raise MpiLibraryError("source and tag are not to be found in an MPI status as ints")
    return offsets[0], offsets[1]
