"""Objects that offer their memory by DLPack, as a CUDA array, or not at all."""

import ctypes
import weakref

import numpy as np
import pytest

from pagewire.transport import MPI
from pagewire.transport.facade.operations import SYNCHRONOUS
from pagewire.transport.facade.python_calls import calls
from pagewire.transport.facade.rank import here

pytestmark = pytest.mark.mpi

CPU, CUDA = 1, 2
CODES = {"b": 6, "i": 0, "u": 1, "f": 2, "c": 5}


class Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
        ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    )  # fmt: skip


class Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", Tensor),
    )  # fmt: skip


new_capsule = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)(("PyCapsule_New", ctypes.pythonapi))


class DLPack:
    """Hands an array's memory out by DLPack alone, of version 0 or 1."""

    def __init__(self, array, device_type=CPU, version=1, address=None, strides=None, flags=0):
        self.array = array
        self.device_type = device_type
        self.version = version
        self._managed = managed = Versioned(version, 0, None, None, flags)
        tensor = managed.tensor
        tensor.data = array.ctypes.data if address is None else address
        tensor.device_type, tensor.ndim = device_type, array.ndim
        tensor.code, tensor.lanes = CODES[array.dtype.kind], 1
        bits = 8 * array.itemsize
        if bits > 255:  # does not fit: as two lanes of real numbers
            tensor.code, tensor.lanes, bits = CODES["f"], 2, bits // 2
        tensor.bits = bits
        self._shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        tensor.shape = self._shape
        if strides is not None:
            self._strides = (ctypes.c_int64 * array.ndim)(*strides)
            tensor.strides = self._strides

    def __dlpack_device__(self):
        return self.device_type, 0

    def __dlpack__(self, **options):
        if self.version == 0 and options.keys() - {"stream"}:
            raise TypeError("unexpected keyword")
        if self.version == 0:
            return new_capsule(ctypes.addressof(self._managed.tensor), b"dltensor", None)
        return new_capsule(ctypes.addressof(self._managed), b"dltensor_versioned", None)


class CudaArray:
    def __init__(self, array, address=None):
        self.array = array
        self.__cuda_array_interface__ = {
            "data": (array.ctypes.data if address is None else address, False),
            "typestr": array.dtype.str,
            "shape": array.shape,
            "version": 3,
        }


def shifted(comm, spec_of, dtype, count=40):
    """Send an array to the next rank; the arrays as sent by the previous one and as received."""
    rank, size = comm.Get_rank(), comm.Get_size()
    source = (rank - 1) % size
    sent = (np.arange(count) + 100 * rank).astype(dtype)
    received = np.zeros(count, dtype)
    comm.Sendrecv(spec_of(sent), (rank + 1) % size, 0, spec_of(received), source, 0)
    return (np.arange(count) + 100 * source).astype(dtype), received


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("dtype", ["g", "G", "d", "F", "i", "B", "?"])
def test_dlpack_of_every_type_travels(comm, dtype, version):
    expected, received = shifted(comm, lambda array: DLPack(array, version=version), dtype)
    assert np.array_equal(received, expected)


@pytest.mark.parametrize("dtype", ["g", "G"])
def test_dlpack_travels_in_a_list_without_datatype(comm, dtype):
    expected, received = shifted(comm, lambda array: [DLPack(array), 40], dtype)
    assert np.array_equal(received, expected)


def test_dlpack_long_double_in_vector_collective(comm):
    rank, size = comm.Get_rank(), comm.Get_size()
    received = np.zeros(3 * size, "g")
    comm.Allgatherv(DLPack(np.full(3, rank, "g")), DLPack(received))
    assert np.array_equal(received, np.repeat(np.arange(size), 3).astype("g"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strides": (2, 1)}, "not contiguous"),
        ({"strides": (-4, 1)}, "strides item is negative"),
        ({"flags": 1}, "not writable"),
    ],
)
def test_bad_dlpack_is_a_buffer_error(comm, options, message):
    broken = DLPack(np.zeros((3, 4)), **options)
    with pytest.raises(BufferError, match=message):
        comm.Irecv(broken, comm.Get_rank(), 9)


def test_capsule_of_another_name_is_refused(comm):
    thing = DLPack(np.zeros(3))
    thing.__class__ = type(
        "Other", (DLPack,), {"__dlpack__": lambda self, **_: new_capsule(1, b"other", None)}
    )
    with pytest.raises(BufferError, match="invalid capsule"):
        comm.Send(thing, comm.Get_rank())


UNMAPPED = 2**46 + 4096


