"""The LogGOPS model over a trace or a GOAL file: what the usual model says, without faults.

The rules are those that LogGOPSim published; replay/loggops.h has them. Pages, strategies and
contention have no place in it, so that a replay beside it shows what they cost.
"""

import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from pagewire.native import check, ffi, lib
from pagewire.replay.formats import goal
from pagewire.replay.formats.convert import format_of
from pagewire.replay.formats.goal_order import graph_of
from pagewire.replay.formats.plain import PlainRank, Survey, Tags
from pagewire.replay.formats.problems import Problems
from pagewire.replay.records import TraceError
from pagewire.replay.trace import Reader

_NODE = np.dtype(
    [
        ("size", "u8"), ("peer", "u4"), ("tag", "u4"), ("num_open", "u4"), ("first_out", "u4"),
        ("num_out", "u4"), ("first_out_start", "u4"), ("num_out_start", "u4"), ("kind", "u1"),
        ("cpu", "u1"), ("nic", "u1"), ("state", "u1"),
    ]
)  # fmt: skip
"""pw_loggops_node, by the names of the binary form of GOAL."""
_SHOWN = 10
_DONE = int(lib.PW_LOGGOPS_DONE)


@dataclasses.dataclass(frozen=True, slots=True)
class Costs:
    """Defaults are LogGOPSim's."""

    latency_ns: int = 2500
    """L: of the network"""
    overhead_ns: int = 1500
    """o: of the CPU, for a message"""
    gap_ns: int = 1000
    """g: of the network interface, between messages"""
    gap_per_byte_ns: float = 6.0
    """G: of the network interface, for each byte but the first"""
    overhead_per_byte_ns: float = 0.0
    """O: of the CPU, for each byte but the first"""
    eager_bytes: int = 65535
    """S: a send of more is over when it has been received"""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if not 0 <= value <= 1 << 60:
                raise TraceError(f"{field.name} = {value}: allowed is 0 to 2^60")


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What the model says."""

    end_ns: list[int]
    """When each rank's CPU was free."""
    num_events: int
    """Operations and messages."""
    wall_s: float
    """Of the simulation alone."""
    problems: Problems
    """What of a trace the model leaves out."""

    @property
    def run_ns(self) -> int:
        return max(self.end_ns)


def simulate(path: str, costs: Costs | None = None, *, skips: bool = False) -> Outcome:
    """Run a trace or a GOAL file; raises TraceError where something waits for ever.

    skips: leave out what of a trace the model has no place for, where it says more than pages.
    """
    problems = Problems()
    if format_of(path) == "pwt":
        with Reader(path) as reader:
            ranks = _ranks_of(reader, problems)
            return _run(reader.num_ranks, ranks, costs or Costs(), problems, skips=skips)
    file = goal.open_goal(path)
    return _run(file.num_ranks, file.packed(), costs or Costs(), problems, skips=skips)


def _ranks_of(reader: Reader, problems: Problems) -> Iterator[tuple[Any, Any]]:
    survey, tags = Survey(reader), Tags()
    for rank in range(reader.num_ranks):
        yield graph_of(PlainRank(reader, rank, survey, tags, problems), problems).packed()


def _run(
    num_ranks: int,
    ranks: Iterator[tuple[Any, Any]],
    costs: Costs,
    problems: Problems,
    *,
    skips: bool,
) -> Outcome:
    """ranks: nodes and edges of each, as GOAL's binary form has them."""
    c_costs = ffi.new("pw_loggops_costs *", dataclasses.asdict(costs))
    out = ffi.new("pw_loggops **")
    check(lib.pw_loggops_create(num_ranks, c_costs, out), "LogGOPS")
    engine = ffi.gc(out[0], lib.pw_loggops_destroy)
    kept = []
    for rank, (packed, edges) in enumerate(ranks):
        nodes = np.zeros(len(packed), _NODE)
        for name in set(_NODE.names or ()) - {"state"}:
            nodes[name] = packed[name]
        kept.append((nodes, edges))
        pointers = (
            ffi.cast("pw_loggops_node *", nodes.ctypes.data), len(nodes),
            ffi.cast("uint32_t *", edges.ctypes.data), len(edges),
        )  # fmt: skip
        check(lib.pw_loggops_set_rank(engine, rank, *pointers), f"LogGOPS, rank {rank}")
    problems.refuse(skips=skips)
    begun_s = time.perf_counter()
    check(lib.pw_loggops_run(engine), "LogGOPS")
    wall_s = time.perf_counter() - begun_s
    _check_all_ended([nodes for nodes, _ in kept], engine)
    ends = [int(lib.pw_loggops_end_ns(engine, rank)) for rank in range(num_ranks)]
    return Outcome(ends, int(lib.pw_loggops_events(engine)), wall_s, problems)


def _check_all_ended(ranks: list[Any], engine: Any) -> None:
    """Every operation has ended, and every message was received."""
    sentences = []
    for rank, nodes in enumerate(ranks):
        for node in np.flatnonzero(nodes["state"] != _DONE)[:_SHOWN].tolist():
            each = nodes[node]
            if each["state"] == lib.PW_LOGGOPS_BEGUN:
                sentences.append(f"rank {rank} operation {node + 1}: {_describe(each)}")
        count = int(lib.pw_loggops_unexpected(engine, rank))
        if count:
            sentences.append(f"rank {rank}: {count} messages came that nobody received")
    if sentences:
        more = f"; and {len(sentences) - _SHOWN} more" if len(sentences) > _SHOWN else ""
        raise TraceError(f"nothing can go on: {'; '.join(sentences[:_SHOWN])}{more}")
    num_left = sum(int((nodes["state"] != _DONE).sum()) for nodes in ranks)
    if num_left:
        raise TraceError(f"{num_left} operations depend on each other in a circle")


def _describe(node: Any) -> str:
    peer, tag = ("any" if node[name] == goal.ANY else int(node[name]) for name in ("peer", "tag"))
    if node["kind"] == goal.SEND:
        return f"send of {int(node['size'])} bytes to rank {peer} (tag {tag}) is not received"
    return f"receive from rank {peer} (tag {tag}) gets no message"
