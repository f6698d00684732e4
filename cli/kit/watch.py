"""Watches the ranks of a launch by the records that their witnesses leave, and ends them.

A rank's witness (pagewire-rank) writes RANK.start and RANK.end into the launch's folder, and a rank
that knows why it fails RANK.note. mpiexec's proxies and
ranks make sessions of their own, so processes are found by a variable in their environment.
"""

import contextlib
import json
import math
import os
import pathlib
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from pagewire.cli.kit import progress
from pagewire.cli.kit.error_stream import ErrorStream

GRACE_S = 2.0
"""How long the other ranks and mpiexec may take to end after the first failure."""

MARKER = "PAGEWIRE_LAUNCH_ID"
"""Variable that every process of a launch has."""

FIRST_SIGN_S = 90.0
"""How long after another rank's a rank's first record may come, in a run of several hosts: a
network file system shows it late, and one that is not shared never does."""

_POLL_S = 0.05
_OF_KIND = {"start": ("pid",), "end": ("code",), "note": ("code",)}
"""Numbers in a record besides its rank and time."""


def _records(directory: pathlib.Path, kind: str) -> list[dict[str, Any]]:
    found = []
    for path in directory.glob(f"*.{kind}"):
        with contextlib.suppress(OSError, ValueError, RecursionError):
            record = json.loads(path.read_text(encoding="utf-8"))
            if _is_record(record, kind):
                found.append(record)
    return sorted(found, key=lambda record: record["time_ns"])


def _is_record(record: Any, kind: str) -> bool:
    """A rank that is killed while it writes, and a file system that is full, leave others."""
    wanted = ("time_ns", "rank", *_OF_KIND.get(kind, ()))
    return isinstance(record, dict) and all(isinstance(record.get(key), int) for key in wanted)


def failures(directory: pathlib.Path) -> list[dict[str, Any]]:
    """Records of failures in order of time: a rank notes its own before it ends."""
    ended = [record for record in _records(directory, "end") if record["code"] != 0]
    return sorted(_records(directory, "note") + ended, key=lambda record: record["time_ns"])


def unfinished(directory: pathlib.Path) -> list[int]:
    """Ranks that started and have not ended.

    Asked when mpiexec has ended and before what is left gets killed: mpiexec can end with code 0
    although ranks still wait for one that left past MPI's end.
    """
    ended = {record["rank"] for record in _records(directory, "end")}
    started = {record["rank"] for record in _records(directory, "start")}
    return sorted(started - ended)


def first_without_goodbye(directory: pathlib.Path, *goodbyes: str) -> int:
    """The first rank that ended with code 0 but past MPI's end, leaving none of these records; -1
    when none did."""
    for record in _records(directory, "end"):
        rank: int = record["rank"]
        if not any(directory.joinpath(f"{rank}.{each}").exists() for each in goodbyes):
            return rank
    return -1


