"""One rank's emulated node (node.h) as Python makes it and sees it: settings in, counters out, and
the answers of what a user wrote in Python.

Peers are ranks of COMM_WORLD, addresses ints, times ints of virtual ns.
"""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

from pagewire.native import EngineError, check, error_of, ffi, lib
from pagewire.native.output import OutputError
from pagewire.ni.engine_view import PDID, EngineView, engine_struct
from pagewire.node.strategies.native_strategy import ACCESSES
from pagewire.node.strategies.pages import engine_tables
from pagewire.node.strategies.strategy import Access, Span
from pagewire.run.answers import Answers
from pagewire.run.settings import impairment_planners, platform
from pagewire.run.settings.config import Config
from pagewire.transport.facade.call_counts import MpiCalls
from pagewire.transport.facade.clock import CpuClock, replayed_durations
from pagewire.transport.facade.notices import Notices
from pagewire.transport.facade.watchdog import Watchdog


class Node:
    """Its making and its close are collective over COMM_WORLD."""

    def __init__(self, config: Config, wire: Any, rank: int, size: int) -> None:
        """wire: a pw_wire, which the node closes."""
        self.config = config
        self.rank = rank
        self.size = size
        self.platform = platform.load(config.run.platform)
        self._failure: BaseException | None = None
        self._trace_path = ""
        self._record_path = ""
        self._alive: list[Any] = []  # what the node's C points to
        self._answers = Answers(config, self._keep_failure)
        self.c = self._make(wire)
        self.engine = EngineView(
            lib.pw_node_ni(self.c),
            lib.pw_node_memory(self.c),
            rank,
            PDID,
            lib.pw_node_ni_settings(self.c),
        )
        self.clock = CpuClock(self.c, config.run, rank)
        self.mpi_calls = MpiCalls(
            lib.pw_node_calls(self.c),
            rank,
            is_strict=config.run.strict,
            tells=not config.run.quiet,
        )
        self.notices = Notices()
        self.watchdog = Watchdog(self.c, config.run.watchdog_ns)
        self._answer_questions()

    def _make(self, wire: Any) -> Any:
        config, rank = self.config, self.rank
        made, reason = ffi.new("pw_node **"), ffi.new("pw_sentence *")
        planned = impairment_planners.plan(
            rank=rank, num_ranks=self.size, configured=config.impairments
        )
        settings = dataclasses.replace(config, impairments=planned).node_config()
        settings.costs = engine_struct("pw_costs", self.platform.costs.as_dict())[0]
        settings.tables = engine_tables(self.platform.tables)[0]
        opening = ffi.new("pw_node_opening *", {"pdid": PDID, "is_process": True})
        replay = replayed_durations(config.run, rank)
        opening.replay_ns, opening.num_replay = replay
        own = self._answers.strategy
        if own is not None:
            opening.strategy, opening.strategy_self = own.ops, own.handle
        code = lib.pw_node_open(settings, opening, wire, made, reason)
        if code < 0:
            wire.ops.close(wire)
            raise EngineError(code, ffi.string(reason.text).decode(errors="replace"))
        self._answers.bind(made[0], self.platform.tables)
        return made[0]

    # -- what C asks

    def _answer_questions(self) -> None:
        """Let C call what the user wrote in Python, and give it where notifications go."""
        host = ffi.new("pw_node_host *")
        host.decide, host.schedule = self._answers.decide, self._answers.schedule
        host.event = self._answers.callback(
            "int(void *, const pw_host_event *)",
            lambda _context, event: self.notices.arrived(event),
        )
        self._alive.append(host)
        lib.pw_node_set_host(self.c, host)

    def _keep_failure(self, error: BaseException) -> None:
        """For whoever waits."""
        self._failure = error

    def failure(self, code: int, what: str) -> BaseException:
        """The exception for a negative code: what Python raised meanwhile, or the engine's."""
        failure, self._failure = self._failure, None
        if failure is None and self._answers.strategy is not None:
            failure = self._answers.strategy.take_failure()
        if failure is not None:
            return failure
        reason = ffi.string(lib.pw_node_reason(self.c)).decode()
        return error_of(code, f"{what}: {reason}" if reason else what)

    def check(self, code: int, what: str) -> int:
        """`code` when it is not negative; else `failure` is raised."""
        if code < 0:
            raise self.failure(code, what)
        return code

    # -- for the RDMA library

    def acquire(self, address: int, num_bytes: int, access: Access = Access.WRITE) -> Any:
        """The memory strategy's part of registering a buffer, which peers name by its address; what
        it returns is for `release`."""
        lease = ffi.new("pw_lease *")
        span = ffi.new("pw_span *", {"address": address, "num_bytes": num_bytes})
        code = lib.pw_node_acquire(
            self.c, span[0], ACCESSES[access] | lib.PW_ACCESS_IN_PLACE, lease
        )
        self.check(code, f"buffer of {num_bytes} bytes at {address:#x}")
        return lease

    def release(self, lease: Any) -> None:
        """No transfer uses it any more."""
        self.check(lib.pw_node_release(self.c, lease), "release of a buffer")

    def unmapped(self, address: int, num_bytes: int) -> None:
        """The program gave these pages back: their translations and what the strategy knows go."""
        span = Span(address, num_bytes)
        code = lib.pw_node_unmapped(self.c, span.first_page, span.num_pages)
        self.check(code, f"unmapping of {num_bytes} bytes at {address:#x}")

    def forked(self) -> None:
        """This process was forked, maybe by another thread: acted on at the next turn."""
        if self.c:
            lib.pw_node_forked(self.c)

    # -- the end

    def counters(self) -> dict[str, Any]:
        """What this rank counted, with the keys of counters.py."""
        num_bytes = lib.pw_node_report_write(self.c, ffi.NULL, 0) + 1
        while True:
            text = ffi.new("char[]", num_bytes)
            wanted = lib.pw_node_report_write(self.c, text, num_bytes)
            if wanted < num_bytes:
                counted: dict[str, Any] = json.loads(bytes(ffi.buffer(text, wanted)))
                return counted
            num_bytes = wanted + 1

    def leave_report(self, directory: str) -> None:
        """Write it where the launcher looks for it; raises OutputError."""
        code = lib.pw_node_report_leave(self.c, directory.encode())
        _check_written(code, f"'{directory}/{self.rank}.report'")

    def start_trace(self, path: str) -> None:
        """Record what happens here into a new file; raises OutputError."""
        self._trace_path = path
        _check_written(lib.pw_node_trace_start(self.c, path.encode()), f"run.trace: '{path}'")

    def finish_trace(self) -> None:
        """Nothing more is recorded; raises OutputError when a part could not be written."""
        _check_written(lib.pw_node_trace_finish(self.c), f"run.trace: '{self._trace_path}'")

    def start_recording(self, path: str, eager_limit_bytes: int) -> None:
        """Record what the program does into a new file; raises OutputError."""
        self._record_path = path
        code = lib.pw_node_record_start(self.c, path.encode(), eager_limit_bytes)
        _check_written(code, f"run.record: '{path}'")

    def finish_recording(self) -> None:
        """The program has ended; raises OutputError when a part could not be written."""
        _check_written(lib.pw_node_record_finish(self.c), f"run.record: '{self._record_path}'")

    def close(self) -> None:
        """Take the node down, and its wire."""
        c, self.c = self.c, ffi.NULL
        lib.pw_node_destroy(c)


def _check_written(code: int, file: str) -> None:
    if code == lib.PW_ERR_HOST:
        raise OutputError(f"{file} was not written: {os.strerror(ffi.errno)}")
    check(code, file)
