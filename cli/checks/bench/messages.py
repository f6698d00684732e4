"""Ping-pong, message rate and collectives by plain MPI and over the NI, in turns, and one-sided
operations of the RDMA library beside an MPI window's.

Over the facade Python's ranks measure, over the fabric those of a C program, whose collectives are
MPICH's own algorithms, of messages over the NI.
"""

from collections.abc import Mapping, Sequence

from pagewire.cli.checks.bench import c_program
from pagewire.cli.checks.bench.group import (
    MPACKETS_PER_S,
    NUM_BYTES,
    Column,
    Conditions,
    Goal,
    Group,
    Layout,
    Row,
    Rows,
    Times,
    Work,
    measure_on_ranks,
)
from pagewire.cli.kit.numbers import size_text

BOTH = ("facade", "fabric")


def _measure(
    conditions: Conditions, num_ranks: int, works: Sequence[Work], num_rounds: int, round_s: float
) -> Mapping[Work, Times]:
    """Times of each work, of the quickest rounds. In C runs alternate, and their rounds are its
    own."""
    if conditions.transport == "fabric":
        return c_program.measure(conditions, num_ranks, works)
    if conditions.quick:
        num_rounds, round_s = 1, 0.001
    spec = {"works": works, "num_rounds": num_rounds, "round_s": round_s}
    rows = measure_on_ranks(conditions, num_ranks, "pairs", spec)
    return {work: Times(**row) for work, row in zip(works, rows, strict=True)}


_PING_PONG_BYTES = (8, 64, 512, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20)
_PING_PONG_BYTES_QUICK = (8, 65536)
_LATENCY_LIMITS = {8: 1.1, 512: 2.5, 4096: 2.5, 16384: 1.5, 65536: 1.5}
"""Latency of the NI over plain, by size."""
_LARGEST_BYTES = 4 << 20
_LEAST_BANDWIDTH = 0.95
"""Of plain's, at the largest size."""


def _measure_ping_pong(conditions: Conditions) -> Rows:
    conditions.begin_step("ping-pong")
    sizes = _PING_PONG_BYTES_QUICK if conditions.quick else _PING_PONG_BYTES
    measured = _measure(conditions, 2, [("ping-pong", size) for size in sizes], 7, 0.06)
    return [_ping_pong(conditions.transport, size, each) for (_, size), each in measured.items()]


def _ping_pong(transport: str, num_bytes: int, times: Times) -> Row:
    row = {
        "transport": transport,
        "num_bytes": num_bytes,
        "plain_s": times.plain_s,
        f"{transport}_s": times.ni_s,
        "virtual_s": times.virtual_s,
        "latency_ratio": times.ni_s / times.plain_s,
        "bandwidth_ratio": times.plain_s / times.ni_s,
        "wall_per_virtual": times.ni_s / times.virtual_s,
        "plain_bytes_per_s": num_bytes / times.plain_s,
        f"{transport}_bytes_per_s": num_bytes / times.ni_s,
        "system_calls": times.system_calls,
        "context_switches": times.context_switches,
    }
    if transport == "facade":
        row |= {"blocks_per_s": times.blocks_per_s, "packets_per_s": times.packets_per_s}
    return row


def _ping_pong_goals(rows: Rows) -> list[Goal]:
    goals = []
    for row in rows:
        limit = _LATENCY_LIMITS.get(row["num_bytes"])
        if limit is not None:
            what = f"{size_text(row['num_bytes'])} latency / plain"
            goals.append(Goal(what, limit, row["latency_ratio"]))
    slowest = max(row["wall_per_virtual"] for row in rows)
    goals.append(Goal("wall / virtual, fault-free, every size", 1.0, slowest))
    for row in rows:
        if row["num_bytes"] == _LARGEST_BYTES:
            ratio = row["bandwidth_ratio"]
            goals.append(Goal("4 MiB bandwidth / plain", _LEAST_BANDWIDTH, ratio, at_least=True))
            if row["transport"] == "facade":
                what, rate = "million packets/s, ping-pong of 4 MiB", row["packets_per_s"] * 1e-6
                goals.append(Goal(what, MPACKETS_PER_S, rate, at_least=True))
    return goals


_SWEEP_BYTES = tuple((1 << bits) + off for bits in range(3, 21) for off in (-3, 0, 3))
_SWEEP_BYTES_QUICK = _SWEEP_BYTES[:3]


def _measure_sweep(conditions: Conditions) -> Rows:
    """Sizes a little below and above each power of two, as NetPIPE has them: what grows with the
    size shows no step, unless the machine has one there."""
    conditions.begin_step("sweep")
    sizes = _SWEEP_BYTES_QUICK if conditions.quick else _SWEEP_BYTES
    measured = _measure(conditions, 2, [("ping-pong", size) for size in sizes], 5, 0.02)
    rows: Rows = []
    for (_, num_bytes), times in measured.items():
        own = {f"{conditions.transport}_s": times.ni_s, "virtual_s": times.virtual_s}
        before = rows[-1] if rows else own
        rows.append(
            {
                "transport": conditions.transport,
                "num_bytes": num_bytes,
                "plain_s": times.plain_s,
                "latency_ratio": times.ni_s / times.plain_s,
                **own,
                **{f"{name}_step": value / before[name] for name, value in own.items()},
            }
        )
    return rows