class Watch:
    """Waits for mpiexec, sees which rank's process goes first, ends a run that does not end."""

    def __init__(
        self,
        process: "subprocess.Popen[Any]",
        num_ranks: int,
        directory: pathlib.Path,
        marker: str,
        *,
        errors: ErrorStream,
        first_sign_s: float = math.inf,
        goodbyes: Sequence[str] = (),
    ) -> None:
        """goodbyes: without one of these records a rank that has ended has failed; none: whatever
        it left."""
        self._errors = errors
        self._goodbyes = goodbyes
        self._process = process
        self._num_ranks = num_ranks
        self._directory = directory
        self._marker = marker
        self._poll = select.poll()
        if errors.descriptor >= 0:
            self._poll.register(errors.descriptor, select.POLLIN)
        self._rank_of_fd: dict[int, int] = {}
        self._rank_of_pid: dict[int, int] = {}
        """Of ranks that cannot be followed by a descriptor."""
        self._known_ranks: set[int] = set()
        self._first_sign_s = first_sign_s
        self.unseen: list[int] = []
        """Ranks that have left no record although others have, since first_sign_s."""
        self.first_gone = -1
        """Rank whose process was the first to disappear, -1 when none did before mpiexec."""

    def wait(self) -> int:
        """mpiexec's exit code; 1 when it had not ended GRACE_S after a rank's failure, or when some
        ranks are unseen."""
        failed_s = ended_s = started_s = 0.0
        num_started = 0
        try:
            while True:
                code = self._process.poll()
                if code is not None:
                    return code
                self._follow_ranks()
                progress.tick()
                now_s = time.monotonic()
                if len(self._known_ranks) > num_started:
                    num_started, started_s = len(self._known_ranks), now_s
                if 0 < num_started < self._num_ranks and now_s > started_s + self._first_sign_s:
                    self.unseen = sorted(set(range(self._num_ranks)) - self._known_ranks)
                    return 1
                if failed_s and now_s > failed_s + GRACE_S:
                    return 1
                if not failed_s and self._has_failed():
                    failed_s = now_s
                if ended_s and now_s > ended_s + GRACE_S:
                    # mpiexec waits as long as something that a rank started holds its output.
                    self._kill_strays()
                if not ended_s and len(_records(self._directory, "end")) == self._num_ranks:
                    ended_s = now_s
        finally:
            for descriptor in self._rank_of_fd:
                os.close(descriptor)

    def _has_failed(self) -> bool:
        """mpiexec sees most ranks that leave past MPI's end, and ends the others; not all."""
        if failures(self._directory):
            return True
        return bool(self._goodbyes) and first_without_goodbye(self._directory, *self._goodbyes) >= 0

    def _follow_ranks(self) -> None:
        if len(self._known_ranks) < self._num_ranks:
            for record in _records(self._directory, "start"):
                self._follow(record["rank"], record["pid"])
        for descriptor, _ in self._poll.poll(_POLL_S * 1000):
            if descriptor == self._errors.descriptor:
                self._errors.forward()
                continue
            self._poll.unregister(descriptor)
            self._note_gone(self._rank_of_fd[descriptor])
        for pid in [pid for pid in self._rank_of_pid if _has_gone(pid)]:
            self._note_gone(self._rank_of_pid.pop(pid))

    def _note_gone(self, rank: int) -> None:
        ended = self._directory.joinpath(f"{rank}.end").exists()
        if self.first_gone < 0 and not ended:
            self.first_gone = rank

    def _follow(self, rank: int, pid: int) -> None:
        if rank in self._known_ranks:
            return
        self._known_ranks.add(rank)
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        except OSError:  # before Linux 5.3, or a container's profile: then its folder in /proc
            if _is_marked(pid, self._marker):
                self._rank_of_pid[pid] = rank
            return
        if not _is_marked(pid, self._marker):  # the number is of another host
            os.close(descriptor)
            return
        self._rank_of_fd[descriptor] = rank
        self._poll.register(descriptor, select.POLLIN)

    def _kill_strays(self) -> None:
        for pid in marked_processes(self._marker):
            with contextlib.suppress(OSError):
                name = pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
                if not name.startswith(("mpiexec", "hydra", "prte", "orted")):
                    os.kill(pid, signal.SIGKILL)


def end_all(process: "subprocess.Popen[Any]", marker: str) -> None:
    """Kill mpiexec and every process of this launch, also those that are being started."""
    if process.poll() is None:
        process.kill()
        process.wait()
    end_marked(marker)


def end_marked(marker: str) -> None:
    """Kill every process of a launch, also those that are being started."""
    deadline = time.monotonic() + 5.0
    while time.monotonic() < deadline:
        alive = [pid for pid in marked_processes(marker) if pid != os.getpid()]
        if not alive:
            return
        for pid in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def marked_processes(marker: str) -> list[int]:
    """Processes whose environment holds this launch's marker; zombies have none."""
    numbers = [int(entry) for entry in os.listdir("/proc") if entry.isdecimal()]
    return [pid for pid in numbers if _is_marked(pid, marker)]


def _has_gone(pid: int) -> bool:
    """Ended, whether its parent has noticed or not. Its environment would not tell: it reads as
    empty while a program starts."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2]
    except OSError:
        return True
    return state.startswith(("Z", "X"))


def _is_marked(pid: int, marker: str) -> bool:
    try:
        environ = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"{MARKER}={marker}".encode() in environ.split(b"\0")
