"""Halo exchange and stencil of the conjugate-gradient mini-app on many ranks, which are threads
here: 27 processes, the least for 26 neighbours, are too many for a small machine."""

import concurrent.futures
import itertools
import math
import queue
from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pagewire._kernels")

from pagewire.apps.hpcg.geometry import Geometry, Triple, choose_boxes
from pagewire.apps.hpcg.halo import Halo
from pagewire.apps.hpcg.operator import Operator

GRIDS = [(1, 1, 1), (2, 1, 1), (1, 3, 1), (1, 1, 4), (2, 2, 1), (1, 3, 2), (2, 2, 2), (3, 3, 3)]


class ThreadComm:
    """The calls that `Halo.exchange` makes; a message that nobody sends fails after a while."""

    def __init__(self, rank: int, boxes: dict[tuple[int, int], queue.Queue[np.ndarray]]) -> None:
        self.rank = rank
        self.boxes = boxes
        self.num_sent = 0

    def Irecv(self, buffer: np.ndarray, source: int, tag: int) -> Callable[[], None]:
        def receive() -> None:
            message = self.boxes[source, self.rank].get(timeout=20)
            assert message.shape == buffer.shape
            buffer[...] = message

        return receive

    def Isend(self, buffer: np.ndarray, dest: int, tag: int) -> Callable[[], None]:
        self.num_sent += 1
        self.boxes[self.rank, dest].put(buffer.copy())
        return lambda: None


class ThreadTeam:
    """Stands for a Team whose sums nobody looks at."""

    def __init__(self, rank: int, num_ranks: int, comm: ThreadComm) -> None:
        self.rank, self.num_ranks, self.comm = rank, num_ranks, comm
        waitall = staticmethod(lambda requests: [request() for request in requests])
        self.mpi = SimpleNamespace(Request=SimpleNamespace(Waitall=waitall))

    def sum_integers(self, *values: int) -> list[int]:
        return list(values)


def on_all_ranks(
    num_boxes: Triple, num_points: Triple, work: Callable[[Geometry, Any], Any]
) -> list[Any]:
    """What `work` returns on each rank."""
    num_ranks = math.prod(num_boxes)
    boxes: dict[tuple[int, int], queue.Queue[np.ndarray]] = defaultdict(queue.Queue)
    for pair in itertools.product(range(num_ranks), repeat=2):
        boxes[pair] = queue.Queue()

    def run(rank: int) -> Any:
        geometry = Geometry(num_points=num_points, num_boxes=num_boxes, rank=rank)
        return work(geometry, ThreadTeam(rank, num_ranks, ThreadComm(rank, boxes)))

    with concurrent.futures.ThreadPoolExecutor(num_ranks) as threads:
        results = list(threads.map(run, range(num_ranks)))
    assert all(box.empty() for box in boxes.values())
    return results


def own_part(geometry: Geometry, whole: np.ndarray) -> np.ndarray:
    """This rank's box out of a global grid (nz, ny, nx)."""
    return whole[tuple(
        slice(c * n, (c + 1) * n)
        for c, n in zip(geometry.coords[::-1], geometry.num_points[::-1], strict=True)
    )]  # fmt: skip


def join(num_boxes: Triple, num_points: Triple, parts: list[np.ndarray]) -> np.ndarray:
    shape = [p * n for p, n in zip(num_boxes[::-1], num_points[::-1], strict=True)]
    whole = np.full(shape, np.nan)
    for rank, part in enumerate(parts):
        geometry = Geometry(num_points=num_points, num_boxes=num_boxes, rank=rank)
        own_part(geometry, whole)[...] = part.reshape(num_points[::-1])
    return whole


# Places


@pytest.mark.parametrize(
    ("num_ranks", "boxes"),
    [
        (1, (1, 1, 1)),
        (2, (2, 1, 1)),
        (4, (2, 2, 1)),
        (7, (7, 1, 1)),
        (8, (2, 2, 2)),
        (12, (3, 2, 2)),
        (16, (4, 2, 2)),
    ],
)
def test_ranks_form_the_box_with_least_surface(num_ranks: int, boxes: Triple) -> None:
    assert choose_boxes(num_ranks) == boxes


# Exchange


@pytest.mark.parametrize("fresh_buffers", [False, True], ids=["kept", "fresh"])
@pytest.mark.parametrize("num_boxes", GRIDS)
@pytest.mark.parametrize("num_points", [(2, 3, 4), (1, 1, 1), (3, 1, 2)])
def test_each_ghost_gets_its_own_point_twice(
    num_boxes: Triple, num_points: Triple, fresh_buffers: bool
) -> None:
    shape = [p * n for p, n in zip(num_boxes[::-1], num_points[::-1], strict=True)]
    whole = np.arange(1.0, math.prod(shape) + 1).reshape(shape)
    padded = np.pad(whole, 1)

    def work(geometry: Geometry, team: Any) -> None:
        halo = Halo(geometry, team, fresh_buffers=fresh_buffers)
        columns = halo.column_map()
        assert sorted(columns[columns >= 0]) == list(range(halo.num_columns))
        x = halo.new_vector()
        assert x.shape == (halo.num_columns,)
        corner = [
            c * n for c, n in zip(geometry.coords[::-1], geometry.num_points[::-1], strict=True)
        ]
        around = padded[tuple(slice(c, c + n) for c, n in zip(corner, columns.shape, strict=True))]
        for factor in (1.0, -2.0):
            x[: geometry.num_local] = factor * own_part(geometry, whole).ravel()
            halo.exchange(x)
            got = np.where(columns >= 0, x[columns], 0.0)
            assert (got == factor * around).all()
        assert team.comm.num_sent == 2 * len(halo.neighbors)
        assert [n.rank for n in halo.neighbors] == sorted(n.rank for n in halo.neighbors)

    on_all_ranks(num_boxes, num_points, work)


# Operator


def global_product(num_boxes: Triple, num_points: Triple, whole: np.ndarray) -> np.ndarray:
    def work(geometry: Geometry, team: Any) -> np.ndarray:
        operator = Operator(geometry, team, fresh_buffers=False)
        x, y = operator.halo.new_vector(), operator.halo.new_vector()
        x[: operator.num_rows] = own_part(geometry, whole).ravel()
        operator.multiply(x, y)
        return y[: operator.num_rows].copy()

    return join(num_boxes, num_points, on_all_ranks(num_boxes, num_points, work))


@settings(max_examples=25, deadline=None)
@given(
    num_boxes=st.tuples(*[st.integers(1, 3)] * 3),
    num_points=st.tuples(*[st.integers(1, 4)] * 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_product_has_the_same_bits_on_any_ranks(
    num_boxes: Triple, num_points: Triple, seed: int
) -> None:
    x, y, z = (p * n for p, n in zip(num_boxes, num_points, strict=True))
    whole = np.random.default_rng(seed).normal(size=(z, y, x))
    many = global_product(num_boxes, num_points, whole)
    assert many.tobytes() == global_product((1, 1, 1), (x, y, z), whole).tobytes()
