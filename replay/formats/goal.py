"""GOAL, the schedules of LogGOPSim and ATLAHS, as text and in its binary form.

A rank is a graph: a node is a send, a receive or a calculation, and begins when those that it
requires have ended and those that it irequires have begun. Text as LogGOPSim's txt2bin reads it,
bytes as it writes them.
"""

import dataclasses
import re
import struct
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import numpy as np

from pagewire.native.output import replacing
from pagewire.replay.records import TraceError

SEND, RECEIVE, CALC = 1, 2, 3
ANY = 0xFFFFFFFF
"""Peer or tag."""

MAGIC = 4223
_DESTROYED = 2342
_MOST_RANKS = 1 << 24
NODE = np.dtype(
    [
        ("num_open", "<u4"), ("kind", "u1"), ("peer", "<u4"), ("size", "<u8"), ("tag", "<u4"),
        ("cpu", "u1"), ("nic", "u1"), ("num_out", "<u4"), ("first_out", "<u4"),
        ("num_out_start", "<u4"), ("first_out_start", "<u4"),
    ]
)  # fmt: skip
"""A node in the binary form; `out` are the nodes that require it, `out_start` that irequire it."""


@dataclasses.dataclass(slots=True)
class Graph:
    """One rank. Size: bytes, or ns of a calculation."""

    kinds: list[int] = dataclasses.field(default_factory=list)
    sizes: list[int] = dataclasses.field(default_factory=list)
    peers: list[int] = dataclasses.field(default_factory=list)
    tags: list[int] = dataclasses.field(default_factory=list)
    cpus: list[int] = dataclasses.field(default_factory=list)
    nics: list[int] = dataclasses.field(default_factory=list)
    requires: list[list[int]] = dataclasses.field(default_factory=list)
    irequires: list[list[int]] = dataclasses.field(default_factory=list)

    def __len__(self) -> int:
        return len(self.kinds)

    def add(
        self, kind: int, size: int, peer: int = 0, tag: int = 0, *, cpu: int = 0, nic: int = 0
    ) -> int:
        """A node; its index."""
        self.kinds.append(kind)
        self.sizes.append(size)
        self.peers.append(peer)
        self.tags.append(tag)
        self.cpus.append(cpu)
        self.nics.append(nic)
        self.requires.append([])
        self.irequires.append([])
        return len(self.kinds) - 1

    def packed(self) -> tuple[np.ndarray, np.ndarray]:
        """Nodes and edges of the binary form."""
        nodes = np.zeros(len(self), NODE)
        for name in ("kind", "size", "peer", "tag", "cpu", "nic"):
            nodes[name] = getattr(self, f"{name}s")
        nodes["num_open"] = [
            len(a) + len(b) for a, b in zip(self.requires, self.irequires, strict=True)
        ]
        outs: list[list[int]] = [[] for _ in range(len(self))]
        starts: list[list[int]] = [[] for _ in range(len(self))]
        for node in range(len(self)):
            for other in self.requires[node]:
                outs[other].append(node)
            for other in self.irequires[node]:
                starts[other].append(node)
        edges: list[int] = []
        for node, (out, start) in enumerate(zip(outs, starts, strict=True)):
            nodes[node]["num_out"], nodes[node]["first_out"] = len(out), len(edges)
            edges += out
            nodes[node]["num_out_start"], nodes[node]["first_out_start"] = len(start), len(edges)
            edges += start
        return nodes, np.array(edges, "<u4")


# ---- text

_OPTIONS = r"(?:\s*tag\s+(?P<tag>-1|\d+))?(?:\s*cpu\s+(?P<cpu>\d+))?(?:\s*nic\s+(?P<nic>\d+))?"
_LABEL = r"[a-zA-Z][a-zA-Z0-9_]*"
_STATEMENT = re.compile(
    rf"(?:(?P<label>{_LABEL})\s*:\s*)?(?:"
    rf"(?P<message>send|recv)\s+(?P<bytes>\d+)\s*b\s*(?P<way>to|from)\s+(?P<peer>-1|\d+){_OPTIONS}"
    r"|calc\s+(?P<ns>\d+)(?:\s*cpu\s+(?P<calc_cpu>\d+))?)"
)
_EDGE = re.compile(rf"({_LABEL})\s+(requires|irequires)\s+({_LABEL})")


