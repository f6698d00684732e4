"""The command `pagewire` in a process of its own, away from the source tree and from what the
tester's shell has chosen."""

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping

BIN = pathlib.Path(sys.prefix, "bin")
PAGEWIRE = [sys.executable, "-P", "-m", "pagewire"]


def clean_environment() -> dict[str, str]:
    """Without what a user's shell may choose."""
    chosen = ("PAGEWIRE_", "FI_", "MPIR_", "MPICH_", "OMPI_", "LD_PRELOAD")
    return {name: text for name, text in os.environ.items() if not name.startswith(chosen)}


def started(
    words: list[str],
    cwd: pathlib.Path | str = "/",
    environ: Mapping[str, str] | None = None,
    timeout_s: float = 120,
    code: int | None = None,
) -> subprocess.CompletedProcess[str]:
    """Any command, once it has ended; with this code, where one is given.

    Hydra's mpiexec passes on the end of its input, maybe when its proxy has ended already: it must
    ignore SIGPIPE then, as Python does.
    """
    try:
        done = subprocess.run(
            words, env={**clean_environment(), **(environ or {})}, cwd=cwd,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s,
            check=False, restore_signals="mpiexec" not in " ".join(words),
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        said = (error.stdout or b"").decode() + (error.stderr or b"").decode()
        raise AssertionError(f"still running after {timeout_s} s; it said: {said}") from None
    assert code in (None, done.returncode), done.stdout + done.stderr
    return done


def command(*words: str, **how) -> subprocess.CompletedProcess[str]:
    """`pagewire` with these words; how: as `started` has it."""
    return started([*PAGEWIRE, *words], **how)


def ran(*words: str, code: int = 0, **how) -> subprocess.CompletedProcess[str]:
    """The same, which ends with this code."""
    return command(*words, code=code, **how)


def reported(folder: pathlib.Path, num_ranks: int, *words: str, **how) -> tuple[str, dict]:
    """`pagewire launch` that ends well: what was printed, and the report as JSON."""
    path = folder / "report.json"
    done = ran("launch", "-n", str(num_ranks), "--json", str(path), *words, **how)
    return done.stdout, json.loads(path.read_text(encoding="utf-8"))


def compared(folder: pathlib.Path, *words: str, **how) -> tuple[str, dict]:
    """`pagewire compare` of 2 ranks that ends well: what was printed, and its JSON."""
    path = folder / "compare.json"
    done = ran("compare", "-n", "2", "--json", str(path), *words, **how)
    return done.stdout, json.loads(path.read_text(encoding="utf-8"))