_RATE_BYTES = {"facade": (8, 4096), "fabric": (8, 4096, 65536, 1 << 20)}
_RATE_BYTES_QUICK = (8,)
_LEAST_RATES = {8: 0.6, 4096: 0.5}
"""Of plain's, by size."""
_WINDOW = 64
"""The ranks have it too."""


def _measure_rate(conditions: Conditions) -> Rows:
    conditions.begin_step("message rate")
    transport = conditions.transport
    sizes = _RATE_BYTES_QUICK if conditions.quick else _RATE_BYTES[transport]
    measured = _measure(conditions, 2, [("rate", size) for size in sizes], 7, 0.06)
    return [
        {
            "transport": transport,
            "num_bytes": num_bytes,
            "window": _WINDOW,
            "plain_per_s": 1 / times.plain_s,
            f"{transport}_per_s": 1 / times.ni_s,
            "ratio": times.plain_s / times.ni_s,
            f"{transport}_bytes_per_s": num_bytes / times.ni_s,
            "virtual_per_s": 1 / times.virtual_s,
        }
        for (_, num_bytes), times in measured.items()
    ]


def _rate_goals(rows: Rows) -> list[Goal]:
    return [
        Goal(
            f"{size_text(row['num_bytes'])} message rate / plain",
            _LEAST_RATES[row["num_bytes"]],
            row["ratio"],
            at_least=True,
        )
        for row in rows
        if row["num_bytes"] in _LEAST_RATES
    ]


_CALLS = (
    "Send(array)",
    "Send((array, type))",
    "Send((array, count, type))",
    "Send(bytearray)",
    "send(object)",
    "Sendrecv(array)",
    "Gather(array)",
    "Scatter(array)",
    "Reduce(array)",
    "Allreduce(array)",
    "allreduce(object)",
)
"""The ranks have them too."""
_CALL_BYTES, _SLOWEST_CALL = 8, 2.0


def _measure_calls(conditions: Conditions) -> Rows:
    conditions.begin_step("calls")
    measured = _measure(conditions, 2, [(call, _CALL_BYTES) for call in _CALLS], 7, 0.03)
    return [
        {
            "operation": call,
            "num_bytes": num_bytes,
            "plain_s": times.plain_s,
            "facade_s": times.ni_s,
            "ratio": times.ni_s / times.plain_s,
            "virtual_s": times.virtual_s,
        }
        for (call, num_bytes), times in measured.items()
    ]


def _call_goals(rows: Rows) -> list[Goal]:
    return [Goal("slowest call / plain", _SLOWEST_CALL, max(row["ratio"] for row in rows))]


_RANKS, _RANKS_QUICK = {"facade": (2, 4, 8), "fabric": (2, 4)}, (2,)
_COLLECTIVE_BYTES, _COLLECTIVE_BYTES_QUICK = (8, 65536, 1 << 20), (8,)
_COLLECTIVES = ("Allreduce", "Bcast", "Alltoall")
_COLLECTIVE_LIMITS = {
    ("Allreduce", 4, 8): 4.0,
    ("Allreduce", 4, 1 << 20): 2.0,
    ("Allreduce", 8, 1 << 20): 3.0,
}
"""Time of the NI over plain, by operation, ranks and bytes."""


def _ranks(quick: bool, transport: str) -> tuple[int, ...]:
    return _RANKS_QUICK if quick else _RANKS[transport]


def _measure_collectives(conditions: Conditions) -> Rows:
    transport = conditions.transport
    sizes = _COLLECTIVE_BYTES_QUICK if conditions.quick else _COLLECTIVE_BYTES
    works = [(operation, num_bytes) for operation in _COLLECTIVES for num_bytes in sizes]
    rows: Rows = []
    for num_ranks in _ranks(conditions.quick, transport):
        conditions.begin_step(f"collectives of {num_ranks} ranks")
        measured = _measure(conditions, num_ranks, works, 5, 0.04)
        rows += [
            {
                "transport": transport,
                "operation": operation,
                "num_ranks": num_ranks,
                "num_bytes": num_bytes,
                "plain_s": times.plain_s,
                f"{transport}_s": times.ni_s,
                "ratio": times.ni_s / times.plain_s,
                "virtual_s": times.virtual_s,
            }
            for (operation, num_bytes), times in measured.items()
        ]
    return sorted(rows, key=lambda row: _COLLECTIVES.index(row["operation"]))


def _collective_goals(rows: Rows) -> list[Goal]:
    goals = []
    for row in rows:
        of = row["operation"], row["num_ranks"], row["num_bytes"]
        limit = _COLLECTIVE_LIMITS.get(of)
        if limit is not None:
            what = f"{row['operation']} of {size_text(row['num_bytes'])}"
            goals.append(Goal(f"{what}, {row['num_ranks']} ranks / plain", limit, row["ratio"]))
    return goals


