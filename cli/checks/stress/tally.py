"""What a stress run has covered: programs, steps and bytes, by kind of step and by setting."""

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table


@dataclasses.dataclass(slots=True)
class Tally:
    """Sums over the launches so far."""

    num_launches: int = 0
    num_programs: int = 0
    steps: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    checked_bytes: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    programs_by_setting: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )

    def add(self, settings: Mapping[str, str], done: Sequence[Mapping[str, Any]]) -> None:
        """One launch: what each rank has left."""
        num_programs = min(each["num_programs"] for each in done)
        self.num_launches += 1
        self.num_programs += num_programs
        for each in done:
            self.steps.update(each["steps"])
            self.checked_bytes.update(each["bytes"])
        for name, value in settings.items():
            # Seeds differ in each draw: what was drawn is the rest.
            kind = ":".join(value.split(":")[:2])
            if name not in ("memory_backend.seed", "run.watchdog"):
                self.programs_by_setting[f"{name}={kind}"] += num_programs

    def summary(self) -> str:
        """One line."""
        return (
            f"{self.num_programs} programs in {self.num_launches} launches, "
            f"{self.steps.total()} steps, {amount(self.checked_bytes.total())} checked"
        )

    def tables(self) -> list[Table]:
        """By kind of step, and by setting."""
        by_kind = Table("step", "number", "checked", title="steps")
        for kind, number in self.steps.most_common():
            by_kind.add_row(kind, str(number), amount(self.checked_bytes[kind]))
        by_setting = Table("setting", "programs", title="settings other than default")
        for text, number in sorted(self.programs_by_setting.items()):
            by_setting.add_row(text, str(number))
        return [by_kind, by_setting] if self.programs_by_setting else [by_kind]


def amount(num_bytes: float) -> str:
    """Bytes in a readable unit."""
    for unit in ("B", "KiB", "MiB"):
        if num_bytes < 1024:
            return f"{num_bytes:.3g} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:.4g} GiB"
