"""`pagewire replay --trace`: the timeline of a replay, and how busy the hottest links were."""

import pathlib
import tempfile

from pagewire.cli.kit import progress
from pagewire.native.settings import ConfigError
from pagewire.replay.replay import Replay, Settings
from pagewire.replay.trace import Reader
from pagewire.run.timeline import timeline

RANKS_MAX = 512
"""Whose records are kept; of more the file has the links alone."""


def write(path: str, file: str, settings: Settings, matching: str, touch: str) -> None:
    """By one replay of the trace file. Raises as Replay does, ConfigError: there would be nothing
    in it, OutputError."""
    with (
        tempfile.TemporaryDirectory(prefix="pagewire-trace-") as folder,
        Reader(file) as trace,
        Replay(trace, settings, matching=matching, touch=touch) as made,
    ):
        has_ranks = made.num_ranks <= RANKS_MAX
        if not has_ranks:
            what = f"--trace: {made.num_ranks:,} ranks are more than {RANKS_MAX}"
            if settings.config.network.model == "private":
                raise ConfigError(
                    f"{what}, and network.model = 'private' has no links to show: take "
                    "network.model=links, or a run of fewer ranks"
                )
            progress.say(f"{what}: the timeline has the links alone")
        records = made.keep_records(pathlib.Path(folder) if has_ranks else None)
        made.run()
        made.finish_records()
        values = [timeline.Values(*each) for each in made.links_over_time()]
        timeline.write(path, records, settings.config, values=values)
