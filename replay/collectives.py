"""Collectives as messages, by the algorithms of this project's MPI facade.

Those of transport/facade/collectives.c and reductions.c, and when it takes which: a dissemination
barrier, binomial trees, recursive doubling and halving, rings, pairwise exchange. A collective is
one call. All its messages have one tag, and the context of collectives. Left out: what combining
and copying cost the CPU, and the facade's other ways for memory that is not contiguous.
"""

import dataclasses
from collections.abc import Callable, Sequence

from pagewire.native import lib
from pagewire.replay.program import Buffer, Program

TAG = int(lib.PW_COLLECTIVE_TAG)
CONTEXT = 1
"""Of collectives; messages of the program have context 0."""
LONG_BYTES = int(lib.PW_COLLECTIVE_LONG_BYTES)
_NOTHING = Buffer(0, 0, 0)
MINE, THEIRS, TREE = range(3)
"""Memory of the library."""


def tree_of(rank: int, size: int, root: int) -> tuple[int | None, list[int]]:
    """Parent and children in the binomial tree from `root`, the largest subtree first."""
    relative = (rank - root) % size
    distance = 1
    while distance < size and not relative & distance:
        distance *= 2
    parent = (relative - distance + root) % size if distance < size else None
    children = []
    while distance := distance // 2:
        if relative + distance < size:
            children.append((relative + distance + root) % size)
    return parent, children


def subtree_of(rank: int, size: int, root: int) -> int:
    """Number of ranks in the subtree under one."""
    relative = (rank - root) % size
    return min(relative & -relative, size - relative) if relative else size


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """The ranks of a communicator, by their place in it, as one of them sees it."""

    program: Program
    ranks: Sequence[int]
    context: int = CONTEXT

    @property
    def size(self) -> int:
        return len(self.ranks)

    @property
    def rank(self) -> int:
        return self.ranks.index(self.program.rank)

    def send(self, dest: int, buffer: Buffer) -> int:
        return self.program.post_send(self.ranks[dest], buffer, TAG, self.context)

    def receive(self, source: int, buffer: Buffer) -> int:
        return self.program.post_receive(self.ranks[source], buffer, TAG, self.context)

    def exchange(self, sent: Buffer, dest: int, received: Buffer, source: int) -> None:
        incoming = self.receive(source, received)
        outgoing = self.send(dest, sent)
        self.program.finish((outgoing, incoming))

    def send_all(self, messages: Sequence[tuple[int, Buffer]]) -> None:
        """To each its own, then wait for all."""
        self.program.finish([self.send(dest, buffer) for dest, buffer in messages])


def world(program: Program) -> Group:
    """All ranks."""
    return Group(program, range(program.size))


def barrier(group: Group) -> None:
    rank, size = group.rank, group.size
    with group.program.call("MPI_Barrier"):
        distance = 1
        while distance < size:
            group.exchange(_NOTHING, (rank + distance) % size, _NOTHING, (rank - distance) % size)
            distance *= 2


def broadcast(group: Group, buffer: Buffer, root: int = 0) -> None:
    with group.program.call("MPI_Bcast"):
        _down(group, buffer, root)


def _down(group: Group, buffer: Buffer, root: int) -> None:
    parent, children = tree_of(group.rank, group.size, root)
    if parent is not None:
        group.program.finish([group.receive(parent, buffer)])
    group.send_all([(child, buffer) for child in children])


def _tree_memory(group: Group, block_bytes: int, root: int, is_touched: bool) -> Buffer:
    num_bytes = subtree_of(group.rank, group.size, root) * block_bytes
    return group.program.scratch(TREE, num_bytes, is_touched=is_touched)


def _tree_part(group: Group, memory: Buffer, block_bytes: int, root: int, rank: int) -> Buffer:
    mine, its = (group.rank - root) % group.size, (rank - root) % group.size
    held = subtree_of(rank, group.size, root)
    return memory.part((its - mine) * block_bytes, held * block_bytes)


def gather(group: Group, sent: Buffer, blocks: Sequence[Buffer] | None, root: int = 0) -> None:
    """blocks: at the root, by rank; None elsewhere."""
    lengths = {each.num_bytes for each in blocks} if blocks else {sent.num_bytes}
    if len(lengths) > 1 or not 0 < max(lengths) <= LONG_BYTES:
        gather_each(group, sent, blocks, root, name="MPI_Gather")
        return
    block_bytes = sent.num_bytes
    with group.program.call("MPI_Gather"):
        memory = _tree_memory(group, block_bytes, root, True)
        parent, children = tree_of(group.rank, group.size, root)
        for child in reversed(children):
            part = _tree_part(group, memory, block_bytes, root, child)
            group.program.finish([group.receive(child, part)])
        if parent is not None:
            group.program.finish([group.send(parent, memory)])


