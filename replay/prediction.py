"""How far a trace that was made is from the recorded one that it stands for."""

from typing import NamedTuple

from pagewire.replay.replay import Replay, Settings, Trace
from pagewire.run.report.counters import totals

_COUNTED = {
    "messages": ("eager_messages", "rdma_messages"),
    "bytes": ("eager_bytes", "rdma_bytes"),
    "page faults": ("translation_faults",),
}


class Error(NamedTuple):
    """One quantity of both replays."""

    name: str
    recorded: int
    predicted: int

    @property
    def share(self) -> float | None:
        """Of what was recorded; None of nothing."""
        return self.predicted / self.recorded - 1 if self.recorded else None


def compare(predicted: Trace, recorded: Trace) -> list[Error]:
    """Replay both with the recorded settings; raises as `Settings.of` and `Replay` do."""
    settings = Settings.of(recorded.meta())
    one, other = _replay(recorded, settings), _replay(predicted, settings)
    return [Error(name, one[name], other[name]) for name in one]


def _replay(trace: Trace, settings: Settings) -> dict[str, int]:
    with Replay(trace, settings) as made:
        made.run()
        counted = totals(made.outcome().per_rank)
        end_ns = max(made.times_ns())
    return {
        "virtual time (ns)": end_ns,
        **{name: sum(counted[key] for key in keys) for name, keys in _COUNTED.items()},
    }
