"""Finds the memory behind an object: by the buffer protocol, by DLPack, or as a CUDA array.

The order, and the exceptions for what breaks the rules, are those of mpi4py's buffer code. Memory
of a device is refused, whichever interface offers it, unless it lies in readable mappings of this
process: the NI reaches only what the process's page table maps.
NumPy's `__array_interface__` is not asked, as in mpi4py.
"""

import ctypes
import math
import struct
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy
from mpi4py import MPI

_frombuffer = MPI.buffer.frombuffer

# PyBUF_* of CPython's object.h, stable since 3.0.
_WRITABLE = 0x0001
_FORMAT = 0x0004
_ANY_CONTIGUOUS = 0x0080 | 0x0010 | 0x0008  # with strides, with shape

# Device types of dlpack.h whose memory the CPU reaches: CPU, CUDA host, ROCm host, CUDA managed.
_CPU = 1
_REACHABLE = frozenset({_CPU, 3, 11, 13})
_READ_ONLY = 1

# Types whose memory the buffer protocol gives, without a device behind it.
_PLAIN = frozenset({numpy.ndarray, MPI.buffer, bytes, bytearray, memoryview})


class View:
    """`nbytes` bytes from `address`, alive as long as `owner`.

    format: as in module struct, of one element; empty when it was not asked for, or is unknown.
    """

    __slots__ = ("address", "format", "nbytes", "owner")

    def __init__(self, address: int, nbytes: int, format: str, owner: Any) -> None:
        self.address = address
        self.nbytes = nbytes
        self.format = format
        self.owner = owner


def _python_api(name: str, result: Any, *arguments: Any) -> Any:
    """A function of CPython's, by a prototype of our own: ctypes.pythonapi's are everybody's."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


has_protocol = _python_api("PyObject_CheckBuffer", ctypes.c_int, ctypes.py_object)
"""Whether an object has Python's own buffer protocol."""


def has_array_interface(thing: Any) -> bool:
    """Whether an object offers its memory by DLPack or as a CUDA array."""
    return hasattr(thing, "__dlpack__") or hasattr(thing, "__cuda_array_interface__")


def open_buffer(thing: Any, readonly: bool, with_format: bool) -> View:
    """The contiguous memory, C or Fortran order, that an object offers.

    Raises what mpi4py raises for objects that have none, or not such, and NotImplementedError for
    memory of a device.
    """
    if type(thing) in _PLAIN:
        try:
            view = _frombuffer(thing, readonly)
            format = memoryview(thing).format if with_format else ""
            return View(view.address, view.nbytes, format, view)
        except (ValueError, BufferError):
            pass  # Fortran order, or memory that cannot be had: said by what follows
    try:
        return _by_protocol(thing, readonly, with_format)
    except (TypeError, ValueError, BufferError):
        if hasattr(thing, "__dlpack__") and hasattr(thing, "__dlpack_device__"):
            return _by_dlpack(thing, readonly)
        if hasattr(thing, "__cuda_array_interface__"):
            return _by_cuda(thing, readonly)
        raise


def _check_mapped(address: int, nbytes: int, what: str) -> None:
    """Refuse memory of a device that readable mappings of this process do not cover."""
    end = address + nbytes
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


class _PyBuffer(ctypes.Structure):
    """Py_buffer of CPython's object.h. Its object is not counted as a reference of ctypes."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


_get_buffer = _python_api(
    "PyObject_GetBuffer", ctypes.c_int, ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int
)
_release_buffer = _python_api("PyBuffer_Release", None, ctypes.POINTER(_PyBuffer))


class _Export:
    """An object's memory, taken by the buffer protocol until this is collected."""

    __slots__ = ("_taken", "buffer")

    def __init__(self, thing: Any, flags: int) -> None:
        self._taken = False
        self.buffer = _PyBuffer()
        _get_buffer(thing, self.buffer, flags)
        self._taken = True

    def __del__(self, release: Any = _release_buffer) -> None:
        if self._taken:
            release(self.buffer)


def _by_protocol(thing: Any, readonly: bool, with_format: bool) -> View:
    flags = _ANY_CONTIGUOUS | (0 if readonly else _WRITABLE) | (_FORMAT if with_format else 0)
    export = _Export(thing, flags)
    taken = export.buffer
    format = (taken.format or b"B").decode() if with_format else ""
    return View(taken.buf or 0, taken.len, format, export)


class _Tensor(ctypes.Structure):
    """DLTensor of dlpack.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned of dlpack.h; before version 1 the tensor alone comes first."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


def _by_dlpack(thing: Any, readonly: bool) -> View:
    device_type, _device_id = thing.__dlpack_device__()
    capsule, tensor, is_constant = _tensor(thing, {} if device_type == _CPU else {"stream": -1})
    shape, strides = _layout(tensor)
    if not _is_contiguous(shape, strides, 1):
        raise BufferError("dlpack: buffer is not contiguous")
    if is_constant and not readonly:
        raise BufferError("dlpack: buffer is not writable")
    address = (tensor.data or 0) + tensor.byte_offset
    nbytes = math.prod(shape) * ((tensor.bits * tensor.lanes + 7) // 8)
    if device_type not in _REACHABLE:
        _check_mapped(address, nbytes, f"DLPack device type {int(device_type)}")
    return View(address, nbytes, _format(tensor), capsule)


def _tensor(thing: Any, stream: dict[str, int]) -> tuple[Any, _Tensor, bool]:
    """The object's capsule, the tensor in it, and whether that may only be read."""
    try:
        capsule = thing.__dlpack__(max_version=(1, 0), copy=False, **stream)
        name = b"dltensor_versioned"
    except TypeError:  # of before DLPack 1.0
        capsule = thing.__dlpack__(**stream)
        name = b"dltensor"
    if not _is_valid(capsule, name):
        raise BufferError("dlpack: invalid capsule object")
    address = _get_pointer(capsule, name)
    if name == b"dltensor":
        return capsule, _Tensor.from_address(address), False
    managed = _Versioned.from_address(address)
    if managed.major < 1:
        raise BufferError(f"dlpack: unexpected version {managed.major}.{managed.minor}")
    return capsule, managed.tensor, bool(managed.flags & _READ_ONLY)


