"""From one format to another: which a file is in, and which a name asks for."""

import functools
import os
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from pagewire.native.settings import ConfigError
from pagewire.replay import program
from pagewire.replay.formats import goal, otf2_archive, otf2_export, pmpi, ti
from pagewire.replay.formats.goal_order import graph_of, write_sequence
from pagewire.replay.formats.plain import Operation, PlainRank, Survey, Tags
from pagewire.replay.formats.problems import Problems
from pagewire.replay.program import Buffers, Program
from pagewire.replay.records import TraceError, number
from pagewire.replay.trace import MAGIC, OPS, REGIONS, Reader, Writer

Made = TypeVar("Made")

SUFFIXES = {".pwt": "pwt", ".goal": "goal", ".bin": "goal-binary", ".ti": "ti", ".otf2": "otf2"}
"""Formats that are written, by the end of a file's name."""
_BUFFERS = "allowed is fresh, reuse, pool:K with K buffers, or for PMPI recorded"


def format_of(path: str) -> str:
    """Of a file, by what is in it: pwt, goal, goal-binary, pmpi or ti; otf2 by its name."""
    if path.endswith(otf2_archive.SUFFIX):
        return "otf2"
    try:
        with open(path, "rb") as file:
            begin = file.read(65536)
    except OSError as error:
        raise TraceError(f"'{path}' cannot be read: {error.strerror}") from None
    if begin.startswith(MAGIC):
        return "pwt"
    if int.from_bytes(begin[:8], "little") == goal.MAGIC:
        return "goal-binary"
    lines = [each.strip() for each in begin.decode(errors="replace").splitlines()]
    lines = [each for each in lines if each and not each.startswith(("#", "//"))]
    if any(each.startswith("num_ranks") for each in lines[:50]):
        return "goal"
    if lines and lines[0].startswith("MPI_"):
        return "pmpi"
    if lines and (re.match(r"\d+\s+\w", lines[0]) or len(lines[0].split()) == 1):
        return "ti"
    raise ConfigError(
        f"'{path}' is in no format that can be read: pwt, GOAL, SimGrid TI, PMPI or OTF2 (.otf2)"
    )


def buffers_of(text: str) -> Callable[[], Buffers]:
    """Makes each rank's: fresh, reuse, pool:K."""
    if text == "fresh":
        return program.New
    if text == "reuse":
        return program.Reused
    match = re.fullmatch(r"pool:(\d+)", text)
    if not match or not int(match[1]):
        raise ConfigError(f"--buffers {text}: {_BUFFERS}")
    return functools.partial(program.Pool, int(match[1]))


