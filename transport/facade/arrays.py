"""NumPy's arrays, as messages: which have a type of elements that MPI knows.

NumPy is not loaded for it, which takes long: a program that has an array has loaded it. What that
takes once the rank is there is no compute of the program's: the facade may load NumPy, too.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mpi4py import MPI

from pagewire.transport.facade.loader import around_import
from pagewire.transport.facade.mpi_library import handle_of
from pagewire.transport.facade.rank import here
from pagewire.transport.facade.selection import CONTIGUOUS_SIZES

if TYPE_CHECKING:
    import numpy

CLASSES: set[type] = set()
"""That of arrays, once it is loaded and MPI is up."""

TYPES: dict[numpy.dtype[Any], MPI.Datatype] = {}
"""MPI's types of elements; of none before."""

HANDLES: dict[numpy.dtype[Any], int] = {}
"""The same, as C has them."""


_PAIRS = frozenset({list, tuple})


def is_array(thing: Any) -> bool:
    """Is it an array of NumPy's own class, of elements of a type in TYPES?"""
    return type(thing) in CLASSES and thing.dtype in TYPES


def array_of(spec: Any) -> Any:
    """The array that a specification means all of: itself, or [array, its type]; None: another."""
    if type(spec) in _PAIRS and len(spec) == 2:
        spec, datatype = spec
        if type(datatype) is not MPI.Datatype or not is_array(spec):
            return None
        return spec if TYPES[spec.dtype] == datatype else None
    return spec if is_array(spec) else None


def install() -> None:
    """Learn the types of arrays, which MPI tells once it is up; after those of selection."""
    if "numpy" in sys.modules:
        _learn()
    else:
        around_import("numpy", _load_and_learn)


def _load_and_learn(load: Callable[[], None]) -> None:
    own = here.is_open and threading.current_thread() is threading.main_thread()
    if own:
        here.clock.enter_rdma()
    try:
        load()
        if here.is_open:
            _learn()
    finally:
        if own:
            here.clock.leave()


def _learn() -> None:
    import numpy

    for code in numpy.typecodes["All"]:
        try:
            datatype = MPI._typedict.get(numpy.empty(0, code).data.format)
        except ValueError:  # not exported as a buffer: dates
            continue
        if datatype is not None and datatype.handle in CONTIGUOUS_SIZES:
            TYPES[numpy.dtype(code)] = datatype
            HANDLES[numpy.dtype(code)] = handle_of(datatype)
    CLASSES.add(numpy.ndarray)  # last: another thread asks meanwhile