@pytest.mark.parametrize(
    "device", [lambda a: DLPack(a, CUDA, address=UNMAPPED), lambda a: CudaArray(a, UNMAPPED)]
)
@pytest.mark.parametrize(
    "form",
    [
        lambda thing: thing,
        lambda thing: [thing, 4],
        lambda thing: [thing, MPI.DOUBLE],
        lambda thing: [thing, 4, MPI.DOUBLE],
        lambda thing: [thing, (4, 0), MPI.DOUBLE],
        lambda thing: [thing, 4, 0, MPI.DOUBLE],
    ],
)
def test_device_memory_is_refused_in_every_form(comm, device, form):
    spec = form(device(np.zeros(4)))
    rank = comm.Get_rank()
    for call in (
        lambda: comm.Send(spec, rank),
        lambda: comm.Irecv(spec, rank),
        lambda: comm.Bcast(spec, 0),
        lambda: comm.Allgatherv(spec, np.zeros(4 * comm.Get_size())),
    ):
        with pytest.raises(NotImplementedError, match="memory of a device .* copy it to host"):
            call()


def test_cuda_array_in_host_memory_travels(comm):
    expected, received = shifted(comm, CudaArray, "d")
    assert np.array_equal(received, expected)


def test_fortran_order_of_long_double_travels(comm):
    rank = comm.Get_rank()
    received = np.zeros((3, 2), "g", order="F")
    sent = np.asfortranarray(np.arange(6).reshape(3, 2).astype("g"))
    comm.Sendrecv(sent, rank, 0, received, rank, 0)
    assert np.array_equal(received, sent)


@pytest.mark.parametrize("dtype", ["M8[s]", "m8[s]"])
def test_dates_are_a_buffer_error(comm, dtype):
    with pytest.raises(BufferError):
        comm.Send(np.zeros(3, dtype), comm.Get_rank())


def test_dates_travel_as_a_type_that_is_named(comm):
    expected, received = shifted(comm, lambda array: [array, MPI.INT64_T], "M8[s]")
    assert np.array_equal(received, expected)


def test_no_buffer_is_a_type_error(comm):
    for thing in (None, 3, object()):
        with pytest.raises(TypeError, match="expecting buffer or list/tuple"):
            comm.Send(thing, comm.Get_rank())


def test_memory_is_given_back_after_the_call(comm):
    class Array(np.ndarray):
        pass

    array = np.zeros((4, 4), "g", order="F").view(Array)
    rank = comm.Get_rank()
    comm.Sendrecv(array, rank, 0, np.zeros(16, "g"), rank, 0)
    gone = weakref.ref(array)
    del array
    assert gone() is None


def taken_by_c(comm, spec):
    """Whether C reads a specification by itself: then it is sent and received here."""
    request = calls.isend(comm, spec, comm.rank, 9, here.calls.index("Isend"), SYNCHRONOUS)
    if request is NotImplemented:
        return False
    calls.receive(comm, bytearray(64), comm.rank, 9, here.calls.index("Recv"), 0, 0)
    request.Wait()
    return True


ARRAY = np.arange(6, dtype=np.float64)


@pytest.mark.parametrize(
    ("spec", "num_bytes"),
    [
        (ARRAY, 48), ([ARRAY, MPI.DOUBLE], 48), ((ARRAY, MPI.DOUBLE), 48), ([ARRAY, MPI.BYTE], 48),
        ([ARRAY, 2, MPI.DOUBLE], 16), ((ARRAY, np.int32(0), MPI.INT), 0), (b"abc", 3),
        (bytearray(b"abcd"), 4), ([b"abcdefgh", 1, MPI.INT], 4),
    ],
)  # fmt: skip
def test_usual_specifications_are_read_in_c(comm, spec, num_bytes):
    assert taken_by_c(comm, spec)
    for send in (comm.Isend, comm.Issend):
        request, received, status = send(spec, comm.rank), bytearray(64), MPI.Status()
        comm.Recv([received, MPI.BYTE], comm.rank, status=status)
        request.Wait()
        memory = memoryview(spec[0] if isinstance(spec, (list, tuple)) else spec).cast("B")
        assert status.Get_count(MPI.BYTE) == num_bytes
        assert received == bytes(memory[:num_bytes]) + bytes(64 - num_bytes)


@pytest.mark.parametrize(
    "spec",
    [
        [ARRAY], [ARRAY, 2], [ARRAY, 7, MPI.DOUBLE], [ARRAY, -1, MPI.DOUBLE], [ARRAY, "d"],
        [ARRAY, (2, 1), MPI.DOUBLE], [ARRAY[::2], MPI.DOUBLE], [b"abc", MPI.INT],
        [ARRAY, MPI.DOUBLE_INT], [ARRAY, MPI.DATATYPE_NULL], [], None, memoryview(b"abc"),
    ],
    ids=str,
)  # fmt: skip
def test_others_are_left_to_python(comm, spec):
    assert not taken_by_c(comm, spec)


def test_memory_of_a_list_stays_while_it_is_sent(comm):
    data = bytearray(b"x" * 100_000)
    spec = [data, MPI.BYTE]
    request = comm.Isend(spec, comm.rank)
    spec.clear()
    with pytest.raises(BufferError):
        data.clear()
    received = np.zeros(100_000, np.uint8)
    comm.Recv([received, MPI.BYTE], comm.rank)
    request.Wait()
    assert (received == ord("x")).all()
    data.clear()
