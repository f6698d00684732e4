"""What came of a transfer: times, absent pages, trace, counters; a flat record for tables."""

import dataclasses
from typing import Any

from pagewire.native.settings import ConfigError, suggestion
from pagewire.ni.engine_view import TraceRecord


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """One transfer. Times are virtual."""

    operation: str
    num_bytes: int
    initiator: int
    target: int
    memory: str
    """the strategy (`run.memory`)"""
    policy: str
    """the page-in policy (`run.policy`), or module:Class of an object"""
    repetition: int
    """of its sequence, from 0 on"""
    absent_pages: int
    """pages of the destination and of the source that were absent at the user's call"""
    latency_ns: int
    """user's call to completion at the initiator, touch or pin included: for a write the last
    block's acknowledgement, for a read the notification behind the last byte"""
    arrival_ns: int
    """user's call to the completion notification at the receiver"""
    prepare_ns: int
    """touch or pin before the transfer"""
    process: int = 0
    """of both nodes"""
    trace: tuple[TraceRecord, ...] = dataclasses.field(default=(), repr=False)
    counters: dict[str, int] = dataclasses.field(default_factory=dict, repr=False)
    """what all NIs counted meanwhile: of transfers that go together, for all of them"""

    @property
    def latency_us(self) -> float:
        return self.latency_ns / 1e3

    @property
    def arrival_us(self) -> float:
        return self.arrival_ns / 1e3

    @property
    def prepare_us(self) -> float:
        return self.prepare_ns / 1e3

    def record(self, *counters: str) -> dict[str, Any]:
        """One row of a table, times in us, with these counters; pandas.DataFrame takes a list."""
        row: dict[str, Any] = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in ("trace", "counters") and not field.name.endswith("_ns")
        }
        row |= {name: getattr(self, name) for name in ("latency_us", "arrival_us", "prepare_us")}
        for name in counters:
            if name not in self.counters:
                raise ConfigError(
                    f"no counter '{name}'{suggestion(name, self.counters)}; "
                    "`counters` of the outcome has all of them"
                )
            row[name] = self.counters[name]
        return row
