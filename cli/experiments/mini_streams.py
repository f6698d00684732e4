"""Page-level access streams of eight kernels over shared virtual memory, as data.

Each kernel does what its namesake of SPLASH-2 does to the shared pages: who fetches which page from
whom, who sends what back, phase by phase, with barriers between. Alike: data layout, distribution
over the nodes, which pages are needed in which order, sizes relative to the caches; a node's two
processors are one process and do half of its accesses each (assumed). Not alike: no locks, no task
stealing (volrend's and raytrace's tiles are dealt out), no pages that are falsely shared beyond
what the layout makes, compute as flops over the platform's rate instead of a program. A page has a
home, as in GeNIMA: a node that needs it fetches it from there by a read; what it wrote of another's
page goes there as a diff, by a write.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator, Mapping

NUM_NODES = 4
NUM_PROCESSORS = 2
"""of a node"""
PAGE_BYTES = 4096
MOLECULE_BYTES = 680
"""of SPLASH-2's water"""
FETCH, DIFF = "fetch", "diff"


@dataclasses.dataclass(frozen=True, slots=True)
class Access:
    """What one node does to one page of another."""

    kind: str
    page: int
    num_bytes: int = PAGE_BYTES


@dataclasses.dataclass(frozen=True, slots=True)
class Phase:
    """Between two barriers: each node's accesses in order, and its share of the flops."""

    accesses: list[list[Access]]
    flops: float
    """of one node"""

    def of_processor(self, processor: int) -> list[Access]:
        """Its half of what its node fetches, then its half of what goes back: processors have bands
        as nodes have, so each sends what it fetched itself."""
        node, place = divmod(processor, NUM_PROCESSORS)
        half = []
        for kind in (FETCH, DIFF):
            of_kind = [each for each in self.accesses[node] if each.kind == kind]
            begin, end = (len(of_kind) * each // NUM_PROCESSORS for each in (place, place + 1))
            half += of_kind[begin:end]
        return half


@dataclasses.dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of some size."""

    name: str
    size: str
    num_pages: int
    home: Callable[[int], int]
    phases: list[Phase]

    @property
    def flops(self) -> float:
        """Of all nodes together."""
        return NUM_NODES * sum(phase.flops for phase in self.phases)


def _pages(first_byte: int, num_bytes: int) -> range:
    return range(first_byte // PAGE_BYTES, (first_byte + num_bytes - 1) // PAGE_BYTES + 1)


def _once(pages: Iterator[int]) -> list[Access]:
    """A fetch for each page, the first time it is needed."""
    return [Access(FETCH, page) for page in dict.fromkeys(pages)]


def fft(shrink: int) -> Kernel:
    """Three transposes of a matrix of complex numbers; each node has a band of rows of each of two
    matrices."""
    order = 2048 // shrink
    row_bytes, band = order * 16, order // NUM_NODES
    matrix_pages = order * row_bytes // PAGE_BYTES
    segment = row_bytes // NUM_NODES

    def needed(node: int, matrix: int) -> Iterator[int]:
        for step in range(1, NUM_NODES):
            peer = (node + step) % NUM_NODES
            for row in range(peer * band, (peer + 1) * band):
                first = matrix * matrix_pages * PAGE_BYTES + row * row_bytes + node * segment
                yield from _pages(first, segment)

    flops = 5 * order * order * (order.bit_length() - 1) / NUM_NODES
    phases = [
        Phase([_once(needed(node, matrix)) for node in range(NUM_NODES)], flops)
        for matrix in (0, 1, 0)
    ]
    num_pages = 2 * matrix_pages
    return Kernel(
        "FFT",
        f"{order * order} complex",
        num_pages,
        lambda page: page % matrix_pages * NUM_NODES // matrix_pages,
        phases,
    )


def radix(shrink: int) -> Kernel:
    """Three passes that scatter each node's keys over the other array, digit by digit."""
    num_keys, num_digits = 8 * 1024 * 1024 // shrink**2, 256
    array_pages = num_keys * 4 // PAGE_BYTES
    chunk_bytes = num_keys * 4 // NUM_NODES // num_digits

    def home(page: int) -> int:
        return page % array_pages * NUM_NODES // array_pages

    def written(node: int, array: int) -> Iterator[int]:
        """In turns over the digits, since the keys are random."""
        for at in range(0, chunk_bytes, PAGE_BYTES):
            for digit in range(num_digits):
                first = (digit * NUM_NODES + node) * chunk_bytes + at
                page = array * array_pages + first // PAGE_BYTES
                if home(page) != node:
                    yield page

    phases = []
    for turn in range(3):
        of_nodes = []
        for node in range(NUM_NODES):
            fetched = _once(written(node, (turn + 1) % 2))
            sent = min(chunk_bytes, PAGE_BYTES)
            of_nodes.append([*fetched, *(Access(DIFF, each.page, sent) for each in fetched)])
        phases.append(Phase(of_nodes, 12 * num_keys / NUM_NODES))
    return Kernel("Radix", f"{num_keys} keys", 2 * array_pages, home, phases)


def lu(shrink: int) -> Kernel:
    """Contiguous blocks of 32 x 32, dealt out to 2 x 2 nodes; each step needs the pivot's row and
    column of blocks."""
    num_blocks = 2048 // shrink // 32
    block_pages = 32 * 32 * 8 // PAGE_BYTES

    def owner(row: int, column: int) -> int:
        return row % 2 * 2 + column % 2

    # a node's own blocks lie together
    order = sorted(
        ((row, column) for row in range(num_blocks) for column in range(num_blocks)),
        key=lambda each: (owner(*each), each),
    )
    place = {block: idx for idx, block in enumerate(order)}
    of_owner = len(order) // NUM_NODES * block_pages

    def needed(node: int, step: int) -> Iterator[int]:
        rows = [i for i in range(step + 1, num_blocks) if i % 2 == node // 2]
        columns = [j for j in range(step + 1, num_blocks) if j % 2 == node % 2]
        pivots = [(step, step)] if rows or columns else []
        for block in (*pivots, *((i, step) for i in rows), *((step, j) for j in columns)):
            if owner(*block) != node:
                yield from range(place[block] * block_pages, (place[block] + 1) * block_pages)

    phases = [
        Phase(
            [_once(needed(node, step)) for node in range(NUM_NODES)],
            2 * 32**3 * (num_blocks - step) ** 2 / NUM_NODES,
        )
        for step in range(num_blocks)
    ]
    size = f"{num_blocks * 32} x {num_blocks * 32}"
    return Kernel("LU", size, len(order) * block_pages, lambda page: page // of_owner, phases)


def ocean(shrink: int) -> Kernel:
    """Five-point stencils on square subgrids that lie together: a border row is a page, a border
    column is one of each row."""
    num_grids, num_sweeps, side = 12, 6, 514 // shrink // 2
    row_bytes = side * 8
    subgrid_pages = -(-side * row_bytes // PAGE_BYTES)
    grid_pages = NUM_NODES * subgrid_pages

    def first_byte(grid: int, node: int) -> int:
        return (grid * grid_pages + node * subgrid_pages) * PAGE_BYTES

    def needed(node: int, grid: int) -> Iterator[int]:
        above, beside = node ^ 2, node ^ 1
        row = 0 if node < 2 else side - 1  # of the neighbour's, next to one's own
        yield from _pages(first_byte(grid, above) + row * row_bytes, row_bytes)
        column = 0 if node % 2 == 0 else side - 1
        for each in range(side):
            yield from _pages(first_byte(grid, beside) + each * row_bytes + column * 8, 8)

    phases = [
        Phase([_once(needed(node, grid)) for node in range(NUM_NODES)], 10 * side * side)
        for _ in range(num_sweeps)
        for grid in range(num_grids)
    ]
    return Kernel(
        "Ocean",
        f"{2 * side} x {2 * side}, {num_grids} grids",
        num_grids * grid_pages,
        lambda page: page % grid_pages // subgrid_pages,
        phases,
    )


def _of_molecules(
    name: str, num_molecules: int, flops: float, needed: Callable[[int, int], Iterator[int]]
) -> Kernel:
    """Three steps over a band of molecules a node: others' positions come, forces go back. needed:
    pages by node, and how many pages a node has."""
    node_pages = -(-num_molecules // NUM_NODES * MOLECULE_BYTES // PAGE_BYTES)
    of_nodes = []
    for node in range(NUM_NODES):
        fetched = _once(needed(node, node_pages))
        of_nodes.append([*fetched, *(Access(DIFF, each.page, 512) for each in fetched)])
    return Kernel(
        name,
        f"{num_molecules} molecules",
        NUM_NODES * node_pages,
        lambda page: page // node_pages,
        [Phase(of_nodes, flops / NUM_NODES)] * 3,
    )


def water(shrink: int) -> Kernel:
    """Each molecule meets half of all the others: those of two other nodes."""
    num_molecules = 4096 // shrink**2

    def needed(node: int, node_pages: int) -> Iterator[int]:
        for step in (1, 2):
            first = (node + step) % NUM_NODES * node_pages
            yield from range(first, first + node_pages)

    return _of_molecules("Water-nsquared", num_molecules, 150 * num_molecules**2 / 2, needed)


def water_spatial(shrink: int) -> Kernel:
    """Molecules in boxes of 8, a slab two boxes thick a node: each meets those of 27 boxes, half of
    either neighbour's molecules are needed. They lie where they were at first, so those of a box
    are scattered. The slabs close to a ring: assumed, as water's peers."""
    num_molecules = 4096 // shrink**2
    of_node = num_molecules // NUM_NODES
    draw = random.Random(2)

    def needed(node: int, node_pages: int) -> Iterator[int]:
        for peer in ((node - 1) % NUM_NODES, (node + 1) % NUM_NODES):
            first = peer * node_pages * PAGE_BYTES
            for molecule in draw.sample(range(of_node), of_node // 2):
                yield from _pages(first + molecule * MOLECULE_BYTES, MOLECULE_BYTES)

    flops = 150 * num_molecules * 27 * 8 / 2
    return _of_molecules("Water-spatial", num_molecules, flops, needed)


def raytrace(shrink: int) -> Kernel:
    """Rays through a scene that nobody writes: single pages in no order, since a ray goes from cell
    to cell of a grid whose objects lie anywhere; then image tiles go home. Assumed: 32 MiB of
    scene, 8000 flops for each of its pages."""
    scene_pages, image_pages = 8192 // shrink**2, 768 // shrink**2
    num_pages = scene_pages + image_pages
    draw = random.Random(3)

    def home(page: int) -> int:
        return page * NUM_NODES // num_pages

    of_nodes = []
    for node in range(NUM_NODES):
        drawn = (draw.randrange(scene_pages) for _ in range(scene_pages))
        tiles = range(scene_pages + node, num_pages, NUM_NODES)
        sent = [Access(DIFF, page, 1024) for page in tiles if home(page) != node]
        of_nodes.append([*_once(page for page in drawn if home(page) != node), *sent])
    phases = [Phase(of_nodes, 8000.0 * scene_pages)]
    return Kernel("Raytrace", f"{scene_pages * 4} KiB scene", num_pages, home, phases)


def volrend(shrink: int) -> Kernel:
    """Rays through a volume that nobody writes: each page comes once, in no order, with the
    neighbours that a ray meets; then image tiles go home."""
    volume_pages, image_pages = 4096 // shrink**2, 64
    num_pages = volume_pages + image_pages
    draw = random.Random(1)

    def home(page: int) -> int:
        return page * NUM_NODES // num_pages

    def needed(node: int) -> Iterator[int]:
        for _ in range(volume_pages // 2):
            first = draw.randrange(volume_pages)
            for page in range(first, min(first + 3, volume_pages)):
                if home(page) != node:
                    yield page

    of_nodes = []
    for node in range(NUM_NODES):
        tiles = range(volume_pages + node, num_pages, NUM_NODES)
        sent = [Access(DIFF, page, 1024) for page in tiles if home(page) != node]
        of_nodes.append([*_once(needed(node)), *sent])
    phases = [Phase(of_nodes, 2000.0 * volume_pages)]
    return Kernel("Volrend", f"{volume_pages * 4} KiB volume", num_pages, home, phases)


KERNELS: Mapping[str, Callable[[int], Kernel]] = {
    "FFT": fft,
    "Radix": radix,
    "LU": lu,
    "Ocean": ocean,
    "Water-nsquared": water,
    "Water-spatial": water_spatial,
    "Volrend": volrend,
    "Raytrace": raytrace,
}
"""Each by its shrink: lengths of the thesis's sizes over it, so that data go with its square."""
