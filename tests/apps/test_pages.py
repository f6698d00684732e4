"""Pages of the apps: private, zero, aligned, and not touched."""

import os

import numpy as np

from pagewire.apps.pages import fresh


def test_write_of_a_forked_child_stays_the_childs():
    array = fresh((3, 500), np.float64)
    child = os.fork()
    if child == 0:
        array[:] = 7
        os._exit(0)
    os.waitpid(child, 0)
    assert not array.any()


def test_array_is_zero_aligned_and_writable():
    array = fresh((5, 7), np.int32)
    assert array.shape == (5, 7) and not array.any()
    assert array.ctypes.data % 4096 == 0
    array[:] = 1
    assert fresh((0, 4), np.int32).shape == (0, 4)
