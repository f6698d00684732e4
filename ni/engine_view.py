"""What is to be seen of an engine (pw_ni) from Python, whoever made it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pagewire.native import EngineError, check, ffi, lib
from pagewire.native.settings import ConfigError

if TYPE_CHECKING:
    from pagewire.smmu.registers import ContextBank

PDID = 1
"""Protection domain of a job: all of its ranks are one. Further processes of a node follow."""
NEVER = 2**63 - 1
"""Time of an event that a frame must bring."""
_KIND_NAMES: Mapping[int, str] = {
    value: name.removeprefix("PW_TRACE_").lower()
    for value, name in ffi.typeof("enum pw_trace_kind").elements.items()
}
_COUNTERS: Mapping[str, int | None] = {
    name: int(field.type.length) if field.type.kind == "array" else None
    for name, field in ffi.typeof("pw_counters").fields
}
"""Fields of pw_counters, words of 64 bits: how many an array has."""


class TraceRecord(NamedTuple):
    """One line of an engine's trace; what a and b mean depends on the kind."""

    time_ns: int
    node: int
    kind: str
    a: int
    b: int


class EngineView:
    """What can be seen of an engine, whoever made it; `memory` is its backend."""

    def __init__(self, ni: Any, memory: Any, node: int, pdid: int | None, settings: Any) -> None:
        """settings: the pw_settings that it was made with."""
        self._ni = ni
        self.memory = memory
        self.node = node
        self.pdid = pdid
        self.settings = settings

    @property
    def ni(self) -> Any:
        """The pw_ni."""
        return self._ni

    @property
    def is_quiet(self) -> bool:
        """Nothing pending: every transfer, transaction and region was returned."""
        return self.num_pending == 0 and self.num_transactions == 0

    @property
    def num_pending(self) -> int:
        """Transfers and reads that are not over."""
        return int(lib.pw_ni_num_pending(self._ni))

    @property
    def num_transactions(self) -> int:
        """Blocks that wait for their acknowledgement."""
        return int(lib.pw_ni_num_transactions(self._ni))

    def counters(self) -> dict[str, Any]:
        """What pw_counters holds, by field; arrays as lists."""
        out = ffi.new("pw_counters *")
        lib.pw_ni_read_counters(self._ni, out)
        # all at once: field by field takes ten times as long
        words = iter(ffi.unpack(ffi.cast("int64_t *", out), ffi.sizeof("pw_counters") // 8))
        return {
            name: next(words) if length is None else list(itertools.islice(words, length))
            for name, length in _COUNTERS.items()
        }

    def context_banks(self) -> list[ContextBank]:
        """Registers of the context banks that are in use."""
        from pagewire.smmu.registers import ContextBank  # takes long to load

        out = ffi.new("pw_context_bank *")
        banks = []
        for idx in range(self.settings.num_context_banks):
            check(lib.pw_ni_read_bank(self._ni, idx, out), "context bank")
            if out.pdid:
                banks.append(ContextBank.from_engine(idx, out))
        return banks

    def trace_start(self, capacity: int, *, detailed: bool = False) -> None:
        """Keep the first `capacity` trace records from now on; detailed: a timeline's too."""
        check(lib.pw_ni_trace_start(self._ni, capacity), "trace")
        if detailed:
            lib.pw_ni_trace_detail(self._ni)

    def trace(self) -> list[TraceRecord]:
        """The records kept, in the engine's order."""
        records = ffi.new("pw_trace_record **")
        count = lib.pw_ni_trace_read(self._ni, records)
        return [
            TraceRecord(each.time_ns, self.node, _KIND_NAMES[each.kind], each.a, each.b)
            for each in records[0][0:count]
            if each.kind in _KIND_NAMES
        ]

    def trace_bytes(self) -> bytes:
        """All of them, a timeline's too, as they stand in a rank's file of records."""
        lost = lib.pw_ni_trace_lost(self._ni)
        if lost:
            raise EngineError(
                int(lib.PW_ERR_FULL), f"trace: {lost} records found no room; transfer less at once"
            )
        records = ffi.new("pw_trace_record **")
        count = lib.pw_ni_trace_read(self._ni, records)
        return bytes(ffi.buffer(records[0], count * ffi.sizeof("pw_trace_record")))


def engine_struct(name: str, values: Mapping[str, int]) -> Any:
    """A struct of the engine filled by field name; the names must match exactly."""
    out = ffi.new(f"{name} *")
    fields = {field for field, _ in ffi.typeof(name).fields}
    if fields != set(values):
        raise ConfigError(
            f"{name} and its source differ in {', '.join(sorted(fields ^ set(values)))}"
        )
    for field, value in values.items():
        setattr(out, field, value)
    return out
