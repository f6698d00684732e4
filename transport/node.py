"""One rank's emulated node: engine, wire, clock and memory strategy, composed here and only here.

The facade builds on `Node`: envelopes, `expose` and `fetch` for messages, `progress` to move, and the
clock. Peers are ranks of COMM_WORLD, addresses ints, times ints of virtual ns. One thread a rank.
"""

from __future__ import annotations

import collections
import ctypes
import dataclasses
import heapq
import os
import resource
import time
from typing import Any, NamedTuple

from pagewire.native import EngineError, check, faults, ffi, lib
from pagewire.native.domains import open_domain
from pagewire.r5sched import scheduling
from pagewire.smmu import policy
from pagewire.smmu.policy_host import DECISION, PolicyHost
from pagewire.smmu.registers import ContextBank
from pagewire.transport import fault_injectors, platform, report, strategies
from pagewire.transport.clock import SHORT_NS, ComputeSource, wall_ns
from pagewire.transport.config import Config, ConfigError, load
from pagewire.transport.wire import Wire

KIND_EAGER = 1
KIND_RENDEZVOUS = 2
ENVELOPE_BYTES = int(lib.PW_ENVELOPE_BYTES)

_PDID = 1  # the ranks of one job are one protection domain
_NEVER = 2**63 - 1
_FOREVER = _NEVER - 1
_AT_ONCE = -(2**63)
_ARRIVED, _NOTIFIED = int(lib.PW_HOST_ARRIVED), int(lib.PW_HOST_NOTIFIED)
_EVENTS_AT_ONCE = 32
_IDLE_TURNS = 8  # turns in vain before the core is yielded
_PR_SET_THP_DISABLE = 41
_WHOLE_MEMORY = 2**64 - 1


class Envelope(NamedTuple):
    """What a message announces; num_bytes is the message's length, riding along or not."""

    kind: int
    source: int
    num_bytes: int
    address: int
    key: int
    arrival_ns: int


class Notice(NamedTuple):
    """A completion notification that stands in this rank's memory; `error` as in Handle."""

    time_ns: int
    first_data: int
    last_data: int
    error: int
    rank: int


class Handle:
    """A rendezvous under way: `error` is 0 or a negative PW_ERR_*."""

    __slots__ = ("complete_ns", "done", "error", "key", "prepared")

    def __init__(self, key: int, prepared: Any) -> None:
        self.done = False
        self.complete_ns = 0
        self.error = 0
        self.key = key
        self.prepared = prepared


def engine_struct(name: str, values: dict[str, int]) -> Any:
    """A config struct of the engine filled by field name; names must match exactly."""
    out = ffi.new(f"{name} *")
    fields = {field for field, _ in ffi.typeof(name).fields}
    if fields != set(values):
        raise ConfigError(
            f"{name} and its source differ in {', '.join(sorted(fields ^ set(values)))}"
        )
    for field, value in values.items():
        setattr(out, field, value)
    return out