class Text:
    """A file of text; iterate over its ranks."""

    def packed(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Each rank's nodes and edges, as the binary form has them."""
        return (graph.packed() for graph in self)

    def __init__(self, path: str) -> None:
        self.path = path
        self._number = 0
        self._lines = self._read()
        match = re.fullmatch(r"num_ranks\s+(\d+)", self._next() or "")
        if not match or not 0 < int(match[1]) <= _MOST_RANKS:
            raise self._error(
                f"the first statement is `num_ranks N`, with N from 1 to {_MOST_RANKS}"
            )
        self.num_ranks = int(match[1])

    def __iter__(self) -> Iterator[Graph]:
        for rank in range(self.num_ranks):
            line = self._next()
            match = re.fullmatch(r"rank\s+(\d+)\s*\{", line or "")
            if not match or int(match[1]) != rank:
                raise self._error(f"`rank {rank} {{` should stand here: ranks are in order")
            yield self._graph(rank)

    def _graph(self, rank: int) -> Graph:
        graph = Graph()
        labels: dict[str, int] = {}
        while (line := self._next()) != "}":
            if line is None:
                raise self._error(f"rank {rank} has no closing brace")
            edge = _EDGE.fullmatch(line)
            if edge:
                for name in (edge[1], edge[3]):
                    if name not in labels:
                        raise self._error(f"label '{name}' is not defined before")
                of = graph.requires if edge[2] == "requires" else graph.irequires
                of[labels[edge[1]]].append(labels[edge[3]])
                continue
            match = _STATEMENT.fullmatch(line)
            if not match or (match["message"], match["way"]) in (("send", "from"), ("recv", "to")):
                raise self._error(f"this is no statement: {line[:60]}")
            node = self._add(graph, match)
            if match["label"]:
                labels[match["label"]] = node
        return graph

    def _add(self, graph: Graph, match: re.Match[str]) -> int:
        if match["ns"] is not None:
            return graph.add(CALC, int(match["ns"]), cpu=self._byte(match["calc_cpu"], "cpu"))
        kind, peer = SEND if match["message"] == "send" else RECEIVE, int(match["peer"])
        if peer >= self.num_ranks or (kind == SEND and peer < 0):
            raise self._error(f"peer {peer}: the file has ranks 0 to {self.num_ranks - 1}")
        tag = int(match["tag"] or 0)
        if tag > ANY:
            raise self._error(f"tag {tag}: allowed is up to {ANY}")
        return graph.add(
            kind, int(match["bytes"]), peer & ANY, tag & ANY,
            cpu=self._byte(match["cpu"], "cpu"), nic=self._byte(match["nic"], "nic"),
        )  # fmt: skip

    def _byte(self, text: str | None, what: str) -> int:
        number = int(text or 0)
        if number > 255:
            raise self._error(f"{what} {number}: allowed is up to 255")
        return number

    def _next(self) -> str | None:
        return next(self._lines, None)

    def _read(self) -> Iterator[str]:
        """Statements, without comments."""
        try:
            with open(self.path, encoding="utf-8") as file:
                is_comment = False
                for self._number, line in enumerate(file, 1):
                    text = ""
                    rest = line
                    while rest:
                        if is_comment:
                            _, end, rest = rest.partition("*/")
                            is_comment = not end
                        else:
                            part, begin, rest = rest.partition("/*")
                            text += part
                            is_comment = bool(begin)
                    text = text.strip()
                    if text and not text.startswith("//"):
                        yield text
        except UnicodeDecodeError:
            raise self._error("this is no text") from None
        except OSError as error:
            raise TraceError(f"'{self.path}' cannot be read: {error.strerror}") from None

    def _error(self, text: str) -> TraceError:
        return TraceError(f"'{self.path}', line {self._number}: {text}")


def write_text(path: str, num_ranks: int, graphs: Iterable[Graph]) -> None:
    with replacing(path) as file:
        file.write(f"num_ranks {num_ranks}\n".encode())
        for rank, graph in enumerate(graphs):
            file.write(f"\nrank {rank} {{\n".encode())
            for node in range(len(graph)):
                file.write((_line_of(graph, node) + "\n").encode())
            file.write(b"}\n")


def _line_of(graph: Graph, node: int) -> str:
    size, cpu = graph.sizes[node], graph.cpus[node]
    line = f"l{node + 1}: "
    if graph.kinds[node] == CALC:
        line += f"calc {size}"
    else:
        peer, tag = (-1 if each[node] == ANY else each[node] for each in (graph.peers, graph.tags))
        way = f"send {size}b to" if graph.kinds[node] == SEND else f"recv {size}b from"
        line += f"{way} {peer}" + (f" tag {tag}" if tag else "")
    line += f" cpu {cpu}" if cpu else ""
    line += f" nic {graph.nics[node]}" if graph.nics[node] else ""
    for verb, others in (("requires", graph.requires), ("irequires", graph.irequires)):
        for other in others[node]:
            line += f"\nl{node + 1} {verb} l{other + 1}"
    return line


# ---- binary


class Binary:
    """A file in binary form; iterate over its ranks."""

    _HEADER = struct.Struct("<QIBB")

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._data = np.memmap(path, np.uint8, "r")
        except (OSError, ValueError) as error:
            raise TraceError(f"'{path}' cannot be read: {error}") from None
        if len(self._data) < self._HEADER.size:
            raise self._error("it is too short")
        magic, self.num_ranks, _, _ = self._HEADER.unpack(self._data[: self._HEADER.size].tobytes())
        if magic == _DESTROYED:
            raise self._error("a simulation has destroyed it (--save-mem)")
        if magic != MAGIC or not 0 < self.num_ranks <= _MOST_RANKS:
            raise self._error("this is no GOAL file in binary form")

    def __iter__(self) -> Iterator[Graph]:
        for rank, (nodes, edges) in enumerate(self.packed()):
            yield self._graph(rank, nodes, edges.tolist())

    def packed(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Each rank's nodes and edges, as they stand there."""
        for rank in range(self.num_ranks):
            place = self._array(self._HEADER.size + 16 * rank, 2, "<u8")
            start, end = (8 + int(each) for each in place)
            num_nodes, num_roots = (int(each) for each in self._array(start, 2, "<u4"))
            at = start + 8 + 4 * num_roots
            nodes = self._array(at, num_nodes, NODE)
            at += num_nodes * NODE.itemsize
            if end < at or (end - at) % 4:
                raise self._error(f"rank {rank} does not end where it should")
            yield nodes, self._array(at, (end - at) // 4, "<u4")

    def _graph(self, rank: int, nodes: np.ndarray, edges: list[int]) -> Graph:
        graph = Graph(
            *(nodes[name].tolist() for name in ("kind", "size", "peer", "tag", "cpu", "nic"))
        )
        graph.requires = [[] for _ in range(len(nodes))]
        graph.irequires = [[] for _ in range(len(nodes))]
        if not set(graph.kinds) <= {SEND, RECEIVE, CALC}:
            raise self._error(f"rank {rank} has an operation of no kind")
        for of, count, first in (
            (graph.requires, "num_out", "first_out"),
            (graph.irequires, "num_out_start", "first_out_start"),
        ):
            firsts, counts = nodes[first].tolist(), nodes[count].tolist()
            for node, (begin, number) in enumerate(zip(firsts, counts, strict=True)):
                for other in edges[begin : begin + number]:
                    if other >= len(nodes):
                        raise self._error(f"rank {rank} has an edge to operation {other}")
                    of[other].append(node)
        for node, kind in enumerate(graph.kinds):
            peer = graph.peers[node]
            if kind != CALC and peer >= self.num_ranks and not (kind == RECEIVE and peer == ANY):
                raise self._error(f"rank {rank} has peer {peer} of {self.num_ranks} ranks")
        return graph

    def _array(self, at: int, count: int, kind: str | np.dtype) -> np.ndarray:
        dtype = np.dtype(kind)
        data = self._data[at : at + count * dtype.itemsize]
        if len(data) < count * dtype.itemsize:
            raise self._error("it ends too early")
        return np.frombuffer(data.tobytes(), dtype)

    def _error(self, text: str) -> TraceError:
        return TraceError(f"'{self.path}': {text}")


def write_binary(path: str, num_ranks: int, graphs: Iterable[Graph]) -> None:
    header = Binary._HEADER
    with replacing(path) as file:
        file.write(bytes(header.size + 16 * num_ranks))
        most_cpu = most_nic = 0
        places = []
        for graph in graphs:
            most_cpu, most_nic = max([most_cpu, *graph.cpus]), max([most_nic, *graph.nics])
            start = file.tell() - 8
            _put_rank(file, graph)
            places.append((start, file.tell() - 8))
        file.seek(0)
        file.write(header.pack(MAGIC, num_ranks, most_cpu, most_nic))
        file.write(np.array(places, "<u8").tobytes())


def _put_rank(file: BinaryIO, graph: Graph) -> None:
    nodes, edges = graph.packed()
    roots = np.flatnonzero(nodes["num_open"] == 0).astype("<u4")
    file.write(struct.pack("<II", len(nodes), len(roots)))
    file.writelines(each.tobytes() for each in (roots, nodes, edges))


def open_goal(path: str) -> Text | Binary:
    """Either form, as its first bytes say."""
    try:
        with open(path, "rb") as file:
            magic = int.from_bytes(file.read(8), "little")
    except OSError as error:
        raise TraceError(f"'{path}' cannot be read: {error.strerror}") from None
    return Binary(path) if magic in (MAGIC, _DESTROYED) else Text(path)
