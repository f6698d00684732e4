"""Draws a random program: the steps that all its ranks take alike. Equal seeds, equal programs.

What is drawn is valid MPI that cannot block for ever: a blocking send meets a receive that its step
has posted or begins, a held step only what needs nobody else to go on.
"""

import dataclasses
import math
import random
from typing import Any

EDGES = (1, 63, 64, 65, 4095, 4096, 4097, 16_383, 16_384, 16_385, 65_536, 524_288, 1 << 20)
"""Sizes in bytes at which the NI, the driver or an MPI changes its way."""

MEMORIES = ("heap", "anonymous", "shared", "file")
WAYS = ("Wait", "Test", "Waitall", "Testall", "Waitany", "Testany", "Waitsome", "Testsome")
BLOCKING = ("Send", "Ssend")
STARTED = ("Isend", "Issend", "Ibsend", "Bsend")
READY = ("Rsend", "Irsend")
BUFFERED = ("Bsend", "Ibsend")
LARGEST_BUFFERED_BYTES = 1 << 20
LARGEST_TYPED_BYTES = 1 << 20
"""Of a derived type: its check takes 8 bytes for each."""

MAX_BYTES = 64 << 20
"""Of a message, where the memory allows."""


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One step as data. on: its communicator, as kit.Run.communicator takes it."""

    number: int
    hold: int
    on: list[Any]
    kind: str
    arguments: dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """What ranks execute."""

    seed: int
    num_ranks: int
    steps: list[Step]


def program(seed: int, num_ranks: int, max_bytes: int) -> Program:
    """max_bytes: largest message, and largest buffer of a collective."""
    rng = random.Random(seed)
    # Most programs are many small steps; a few carry what takes long.
    sizes = (4096, 1 << 18, 1 << 20, 4 << 20, MAX_BYTES)
    most = min(max_bytes, rng.choices(sizes, (6, 10, 5, 2, 1))[0])
    drawing = _Drawing(rng, num_ranks, most)
    num_steps = rng.randint(3, 30) if most <= 1 << 20 else rng.randint(2, 8)
    steps = [drawing.step() for _ in range(num_steps)]
    return Program(seed, num_ranks, steps)


class _Drawing:
    def __init__(self, rng: random.Random, num_ranks: int, max_bytes: int) -> None:
        self.rng = rng
        self.num_ranks = num_ranks
        self.max_bytes = max_bytes
        self.number = 0
        self.is_threaded = False
        """The step is one of a thread's."""

    def step(self) -> Step:
        rng = self.rng
        self.number += 1
        number = self.number
        kinds = _THREAD_WEIGHTS if self.is_threaded else _WEIGHTS
        kind = rng.choices(list(kinds), list(kinds.values()))[0]
        on: list[Any] = ["world"] if self.is_threaded else self.communicator()
        size = len(on[1]) if len(on) > 1 and isinstance(on[1], list) else self.num_ranks
        if kind == "intercommunicator" and size < 2:
            kind = "message"
        if kind == "threads":  # its parts are drawn for all ranks
            on, size = ["world"], self.num_ranks
        hold = rng.choice((0, 0, 0, 1, 2, 5))
        arguments = getattr(self, kind)(size)
        if arguments.get("any_tag"):  # nothing else may be under way where anything is taken
            on, hold = ["dup", "any"], 0
            arguments = self.burst(self.num_ranks, any_tag=True)
        return Step(number, hold, on, kind, arguments)

    def communicator(self) -> list[Any]:
        rng = self.rng
        how = rng.choices(
            ("world", "dup", "idup", "split", "create", "create_group"), (12, 2, 1, 3, 1, 1)
        )[0]
        if how == "world":
            return [how]
        if how in ("dup", "idup"):
            return [how, f"copy {rng.randrange(2)}"]
        members = rng.sample(range(self.num_ranks), rng.randint(1, self.num_ranks))
        return [how, members]

    def size(self, most: int | None = None) -> int:
        """Bytes, log-uniform or at an edge."""
        most = self.max_bytes if most is None else min(most, self.max_bytes)
        if self.rng.random() < 0.3:
            return min(most, self.rng.choice(EDGES))
        return max(1, min(most, round(math.exp(self.rng.uniform(0, math.log(most + 1))))))

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def memory(self) -> str:
        return self.rng.choice(MEMORIES)

    def offset(self) -> int:
        return self.rng.choice((0, 0, 1, 3, 8, 64, 100, 4000, self.rng.randrange(4096)))

    def some(self, *names: str) -> list[str]:
        return [name for name in names if self.chance(0.25)]

    def message(self, size: int) -> dict[str, Any]:
        rng = self.rng
        source, dest = rng.randrange(size), rng.randrange(size)
        send = rng.choice(BLOCKING + STARTED + READY + ("Isend", "Isend"))
        receive = rng.choice(("Irecv", "Irecv", "Recv", "Probe", "Iprobe", "Mprobe", "Improbe"))
        late = send in STARTED and self.chance(0.3)
        if send in READY or (source == dest and send in BLOCKING):
            receive, late = "Irecv", False
        most = LARGEST_BUFFERED_BYTES if send in BUFFERED else self.max_bytes
        return {
            "source": source,
            "dest": dest,
            "send": send,
            "receive": receive,
            **self._forms(most),
            "send_memory": self.memory(),
            "receive_memory": self.memory(),
            "send_offset": self.offset(),
            "receive_offset": self.offset(),
            "late": late,
            "any_source": self.chance(0.2),
            "finish": rng.choice(WAYS),
            "source_acts": self.some("drop", "protect"),
            "receive_acts": self.some("touch", "drop", "remap", "fork", "churn")
            if self.chance(0.4)
            else [],
            "during": self.some("drop", "fork", "churn") if self.chance(0.2) else [],
        }

    def _forms(self, most: int) -> dict[str, Any]:
        """Types of both sides, which have the same bytes in all."""
        rng = self.rng
        base = rng.choice(("BYTE", "BYTE", "BYTE", "SHORT", "INT", "DOUBLE"))
        width = {"BYTE": 1, "SHORT": 2, "INT": 4, "DOUBLE": 8}[base]
        room = rng.choice((0, 0, 0, 1, 5, 1000))
        if self.chance(0.6):
            count = 0 if self.chance(0.03) else max(1, self.size(most) // width)
            return {"base": base, "send_count": count, "receive_count": count, "room": room}
        form, num_elements, _ = self._form(width)
        count = max(1, self.size(min(most, LARGEST_TYPED_BYTES)) // (num_elements * width))
        plain: dict[str, Any] = {"send_form": [], "send_count": count * num_elements}
        typed: dict[str, Any] = {"receive_form": form, "receive_count": count}
        which = rng.randrange(3)
        if which == 0:
            plain = {"send_form": form, "send_count": count}
        elif which == 1:
            plain = {"send_form": form, "send_count": count}
            typed = {"receive_form": [], "receive_count": count * num_elements}
        return {"base": base, **plain, **typed, "room": room % 6}

    def _form(self, width: int) -> tuple[list[Any], int, int]:
        """A form, its number of base elements, and the bytes from its first element to behind its
        last, at least."""
        rng = self.rng
        kind = rng.choice(("vector", "indexed", "struct", "subarray", "contiguous", "resized"))
        if kind == "vector":
            count, block = rng.randint(1, 60), rng.choice((1, 1, 2, 7, 100, 1500))
            stride = block + rng.choice((0, 1, 3, 50))
            extent = ((count - 1) * stride + block) * width
            return [kind, count, block, stride], count * block, extent
        if kind == "subarray":
            sizes = [rng.randint(1, 30) for _ in range(rng.randint(1, 3))]
            parts = [rng.randint(1, each) for each in sizes]
            starts = [rng.randint(0, a - b) for a, b in zip(sizes, parts, strict=True)]
            return [kind, sizes, parts, starts], math.prod(parts), math.prod(sizes) * width
        if kind in ("indexed", "struct"):
            blocks, end = [], 0
            for _ in range(rng.randint(1, 12)):
                first, length = end + rng.choice((0, 1, 5, 300)), rng.randint(1, 40)
                end = first + length
                blocks.append([length, first if kind == "indexed" else first * width])
            rng.shuffle(blocks)
            form: list[Any] = [kind, blocks]
            extent = end * width
            if kind == "struct":
                extent = (end + rng.randrange(3)) * width
                form = ["resized", extent, form]
            return form, sum(length for length, _ in blocks), extent
        inner, num_elements, extent = self._form(width)
        if kind == "contiguous":
            count = rng.randint(1, 5)
            return [kind, count, inner], count * num_elements, count * extent
        extent = (extent // width + rng.choice((0, 1, 9))) * width
        return [kind, extent, inner], num_elements, extent

    def burst(self, size: int, any_tag: bool = False) -> dict[str, Any]:
        rng = self.rng
        send = rng.choice(("Isend", "Isend", "Issend", "Ibsend", "Bsend"))
        most = min(self.max_bytes, 20_000 if send in BUFFERED else 300_000)
        messages = [
            [rng.randrange(size), rng.randrange(size), self.size(most), self.offset()]
            for _ in range(rng.randint(1, 12 * size))
        ]
        return {
            "messages": messages,
            "send": send,
            "finish": rng.choice(WAYS),
            "any_source": any_tag or self.chance(0.3),
            "late": self.chance(0.3),
            "any_tag": any_tag or self.chance(0.15),
            "num_cancelled": rng.choice((0, 0, 0, 1, 3)),
        }

    def exchange(self, size: int) -> dict[str, Any]:
        names = ("Sendrecv", "Sendrecv_replace", "Isendrecv", "Isendrecv_replace")
        return {
            "name": self.rng.choice(names),
            "shift": self.rng.randrange(size),
            "num_bytes": self.size(),
            "offset": self.offset(),
            "memory": self.memory(),
        }

    def persistent(self, size: int) -> dict[str, Any]:
        init = self.rng.choice(("Send_init", "Ssend_init", "Bsend_init", "Rsend_init"))
        return {
            "init": init,
            "shift": self.rng.randrange(size),
            "num_bytes": self.size(LARGEST_BUFFERED_BYTES if init == "Bsend_init" else 4 << 20),
            "num_rounds": self.rng.randint(1, 4),
            "finish": self.rng.choice(WAYS),
            "offset": self.offset(),
            "memory": self.memory(),
        }

    def partitioned(self, size: int) -> dict[str, Any]:
        num_partitions = self.rng.randint(1, 8)
        return {
            "shift": self.rng.randrange(size),
            "num_partitions": num_partitions,
            "num_bytes": self.size(4 << 20) // num_partitions + 1,
            "order": self.rng.sample(range(num_partitions), num_partitions),
        }

    def many_types(self, size: int) -> dict[str, Any]:
        source = self.rng.randrange(size)
        return {
            "source": source,
            "dest": self.rng.randrange(size),
            "base": self.rng.choice(("BYTE", "SHORT", "INT", "DOUBLE")),
            "num_items": self.size() // 8 + 1,
        }

    def object_message(self, size: int) -> dict[str, Any]:
        source, dest = self.rng.randrange(size), self.rng.randrange(size)
        send = self.rng.choice(("send", "ssend", "isend", "issend", "ibsend", "bsend"))
        receive = self.rng.choice(("recv", "irecv", "mprobe", "improbe"))
        if source == dest and send in ("send", "ssend"):
            receive = "irecv"
        most = 100_000 if send in ("ibsend", "bsend") else 4 << 20
        return {
            "source": source,
            "dest": dest,
            "send": send,
            "receive": receive,
            "num_bytes": self.size(most),
        }

    def object_collective(self, size: int) -> dict[str, Any]:
        names = ("bcast", "gather", "scatter", "allgather", "alltoall", "reduce", "allreduce",
                 "scan", "exscan")  # fmt: skip
        return {
            "name": self.rng.choice(names),
            "root": self.rng.randrange(size),
            "num_bytes": self.size((1 << 20) // size),
        }

    def collective(self, size: int) -> dict[str, Any]:
        rng = self.rng
        names = ("Barrier", "Bcast", "Gather", "Gatherv", "Scatter", "Scatterv", "Allgather",
                 "Allgatherv", "Alltoall", "Alltoallv", "Alltoallw")  # fmt: skip
        name = rng.choice(names)
        base = rng.choice(("BYTE", "BYTE", "SHORT", "INT", "DOUBLE"))
        one = self.size() // (8 if name == "Bcast" else 8 * size) + 1
        counts = [one] * size
        if name.endswith(("v", "w")):
            counts = [rng.choice((0, one, rng.randrange(one + 1))) for _ in range(size)]
        in_place = self.chance(0.2) and name not in ("Barrier", "Bcast")
        if name.startswith("Alltoall") and in_place:
            counts = [one] * size  # what comes must have the length of what leaves: as it has here
        return {
            "name": name,
            "mode": self.mode(),
            "counts": counts,
            "root": rng.randrange(size),
            "base": base,
            "gap": rng.choice((0, 0, 1, 10)),
            "is_reversed": self.chance(0.3),
            "in_place": in_place,
            "offset": self.offset(),
            "memory": self.memory(),
        }

    def mode(self) -> str:
        return self.rng.choices(("blocking", "nonblocking", "persistent"), (5, 3, 1))[0]

    def reduction(self, size: int) -> dict[str, Any]:
        rng = self.rng
        kind = rng.choice(("u1", "i2", "i4", "u8", "f4", "f8"))
        ops = ["SUM", "PROD", "MAX", "MIN"]
        if kind[0] != "f":
            ops += ["BAND", "BOR", "BXOR", "LAND", "LOR", "LXOR"]
        if not self.is_threaded:
            # Beside another thread mpi4py and MPICH may wait for each other for ever: one thread
            # has Python's lock and waits for MPICH's, the other way round in the operation's.
            ops.append("affine")
        op = rng.choice(ops)
        names = ("Reduce", "Allreduce", "Scan", "Exscan", "Reduce_scatter", "Reduce_scatter_block")
        num_items = self.size(1 << 20) // (8 * size) + 1
        return {
            "name": rng.choice(names),
            "mode": self.mode(),
            "op": op,
            "kind": kind,
            "num_items": num_items,
            "root": rng.randrange(size),
            "in_place": self.chance(0.2),
            "counts": [rng.choice((num_items, rng.randrange(num_items + 1))) for _ in range(size)],
            "memory": self.memory(),
        }

    def neighbours(self, size: int) -> dict[str, Any]:
        rng = self.rng
        edges = [[a, b] for a in range(size) for b in range(size) if self.chance(0.4)]
        rng.shuffle(edges)
        names = ("neighbor_allgather", "neighbor_allgatherv", "neighbor_alltoall",
                 "neighbor_alltoallv", "neighbor_alltoallw")  # fmt: skip
        factor = next((each for each in (2, 3, 5) if size % each == 0), size)
        dims = rng.choice(([], [], [size], [factor, size // factor]))
        return {
            "edges": edges,
            "name": rng.choice(names),
            "mode": rng.choice(("blocking", "nonblocking")),
            "counts": [self.size((1 << 20) // size) for _ in range(size)],
            "dims": dims,
        }

    def intercommunicator(self, size: int) -> dict[str, Any]:
        return {
            "num_left": self.rng.randint(1, size - 1),
            "num_bytes": self.size((4 << 20) // size),
            "merge_high": self.chance(0.5),
        }

    def window(self, size: int) -> dict[str, Any]:
        rng = self.rng
        num_operations = rng.randint(1, 4 * size)
        num_bytes = max(self.size(16 << 20), 8 * num_operations)
        slot = num_bytes // num_operations
        operations = []
        for idx in range(num_operations):
            length = rng.choice((slot, rng.randint(1, slot)))
            first = idx * slot + rng.randint(0, slot - length)
            kind = rng.choice(("Put", "Rput", "Get", "Rget"))
            operations.append([kind, rng.randrange(size), rng.randrange(size), first, length])
        rng.shuffle(operations)
        return {
            "make": rng.choice(("create", "create", "allocate", "dynamic")),
            "sync": rng.choice(("fence", "pscw", "lock", "lock_all")),
            "num_bytes": num_bytes,
            "num_rounds": rng.randint(1, 3),
            "operations": operations,
            "memory": self.memory(),
            "offset": self.offset(),
        }

    def atomics(self, size: int) -> dict[str, Any]:
        names = ("Accumulate", "Raccumulate", "Get_accumulate", "Fetch_and_op", "Compare_and_swap")
        return {
            "name": self.rng.choice(names),
            "target": self.rng.randrange(size),
            "num_items": self.rng.choice((1, 1, 3, 100, 5000)),
            "num_rounds": self.rng.randint(1, 6),
            "sync": self.rng.choice(("lock", "lock_all")),
        }

    def threads(self, size: int) -> dict[str, Any]:
        del size
        return {"parts": [self._part(), self._part()]}

    def _part(self) -> list[Step]:
        most, self.max_bytes = self.max_bytes, min(self.max_bytes, 1 << 20)
        self.is_threaded = True
        steps = [self.step() for _ in range(self.rng.randint(1, 6))]
        self.is_threaded = False
        self.max_bytes = most
        return steps

    def pressure(self, size: int) -> dict[str, Any]:
        del size
        acts = [self.rng.choice(("fork", "churn", "child")) for _ in range(self.rng.randint(1, 4))]
        return {"acts": acts, "num_bytes": self.size(4 << 20)}


_WEIGHTS = {
    "message": 35,
    "burst": 10,
    "exchange": 6,
    "persistent": 6,
    "partitioned": 2,
    "many_types": 3,
    "object_message": 5,
    "object_collective": 4,
    "collective": 12,
    "reduction": 8,
    "neighbours": 4,
    "intercommunicator": 3,
    "window": 8,
    "atomics": 4,
    "threads": 3,
    "pressure": 3,
}
"""Kinds of steps, and how often each is drawn."""

_THREAD_WEIGHTS = {
    "message": 10,
    "burst": 4,
    "exchange": 3,
    "persistent": 2,
    "object_message": 2,
    "object_collective": 2,
    "collective": 4,
    "reduction": 3,
}
