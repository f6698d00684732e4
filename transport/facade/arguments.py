"""Rank, tag and root as C ints, the way mpi4py takes them."""

from typing import Any

_INT_MAX = 2**31 - 1


def c_int(value: Any) -> int:
    """An int as it is; of what has `__int__` (float, numpy's scalars) the part before the point.

    Raises as mpi4py does: TypeError for what has none, such as a str, ValueError for NaN and
    OverflowError for what a C int cannot hold.
    """
    if type(value) is not int:
        if not hasattr(type(value), "__int__"):
            raise TypeError(f"an integer is required, not {value!r}")
        value = int(value)
    if not -_INT_MAX - 1 <= value <= _INT_MAX:
        raise OverflowError(f"value {value} too large to convert to int: at most {_INT_MAX}")
    converted: int = value
    return converted
