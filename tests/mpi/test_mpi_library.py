"""Each entry point of the MPI library, called with what C has of it, against mpi4py's facts."""

import weakref

import pytest

from pagewire.native import ffi, lib
from pagewire.transport import MPI
from pagewire.transport.facade import mpi_library as module
from pagewire.transport.facade.mpi_library import handle_of, mpi_library
from pagewire.transport.facade.patching import native

pytestmark = pytest.mark.mpi

TAG = 7


@pytest.fixture
def mpi():
    return mpi_library()


@pytest.fixture
def channel():
    """Handle of a communicator of its own; the neighbours in a ring of ranks."""
    comm = native(MPI.Comm, "Dup")(MPI.COMM_WORLD)
    rank, size = comm.Get_rank(), comm.Get_size()
    yield handle_of(comm), rank, (rank + 1) % size, (rank - 1) % size
    native(MPI.Comm, "Free")(comm)


def words(mpi, status):
    """Source and tag as C reads them."""
    data = ffi.buffer(status)[:]
    return tuple(
        int.from_bytes(data[at : at + 4], "little", signed=True)
        for at in (mpi.source_offset, mpi.tag_offset)
    )


def count_of(mpi, status):
    count = ffi.new("int *")
    assert mpi.get_count(status, mpi.byte, count) == 0
    return count[0]


def new():
    """A flag, a status and a handle to be written."""
    return ffi.new("int *"), ffi.new("pw_mpi_status *"), ffi.new("pw_mpi_handle *")


SENT = weakref.WeakKeyDictionary()
"""The bytes of a message under way, by its request: MPI reads them until then."""


def send(mpi, comm, dest, text):
    """A request of it, to be waited for with a status."""
    request = ffi.new("pw_mpi_handle *")
    SENT[request] = ffi.from_buffer(text)
    assert mpi.isend(SENT[request], len(text), mpi.byte, dest, TAG, comm, request) == 0
    return request


def test_message_is_probed(mpi, channel):
    comm, rank, after, before = channel
    flag, status, request = new()
    sending = send(mpi, comm, after, b"from %d" % rank)
    while not flag[0]:
        assert mpi.iprobe(mpi.any_source, mpi.any_tag, comm, flag, status) == 0
    assert words(mpi, status) == (before, TAG)
    buffer = ffi.new("char[]", 64)
    assert mpi.recv_init(buffer, 64, mpi.byte, mpi.any_source, TAG, comm, request) == 0
    assert mpi.start(request) == 0
    assert mpi.wait(request, status) == 0
    assert words(mpi, status) == (before, TAG)
    assert ffi.buffer(buffer, count_of(mpi, status))[:] == b"from %d" % before
    assert mpi.wait(sending, status) == 0
    assert mpi.request_free(request) == 0


def test_persistent_receive_starts_again_and_can_be_cancelled(mpi, channel):
    comm, rank, after, before = channel
    _, status, request = new()
    buffer = ffi.new("char[]", 64)
    assert mpi.recv_init(buffer, 64, mpi.byte, before, TAG, comm, request) == 0
    for turn in range(3):
        assert mpi.start(request) == 0
        sending = send(mpi, comm, after, b"%d from %d" % (turn, rank))
        flag = ffi.new("int *")
        while not flag[0]:
            assert mpi.test(request, flag, status) == 0
        assert ffi.buffer(buffer, count_of(mpi, status))[:] == b"%d from %d" % (turn, before)
        assert mpi.wait(sending, status) == 0
    assert mpi.start(request) == 0
    assert mpi.cancel(request) == 0
    last = MPI.Status()
    assert mpi.wait(request, ffi.cast("pw_mpi_status *", MPI._addressof(last))) == 0
    assert last.Is_cancelled()
    assert mpi.request_free(request) == 0
    assert request[0] == handle_of(MPI.REQUEST_NULL)


def test_operands_are_combined(mpi):
    lower, higher = ffi.new("double[]", [1, 5, 3]), ffi.new("double[]", [4, 2, 3])
    double = handle_of(MPI.DOUBLE)
    assert mpi.reduce_local(lower, higher, 3, double, handle_of(MPI.SUM)) == 0
    assert list(higher) == [5, 7, 6]
    assert list(lower) == [1, 5, 3]
    assert mpi.reduce_local(lower, higher, 2, double, handle_of(MPI.MIN)) == 0
    assert list(higher) == [1, 5, 6]
    assert mpi.reduce_local(lower, higher, 3, double, handle_of(MPI.BAND)) > 0


def test_error_is_a_code_with_a_text(mpi, channel):
    comm, _, _, _ = channel
    text, length = ffi.new("char[]", lib.PW_MPI_ERROR_CHARS), ffi.new("int *")
    code = mpi.isend(b"", 0, mpi.byte, 1 << 20, TAG, comm, ffi.new("pw_mpi_handle *"))
    assert code > 0
    assert mpi.error_string(code, text, length) == 0
    assert len(ffi.string(text)) == length[0] > 5


@pytest.mark.parametrize(
    ("path", "source_offset", "reason"),
    [
        ("/nowhere/MPI.so", 0, "/nowhere/MPI.so is not loaded"),
        (None, 61, "bytes 61 and 4"),
        ("libc.so.6", 0, "libc.so.6 has no MPI_Isend"),
    ],
)
def test_what_cannot_be_called_is_named(path, source_offset, reason):
    facts = ffi.new("pw_mpi_facts *", {"source_offset": source_offset, "tag_offset": 4})
    library = ffi.new("pw_mpi_library *")
    path = (path or MPI.__file__).encode()
    assert lib.pw_mpi_library_load(path, facts, library) == lib.PW_ERR_INVALID
    assert reason in ffi.string(library.reason).decode()


def test_python_has_the_reason(monkeypatch):
    monkeypatch.setattr(module, "_status_offsets", lambda: (64, 0))
    with pytest.raises(module.MpiLibraryError, match="bytes 64 and 0"):
        mpi_library.__wrapped__()