def gather_each(
    group: Group,
    sent: Buffer,
    blocks: Sequence[Buffer] | None,
    root: int = 0,
    *,
    name: str = "MPI_Gatherv",
) -> None:
    """A message from each."""
    with group.program.call(name):
        if blocks is None:
            group.program.finish([group.send(root, sent)])
            return
        others = [rank for rank in range(group.size) if rank != root]
        group.program.finish([group.receive(rank, blocks[rank]) for rank in others])


def scatter(group: Group, blocks: Sequence[Buffer] | None, received: Buffer, root: int = 0) -> None:
    """blocks: at the root, by rank; None elsewhere."""
    block_bytes = received.num_bytes
    if not 0 < block_bytes <= LONG_BYTES:
        scatter_each(group, blocks, received, root, name="MPI_Scatter")
        return
    with group.program.call("MPI_Scatter"):
        memory = _tree_memory(group, block_bytes, root, group.rank == root)
        parent, children = tree_of(group.rank, group.size, root)
        if parent is not None:
            group.program.finish([group.receive(parent, memory)])
        group.send_all(
            [(child, _tree_part(group, memory, block_bytes, root, child)) for child in children]
        )


def scatter_each(
    group: Group,
    blocks: Sequence[Buffer] | None,
    received: Buffer,
    root: int = 0,
    *,
    name: str = "MPI_Scatterv",
) -> None:
    """A message to each."""
    with group.program.call(name):
        if blocks is None:
            group.program.finish([group.receive(root, received)])
            return
        group.send_all([(rank, blocks[rank]) for rank in range(group.size) if rank != root])


def allgather(group: Group, blocks: Sequence[Buffer], *, name: str = "MPI_Allgather") -> None:
    """blocks: by rank; recursive doubling when they are short, adjacent, and a power of two."""
    rank, size = group.rank, group.size
    adjacent = all(
        (each.region, each.offset, each.num_bytes)
        == (blocks[0].region, blocks[0].offset + idx * blocks[0].num_bytes, blocks[0].num_bytes)
        for idx, each in enumerate(blocks)
    )  # fmt: skip
    num_bytes = blocks[0].num_bytes
    with group.program.call(name):
        if adjacent and size * num_bytes <= LONG_BYTES and size & (size - 1) == 0:
            distance = 1
            while distance < size:
                partner = rank ^ distance
                mine, theirs = (
                    blocks[each & -distance].part(0, distance * num_bytes)
                    for each in (rank, partner)
                )
                group.exchange(mine, partner, theirs, partner)
                distance *= 2
            return
        for step in range(size - 1):
            sent, received = blocks[(rank - step) % size], blocks[(rank - step - 1) % size]
            group.exchange(sent, (rank + 1) % size, received, (rank - 1) % size)


def alltoall(
    group: Group, sent: Sequence[Buffer], received: Sequence[Buffer], *, name: str = "MPI_Alltoall"
) -> None:
    """Pairwise exchange; by rank."""
    rank, size = group.rank, group.size
    with group.program.call(name):
        for step in range(1, size):
            dest, source = (rank + step) % size, (rank - step) % size
            group.exchange(sent[dest], dest, received[source], source)


def _vectors(group: Group, num_bytes: int) -> tuple[Buffer, Buffer]:
    mine = group.program.scratch(MINE, num_bytes, is_touched=True)
    return mine, group.program.scratch(THEIRS, num_bytes, is_touched=False)


def allreduce(group: Group, num_bytes: int) -> None:
    """By halves when the vector is long and there are four ranks or more."""
    is_long = num_bytes > LONG_BYTES and group.size > 3
    (allreduce_halving if is_long else allreduce_doubling)(group, num_bytes)


def allreduce_doubling(group: Group, num_bytes: int) -> None:
    """Recursive doubling; neighbours first join in pairs until a power of two is left."""
    _allreduce(group, num_bytes, _double_up)


def allreduce_halving(group: Group, num_bytes: int) -> None:
    """Partners exchange halves of what they have in common, and at the end the results."""
    _allreduce(group, num_bytes, _halve)


Middle = Callable[[Group, Buffer, Buffer, int, Sequence[int]], Buffer]
"""Among ranks by their places, with the own place: `mine` and `theirs`; where the result is."""


