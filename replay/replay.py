"""A recorded program on many nodes in this process, or on a part of them (see parts.py): what its
run takes under other settings.

The engine, the message layer and the strategies are those of a live rank, so that a replay with the
recorded settings has the recorded virtual times, to the ns (`verify`). Pages are those of a model
page table without bytes: absent, unless the trace says how the program has left them.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import resource
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar

from pagewire.native import EngineError, check, ffi, lib
from pagewire.native.closing import Closing
from pagewire.native.settings import ConfigError
from pagewire.network import use
from pagewire.network.topology import Topology
from pagewire.node.strategies.pages import engine_tables
from pagewire.replay import parts
from pagewire.replay.trace import Reader
from pagewire.replay.waits import Place, Unmatched, explain
from pagewire.run.answers import Answers
from pagewire.run.settings import impairment_planners, platform
from pagewire.run.settings.config import Config, load

Value = TypeVar("Value")

MATCHINGS = ("recorded", "free")
TOUCHES = {
    "start": int(lib.PW_TOUCH_START),
    "spread": int(lib.PW_TOUCH_SPREAD),
    "end": int(lib.PW_TOUCH_END),
}
"""When pages are touched within a compute interval."""
_KIND = int(lib.PW_READS_AHEAD) - 1
PDID = 1
_STEPS_AT_ONCE = 50_000
"""Between looks after signals."""
_OVER: Iterator[bytes] = iter(())
_UNMATCHED_MAX = 64
"""Messages of a rank that are named."""
_CHOSEN_HERE = frozenset(
    f"run.{name}"
    for name in (
        *("compute", "compute_record", "compute_replay", "compute_scale", "json", "html", "trace"),
        *("quiet", "hash_received", "strict", "watchdog", "wtime", "clocks", "wire", "huge_pages"),
    )
)
"""Settings of the recorded run that say nothing about another one."""


class ReplayError(RuntimeError):
    """The replay came to an end that is not the program's: it says where and why."""


class Trace(Protocol):
    """What is replayed: a file (`replay.trace.Reader`), or something else that makes streams."""

    @property
    def num_ranks(self) -> int: ...

    def meta(self) -> dict[str, Any]:
        """What the run was; see docs/trace-format.md."""
        ...

    def stream(self, rank: int, kind: int) -> Iterator[bytes]:
        """Raw bytes of a rank's stream, chunk by chunk."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """What a trace is replayed with: the recorded settings, and what was asked for besides."""

    config: Config
    platform: platform.Platform
    compute_scale: float

    @classmethod
    def of(cls, meta: Mapping[str, Any], assignments: Iterable[str] = ()) -> "Settings":
        """Recorded settings, then `section.name=value` texts, among which section `costs` is the
        platform's; raises ConfigError."""
        given = list(assignments)
        asked = [each for each in given if not _is_cost(each)]
        costs = [each for each in given if _is_cost(each)]
        recorded = meta.get("settings") or {}
        if not isinstance(recorded, Mapping):
            raise ConfigError("the trace's settings are no table of names and values")
        texts = [f"{name}={text}" for name, text in recorded.items() if name not in _CHOSEN_HERE]
        document = str(meta.get("platform") or "")
        if document:
            texts = [each for each in texts if not each.startswith("run.platform=")]
        if document and not _is_document(document):
            texts.append(f"run.platform={document}")
        config = load([*texts, *asked], environ={})
        named = any(each.partition("=")[0].strip() == "run.platform" for each in asked)
        if _is_document(document) and not named:
            machine = _of_document(document)
        else:
            machine = platform.load(config.run.platform)
        return cls(config, machine.assigned(costs), config.run.compute_scale)

    def node_config(self, rank: int, num_ranks: int) -> Any:
        """pw_node_config of a rank."""
        planned = impairment_planners.plan(
            rank=rank, num_ranks=num_ranks, configured=self.config.impairments
        )
        made = dataclasses.replace(self.config, impairments=planned).node_config()
        made.costs = _costs(self.platform)[0]
        made.tables = engine_tables(self.platform.tables)[0]
        # Not by a setting: below MPI no program could declare anything.
        made.run.compute = lib.PW_COMPUTE_MODEL
        made.run.compute_scale = self.compute_scale
        return made


