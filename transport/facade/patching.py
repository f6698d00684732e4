"""Replaces methods inside mpi4py's extension classes.

`setattr` is refused on these types, but the dictionary behind the mappingproxy can be reached
through the garbage collector, and `PyType_Modified` drops the interpreter's method caches,
subclasses' too. This is CPython only (checked on 3.10 to 3.13); other interpreters are refused.
Clients of mpi4py's C API keep calling MPI itself: they are not redirected.
"""

import ctypes
import functools
import gc
import sys
from collections.abc import Callable, Iterable
from typing import Any

_ORIGINAL = "_pagewire_original"


def replace_all(owner: type, replacements: dict[str, Callable[..., Any]]) -> None:
    """Put functions in place of methods, those that this version of mpi4py has, with the originals'
    docstrings and signatures.

    A class method or static method stays one: a class method's replacement gets the class first.
    Replacing twice keeps the first original.
    """
    if sys.implementation.name != "cpython":
        raise RuntimeError(
            f"methods of mpi4py can be replaced in CPython only, this is {sys.implementation.name}"
        )
    for name in owner.__dict__.keys() & replacements.keys():
        original = _original(owner, name)
        function: Any = functools.wraps(getattr(original, "__func__", original))(replacements[name])
        setattr(function, _ORIGINAL, original)
        if isinstance(original, classmethod):
            function = classmethod(function)
        elif isinstance(original, staticmethod):
            function = staticmethod(function)
        gc.get_referents(owner.__dict__)[0][name] = function
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(owner))


def _original(owner: type, name: str) -> Any:
    """What stood in the class before; a replacement carries it along."""
    found = owner.__dict__[name]
    return getattr(getattr(found, "__func__", found), _ORIGINAL, found)


def replace_each(
    owner: type, names: Iterable[str], make: Callable[[str], Callable[..., Any]]
) -> None:
    """Replace those of the methods `names` that this version of mpi4py has by `make(name)`."""
    replace_all(owner, {name: make(name) for name in names if name in owner.__dict__})


def native(owner: type, name: str) -> Any:
    """The original of `owner.name`, replaced or not yet, callable with the object first.

    Class methods come bound to `owner`.
    """
    original = _original(owner, name)
    if isinstance(original, (classmethod, staticmethod)):
        return original.__get__(None, owner)
    return original
