"""Runs a program or a batch of them in a launch of its own, and says how that ended."""

import dataclasses
import json
import os
import pathlib
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from pagewire.cli.checks.limited import STILL_RUNNING, run_limited
from pagewire.cli.checks.stress.settings_draw import as_words

_MODEL_LIMIT = "memory_backend.frame_limit_pages"
"""The setting, which the error names."""

_NUM_SHOWN = 60  # lines of a failed launch's output


@dataclasses.dataclass(frozen=True, slots=True)
class Launch:
    """How to start ranks. settings: other than default, which the ranks shall have."""

    num_ranks: int
    transport: str
    settings: Mapping[str, str]
    environ: Mapping[str, str]

    def options(self) -> list[str]:
        """As the user gives them."""
        transport = ["--transport", self.transport] if self.transport != "facade" else []
        return ["-n", str(self.num_ranks), *transport, *as_words(self.settings)]


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """How a launch ended. output: its last lines."""

    exit_code: int
    output: str

    @property
    def summary(self) -> str:
        """The line that says most: what was wrong, else what the launcher says."""
        lines = self.output.splitlines()
        for marks in (("WrongError:",), ("Error:", "Exception:"), ("pagewire: ",)):
            for line in lines:
                if any(mark in line for mark in marks):
                    return line.strip()
        return lines[-1].strip() if lines else f"exit code {self.exit_code}"

    @property
    def kind(self) -> str:
        """What sort of failure it is: a hang, an exception by its class, or a signal."""
        if "SIGALRM" in self.output or STILL_RUNNING in self.output:
            return "hang"
        if _MODEL_LIMIT in self.output:
            return "limit of the model"
        found = re.search(r"([A-Za-z.]+(?:Error|Exception))\b", self.summary)
        return found[1].rpartition(".")[2] if found else f"exit code {self.exit_code}"

    def limit(self, settings: Mapping[str, str]) -> str:
        """The line that says that a message was too much for the few frames that these settings
        gave the model, which is no failure; empty: it was something else."""
        if _MODEL_LIMIT not in settings:
            return ""
        lines = (line.strip() for line in self.output.splitlines() if _MODEL_LIMIT in line)
        return next(lines, "")

    @property
    def suspect(self) -> int | None:
        """The number of the step that failed, where a rank could still say it."""
        found = re.search(r"step (\d+) \(", self.output)
        return int(found[1]) if found else None


def run(launch: Launch, words: Sequence[str], limit_s: float) -> Ended:
    """Launch PROGRAM [ARGS]. Beyond the limit, which the ranks should have kept, it is ended."""
    command = [sys.executable, "-P", "-m", "pagewire", "launch", "--quiet", *launch.options()]
    code, said = run_limited([*command, *words], environ=launch.environ, limit_s=limit_s)
    lines = said.splitlines()
    if len(lines) > _NUM_SHOWN:
        lines = [*lines[: _NUM_SHOWN // 2], "...", *lines[-_NUM_SHOWN // 2 :]]
    return Ended(code, "\n".join(lines))


def run_file(launch: Launch, text: str, limit_s: int) -> Ended:
    """Launch a program that is given as Python text. limit_s: for a step."""
    with tempfile.TemporaryDirectory(prefix="pagewire-stress-") as folder:
        path = pathlib.Path(folder, "program.py")
        path.write_text(text)
        return run(launch, [str(path)], 20 * limit_s)


def run_batch(launch: Launch, batch: Mapping[str, Any]) -> tuple[Ended, list[dict[str, Any]]]:
    """Launch a batch (rank.Batch); what each rank has done comes with it."""
    with tempfile.TemporaryDirectory(prefix="pagewire-stress-") as folder:
        pathlib.Path(folder, "batch.json").write_text(json.dumps(batch))
        limit_s = batch["seconds"] + 20 * batch["limit_s"]
        ended = run(launch, ["-m", "pagewire.cli.checks.stress.rank", folder], limit_s)
        done = []
        for rank in range(launch.num_ranks):
            path = pathlib.Path(folder, f"done.{rank}")
            empty = {"num_programs": 0, "steps": {}, "bytes": {}}
            done.append(json.loads(path.read_text()) if path.exists() else empty)
        return ended, done


def available_bytes() -> int:
    """Memory of this host that is free to be used."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        for line in lines:
            name, value, *_ = line.split()
            if name == "MemAvailable:":
                return int(value) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
