"""Programs that nobody wrote: known patterns of communication, at any number of ranks.

A pattern is a generator function of a Program, which is one rank, and a Shape; it yields behind
each step. A user's own is named as module:function. Only one rank is made at a time, and of it only
the step under way is in memory.
"""

import dataclasses
import functools
import inspect
import math
import os
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pagewire.native.extension import describe, import_module, is_specification
from pagewire.native.settings import ConfigError, suggestion
from pagewire.replay import collectives
from pagewire.replay.made import Made
from pagewire.replay.program import Program, Reused
from pagewire.replay.records import Record, decode
from pagewire.replay.trace import OPS, Writer

_WORD_BYTES = 8
"""Of an element of a grid."""


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """What all patterns are told."""

    num_bytes: int = 65536
    """of a message; the largest, where a pattern has several sizes"""
    steps: int = 10
    compute_ns: int = 0
    """of each rank in each step"""
    fresh: float = 0.0
    """share of receives into memory that nobody has touched"""
    seed: int = 1
    argument: str = ""
    """what stands behind the colon of the pattern's name"""


Pattern = Callable[[Program, Shape], Iterator[None]]


def halo3d(program: Program, shape: Shape) -> Iterator[None]:
    """A grid of ranks in three dimensions, all ends joined: each step sends to 26 neighbours, or 6,
    with faces of --bytes, edges and corners of the cube that fits, and then computes."""
    dims = grid_of(program.size, 3)
    place = _place_of(program.rank, dims)
    sides = (-1, 0, 1)
    directions = [(x, y, z) for x in sides for y in sides for z in sides if (x, y, z) != (0, 0, 0)]
    if _number(shape, "halo3d", 26, (6, 26)) == 6:
        directions = [each for each in directions if sum(map(abs, each)) == 1]
    edge = _WORD_BYTES * max(1, math.isqrt(shape.num_bytes // _WORD_BYTES))
    num_bytes = {1: shape.num_bytes, 2: min(edge, shape.num_bytes), 3: min(8, shape.num_bytes)}
    exchanged = []
    for idx, each in enumerate(directions):
        peer = _rank_of([a + b for a, b in zip(place, each, strict=True)], dims)
        if peer != program.rank:
            back = len(directions) - 1 - idx  # the opposite direction: they are in order
            exchanged.append((peer, idx, back, num_bytes[sum(map(abs, each))]))
    for _ in range(shape.steps):
        started = [
            program.irecv(peer, program.landing(idx, length), tag=back)
            for peer, idx, back, length in exchanged
        ]
        started += [
            program.isend(peer, program.filled(idx, length), tag=idx)
            for peer, idx, _, length in exchanged
        ]
        program.waitall(started)
        program.compute(shape.compute_ns)
        yield


def sweep3d(program: Program, shape: Shape) -> Iterator[None]:
    """Wavefronts over a grid of ranks in two dimensions: each step sweeps from the four corners,
    twice each, in 4 blocks, or sweep3d:BLOCKS; a rank waits for two neighbours, computes its part
    of the block, and sends to the other two."""
    blocks = _number(shape, "sweep3d", 4)
    columns, rows = grid_of(program.size, 2)
    x, y = program.rank % columns, program.rank // columns
    part_ns = shape.compute_ns // (8 * blocks)

    def neighbour(dx: int, dy: int) -> int | None:
        inside = 0 <= x + dx < columns and 0 <= y + dy < rows
        return (y + dy) * columns + x + dx if inside else None

    for _ in range(shape.steps):
        for dx, dy in ((1, 1), (1, 1), (-1, 1), (-1, 1), (1, -1), (1, -1), (-1, -1), (-1, -1)):
            axes = [(tag, neighbour(-a, -b), neighbour(a, b))
                    for tag, (a, b) in enumerate(((dx, 0), (0, dy)))]  # fmt: skip
            for _ in range(blocks):
                for tag, before, _ in axes:
                    if before is not None:
                        program.recv(before, program.landing(tag, shape.num_bytes), tag=tag)
                program.compute(part_ns)
                for tag, _, behind in axes:
                    if behind is not None:
                        program.send(behind, program.filled(tag, shape.num_bytes), tag=tag)
        yield


def alltoall(program: Program, shape: Shape) -> Iterator[None]:
    """Each step every rank sends a block to every other, by pairwise exchange; then it computes."""
    _number(shape, "alltoall", 0, (0,))
    size, each = program.size, shape.num_bytes
    for _ in range(shape.steps):
        sent, received = program.filled(0, size * each), program.landing(0, size * each)
        collectives.alltoall(
            collectives.world(program),
            [sent.part(rank * each, each) for rank in range(size)],
            [received.part(rank * each, each) for rank in range(size)],
        )
        program.compute(shape.compute_ns)
        yield


def allreduce(program: Program, shape: Shape) -> Iterator[None]:
    """Each step combines a vector of all ranks, as the facade does or by allreduce:doubling,
    :halving or :ring; then it computes. Its memory is the library's, so that --fresh has nothing
    to choose."""
    kinds = {
        "": collectives.allreduce,
        "doubling": collectives.allreduce_doubling,
        "halving": collectives.allreduce_halving,
        "ring": collectives.allreduce_ring,
    }
    combine = kinds.get(shape.argument)
    if combine is None:
        raise ConfigError(f"allreduce:{shape.argument}: allowed is doubling, halving or ring")
    for _ in range(shape.steps):
        combine(collectives.world(program), shape.num_bytes)
        program.compute(shape.compute_ns)
        yield


def transpose(program: Program, shape: Shape) -> Iterator[None]:
    """A square of ranks: each step (i, j) exchanges a message with (j, i), and computes."""
    _number(shape, "transpose", 0, (0,))
    side = math.isqrt(program.size)
    if side * side != program.size:
        raise ConfigError(
            f"transpose needs a square number of ranks: {program.size} is none, {side * side} and "
            f"{(side + 1) ** 2} are"
        )
    peer = program.rank % side * side + program.rank // side
    for _ in range(shape.steps):
        _exchange(program, shape, peer, peer)
        yield


def _exchange(program: Program, shape: Shape, dest: int, source: int) -> None:
    """A message to one rank and one from another, unless a rank is its own; then it computes."""
    if dest != program.rank:
        incoming = program.irecv(source, program.landing(0, shape.num_bytes))
        outgoing = program.isend(dest, program.filled(0, shape.num_bytes))
        program.waitall([incoming, outgoing])
    program.compute(shape.compute_ns)


def incast(program: Program, shape: Shape) -> Iterator[None]:
    """Each step all ranks send to rank 0, or incast:K: to K ranks, at once; then they compute and
    meet in a barrier."""
    num_targets = _number(shape, "incast", 1)
    if num_targets > program.size:
        raise ConfigError(f"incast:{num_targets} of {program.size} ranks: allowed is up to these")
    target = program.rank % num_targets
    senders = range(program.rank + num_targets, program.size, num_targets)
    for _ in range(shape.steps):
        if program.rank < num_targets:
            program.waitall(
                [program.irecv(each, program.landing(each, shape.num_bytes)) for each in senders]
            )
        else:
            program.send(target, program.filled(0, shape.num_bytes))
        program.compute(shape.compute_ns)
        collectives.barrier(collectives.world(program))
        yield


def random_pairs(program: Program, shape: Shape) -> Iterator[None]:
    """Each step every rank sends to one that is drawn, and receives from one: a permutation."""
    _number(shape, "random", 0, (0,))
    for step in range(shape.steps):
        there, back = _permutation(shape.seed, step, program.size)
        dest, source = there[program.rank], back[program.rank]
        _exchange(program, shape, dest, source)
        yield


PATTERNS: Mapping[str, Pattern] = {
    "halo3d": halo3d,
    "sweep3d": sweep3d,
    "alltoall": alltoall,
    "allreduce": allreduce,
    "transpose": transpose,
    "incast": incast,
    "random": random_pairs,
}


@functools.lru_cache(maxsize=1024)
def _permutation(seed: int, step: int, size: int) -> tuple[list[int], list[int]]:
    """To whom each rank sends, and from whom it receives."""
    there = list(range(size))
    random.Random(f"{seed}:{step}").shuffle(there)
    back = [0] * size
    for rank, dest in enumerate(there):
        back[dest] = rank
    return there, back


@functools.lru_cache(maxsize=16)
def grid_of(size: int, num_dims: int) -> tuple[int, ...]:
    """The most cubic grid of so many ranks; the largest side first."""
    if num_dims == 1:
        return (size,)
    sides = [side for side in range(1, size + 1) if size % side == 0]
    grids = [(side, *grid_of(size // side, num_dims - 1)) for side in sides]
    return min(
        (tuple(sorted(grid, reverse=True)) for grid in grids), key=lambda grid: (sum(grid), grid)
    )


def _place_of(rank: int, dims: tuple[int, ...]) -> list[int]:
    place = []
    for side in dims:
        place.append(rank % side)
        rank //= side
    return place


def _rank_of(place: list[int], dims: tuple[int, ...]) -> int:
    rank = 0
    for at, side in zip(reversed(place), reversed(dims), strict=True):
        rank = rank * side + at % side
    return rank


def _number(shape: Shape, name: str, default: int, choices: tuple[int, ...] = ()) -> int:
    """What stands behind the colon, a number of at least 1 or one of some."""
    if not shape.argument:
        return default
    takes = (
        " or ".join(map(str, choices)) if any(choices) else "nothing" if choices else "1 and more"
    )
    if not shape.argument.isdecimal() or not int(shape.argument):
        raise ConfigError(f"{name}:{shape.argument}: allowed is {takes}")
    number = int(shape.argument)
    if choices and number not in choices:
        raise ConfigError(f"{name}:{number}: allowed is {takes}")
    return number


def find(text: str) -> tuple[Pattern, str]:
    """A pattern by its name or as module:function, and what stands behind the colon."""
    name, _, argument = text.partition(":")
    if name in PATTERNS:
        return PATTERNS[name], argument
    if not is_specification(text):
        raise ConfigError(
            f"pattern '{text}': allowed is one of {', '.join(PATTERNS)}, or a generator function "
            f"of yours as module:function{suggestion(name, PATTERNS)}"
        )
    where = f"pattern '{text}'"
    module = import_module(where, name, [os.getcwd()])
    found = getattr(module, argument, None)
    if not inspect.isgeneratorfunction(found):
        raise ConfigError(f"{where}: '{argument}' of module '{name}' is no generator function")
    return found, ""


class Synthetic(Made):
    """The trace of a pattern, without a file: a rank's steps are made when they are asked for."""

    def __init__(self, text: str, num_ranks: int, shape: Shape) -> None:
        """text: names the pattern, as `find` takes it. Raises ConfigError."""
        super().__init__(num_ranks)
        self._text = text
        self._pattern, argument = find(text)
        self._shape = dataclasses.replace(shape, argument=argument)

    def meta(self) -> dict[str, Any]:
        return {"program": ["synth", self._text], "synth": dataclasses.asdict(self._shape)}

    def stream(self, rank: int, kind: int) -> Iterator[bytes]:
        return (data for data, _ in self._parts(rank)) if kind == OPS else iter(())

    def records(self, rank: int) -> Iterator[Record]:
        return (record for data in self.stream(rank, OPS) for record in decode(data))

    def numbers(self, _rank: int, _kind: int) -> Iterator[int]:
        return iter(())

    def write(self, path: str) -> int:
        total = 0
        with Writer(path, self.num_ranks, self.meta()) as writer:
            for rank in range(self.num_ranks):
                for data, num_records in self._parts(rank):
                    total += num_records
                    writer.add(rank, OPS, data, num_records)
                writer.end_rank(rank)
        return total

    def _parts(self, rank: int) -> Iterator[tuple[bytes, int]]:
        """Bytes of whole records, and how many these are."""
        made: list[tuple[bytes, int]] = []
        buffers = Reused(self._shape.fresh, f"{self._shape.seed}:{rank}")
        program = Program(rank, self.num_ranks, lambda data, num: made.append((data, num)), buffers)
        for _ in _steps(self._text, self._pattern, program, self._shape):
            yield from made
            made.clear()
        program.end()
        yield from made


def synthesize(text: str, num_ranks: int, shape: Shape, out: str) -> int:
    """Write the trace of a pattern; the number of its records."""
    return Synthetic(text, num_ranks, shape).write(out)


def _steps(text: str, pattern: Pattern, program: Program, shape: Shape) -> Iterator[None]:
    """Of one rank; what a user's own raises is an error of one line."""
    try:
        yield from pattern(program, shape)
    except ConfigError:
        raise
    except Exception as error:
        if text.partition(":")[0] in PATTERNS:
            raise
        raise ConfigError(
            f"pattern '{text}', rank {program.rank} of {program.size}, raised {describe(error)}"
        ) from error