class Conversion:
    """What was asked for, and what came up."""

    def __init__(self, *, buffers: str = "", skips: bool = False, ns_per_flop: float = 1.0) -> None:
        self._are_recorded = buffers == "recorded"
        self._buffers = "" if self._are_recorded else buffers
        self._make_buffers = buffers_of(self._buffers or "reuse")
        self._skips, self._ns_per_flop = skips, ns_per_flop
        self.problems = Problems()

    def run(self, source: str, out: str) -> None:
        """Convert; nothing is written when something cannot be."""
        wanted = SUFFIXES.get(os.path.splitext(out)[1])
        if wanted is None:
            raise ConfigError(
                f"'{out}': the end of a name says the format, one of {', '.join(SUFFIXES)}"
            )
        found = format_of(source)
        if wanted == "pwt":
            if found == "pwt":
                raise ConfigError(f"'{source}' is a trace already")
            self._import(source, found, out)
        elif found == "pwt":
            with Reader(source) as reader:
                self._export(reader, out, wanted)
        elif found.startswith("goal") and wanted.startswith("goal"):
            self._write_goal(out, wanted, (each := goal.open_goal(source)).num_ranks, iter(each))
        else:
            raise ConfigError(f"from {found} to {wanted}: make a .pwt first, and then that of it")

    # ---- to a trace

    def _import(self, source: str, found: str, out: str) -> None:
        if self._are_recorded and found != "pmpi":
            raise ConfigError(f"--buffers recorded: '{source}' does not say where messages lie")
        imports = {
            "goal": self._goal,
            "goal-binary": self._goal,
            "ti": self._ti,
            "pmpi": self._pmpi,
            "otf2": self._otf2,
        }
        imports[found](source, out)

    def _open(self, out: str, num_ranks: int, found: str, buffers: str) -> Writer:
        meta: dict[str, Any] = {
            "program": ["converted", found],
            "converted": {"from": found, "buffers": buffers},
        }
        return Writer(out, num_ranks, meta)

    def _program(self, writer: Writer, rank: int) -> Program:
        put = functools.partial(writer.add, rank, OPS)
        return Program(rank, writer.num_ranks, put, self._make_buffers())

    def _goal(self, source: str, out: str) -> None:
        graphs = goal.open_goal(source)
        with self._open(out, graphs.num_ranks, "GOAL", self._buffers or "reuse") as writer:
            for rank, graph in enumerate(graphs):
                made = self._program(writer, rank)
                write_sequence(graph, made, self.problems)
                made.end()
                writer.end_rank(rank)
            self.problems.refuse(skips=self._skips)

    def _ti(self, source: str, out: str) -> None:
        num_ranks = ti.count_ranks(source)
        with self._open(out, num_ranks, "TI", self._buffers or "reuse") as writer:
            ranks = [
                ti.Importer(self._program(writer, rank), self.problems, self._ns_per_flop)
                for rank in range(num_ranks)
            ]
            for line in ti.read_lines(source):
                ranks[line.rank].do(line)
            for each in ranks:
                each.end()
            self.problems.refuse(skips=self._skips)

    def _pmpi(self, source: str, out: str) -> None:
        files = pmpi.files_of(source)
        with self._open(out, len(files), "PMPI", self._buffers or "recorded") as writer:
            for rank, path in enumerate(files):
                memory = None if self._buffers else pmpi.Memory(path, len(files))
                importer = pmpi.Importer(self._program(writer, rank), self.problems, memory)
                for call in pmpi.calls_of(path):
                    importer.do(call)
                importer.end()
                for region, base in memory.regions().items() if memory else ():
                    writer.add(rank, REGIONS, number(region) + number(base), 1)
                writer.end_rank(rank)
            self.problems.refuse(skips=self._skips)

    def _otf2(self, source: str, out: str) -> None:
        with otf2_archive.Archive(source) as archive:
            num_ranks = len(archive.locations)
            with self._open(out, num_ranks, "OTF2", self._buffers or "reuse") as writer:
                ranks = [
                    otf2_archive.Importer(self._program(writer, rank), self.problems, archive)
                    for rank in range(num_ranks)
                ]
                for rank, event in archive.events():
                    ranks[rank].do(event)
                for each in ranks:
                    each.end()
                self.problems.refuse(skips=self._skips)

    # ---- from a trace

    def _export(self, reader: Reader, out: str, wanted: str) -> None:
        if wanted == "otf2":
            otf2_archive.package()
            nodes, ends = otf2_export.told_by(reader)
            otf2_export.check(nodes, self.problems)
            self.problems.refuse(skips=self._skips)
            otf2_export.write(out, nodes, ends)
            return
        if wanted == "ti":
            ti.write(out, self._checked(reader, list), self.problems)
            return
        graphs = self._checked(reader, lambda each: graph_of(each, self.problems))
        self._write_goal(out, wanted, reader.num_ranks, graphs)

    def _checked(
        self, reader: Reader, make: Callable[[Iterator[Operation]], Made]
    ) -> Iterator[Made]:
        """Something of each rank's operations; in the end all that cannot be is refused."""
        survey, tags = Survey(reader), Tags()
        for rank in range(reader.num_ranks):
            yield make(iter(PlainRank(reader, rank, survey, tags, self.problems)))
        if tags.num_others:
            self.problems.note("tags that have other numbers now", tags.num_others)
        self.problems.refuse(skips=self._skips)

    def _write_goal(
        self, out: str, wanted: str, num_ranks: int, graphs: Iterator[goal.Graph]
    ) -> None:
        write = goal.write_text if wanted == "goal" else goal.write_binary
        write(out, num_ranks, graphs)
