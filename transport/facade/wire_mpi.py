"""Makes the wire in C of an MPI program: see wire_mpi.h. The ranks exchange here what it needs."""

from typing import Any

from mpi4py import MPI

from pagewire.native import check, ffi, lib
from pagewire.transport.facade.mpi_library import handle_of, mpi_library
from pagewire.transport.facade.patching import native

_REASON_BYTES = 512


class WireError(RuntimeError):
    """MPI failed under the wire."""


class WireMpi:
    """`pointer` is the `pw_wire *`; whoever takes it closes it. Its making is collective over
    COMM_WORLD, on a duplicate of which, `comm`, its messages travel."""

    def __init__(self, mode: str) -> None:
        """mode: the setting run.wire."""
        self.comm: MPI.Intracomm = native(MPI.Comm, "Dup")(MPI.COMM_WORLD)
        self.rank: int = self.comm.Get_rank()
        self.size: int = self.comm.Get_size()
        shared = self._share(mode)
        out = ffi.new("pw_wire **")
        reason = ffi.new("char[]", _REASON_BYTES)
        code = lib.pw_wire_mpi_create(
            mpi_library(),
            handle_of(self.comm),
            self.rank,
            self.size,
            shared,
            reason,
            _REASON_BYTES,
            out,
        )
        if code == lib.PW_ERR_HOST and reason[0] != b"\0":
            raise WireError(ffi.string(reason).decode())
        check(code, "making the wire")
        self.pointer: Any = out[0]

    def free(self) -> None:
        """Give the communicator back, once the wire is closed. Collective."""
        native(MPI.Comm, "Free")(self.comm)

    def _share(self, mode: str) -> Any:
        """What this rank shares with those of its host, NULL: nothing.

        Collective in every mode, so that ranks may differ in theirs.
        """
        out = ffi.new("pw_shared_bursts **")
        facts = ffi.new("pw_segment_facts *")
        if mode == "auto" and self.size > 1:
            code = lib.pw_shared_create(self.rank, self.size, out, facts)
            if code != lib.PW_ERR_HOST:  # else all peers are reached by MPI
                check(code, "making shared memory for the wire")
        shared = out[0]
        everybody = native(MPI.Comm, "allgather")(self.comm, bytes(ffi.buffer(facts)))
        met = [int(self._meet(shared, peer, theirs)) for peer, theirs in enumerate(everybody)]
        mutual = native(MPI.Comm, "alltoall")(self.comm, met)
        if shared:
            lib.pw_shared_agree(shared, bytes(mutual))
        return shared

    def _meet(self, shared: Any, peer: int, data: bytes) -> bool:
        if not shared or peer == self.rank:
            return False
        theirs = ffi.new("pw_segment_facts *")
        ffi.buffer(theirs)[:] = data
        return bool(check(lib.pw_shared_meet(shared, peer, theirs), f"meeting rank {peer}"))