class Difference(NamedTuple):
    """The first recorded time that a replay with the recorded settings does not have."""

    rank: int
    call: int
    """Its number, from 0 on; at the end that of all calls."""
    name: str
    """Of the MPI call, or the one before."""
    is_end: bool
    recorded_ns: int
    replayed_ns: int

    def __str__(self) -> str:
        what = "the end" if self.is_end else f"the end of call {self.call} ({self.name or 'RDMA'})"
        return (
            f"rank {self.rank} differs first at {what}: recorded {self.recorded_ns:,} ns, "
            f"replayed {self.replayed_ns:,} ns"
        )


class Performance(NamedTuple):
    """How fast a replay was."""

    ranks: int
    records: int
    """Of the trace."""
    events: int
    """Of the NIs: those that were run, and frames that came."""
    steps: int
    """Of the heap."""
    virtual_s: float
    wall_s: float
    rss_bytes: int
    """The most that this process has held."""

    @property
    def rate(self) -> float:
        """Records and events a second."""
        return (self.events + self.records) / self.wall_s if self.wall_s else 0.0

    def __str__(self) -> str:
        return (
            f"PERFORMANCE: ranks {self.ranks:,}, records {self.records:,}, events {self.events:,}, "
            f"virtual time {self.virtual_s:.6f} s, wall time {self.wall_s:.3f} s, "
            f"{self.rate:,.0f} records and events/s, RSS {self.rss_bytes / 1024**2:,.1f} MiB"
        )


class Outcome(NamedTuple):
    """What came of a replay."""

    per_rank: list[dict[str, Any]]
    """As the report of a live run has them (run/report)."""
    performance: Performance
    unmatched: list[Unmatched]
    """Messages that nobody received."""
    warnings: list[str]
    jobs_s: list[float]
    """When the last rank of each job (replay.made.Jobs) ended; empty: the trace is of one run."""
    links: dict[str, Any]
    """How busy the links were that nodes share, or would have been (network.use)."""


