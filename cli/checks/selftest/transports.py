"""Runs the self test's program over one of the transports and reads what came of it."""

import json
import pathlib
import sys
import tempfile
from collections.abc import Mapping, Sequence

from pagewire.cli.checks.limited import run_limited
from pagewire.cli.checks.selftest.outcome import Check, Verdict
from pagewire.cli.launch import fabric

TRANSPORTS = ("facade", "fabric")
NUM_RANKS = 2
LIMIT_S = 240.0  # it takes a second on an idle machine
_NO_LIBFABRIC = "its MPI has no libfabric"
_DETAIL_CHARACTERS = 400


def check(
    transport: str,
    *,
    python: str = sys.executable,
    before: Sequence[str] = (),
    options: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
) -> Check:
    """Did the program get the right bytes, and did its pages fault?

    before: words in front of the command, such as one that sets a filter.
    """
    if transport == "fabric" and python == sys.executable and (absent := fabric.missing()):
        return Check(
            transport,
            Verdict.NOT_AVAILABLE,
            f"no {', '.join(absent)}: built without libfabric's headers (apt-get install "
            "libfabric-dev, then install pagewire again)",
        )
    with tempfile.TemporaryDirectory(prefix="pagewire-selftest-") as folder:
        path = pathlib.Path(folder, "report.json")
        command = [*before, python, "-P", "-m", "pagewire", "launch", "-n", str(NUM_RANKS)]
        command += ["--transport", transport, "--quiet", "--json", str(path), *options]
        command += ["-m", "pagewire.cli.checks.selftest.hello"]
        code, said = run_limited(command, environ=environ, limit_s=LIMIT_S, folder=folder)
        if code != 0:
            reason = reason_in(said) or f"exit code {code}"
            # The MPI was built without libfabric: nothing of ours is broken.
            verdict = Verdict.NOT_AVAILABLE if _NO_LIBFABRIC in reason else Verdict.FAILED
            return Check(transport, verdict, reason)
        return _judge(transport, said, path)


def _judge(transport: str, said: str, path: pathlib.Path) -> Check:
    well = [f"selftest: rank {rank} of {NUM_RANKS} has the right bytes" for rank in (0, 1)]
    if not set(well) <= set(said.splitlines()):
        return Check(transport, Verdict.FAILED, f"not every rank came to its end: {said[-200:]}")
    try:
        total = json.loads(path.read_text(encoding="utf-8"))["totals"]
    except (OSError, ValueError, KeyError) as error:
        return Check(transport, Verdict.FAILED, f"the report cannot be read: {error}")
    faults, num_bytes = total["translation_faults"], total["mpi_bytes"]
    if not faults:
        return Check(transport, Verdict.FAILED, "no page faulted, though all were absent")
    sources = ", ".join(total["page_sources"])
    detail = f"{num_bytes} bytes right, {faults} page faults; pages seen by {sources}"
    return Check(transport, Verdict.PASSED, detail)


def reason_in(said: str) -> str:
    """The sentence with which a run ended, out of what it printed."""
    lines = [line.strip() for line in said.splitlines() if "pagewire: " in line]
    best = [line for line in lines if "raised Exception: Other MPI error" not in line]
    chosen = (best or lines or said.strip().splitlines() or [""])[-1]
    return chosen.partition("pagewire: ")[2][:_DETAIL_CHARACTERS] or chosen[:_DETAIL_CHARACTERS]