_capsule = ctypes.py_object, ctypes.c_char_p
_is_valid = _python_api("PyCapsule_IsValid", ctypes.c_int, *_capsule)
_get_pointer = _python_api("PyCapsule_GetPointer", ctypes.c_void_p, *_capsule)


def _layout(tensor: _Tensor) -> tuple[list[int], list[int] | None]:
    """Shape, and strides in elements or None when they are those of C order."""
    ndim = tensor.ndim
    if ndim < 0:
        raise BufferError("dlpack: number of dimensions is negative")
    if ndim > 0 and not tensor.shape:
        raise BufferError("dlpack: shape is NULL")
    shape = tensor.shape[:ndim] if ndim else []
    if any(length < 0 for length in shape):
        raise BufferError("dlpack: shape item is negative")
    strides = tensor.strides[:ndim] if ndim and tensor.strides else None
    if strides is not None and any(stride < 0 for stride in strides):
        raise BufferError("dlpack: strides item is negative")
    return shape, strides


def _is_contiguous(shape: Sequence[int], strides: Sequence[int] | None, unit: int) -> bool:
    """Whether elements of `unit` lie one after the other in Fortran or in C order."""
    if strides is None:
        return True
    by_order = list(zip(shape, strides, strict=True))
    for dimensions in (by_order, by_order[::-1]):
        step = unit
        for length, stride in dimensions:
            if length > 1 and stride != step:
                break
            step *= length
        else:
            return True
    return False


def _formats() -> dict[tuple[int, int], str]:
    """Format by DLPack's type code and bits; of equally long types, the first one."""
    kinds = {0: "bhilq", 1: "BHILQ", 2: "efdg", 6: "?"}
    found: dict[tuple[int, int], str] = {}
    for code, formats in kinds.items():
        for format in formats:
            is_long = format == "g"  # which module struct does not know
            num_bytes = ctypes.sizeof(ctypes.c_longdouble) if is_long else struct.calcsize(format)
            found.setdefault((code, 8 * num_bytes), format)
    for format in "efdg":
        bits = next(bits for (code, bits), real in found.items() if code == 2 and real == format)
        found[5, 2 * bits] = f"Z{format}"
    return found


_FORMATS = _formats()
_PAIRS = {bits: f"Z{format}" for (code, bits), format in _FORMATS.items() if code == 2}


def _format(tensor: _Tensor) -> str:
    """Format of one element; empty for a type that module struct does not know."""
    if tensor.lanes == 2 and tensor.code == 2 and tensor.bits > 16:
        return _PAIRS.get(tensor.bits, "B")  # a complex number, too long for the field of bits
    if tensor.lanes != 1:
        return "B"
    return _FORMATS.get((tensor.code, tensor.bits), "")


def _by_cuda(thing: Any, readonly: bool) -> View:
    array = thing.__cuda_array_interface__
    (address, is_constant), shape, text = array["data"], array["shape"], array["typestr"]
    order, kind, itemsize = text[0], text[1], int(text[2:])
    nbytes = math.prod(shape) * itemsize
    if order not in "<>|":
        raise _no_cuda_buffer(f"typestr {text!r} with unrecognized byte order")
    if order == (">" if sys.byteorder == "little" else "<"):
        raise _no_cuda_buffer(f"typestr {text!r} with non-native byte order")
    if array.get("mask") is not None:
        raise _no_cuda_buffer("cannot handle masked arrays")
    if nbytes < 0:
        raise _no_cuda_buffer(f"buffer with negative size (shape:{shape})")
    if not _is_contiguous(shape, array.get("strides"), itemsize):
        raise _no_cuda_buffer(f"buffer is not contiguous (shape:{shape})")
    if is_constant and not readonly:
        raise _no_cuda_buffer("buffer is not writable")
    fields = array.get("descr")
    if fields is not None and (len(fields) != 1 or fields[0] != ("", text)):
        warnings.warn(
            "__cuda_array_interface__: ignoring 'descr' key", RuntimeWarning, stacklevel=2
        )
    _check_mapped(address or 0, nbytes, "CUDA array")
    code = _CODES.get(kind, -1)
    return View(address or 0, nbytes, _FORMATS.get((code, 8 * itemsize), ""), thing)


# DLPack's type codes, by the letters of NumPy's type strings.
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


def _no_cuda_buffer(why: str) -> BufferError:
    return BufferError(f"__cuda_array_interface__: {why}")