_ONE_SIDED = {"sizes_bytes": (8, 65536, 4 << 20), "num_rounds": 5, "round_s": 0.05}
_ONE_SIDED_LIMITS = {8: 1.0, 65536: 0.4}
"""Wall over virtual time, by size."""
_ONE_SIDED_QUICK = {"sizes_bytes": (8,), "num_rounds": 1, "round_s": 0.001}


def _measure_one_sided(conditions: Conditions) -> Rows:
    conditions.begin_step("one-sided")
    spec = _ONE_SIDED_QUICK if conditions.quick else _ONE_SIDED
    return measure_on_ranks(conditions, 2, "one_sided", spec)


def _one_sided_goals(rows: Rows) -> list[Goal]:
    return [
        Goal(
            f"{row['operation']} of {size_text(row['num_bytes'])}, wall / virtual",
            _ONE_SIDED_LIMITS[row["num_bytes"]],
            row["wall_per_virtual"],
        )
        for row in rows
        if row["num_bytes"] in _ONE_SIDED_LIMITS
    ]


_PLAIN = Column("plain_s", "plain\n(us)", 2, 1e6)
_ON_NI = Column("{}_s", "{}\n(us)", 2, 1e6)
_VIRTUAL = Column("virtual_s", "virtual\n(us)", 2, 1e6)
_WALL_PER_VIRTUAL = Column("wall_per_virtual", "wall/\nvirtual")

PING_PONG = Group(
    "ping-pong",
    Layout(
        "ping-pong of 2 ranks, one way: latency",
        NUM_BYTES,
        _PLAIN,
        _ON_NI,
        Column("latency_ratio", "{}/\nplain"),
        _VIRTUAL,
        _WALL_PER_VIRTUAL,
    ),
    Layout(
        "ping-pong of 2 ranks: bandwidth and engine",
        NUM_BYTES,
        Column("plain_bytes_per_s", "plain\n(GB/s)", 3, 1e-9),
        Column("{}_bytes_per_s", "{}\n(GB/s)", 3, 1e-9),
        Column("bandwidth_ratio", "{}/\nplain"),
        Column("blocks_per_s", "blocks/s", 0, only="facade"),
        Column("packets_per_s", "packets/s", 0, only="facade"),
    ),
    Layout(
        "ping-pong of 2 ranks: what both ask of this host's kernel, a message",
        NUM_BYTES,
        Column("system_calls", "system calls"),
        Column("context_switches", "context switches", 4),
    ),
    measure=_measure_ping_pong,
    goals=_ping_pong_goals,
    transports=BOTH,
)
SWEEP = Group(
    "sweep",
    Layout(
        "ping-pong of 2 ranks: 3 B less and more than powers of two",
        Column("num_bytes", "size\n(B)", 0),
        _PLAIN,
        _ON_NI,
        Column("{}_s_step", "times\nbefore"),
        Column("latency_ratio", "{}/\nplain"),
        _VIRTUAL,
        Column("virtual_s_step", "times\nbefore"),
    ),
    measure=_measure_sweep,
    transports=BOTH,
)
RATE = Group(
    "rate",
    Layout(
        "message rate of 2 ranks: Isend, Irecv, Waitall",
        NUM_BYTES,
        Column("window", "window", 0),
        Column("plain_per_s", "plain\n(messages/s)", 0),
        Column("{}_per_s", "{}\n(messages/s)", 0),
        Column("ratio", "{}/\nplain", 3),
        Column("{}_bytes_per_s", "{}\n(GB/s)", 3, 1e-9),
    ),
    measure=_measure_rate,
    goals=_rate_goals,
    transports=BOTH,
)
COLLECTIVES = Group(
    "collectives",
    Layout(
        "collectives (Alltoall: size for each peer)",
        Column("operation", "operation"),
        Column("num_ranks", "ranks", 0),
        NUM_BYTES,
        _PLAIN,
        _ON_NI,
        Column("ratio", "{}/\nplain"),
        _VIRTUAL,
    ),
    measure=_measure_collectives,
    goals=_collective_goals,
    num_steps=lambda quick, transport: len(_ranks(quick, transport)),
    transports=BOTH,
)
CALLS = Group(
    "calls",
    Layout(
        "calls of 2 ranks as programs write them, 8 B",
        Column("operation", "call"),
        _PLAIN,
        _ON_NI,
        Column("ratio", "{}/\nplain"),
        _VIRTUAL,
    ),
    measure=_measure_calls,
    goals=_call_goals,
)
ONE_SIDED = Group(
    "one-sided",
    Layout(
        "one-sided of 2 ranks: MPI window, RDMA library",
        Column("operation", "operation"),
        NUM_BYTES,
        Column("plain_s", "window\n(us)", 2, 1e6),
        Column("rdma_s", "library\n(us)", 2, 1e6),
        Column("ratio", "library/\nwindow"),
        _VIRTUAL,
        _WALL_PER_VIRTUAL,
    ),
    measure=_measure_one_sided,
    goals=_one_sided_goals,
)
