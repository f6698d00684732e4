"""Buffers of the Lennard-Jones melt: kept and grown, or fresh."""

import numpy as np
import pytest

pytest.importorskip("mpi4py")

from pagewire.apps.lammps.atoms import Atoms
from pagewire.apps.pages import GROWTH_FACTOR, MIN_CAPACITY, MessageBuffer


def test_kept_buffer_stays_until_it_is_too_small_then_grows_by_a_factor() -> None:
    buffer = MessageBuffer(fresh=False)
    first = buffer.take(10, 3)
    assert np.shares_memory(first, buffer.take(MIN_CAPACITY, 1))
    longer = buffer.take(MIN_CAPACITY + 1, 1)
    assert not np.shares_memory(first, longer)
    assert np.shares_memory(longer, buffer.take(int(MIN_CAPACITY * GROWTH_FACTOR), 1))


def test_fresh_buffer_is_another_one_each_time() -> None:
    buffer = MessageBuffer(fresh=True)
    first = buffer.take(10, 3)
    assert first.shape == (10, 3)
    assert not np.shares_memory(first, buffer.take(10, 3))


def test_atom_arrays_keep_their_rows_when_they_grow() -> None:
    atoms = Atoms()
    ids = np.arange(5)
    rows = np.arange(15.0).reshape(5, 3)
    atoms.append_local(ids, rows, -rows)
    kept = atoms.positions
    atoms.reserve(5)
    assert atoms.positions is kept
    atoms.append_local(ids + 5, rows, rows)
    assert atoms.ids[:10].tolist() == list(range(10))
    assert atoms.velocities[:10].tolist() == [*(-rows).tolist(), *rows.tolist()]
    atoms.keep_local(ids.repeat(2) % 2 == 0)
    assert atoms.ids[: atoms.num_local].tolist() == [0, 1, 4, 5, 8, 9]