class Replay(Closing):
    """One run of a trace. A context manager, which gives the nodes back."""

    def __init__(
        self,
        trace: Trace,
        settings: Settings,
        *,
        verify: bool = False,
        matching: str = "recorded",
        touch: str = "start",
        order: Iterable[int] | None = None,
        others: Mapping[int, Settings] = MappingProxyType({}),
    ) -> None:
        """matching: receives from any source take what they took, or (free) what is there. touch:
        one of TOUCHES. order: in which the nodes are made; nothing depends on it. others: of ranks
        that have settings of their own; the network is that of the rank that is made first. Raises
        ConfigError, EngineError, and ReplayError for a trace that makes no sense."""
        if matching not in MATCHINGS:
            raise ConfigError(f"--matching '{matching}': allowed is one of {', '.join(MATCHINGS)}")
        if touch not in TOUCHES:
            raise ConfigError(f"--touch '{touch}': allowed is one of {', '.join(TOUCHES)}")
        self.num_ranks = trace.num_ranks
        self._parts = parts.divided()
        self._here = range(self.num_ranks)
        self.settings = settings
        self._others = others
        self._trace = trace
        self._begun_s = time.monotonic()
        self._streams: dict[tuple[int, int], Iterator[bytes]] = {}
        self._chunks: dict[tuple[int, int], Any] = {}
        self._answers: list[Answers] = []
        self._failure: BaseException | None = None
        self._standing = ""
        made = ffi.new("pw_many **")
        check(lib.pw_many_create(trace.num_ranks, made), f"{trace.num_ranks} nodes")
        self._c = ffi.gc(made[0], lib.pw_many_destroy)
        if self._parts is not None:
            self._divide(self._parts, verify)
        self._source = ffi.new("pw_chunk_source *")
        self._next = ffi.callback(
            "int(void *, uint32_t, uint32_t, const uint8_t **, uint32_t *)", self._next_chunk
        )
        self._source.next = self._next
        flags = lib.PW_REPLAY_VERIFIES if verify else 0
        flags |= lib.PW_REPLAY_FREELY if matching == "free" else 0
        flags |= lib.PW_REPLAY_TOUCH * TOUCHES[touch]
        ranks = self._here if order is None else order
        if self._parts is None:
            self._open_all(ranks, int(flags))
        else:
            self._parts.fail_alike(lambda: self._open_all(ranks, int(flags)))

    def close(self) -> None:
        """Give the nodes back."""
        ffi.release(self._c)

    # -- making

    def _divide(self, divided: parts.Parts, verify: bool) -> None:
        """This process has one part of the nodes."""
        config = self.settings.config
        if verify or config.network.model != "private":
            what = "--verify follows" if verify else f"network.model = '{config.network.model}' has"
            raise ConfigError(
                f"{what} what all nodes do, which are in one process then: leave out --split"
            )
        ends = divided.ends(self.num_ranks, config.run.ranks_per_node)
        self._here = range(ends[divided.own - 1] if divided.own else 0, ends[divided.own])
        code = lib.pw_many_divide(self._c, divided.count, divided.own, ends)
        check(code, f"{divided.count} parts of {self.num_ranks} nodes")

    def _everywhere(self, own: list[Value]) -> list[Value]:
        """Of the ranks that are here: of all ranks."""
        if self._parts is None:
            return own
        return [each for part in self._parts.everywhere(own) for each in part]

    def _at_first(self, own: list[Value]) -> list[Value]:
        """The same, in the first part alone; the others have none."""
        if self._parts is None:
            return own
        return [each for part in self._parts.gathered(own) for each in part]

    def _open_all(self, order: Iterable[int], flags: int) -> None:
        config = self.settings.config
        is_planned = config.impairments.planner != "none"
        common = None if is_planned else self.settings.node_config(0, self.num_ranks)

        def own_of(rank: int) -> Any:
            settings = self._others.get(rank, self.settings)
            is_common = common is not None and rank not in self._others
            return common if is_common else settings.node_config(rank, self.num_ranks)

        with contextlib.suppress(ConfigError):
            config.check_without_python()
            for rank in order:
                self._open(rank, own_of(rank), flags, None)
            return
        for rank in order:
            own = own_of(rank)
            answers = Answers(config, self._keep_failure)
            self._answers.append(answers)
            self._open(rank, own, flags, answers)
            answers.bind(self.node(rank), self.settings.platform.tables)

    def _open(self, rank: int, own: Any, flags: int, answers: Answers | None) -> None:
        reason = ffi.new("pw_sentence *")
        opening = ffi.new("pw_node_opening *", {"pdid": PDID, "has_no_bytes": 1})
        if answers is not None:
            opening.host.decide, opening.host.schedule = answers.decide, answers.schedule
            if answers.strategy is not None:
                opening.strategy = answers.strategy.ops
                opening.strategy_self = answers.strategy.handle
        code = lib.pw_many_open(self._c, rank, own, opening, self._source, flags, reason)
        if code < 0:
            self._raise(code, ffi.string(reason.text).decode(errors="replace"))

    def _next_chunk(self, _context: Any, rank: int, kind: int, out: Any, num_bytes: Any) -> int:
        """What a reader in C asks for; the chunk before is not looked at any more."""
        key = (rank, kind)
        try:
            if key not in self._streams:
                self._streams[key] = iter(self._trace.stream(rank, kind & _KIND))
            chunk = next(self._streams[key], None)
        except BaseException as error:  # noqa: BLE001, above is C alone
            self._keep_failure(error)
            return int(lib.PW_ERR_HOST)
        self._chunks.pop(key, None)
        if chunk is None:
            self._streams[key] = _OVER
            return 0
        self._chunks[key] = ffi.from_buffer(chunk)
        out[0], num_bytes[0] = self._chunks[key], len(chunk)
        return 1

    def _keep_failure(self, error: BaseException) -> None:
        self._failure = self._failure or error

    def _raise(self, code: int, why: str) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        if code in (lib.PW_ERR_MALFORMED, lib.PW_ERR_UNRECOVERABLE):
            raise ReplayError(why)
        raise EngineError(code, why)

    # -- running

    def run(self) -> Difference | None:
        """To the end of every program, or of what a kill has left of it; None, or with `verify` the
        first difference. Raises ReplayError: the trace makes no sense, a transfer failed, or
        nothing could go on."""
        if self._parts is not None:
            code = self._parts.run(self._c)
            if code < 0:
                raised = self._parts.everywhere(str(self._failure or ""))
                self._raise(code, next(filter(None, raised), self._parts.failure))
        else:
            code = 1
        while code > 0:
            code = lib.pw_many_run(self._c, _STEPS_AT_ONCE)
        if code < 0:
            difference = self._difference(self.counts().failed)
            if difference is not None:
                return difference
            self._raise(code, ffi.string(lib.pw_many_reason(self._c)).decode(errors="replace"))
        if sum(self._everywhere([self.counts().ended])) == self.num_ranks:
            return None
        places, unmatched = self.places(), self.unmatched()
        if all(place.is_at_end for place in places):
            return None  # sends that nobody received: a live run ends so too
        if not any(place.is_cut for place in places):
            raise ReplayError(explain(places, unmatched))
        self._standing = explain(places, unmatched)  # for what a kill has cut off
        return None

    def counts(self) -> Any:
        """The pw_many_counts."""
        out = ffi.new("pw_many_counts *")
        lib.pw_many_read_counts(self._c, out)
        return out[0]

    def node(self, rank: int) -> Any:
        """The pw_node of a rank."""
        return lib.pw_many_node(self._c, rank)

    def time_ns(self, rank: int) -> int:
        """The virtual clock of a rank that is here."""
        return int(lib.pw_node_clock(self.node(rank)).now_ns)

    def times_ns(self) -> list[int]:
        """The virtual clocks of all ranks."""
        return self._everywhere([self.time_ns(rank) for rank in self._here])

    def _difference(self, rank: int) -> Difference | None:
        out = ffi.new("pw_program_difference *")
        lib.pw_many_difference(self._c, rank, out)
        if not out.is_there:
            return None
        name = ffi.string(out.name).decode(errors="replace")
        times = out.recorded_ns, out.replayed_ns
        return Difference(rank, out.call, name, bool(out.is_end), *times)

    def places(self) -> list[Place]:
        """Where each rank is."""
        out = ffi.new("pw_program_place *")
        made = []
        for rank in self._here:
            lib.pw_many_place(self._c, rank, out)
            made.append(Place.of(rank, out))
        return self._everywhere(made)

    @property
    def num_verified(self) -> int:
        """Recorded times that have come out."""
        return sum(place.num_verified for place in self.places())

    def unmatched(self) -> list[Unmatched]:
        """Messages without another side, of each rank the first ones."""
        out = ffi.new("pw_program_unmatched[]", _UNMATCHED_MAX)
        here = [
            Unmatched.of(rank, out[idx])
            for rank in self._here
            for idx in range(
                min(
                    int(lib.pw_many_unmatched(self._c, rank, out, _UNMATCHED_MAX)),
                    _UNMATCHED_MAX,
                )
            )
        ]
        return self._everywhere(here)

    def outcome(self) -> Outcome:
        """What each rank counted, once `run` has ended; of a replay in parts the first one
        has reports and links of all, the others have none."""
        counts = self.counts()
        own = (int(counts.records), int(counts.events), int(counts.steps))
        rss_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        records, events, steps = map(sum, zip(*self._everywhere([own]), strict=True))
        times_ns = self.times_ns()
        performance = Performance(
            ranks=self.num_ranks,
            records=records,
            events=events,
            steps=steps,
            virtual_s=max(times_ns) / 1e9,
            wall_s=time.monotonic() - self._begun_s,
            rss_bytes=sum(self._everywhere([rss_bytes])),
        )
        per_rank = self._at_first([self._report(rank) for rank in self._here])
        links = self._links(max(times_ns))
        jobs_s = self._jobs_s(times_ns)
        return Outcome(per_rank, performance, self.unmatched(), self._warnings(), jobs_s, links)

    def _jobs_s(self, times_ns: list[int]) -> list[float]:
        jobs = self._trace.meta().get("jobs") or []
        spans = [slice(each["first"], each["first"] + each["ranks"]) for each in jobs]
        return [max(times_ns[span], default=0) / 1e9 for span in spans]

    def _links(self, run_ns: int) -> dict[str, Any]:
        network, costs = self.settings.config.network, self.settings.platform.costs
        links = lib.pw_many_links(self._c)
        if links != ffi.NULL:
            of = network.model, network.topology, costs.nodes_per_qfdb
            return use.summary(links, *of, run_ns)
        with Topology(
            network.topology,
            self.num_ranks,
            placement=network.placement,
            nodes_per_board=costs.nodes_per_qfdb,
            together=self.settings.config.run.ranks_per_node,
            failed=network.failed,
        ) as topology:
            demands = (
                each
                for rank in self._here
                for each in use.demands_at(rank, lib.pw_node_ni(self.node(rank)))
            )
            if self._parts is not None:
                copies = [(rank, bytes(ffi.buffer(own))) for rank, own in demands]
                demands = (
                    (rank, ffi.from_buffer("pw_demand *", own))
                    for rank, own in self._at_first(copies)
                )
            multipath = self.settings.config.firmware.multipath
            return use.asked(topology, demands, costs.as_dict(), multipath, run_ns)

    def keep_records(self, folder: pathlib.Path | None) -> dict[int, str]:
        """Before `run`: records of what ranks and links do, for a timeline; the ranks' files, by
        rank. folder None: of links alone."""
        links = lib.pw_many_links(self._c)
        if links != ffi.NULL:
            lib.pw_links_keep_times(links)
        if folder is None:
            return {}
        records = {rank: str(folder / f"{rank}.trace") for rank in range(self.num_ranks)}
        for rank, path in records.items():
            check(lib.pw_node_trace_start(self.node(rank), os.fsencode(path)), path)
        return records

    def finish_records(self) -> None:
        """Behind `run`: the files are whole. Raises EngineError: one could not be written."""
        for rank in range(self.num_ranks):
            check(lib.pw_node_trace_finish(self.node(rank)), f"records of rank {rank}")

    def links_over_time(self) -> list[tuple[str, int, list[int]]]:
        """Where links are shared, see network.use.over_time."""
        links, own = lib.pw_many_links(self._c), self.settings
        if links == ffi.NULL:
            return []
        return use.over_time(links, own.config.network.topology, own.platform.costs.nodes_per_qfdb)

    def _warnings(self) -> list[str]:
        """What the trace lacks."""
        places = self.places()
        lost = [place for place in places if place.num_lost]
        cut = [place.rank for place in places if place.is_cut]
        made = []
        if lost:
            made.append(
                f"the trace lacks {sum(place.num_lost for place in lost):,} things that could not "
                f"be recorded, the first on rank {lost[0].rank}: {lost[0].lost or 'without a name'}"
            )
        if cut:
            made.append(
                f"the recording of {len(cut):,} ranks was cut, the first is rank {cut[0]}: what "
                "they did later is missing"
            )
        return [*made, self._standing] if self._standing else made

    def _report(self, rank: int) -> dict[str, Any]:
        node = self.node(rank)
        num_bytes = lib.pw_node_report_write(node, ffi.NULL, 0) + 64  # wall time goes on
        text = ffi.new("char[]", num_bytes)
        wanted = lib.pw_node_report_write(node, text, num_bytes)
        counted: dict[str, Any] = json.loads(
            bytes(ffi.buffer(text, wanted)), object_pairs_hook=_of_pairs
        )
        return counted


def _of_pairs(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """With the names that all ranks share."""
    return {sys.intern(name): value for name, value in pairs}


def replay_file(
    path: str,
    assignments: Iterable[str] = (),
    *,
    matching: str = "recorded",
    touch: str = "start",
) -> tuple[dict[str, Any], Settings, Outcome]:
    """Of a trace file with these settings besides the recorded ones: its META, all settings, and
    what came of it. Raises as `Settings.of` and `Replay` do."""
    with Reader(path) as trace:
        meta = trace.meta()
        settings = Settings.of(meta, assignments)
        with Replay(trace, settings, matching=matching, touch=touch) as made:
            made.run()
            return meta, settings, made.outcome()


def _is_cost(assignment: str) -> bool:
    return assignment.lstrip().startswith("costs.")


def _is_document(text: str) -> bool:
    return "\n" in text


def _of_document(text: str) -> platform.Platform:
    try:
        return platform.parse(tomllib.loads(text), "recorded.toml")
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the trace's platform is no TOML: {error}") from None


def _costs(of: platform.Platform) -> Any:
    out = ffi.new("pw_costs *")
    for field, cost in of.costs.as_dict().items():
        setattr(out, field, cost)
    return out