class Node:
    """See the module. `clock_ns` is this rank's CPU clock."""

    def __init__(self, config: Config) -> None:
        self.config = config
        own_policy = None
        if not policy.is_built_in(config.run.policy):
            own_policy = policy.load(config.run.policy)
        self._wire = Wire()
        self.rank = self._wire.rank
        self.size = self._wire.size
        self.clock_ns = 0
        self.eager_limit_bytes: int = config.run.eager_limit_bytes
        self.mpi_calls: collections.Counter[str] = collections.Counter()
        self._started_s = time.perf_counter()
        if config.run.huge_pages == "never":
            _disable_huge_pages()
        self.platform = platform.load(config.run.platform)
        costs = self.platform.costs
        self._call_ns, self._poll_ns = costs.mpi_call_ns, costs.poll_ns
        self._costs = engine_struct("pw_costs", costs.as_dict())
        self._settings = engine_struct("pw_settings", config.engine_settings())
        self._memory = self._create_memory()
        ni = ffi.new("pw_ni **")
        check(
            lib.pw_ni_create(self._costs, self._settings, self.rank, self.size, self._memory, ni),
            "engine",
        )
        self._ni = ni[0]
        planned = fault_injectors.plan(
            rank=self.rank, num_ranks=self.size, configured=config.faults
        )
        dataclasses.replace(config, faults=planned)  # refuses what the run's settings do not allow
        faults.plan(self._ni, planned)
        open_domain(self._ni, _PDID)
        self._page_in: PolicyHost | None = None
        if own_policy is not None:
            self._page_in = PolicyHost(self._ni, self._memory, own_policy, config.run.policy)
        self._scheduler = None
        own_scheduling = scheduling.create(config.firmware.scheduling)
        if own_scheduling is not None:
            self._scheduler = scheduling.Scheduler(own_scheduling, config.firmware.scheduling)
        self._strategy = strategies.create(config.run.memory, self._memory, self.platform)
        self._compute = ComputeSource(config.run, self.rank)
        self._depth = 0
        self._entered_ns = 0
        self._idle_turns = 0
        self._dirty = False
        self._program_ran = True
        self._forks = 0
        self._next_ns = _NEVER
        self._handles: dict[int, Handle] = {}
        self._watched: dict[int, list[Notice]] = {}
        self._events = ffi.new("pw_host_event[]", _EVENTS_AT_ONCE)
        self._burst = ffi.new("pw_burst *")
        self._key = ffi.new("uint64_t *")
        self._frames: dict[int, Any] = {}
        self.compute_ns = self.mpi_ns = self.touch_ns = self.pin_ns = 0
        self._compute.start()

    def _create_memory(self) -> Any:
        settings = self._settings
        options = ffi.new("pw_memory_model_options *")
        options.seed = settings.model_seed + self.rank
        options.fault_millionths = settings.model_fault_millionths
        options.frame_limit_pages = settings.model_frame_limit_pages
        options.huge_pages = settings.model_huge_pages
        options.collapse_millionths = settings.model_collapse_millionths
        memory = ffi.new("pw_memory **")
        code = lib.pw_memory_create(settings.memory_backend, options, memory)
        check(code, f"memory backend '{self.config.memory_backend.backend}'")
        return memory[0]

    # -- the CPU's clock

    def enter(self) -> None:
        """At every public MPI entry: the compute since the last leave has passed."""
        self._depth += 1
        if self._depth == 1:
            source = self._compute
            now_ns = wall_ns()
            compute_ns = now_ns - source.boundary_ns
            if source.is_plain and compute_ns < SHORT_NS:  # what next_ns does, without the calls
                source.cpu_ns += compute_ns
                source.boundary_ns = now_ns
            else:
                compute_ns = source.next_ns()
            self.compute_ns += compute_ns
            self._entered_ns = self.clock_ns = self.clock_ns + compute_ns
            self.clock_ns += self._call_ns
            self._program_ran = True

    def enter_rdma(self) -> None:
        """At every entry of the RDMA library: as `enter`, without what an MPI call costs."""
        self.enter()
        if self._depth == 1:
            self.clock_ns -= self._call_ns

    def leave(self) -> None:
        """At every public MPI exit."""
        self._depth -= 1
        if not self._depth:
            self.mpi_ns += self.clock_ns - self._entered_ns
            if self._compute.needs_leave:
                self._compute.leave()

    def wtime_s(self) -> float:
        """Virtual time now, in s."""
        if not self._depth:
            compute_ns = self._compute.next_ns()
            self.compute_ns += compute_ns
            self.clock_ns += compute_ns
            self._compute.leave()
        return self.clock_ns * 1e-9

    def declare_compute(self, duration_ns: int) -> None:
        """The program says what its work takes on the emulated node (compute = model)."""
        self._compute.declared_ns += duration_ns

    def completed(self, complete_ns: int) -> None:
        """The CPU learns of a completion."""
        self.clock_ns = max(self.clock_ns, complete_ns)
        self.clock_ns += self._poll_ns

    def failed_test(self, future: bool, poll_ns: int | None = None) -> None:
        """A Test or Iprobe found nothing. future: what it looks for completes later in virtual time."""
        if future or self.clock_ns < self._next_ns < _NEVER:
            self.clock_ns += self._poll_ns if poll_ns is None else poll_ns

    # -- messages through packetizer and mailbox

    def _frame(self, address: int) -> Any:
        frame = self._frames.get(address)
        if frame is None:
            pointer = ffi.cast("uint8_t *", address)
            frame = self._frames[address] = (pointer, ffi.cast("pw_envelope *", address))
        return frame

    def write_envelope(
        self, frame_address: int, peer: int, kind: int, address: int, num_bytes: int, key: int
    ) -> int:
        """Write the envelope, and the payload behind it when eager; returns the frame's bytes."""
        payload_bytes = num_bytes if kind == KIND_EAGER else 0
        self.clock_ns = lib.pw_ni_message_write(
            self._ni,
            peer,
            kind,
            address,
            num_bytes,
            key,
            payload_bytes,
            self.clock_ns,
            self._frame(frame_address)[0],
        )
        return ENVELOPE_BYTES + payload_bytes

    def read_envelope(self, frame_address: int, frame_bytes: int) -> Envelope:
        """What a frame announces. ValueError when it is malformed."""
        pointer, envelope = self._frame(frame_address)
        if lib.pw_ni_message_check(self._ni, pointer, frame_bytes):
            raise ValueError(
                f"malformed message of {frame_bytes} bytes: is the sender's facade of another version?"
            )
        return Envelope(
            envelope.kind,
            envelope.source_node,
            envelope.num_bytes,
            envelope.address,
            envelope.key,
            envelope.arrival_ns,
        )

    def land_eager(
        self, frame_address: int, address: int, capacity_bytes: int, posted_ns: int
    ) -> int:
        """Copy the payload out; returns the virtual time of completion."""
        landed: int = lib.pw_ni_message_land(
            self._ni, self._frame(frame_address)[0], address, capacity_bytes, posted_ns
        )
        return landed

    def take_eager(
        self,
        frame_address: int,
        frame_bytes: int,
        address: int,
        capacity_bytes: int,
        posted_ns: int,
    ) -> int:
        """`read_envelope` and `land_eager` in one, for a short message that fits; -1 for any other."""
        pointer = self._frame(frame_address)[0]
        taken: int = lib.pw_ni_message_take(
            self._ni, pointer, frame_bytes, address, capacity_bytes, posted_ns
        )
        return taken

    # -- rendezvous

    def _prepare(self, address: int, num_bytes: int) -> Any:
        if num_bytes == 0:
            return None
        cost = self._strategy.prepare(address, num_bytes)
        self.touch_ns += cost.touch_ns
        self.pin_ns += cost.pin_ns
        self.clock_ns += cost.touch_ns + cost.pin_ns
        return cost.token

    def _release(self, token: Any) -> int:
        """Cost in ns of what `prepare` did, undone."""
        if token is None:
            return 0
        cost = self._strategy.release(token)
        self.pin_ns += cost.pin_ns
        return cost.pin_ns

    def schedule(self, num_bytes: int, peer: int, *, is_read: bool) -> Any:
        """What the user's scheduling policy says of a transfer (pw_scheduling); None without one."""
        if self._scheduler is None:
            return None
        return self._scheduler.decide(
            scheduling.PostedTransfer(num_bytes, peer, is_read, self.clock_ns)
        )

    def expose(self, address: int, num_bytes: int, peer: int) -> Handle:
        """Let `peer` read the buffer once; done when it has. The buffer stays alive until then."""
        prepared = self._prepare(address, num_bytes)
        decision = self.schedule(num_bytes, peer, is_read=True)
        if decision is None:
            code = lib.pw_ni_expose(self._ni, peer, address, num_bytes, self._key)
        else:
            code = lib.pw_ni_expose_scheduled(
                self._ni, peer, address, num_bytes, decision, self._key
            )
        check(code, f"send of {num_bytes} bytes to rank {peer}")
        key = self._key[0]
        handle = self._handles[key] = Handle(key, prepared)
        return handle

    def prepare_receive(self, address: int, capacity_bytes: int) -> Any:
        """The memory strategy's part of posting a receive that may be an RDMA landing."""
        return self._prepare(address, capacity_bytes)

    def release_receive(self, prepared: Any) -> None:
        """The receive was not fetched: undo `prepare_receive`."""
        self.clock_ns += self._release(prepared)

    def fetch(
        self, envelope: Envelope, address: int, num_bytes: int, match_ns: int, prepared: Any
    ) -> Handle:
        """Read num_bytes from the sender; done when they are all here."""
        code = lib.pw_ni_fetch(
            self._ni,
            _PDID,
            envelope.source,
            envelope.address,
            envelope.key,
            address,
            num_bytes,
            match_ns,
            self._key,
        )
        check(code, f"read of {num_bytes} bytes from rank {envelope.source}")
        handle = self._handles[self._key[0]] = Handle(envelope.key, prepared)
        self._dirty = True
        return handle

    # -- for the RDMA library (rdma.py)

    @property
    def ni(self) -> Any:
        """The engine."""
        return self._ni

    @property
    def pdid(self) -> int:
        """Protection domain of all ranks."""
        return _PDID

    def started(self, event_id: int) -> Handle:
        """Something was posted to the engine; done when its event has come."""
        handle = self._handles[event_id] = Handle(0, None)
        self._dirty = True
        return handle

    def watch(self, address: int) -> list[Notice]:
        """Keep the notifications that arrive at `address`, a heap by time, until `unwatch`."""
        return self._watched.setdefault(address, [])

    def unwatch(self, address: int) -> None:
        self._watched.pop(address, None)

    # -- progress

    def progress(self, waiting: bool) -> bool:
        """Poll the wire and run the NI: without limit while the CPU waits, else up to its clock."""
        if self._program_ran:
            self._program_ran = False
            lib.pw_ni_enter(self._ni)
            if self._forks:
                self._share_pages()
        moved = self._wire.receive(self._received)
        horizon_ns = _FOREVER if waiting else self.clock_ns
        if moved or self._dirty or self._next_ns <= horizon_ns:
            moved = self._run(horizon_ns) or moved
        elif self._wire.sending:
            self._reclaim()
        return moved

    def forked(self) -> None:
        """This process was forked, maybe by another thread: noted here, acted on at the next turn."""
        self._forks += 1
        self._program_ran = True

    def _share_pages(self) -> None:
        """A fork write-protects every page: the OS shoots down the context's translations."""
        self._forks = 0
        check(lib.pw_memory_fork(self._memory, 0, _WHOLE_MEMORY), "fork")
        lib.pw_ni_invalidate_context(self._ni, _PDID)

    def _run(self, horizon_ns: int) -> bool:
        ni, events, moved = self._ni, self._events, False
        self._dirty = False
        if self._page_in is not None:
            self._page_in.raise_failure()
        while True:
            count = lib.pw_ni_run(ni, horizon_ns, events, _EVENTS_AT_ONCE)
            if count:
                moved = True
                for i in range(count):
                    self._dispatch(events[i])
                if self._page_in is not None:
                    continue  # it may have had to answer: the engine goes on before anything is sent
            looped = self._flush()
            self._next_ns = lib.pw_ni_next_ns(ni)
            if not looped and count < _EVENTS_AT_ONCE and self._next_ns > horizon_ns:
                break
        return moved

    def _received(self, source: int, data: Any, num_bytes: int) -> None:
        # What was dropped will never be answered: going on would hang.
        code = lib.pw_ni_rx_burst(self._ni, source, data, num_bytes)
        check(code, f"burst of {num_bytes} bytes from rank {source}; same pagewire on all ranks?")

    def _flush(self) -> bool:
        """Send every burst that waits. True when one went to this rank itself: the engine goes on."""
        burst, ni, loop = self._burst, self._ni, False
        while lib.pw_ni_tx_burst(ni, burst):
            data, peer = burst.data, burst.peer
            if peer == self.rank:
                check(lib.pw_ni_rx_burst(ni, peer, data, burst.num_bytes), "burst to itself")
                lib.pw_ni_tx_release(ni, data)
                loop = True
            elif self._wire.send(peer, data, burst.num_bytes):
                lib.pw_ni_tx_release(ni, data)
        if self._wire.sending:
            self._reclaim()
        return loop

    def _reclaim(self) -> None:
        for data in self._wire.sent():
            lib.pw_ni_tx_release(self._ni, data)

    def _dispatch(self, event: Any) -> None:
        if event.kind >= _ARRIVED:  # its id is not one of a handle
            self._dispatch_other(event)
            return
        handle = self._handles.pop(event.id, None)
        if handle is None:
            return
        handle.complete_ns = event.time_ns + self._release(handle.prepared)
        handle.error = event.error
        handle.done = True

    def _dispatch_other(self, event: Any) -> None:
        if event.kind == _NOTIFIED and event.id in self._watched:
            data, notices = event.data, self._watched[event.id]
            notice = Notice(event.time_ns, data[0], data[1], event.error, event.peer)
            heapq.heappush(notices, notice)
        elif event.kind == DECISION and self._page_in is not None:
            self._next_ns = _AT_ONCE  # should the policy raise, whoever waits comes back here
            self._page_in.answer(event.id)
        elif event.kind == lib.PW_HOST_DEADLOCK:
            check(event.error, "mailbox of the R5")

    def idle(self) -> None:
        """A turn of a wait loop was in vain: the core goes to somebody else after a few."""
        self._idle_turns += 1
        if self._idle_turns > _IDLE_TURNS:
            os.sched_yield()

    def busy(self) -> None:
        """A turn of a wait loop moved something."""
        self._idle_turns = 0

    # -- the end

    def counters(self) -> dict[str, Any]:
        """What this rank counted, flat; keys as report.py wants them."""
        out = ffi.new("pw_counters *")
        lib.pw_ni_read_counters(self._ni, out)
        counted: dict[str, Any] = {
            name: (list(value) if name == "nacks" else int(value))
            for name, value in (
                (field, getattr(out, field)) for field, _ in ffi.typeof("pw_counters").fields
            )
        }
        counted["nacks_by_code"] = counted.pop("nacks")
        counted["nacks"] = sum(counted["nacks_by_code"])
        counted["translation_faults"] = (
            counted["translation_faults_source"] + counted["translation_faults_destination"]
        )
        counted["permission_faults"] = (
            counted["permission_faults_source"] + counted["permission_faults_destination"]
        )
        times = ffi.new("pw_time_histogram *")
        lib.pw_ni_read_interrupt_times(self._ni, times)
        counted["interrupt_times"] = {"bin_ns": int(times.bin_ns), "bins": list(times.bins)}
        counted["faults"] = faults.counts(self._ni)
        counted["mpi_calls"] = dict(self.mpi_calls)
        counted["mpi_sends"] = counted["eager_messages"] + counted["rdma_messages"]
        counted["mpi_bytes"] = counted["eager_bytes"] + counted["rdma_bytes"]
        counted["virtual_time_ns"] = self.clock_ns
        for name in ("compute_ns", "mpi_ns", "touch_ns", "pin_ns"):
            counted[name] = getattr(self, name)
        counted["wall_time_s"] = time.perf_counter() - self._started_s
        counted["peak_rss_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if self._compute.mode == "replay":
            counted["replay_missing"], counted["replay_unused"] = (
                self._compute.missing,
                self._compute.unused,
            )
        return counted

    def context_banks(self) -> list[ContextBank]:
        """Registers of the context banks that are in use."""
        out = ffi.new("pw_context_bank *")
        banks = []
        for idx in range(self._settings.num_context_banks):
            check(lib.pw_ni_read_bank(self._ni, idx, out), "context bank")
            if out.pdid:
                banks.append(ContextBank.from_engine(idx, out))
        return banks

    def close(self) -> None:
        """Report and take the node down. Collective; before MPI is finalized."""
        per_rank = self._wire.gather(self.counters())
        self._compute.close()
        if per_rank is not None:
            report.finish(per_rank, self.config, self.config.run.json, self.config.run.quiet)
        self._reclaim()
        self._wire.close()
        lib.pw_ni_destroy(self._ni)
        lib.pw_memory_destroy(self._memory)


def _disable_huge_pages() -> None:
    """The emulated machine pages in 4 KB steps; huge pages would hide faults behind the first."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0):
        raise OSError(
            ctypes.get_errno(),
            "run.huge_pages = 'never': the kernel refuses prctl(PR_SET_THP_DISABLE); set it to 'host'",
        )


_node: Node | None = None


def current() -> Node:
    """The node of this process; made on first use, collectively over COMM_WORLD."""
    global _node
    if _node is None:
        _node = Node(load())
        # Forks of C code are noticed page by page, when a walk finds a page shared.
        os.register_at_fork(after_in_parent=_node.forked)
    return _node


__all__ = [
    "ENVELOPE_BYTES",
    "KIND_EAGER",
    "KIND_RENDEZVOUS",
    "EngineError",
    "Envelope",
    "Handle",
    "Node",
    "current",
]
