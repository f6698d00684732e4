"""mpi4py's own tests over the NI, compared with what they do on plain MPI in the same venv.

    python tests/foreign/mpi4py_suite.py --tests DIR --results DIR [--ranks 1,2,3,4]
        [--transport facade|fabric] [FILE...]

Each file of tests runs by itself, with a limit of wall time; a test that hangs or ends the run is
left out and its file is run once more. A test passes when it passes on every rank. Results are kept
in --results and not computed again; --only computes one side. Ends with 1 when a test fails that
passes on plain MPI and is not among KNOWN; over the fabric, when any test ends in another way than
on plain MPI, which then is MPICH over libfabric too: its ports depend on that.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import uuid

from pagewire.cli.kit.watch import marked_processes
from pagewire.cli.launch.launch import find_mpiexec, rank_environment

ONE_FILE = str(pathlib.Path(__file__).with_name("one_file.py"))
SIDES = {"facade": ("plain", "pagewire"), "fabric": ("plain-ofi", "fabric")}
"""What is compared, by transport: names within files of results."""
MARKER = "PAGEWIRE_LAUNCH_ID"
MAX_RUNS = 8
"""Runs of a file, each without the tests that ended the earlier ones."""

KNOWN: dict[str, str] = {
    f"test_p2p_obj.TestP2PObj{kind}.testCommLock": (
        "looks into mpi4py's private table of locks, which only its own object calls fill"
    )
    for kind in ("Self", "World", "SelfDup", "WorldDup")
}
"""Tests that need not pass, and why; docs/faq.md tells users."""

FAST = (
    "test_p2p_buf", "test_p2p_obj", "test_p2p_buf_matched", "test_p2p_obj_matched",
    "test_request", "test_cco_obj",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """One file on one side at one number of ranks."""

    module: str
    num_ranks: int
    side: str

    @property
    def file_name(self) -> str:
        return f"{self.module}-{self.num_ranks}-{self.side}.json"

    @property
    def is_plain(self) -> bool:
        return self.side.startswith("plain")


def command_of(job: Job, words: list[str]) -> list[str]:
    if job.is_plain:
        return [find_mpiexec(), "-n", str(job.num_ranks), sys.executable, "-P", ONE_FILE, *words]
    launch = [sys.executable, "-P", "-m", "pagewire", "launch", "-n", str(job.num_ranks)]
    options = ["--transport", "fabric"] if job.side == "fabric" else []
    return [*launch, *options, "--quiet", ONE_FILE, *words]


def end_all(process: "subprocess.Popen[bytes]", marker: str) -> None:
    """End a run by the process that started it, then what that has left."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pid in marked_processes(marker):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def run_once(job: Job, words: list[str], log: pathlib.Path, limit_s: float) -> str:
    """`exit CODE`, or `timeout`."""
    environ = rank_environment(os.environ)
    environ["PYTHONDONTWRITEBYTECODE"] = "1"
    environ["FOREIGN_DUMP_S"] = str(limit_s * 0.9)
    marker = uuid.uuid4().hex
    if job.side == "plain-ofi":
        environ["MPIR_CVAR_CH4_NETMOD"] = "ofi"
    if job.is_plain:
        environ[MARKER] = marker  # else the launcher sets its own
    with open(log, "ab") as output:
        output.write(f"--- {' '.join(words[1:])}\n".encode())
        process = subprocess.Popen(
            command_of(job, words), env=environ, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            return f"exit {process.wait(limit_s)}"
        except subprocess.TimeoutExpired:
            return "timeout"
        finally:
            end_all(process, marker)


def read_lines(results: str, num_ranks: int) -> tuple[dict[str, str], set[str], bool]:
    """The worst word of each test over the ranks; those that began and did not end on some rank;
    did all ranks come to the end?"""
    order = ["skip", "pass", "fail"]
    worst: dict[str, str] = {}
    open_tests: set[str] = set()
    num_ended = 0
    for rank in range(num_ranks):
        path = pathlib.Path(f"{results}.{rank}")
        mine: dict[str, str] = {}
        started = ""
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            word, _, test = line.partition(" ")
            if word == "start":
                started = test
            elif word == "end":
                num_ended += 1
            elif mine.get(test) != "fail":
                mine[test] = word
        if started and started not in mine:
            open_tests.add(started)
        for test, word in mine.items():
            worst[test] = max(worst.get(test, "skip"), word, key=order.index)
    return worst, open_tests, num_ended == num_ranks


def run(job: Job, tests: str, folder: pathlib.Path, limit_s: float) -> dict[str, str]:
    """Every test's word: pass, skip, fail, hang or crash; and how the file itself ended."""
    log = folder / job.file_name.replace(".json", ".log")
    log.unlink(missing_ok=True)
    result: dict[str, str] = {}
    left_out: list[str] = []
    for _ in range(MAX_RUNS):
        with tempfile.TemporaryDirectory(prefix="foreign-") as directory:
            words = [tests, job.module, f"{directory}/lines", *left_out]
            ending = run_once(job, words, log, limit_s)
            found, unfinished, is_whole = read_lines(words[2], job.num_ranks)
        word = "hang" if ending == "timeout" else "crash"
        result.update(found)
        result[f"{job.module}:ending"] = ending if is_whole else word
        if is_whole or not unfinished:
            break
        result.update(dict.fromkeys(unfinished, word))
        left_out += sorted(unfinished)
    return result


def work(job: Job, arguments: argparse.Namespace) -> tuple[Job, dict[str, str]]:
    folder = pathlib.Path(arguments.results)
    path = folder / job.file_name
    if path.exists() and not arguments.again:
        return job, json.loads(path.read_text(encoding="utf-8"))
    result = run(job, arguments.tests, folder, arguments.limit)
    path.write_text(json.dumps(result, indent=1), encoding="utf-8")
    counts = {word: list(result.values()).count(word) for word in sorted(set(result.values()))}
    print(f"{job.module} {job.num_ranks} {job.side}: {counts}", flush=True)
    return job, result


def compare(results: dict[Job, dict[str, str]]) -> int:
    """Print what ends otherwise here than on plain MPI, and counts; how many of it are too many."""
    num_worse = num_passed = 0
    for job, ours in sorted(results.items(), key=lambda item: (item[0].module, item[0].num_ranks)):
        sides = {our_side: plain_side for plain_side, our_side in SIDES.values()}
        plain = results.get(dataclasses.replace(job, side=sides.get(job.side, "")))
        if job.is_plain or plain is None:
            continue
        num_passed += list(ours.values()).count("pass")
        must_equal = job.side == "fabric"
        for test in sorted(plain.keys() | ours.keys()) if must_equal else plain:
            word, mine = plain.get(test, "missing"), ours.get(test, "missing")
            if mine == word or (not must_equal and word not in ("pass", "exit 0")):
                continue
            reason = None if must_equal else KNOWN.get(test)
            num_worse += reason is None
            print(f"{job.num_ranks} ranks: {test}: {mine}, plain: {word} {reason or ''}")
    print(f"{num_passed} passed, {num_worse} worse than plain MPI")
    return num_worse


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--tests", required=True, help="folder test/ of mpi4py's sources")
    parser.add_argument("--results", required=True)
    parser.add_argument("--ranks", default="2")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=300, help="seconds for a file")
    parser.add_argument("--transport", choices=SIDES, default="facade")
    parser.add_argument("--only", choices=("plain", "pagewire"))
    parser.add_argument("--again", action="store_true", help="compute results that are there")
    parser.add_argument("--fast", action="store_true", help="only the files of point-to-point")
    arguments = parser.parse_args()
    pathlib.Path(arguments.results).mkdir(parents=True, exist_ok=True)
    there = sorted(path.stem for path in pathlib.Path(arguments.tests).glob("test_*.py"))
    modules = arguments.modules or (FAST if arguments.fast else there)
    jobs = [
        Job(module, int(num_ranks), side)
        for num_ranks in arguments.ranks.split(",")
        for module in modules
        for side, kind in zip(SIDES[arguments.transport], ("plain", "pagewire"), strict=True)
        if arguments.only in (None, kind)
    ]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        results = dict(pool.map(lambda job: work(job, arguments), jobs))
    return 1 if compare(results) else 0


if __name__ == "__main__":
    sys.exit(main())
