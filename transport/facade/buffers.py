"""Finds the memory behind an object: by the buffer protocol, by DLPack, or as a CUDA array.

mpi4py does, in its order and with its exceptions. Added here is what it does not tell: the format
of the elements, and whether the NI can reach the memory. That of a device is refused, whichever
interface offers it, unless it lies in readable mappings of this process: the NI reaches only what
the process's page table maps.
NumPy's `__array_interface__` is not asked, as in mpi4py.
"""

import ctypes
import datetime
import sys
from typing import Any

from mpi4py import MPI

from pagewire.transport.facade.arrays import is_array

_frombuffer = MPI.buffer.frombuffer

# Device types of dlpack.h whose memory the CPU reaches: CPU, CUDA host, ROCm host, CUDA managed.
_REACHABLE = frozenset({1, 3, 11, 13})

# Types beside arrays whose memory the buffer protocol gives, without a device behind it.
_PLAIN = frozenset({MPI.buffer, bytes, bytearray, memoryview})


def _python_api(name: str, result: Any, *arguments: Any) -> Any:
    """A function of CPython's, by a prototype of our own: ctypes.pythonapi's are everybody's."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


has_protocol = _python_api("PyObject_CheckBuffer", ctypes.c_int, ctypes.py_object)
"""Whether an object has Python's own buffer protocol."""


def has_array_interface(thing: Any) -> bool:
    """Whether an object offers its memory by DLPack or as a CUDA array."""
    return hasattr(thing, "__dlpack__") or hasattr(thing, "__cuda_array_interface__")


def open_buffer(thing: Any, readonly: bool) -> Any:
    """The contiguous memory, C or Fortran order, that an object offers: an MPI.buffer.

    Raises what mpi4py raises for objects that have none, or not such, and NotImplementedError for
    memory of a device.
    """
    try:
        view = _frombuffer(thing, readonly)
    except (ValueError, BufferError):
        array = _in_fortran_order(thing)
        if array is None:
            raise
        view = _frombuffer(array.T, readonly)
    if type(thing) not in _PLAIN and not is_array(thing):
        _check_reachable(thing, view)
    return view


def _in_fortran_order(thing: Any) -> Any:
    """An array in the memory of an object with the buffer protocol, where that is its order: MPI's
    buffers are in C order, and DLPack has not all of NumPy's types."""
    if not has_protocol(thing):
        return None
    import numpy  # takes long to load

    array = thing if isinstance(thing, numpy.ndarray) else numpy.asarray(memoryview(thing))
    return array if array.flags.f_contiguous else None


def _check_reachable(thing: Any, view: Any) -> None:
    tensor = _tensor(view)
    if tensor is not None:
        if tensor.device_type not in _REACHABLE:
            _check_mapped(view, f"DLPack device type {tensor.device_type}")
    elif hasattr(thing, "__cuda_array_interface__"):
        _check_mapped(view, "CUDA array")


def _check_mapped(view: Any, what: str) -> None:
    """Refuse memory of a device that readable mappings of this process do not cover."""
    address, end = view.address, view.address + view.nbytes
    with open("/proc/self/maps", "rb") as file:
        for line in file:
            if address >= end:
                return
            bounds, rights = line.split(None, 2)[:2]
            first, last = bounds.split(b"-")
            if int(first, 16) <= address < int(last, 16) and rights[:1] == b"r":
                address = int(last, 16)
    if address < end:
        raise NotImplementedError(
            f"message: memory of a device ({what}, address {address:#x}) is not reachable by the "
            "emulated NI; copy it to host memory first"
        )


class _Tensor(ctypes.Structure):
    """The beginning of DLTensor of dlpack.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    )


# Where in a capsule's structure the tensor is, by the capsule's name: DLManagedTensorVersioned has
# version, context, deleter and flags before it.
_TENSOR_OFFSETS = {b"dltensor_versioned": 32, b"dltensor": 0}

_Capsule = type(datetime.datetime_CAPI)
_get_name = _python_api("PyCapsule_GetName", ctypes.c_char_p, ctypes.py_object)
_get_pointer = _python_api(
    "PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p
)


def _tensor(view: Any) -> _Tensor | None:
    """Of memory that was had by DLPack, whose capsule MPI's buffer keeps; None: it was not."""
    capsule = view.obj
    if type(capsule) is not _Capsule:
        return None
    name = _get_name(capsule)
    return _Tensor.from_address(_get_pointer(capsule, name) + _TENSOR_OFFSETS[name])


# NumPy's letters of DLPack's type codes.
_KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}


def format_of(thing: Any, view: Any) -> str:
    """As in module struct, of one element of an object's memory; empty for a type that is unknown
    there. view: the object's, by `open_buffer`."""
    tensor = _tensor(view)
    if tensor is not None:
        return _format_of_tensor(tensor)
    try:
        return memoryview(thing).format
    except TypeError:
        return _format_of_cuda_array(thing.__cuda_array_interface__["typestr"])
    except ValueError as error:  # NumPy's dates
        raise BufferError(*error.args) from None


def _format(kind: str, num_bytes: int) -> str:
    """By the kind and the length that name NumPy's types."""
    if kind == "c":
        part = _format("f", num_bytes // 2)
        return part and f"Z{part}"
    if kind not in _KINDS.values():
        return ""
    import numpy  # takes long to load

    try:
        return numpy.dtype(f"{kind}{num_bytes}").char
    except TypeError:
        return ""


def _format_of_tensor(tensor: _Tensor) -> str:
    kind, num_bytes = _KINDS.get(tensor.code, ""), tensor.bits // 8
    if tensor.lanes == 2 and kind == "f" and num_bytes > 2:
        return _format("c", 2 * num_bytes)  # a complex number, too long for the field of bits
    return _format(kind, num_bytes) if tensor.lanes == 1 else "B"


def _format_of_cuda_array(typestr: str) -> str:
    order = typestr[0]
    foreign = ">" if sys.byteorder == "little" else "<"
    if order not in "<>|" or order == foreign:
        what = "non-native" if order == foreign else "unrecognized"
        raise BufferError(f"__cuda_array_interface__: typestr {typestr!r} with {what} byte order")
    return _format(typestr[1], int(typestr[2:]))
