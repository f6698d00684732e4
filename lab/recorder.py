"""Records of a lab's transfers, for a timeline: what each node has traced, in a file of its own."""

import pathlib
import tempfile

from pagewire.lab.nodes import Nodes
from pagewire.run.settings.config import Config
from pagewire.run.timeline import timeline
from pagewire.run.timeline.request import Group, join

_RECORDS_MAX = 1_600_000
"""Of a node in one call: 51 MB. 32 writes of 16 MiB together make 750 000."""


class Recorder:
    """Of the nodes of one configuration."""

    def __init__(self, folder: pathlib.Path, config: Config, label: str) -> None:
        """label: in front of the nodes' names when the file has several configurations."""
        self._folder = folder
        self._config = config
        self.label = label
        self._paths: dict[int, str] = {}

    def begin(self, nodes: Nodes) -> None:
        """What is recorded from here on is of a transfer that was asked for."""
        nodes.trace_start(_RECORDS_MAX, detailed=True)

    def keep(self, nodes: Nodes) -> None:
        """The transfer is over: write its records."""
        for node, engine in enumerate(nodes.engines):
            self._paths[node] = str(self._folder / f"{node}.trace")
            with open(self._paths[node], "ab") as file:
                file.write(engine.trace_bytes())

    def write(self, path: str, group: Group) -> bool:
        """The timeline of all that was kept; False: nothing was. Raises OutputError."""
        if not self._paths:
            return False
        timeline.write(path, self._paths, self._config, group)
        return True


class Recording:
    """The timeline of a lab: that of all its configurations, as one file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._folder = tempfile.TemporaryDirectory(prefix="pagewire-lab-")
        self._recorders: list[Recorder] = []

    def recorder(self, config: Config) -> Recorder:
        """For the nodes of one more configuration."""
        folder = pathlib.Path(self._folder.name, str(len(self._recorders)))
        folder.mkdir()
        label = f"{config.run.memory}/{config.run.policy}"
        self._recorders.append(Recorder(folder, config, label))
        return self._recorders[-1]

    def write(self) -> None:
        """Make the file; this object is of no use after that. Raises OutputError."""
        with self._folder as folder:
            parts = []
            for idx, each in enumerate(self._recorders):
                part = pathlib.Path(folder, f"{idx}.pftrace")
                if each.write(str(part), Group(idx, each.label)):
                    parts.append(part)
            if parts:
                join(parts, self._path)
