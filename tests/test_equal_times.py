"""Equal runs give equal times: without contention every figure of the machine and every time that a
program reads is the same, however busy this host is.

PAGEWIRE_TEST_RUNS: runs of each case that are held against each other (3). The program lies in
a folder that nobody writes to: a folder that changes makes Python's import system read it again.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from native_programs import clean_environment, needs_provider

PROGRAM = pathlib.Path(__file__).with_name("one_flow_at_a_time.py")
NUM_RUNS = int(os.environ.get("PAGEWIRE_TEST_RUNS", "3"))

LOSSES = [
    "impairments.packet_loss=1:50:7", "impairments.duplication=1:20:8", "impairments.delay=1:20:9",
    "impairments.lost_ack=1:20:10", "impairments.lost_err=1:5:11",
]  # fmt: skip
MODEL = ["memory_backend.backend=model", "memory_backend.fault_fraction=0.3"]
CASES = {
    "part": (1, "part", "page", "none", []),
    "impaired": (2, "part", "block", "none", LOSSES),
    "stalling": (3, "part", "all", "none", ["smmu.mode=stall"]),
    "model": (4, "part", "page", "model", MODEL),
    "replay": (5, "pretouch", "page", "replay", []),
    "pin": (6, "pin", "page", "none", []),
}
"""By name: seed, memory strategy, page-in policy, compute, settings."""

OFTEN = {"facade": ("part", "model"), "fabric": ("impaired", "stalling")}
"""What every run of the tests takes; the others are run with PAGEWIRE_TEST_RUNS."""


def cases() -> list[object]:
    return [
        pytest.param(
            transport, name,
            id=f"{transport}-{name}", marks=[needs_provider] if transport == "fabric" else [],
        )
        for transport, often in OFTEN.items()
        for name in CASES
        if name in often or "PAGEWIRE_TEST_RUNS" in os.environ
    ]  # fmt: skip


def compare(folder: pathlib.Path, *words: str, timeout_s: float = 120) -> tuple[int, str, list]:
    """Exit code, standard error, and the entries of the JSON when there is one."""
    path = folder / "compare.json"
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pagewire", "compare", "--json", str(path), *words],
        env=clean_environment(), cwd=folder, capture_output=True, text=True, timeout=timeout_s,
        check=False,
    )  # fmt: skip
    entries = json.loads(path.read_text(encoding="utf-8"))["entries"] if path.exists() else []
    return done.returncode, done.stdout + done.stderr, entries


@pytest.mark.timeout(120 + 60 * NUM_RUNS)
@pytest.mark.parametrize(("transport", "name"), cases())
def test_one_flow_at_a_time_takes_the_same_time_in_every_run(tmp_path, transport, name):
    seed, memory, policy, compute, settings = CASES[name]
    logs = tmp_path / "logs"
    logs.mkdir()
    code, said, entries = compare(
        tmp_path, "-n", "3", "--transport", transport, "--memory", memory, "--policy", policy,
        "--compute", compute, *(word for each in settings for word in ("--set", each)),
        "--runs", str(NUM_RUNS), "--noise", "--equal", str(PROGRAM), str(seed), str(logs),
        timeout_s=60 + 60 * NUM_RUNS,
    )  # fmt: skip
    assert entries, said
    assert entries[0]["repetitions"]["differences"] == []
    assert code == 0, said
    assert entries[0]["repetitions"]["runs"] == NUM_RUNS
    recorded = 1 if compute == "replay" else 0
    for rank in range(3):
        texts = [path.read_text() for path in sorted(logs.glob(f"{rank}.*"))]
        assert len(texts) == NUM_RUNS + recorded
        assert recorded or len(set(texts)) == 1