def _allreduce(group: Group, num_bytes: int, middle: Middle) -> None:
    rank, size, program = group.rank, group.size, group.program
    with program.call("MPI_Allreduce"):
        mine, theirs = _vectors(group, num_bytes)
        power = 1 << size.bit_length() - 1
        num_pairs = size - power
        is_paired = rank < 2 * num_pairs
        if is_paired and rank % 2 == 0:
            program.finish([group.send(rank + 1, mine)])
            program.finish([group.receive(rank + 1, mine)])
            return
        if is_paired:
            program.finish([group.receive(rank - 1, theirs)])
        ranks = [2 * each + 1 if each < num_pairs else each + num_pairs for each in range(power)]
        mine = middle(group, mine, theirs, ranks.index(rank), ranks)
        if is_paired:
            program.finish([group.send(rank - 1, mine)])


def _double_up(
    group: Group, mine: Buffer, theirs: Buffer, place: int, ranks: Sequence[int]
) -> Buffer:
    distance = 1
    while distance < len(ranks):
        other = place ^ distance
        group.exchange(mine, ranks[other], theirs, ranks[other])
        if other > place:  # the result becomes `mine`, and is where theirs came
            mine, theirs = theirs, mine
        distance *= 2
    return mine


def _halve(group: Group, mine: Buffer, theirs: Buffer, place: int, ranks: Sequence[int]) -> Buffer:
    steps = []
    own, distance = (0, mine.num_bytes), 1
    while distance < len(ranks):
        other, (first, num_bytes) = place ^ distance, own
        lower = num_bytes // 2
        halves = (first, lower), (first + lower, num_bytes - lower)
        own, given = halves[other < place], halves[other > place]
        steps.append((ranks[other], own, given))
        group.exchange(mine.part(*given), ranks[other], theirs.part(*own), ranks[other])
        if other > place:
            mine, theirs = theirs, mine
        distance *= 2
    for partner, own, given in reversed(steps):
        group.exchange(mine.part(*own), partner, mine.part(*given), partner)
    return mine


def allreduce_ring(group: Group, num_bytes: int) -> None:
    """Reduce-scatter and allgather around a ring; the facade has no such."""
    rank, size = group.rank, group.size
    with group.program.call("MPI_Allreduce"):
        mine, theirs = _vectors(group, num_bytes)
        ends = [place * num_bytes // size for place in range(size + 1)]
        parts = [(ends[place], ends[place + 1] - ends[place]) for place in range(size)]
        right, left = (rank + 1) % size, (rank - 1) % size
        for step in range(2 * (size - 1)):
            is_gathering = step >= size - 1
            sent = parts[(rank - step) % size]
            came = parts[(rank - step - 1) % size]
            into = mine if is_gathering else theirs
            group.exchange(mine.part(*sent), right, into.part(*came), left)


def reduce(group: Group, num_bytes: int, root: int = 0) -> None:
    program = group.program
    with program.call("MPI_Reduce"):
        mine, theirs = _vectors(group, num_bytes)
        parent, children = tree_of(group.rank, group.size, root)
        for child in reversed(children):
            program.finish([group.receive(child, theirs)])
            mine, theirs = theirs, mine  # the child is of higher rank: the result is where it came
        if parent is not None:
            program.finish([group.send(parent, mine)])


def reduce_scatter(group: Group, part_bytes: Sequence[int]) -> None:
    """Pairwise exchange of the ranks' parts."""
    rank, size = group.rank, group.size
    with group.program.call("MPI_Reduce_scatter"):
        mine = group.program.scratch(MINE, sum(part_bytes), is_touched=True)
        own = part_bytes[rank]
        theirs = group.program.scratch(THEIRS, size * own, is_touched=False)
        for step in range(1, size):
            dest, source = (rank + step) % size, (rank - step) % size
            sent = mine.part(sum(part_bytes[:dest]), part_bytes[dest])
            group.exchange(sent, dest, theirs.part(source * own, own), source)


def scan(group: Group, num_bytes: int, *, name: str = "MPI_Scan") -> None:
    """Recursive doubling."""
    rank, size = group.rank, group.size
    with group.program.call(name):
        mine, theirs = _vectors(group, num_bytes)
        distance = 1
        while distance < size:
            partner = rank ^ distance
            if partner < size:
                group.exchange(mine, partner, theirs, partner)
                if partner > rank:
                    mine, theirs = theirs, mine
            distance *= 2
