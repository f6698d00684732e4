"""A place of its own for a command that is to end badly: what it leaves behind is seen there.

The command and all that it starts bear a variable, find their temporary files in a folder of the
test, and have a /dev/shm of their own, in a mount namespace (for which root or user namespaces are
needed).
"""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest
from cli_runs import PAGEWIRE, clean_environment
from native_programs import loops, needs_mpicc, needs_provider

MARK = "PROCESS_PLACE"
PROGRAM = str(pathlib.Path(__file__).with_name("process_program.py"))
TRANSPORTS = ["facade", pytest.param("fabric", marks=[needs_mpicc, needs_provider])]


def program_of(transport: str) -> list[str]:
    """Words of the program that does one thing for ever, over the facade or in C."""
    return ["-q", PROGRAM] if transport == "facade" else ["-q", "--", loops()]


SOON_S = 5.0
"""From a cause to the end of what it ends."""

SLACK = 6.0
"""A busy machine of few cores takes so many times longer."""


def _namespace_words() -> list[str]:
    return ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]


def _has_namespaces() -> bool:
    if not shutil.which("unshare") or not shutil.which("nsenter"):
        return False
    command = [*_namespace_words(), "mount", "-t", "tmpfs", "none", "/dev/shm"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


needs_namespaces = pytest.mark.skipif(
    not _has_namespaces(), reason="needs mount namespaces (root, or user namespaces)"
)


class Run:
    """A command that runs in a place."""

    def __init__(self, place: "Place", process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self._place = place

    @property
    def stdout(self) -> str:
        """What it has written so far."""
        return self._place.folder.joinpath("stdout").read_text(encoding="utf-8", errors="replace")

    @property
    def stderr(self) -> str:
        """What it has complained of so far."""
        return self._place.folder.joinpath("stderr").read_text(encoding="utf-8", errors="replace")

    def wait_for(self, text: str, count: int = 1, *, timeout_s: float = 60) -> list[list[str]]:
        """The words of the first `count` lines that start with `text`, once they are there."""

        def lines() -> list[list[str]]:
            return [line.split() for line in self.stdout.splitlines() if line.startswith(text)]

        self.until(lambda: len(lines()) >= count, timeout_s=timeout_s)
        return lines()[:count]

    def until(self, condition: Callable[[], bool], *, timeout_s: float = 60) -> None:
        """Until something holds while the command runs."""
        deadline_s = time.monotonic() + timeout_s
        while not condition():
            has_ended = self.process.poll() is not None
            assert condition() or not has_ended, self.stderr
            assert time.monotonic() < deadline_s, self.stdout + self.stderr
            time.sleep(0.02)

    def num_waits(self) -> int:
        """How often it has given its core away to wait for something."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(text.partition("\nvoluntary_ctxt_switches:")[2].split()[0])

    def ends(self, within_s: float = SOON_S * SLACK) -> int:
        """Its exit code, as a shell gives it."""
        try:
            code = self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"still running after {within_s} s: {self.stdout}{self.stderr}"
            ) from None
        return code if code >= 0 else 128 - code

    def said(self) -> str:
        """The launcher's last sentence."""
        lines = [line for line in self.stderr.splitlines() if line.startswith("pagewire: ")]
        return lines[-1].removeprefix("pagewire: ") if lines else ""


class Place:
    """Where commands run, and what they leave there."""

    def __init__(self, folder: pathlib.Path, holder: int) -> None:
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.shared = pathlib.Path(f"/proc/{holder}/root/dev/shm")
        self.holder = holder
        self._mark = uuid.uuid4().hex

    def words(self) -> list[str]:
        """What a command is started with."""
        user = [] if os.geteuid() == 0 else ["-U", "--preserve-credentials"]
        return ["nsenter", *user, "-m", "-t", str(self.holder)]

    def start(
        self, words: Sequence[str], environ: Mapping[str, str] | None = None, cwd: str = "/"
    ) -> Run:
        """Start a command, which leads a process group of its own as in a terminal."""
        with (
            self.folder.joinpath("stdout").open("wb") as stdout,
            self.folder.joinpath("stderr").open("wb") as stderr,
        ):
            process = subprocess.Popen(
                [*self.words(), "env", "-C", cwd, *words],
                env={**clean_environment(), "TMPDIR": str(self.temporary), MARK: self._mark}
                | dict(environ or {}),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                process_group=0,
            )
        return Run(self, process)

    def launch(self, num_ranks: int, *words: str, **options: Mapping[str, str]) -> Run:
        """Start `pagewire launch -n num_ranks ...`."""
        return self.start([*PAGEWIRE, "launch", "-n", str(num_ranks), *words], **options)

    def told(self) -> pathlib.Path:
        """A file that ends a program's rounds once it is there."""
        return self.folder / "told"

    def processes(self) -> list[int]:
        """What still runs."""
        found = []
        for entry in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                environ = pathlib.Path(f"/proc/{entry}/environ").read_bytes()
                if entry.isdecimal() and f"{MARK}={self._mark}".encode() in environ.split(b"\0"):
                    found.append(int(entry))
        return found

    def named(self, *names: str) -> list[int]:
        """Those whose name begins so."""
        found = []
        for pid in self.processes():
            with contextlib.suppress(OSError):
                if pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").startswith(names):
                    found.append(pid)
        return found

    def left(self, within_s: float = SOON_S * SLACK) -> list[str]:
        """What is left of processes and files; processes have some time to end."""
        deadline_s = time.monotonic() + within_s
        while (alive := self.processes()) and time.monotonic() < deadline_s:
            time.sleep(0.02)
        found = [f"process {pid}: {_command_line(pid)}" for pid in alive]
        for folder in (self.temporary, self.shared):
            found += [f"{folder.name}/{path.relative_to(folder)}" for path in folder.rglob("*")]
        return sorted(found)

    def small_disk(self, size: str) -> pathlib.Path:
        """A file system of so many bytes, as commands of the place see it; `seen` has it too."""
        disk = self.folder / "disk"
        disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(disk)]
        subprocess.run([*self.words(), *mount], check=True)
        return disk

    def seen(self, path: pathlib.Path) -> pathlib.Path:
        """A path of the place's mount namespace, from outside of it."""
        return pathlib.Path(f"/proc/{self.holder}/root{path}")

    def end(self) -> None:
        """Leave nothing, whatever the test has found."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _command_line(pid: int) -> str:
    try:
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "gone"
    return b" ".join(words).decode(errors="replace")[:200]


@contextlib.contextmanager
def made(folder: pathlib.Path, shared_options: str = "") -> Iterator[Place]:
    """A place below a folder; shared_options: of its /dev/shm's mount."""
    options = ["-o", shared_options] if shared_options else []
    mount = " ".join(["mount", "-t", "tmpfs", *options, "none", "/dev/shm"])
    holder = subprocess.Popen(
        [*_namespace_words(), "sh", "-c", f"{mount} && echo ready && exec sleep 600"],
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"ready\n"
    place = Place(folder, holder.pid)
    try:
        yield place
    finally:
        place.end()
        holder.kill()
        holder.wait()


@pytest.fixture
def place(tmp_path: pathlib.Path) -> Iterator[Place]:
    """An empty one."""
    with made(tmp_path) as fresh:
        yield fresh
