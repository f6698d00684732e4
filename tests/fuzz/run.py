"""Runs the fuzzers of this folder: `./mpirun.sh fuzz [TARGET...] [--seconds S]`.

Builds them with clang's libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer, gives them
their first inputs and what earlier runs found, and runs two at a time. Exits with 1 when one of
them found something, and tells which input it was.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys

import seeds

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COMPILERS = ("clang", *(f"clang-{version}" for version in range(21, 13, -1)))
HANG_S = 60
"""Of one input; the slowest honest one takes 2 s on a busy machine."""
RSS_LIMIT_MB = 3000
LONGEST_INPUT_BYTES = {"config": 16384}
"""1024 unless it is said here."""
MESON = (sys.executable, "-m", "mesonbuild.mesonmain")
C_ARGS = "-fsanitize=fuzzer-no-link -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
SETUP = (
    "-Dfuzz=enabled", "-Dfabric=enabled", "-Dlibrary=disabled", "-Doptimization=1", "-Ddebug=true",
    "-Db_sanitize=address,undefined", "-Db_lundef=false", f"-Dc_args={C_ARGS}",
)  # fmt: skip
ENVIRONMENT = {
    # A request for more memory than there is has an answer; blocks are used again soon, or the
    # engines' large tables would cost more than what they are used for.
    "ASAN_OPTIONS": "allocator_may_return_null=1:quarantine_size_mb=8:malloc_context_size=12",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a target's run came to."""

    target: str
    exit_code: int
    num_runs: int
    coverage: int
    num_kept: int
    output: str


def find_compiler() -> str:
    """A clang that can link a fuzzer; ends with a sentence when there is none."""
    program = "int LLVMFuzzerTestOneInput(const void *d, unsigned long n) { return d && n > 9; }"
    command = ("-x", "c", "-", "-fsanitize=fuzzer,address,undefined", "-o", os.devnull)
    found = [name for name in (os.environ.get("CC", ""), *COMPILERS) if name and shutil.which(name)]
    for name in found:
        done = subprocess.run(
            [name, *command], input=program, text=True, capture_output=True, check=False
        )
        if done.returncode == 0:
            return name
    what = "without libFuzzer and sanitizers" if found else "not here"
    sys.exit(
        f"fuzz: error: clang is {what}; as root ./mpirun.sh fuzz installs it, or: apt-get install "
        "clang-14 libclang-rt-14-dev (or newer, both of one version)"
    )


def build(folder: pathlib.Path, targets: list[str]) -> None:
    """The targets' executables in `folder`."""
    environ = os.environ | {"CC": find_compiler()}
    if not (folder / "build.ninja").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _run([*MESON, "setup", str(folder), str(ROOT), *SETUP], environ)
    _run([*MESON, "compile", "-C", str(folder), *(f"fuzz_{name}" for name in targets)], environ)


def _run(command: list[str], environ: dict[str, str]) -> None:
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"fuzz: error: the build failed\n{done.stdout[-6000:]}{done.stderr[-2000:]}")


def fuzz(target: str, binary: pathlib.Path, kept: pathlib.Path, seconds: int, seed: int) -> Outcome:
    """Run one target for some seconds; new inputs go to `kept`. seed: 0 draws one."""
    first = kept.parent / f"{target}-first"
    seeds.write(target, first)
    kept.mkdir(parents=True, exist_ok=True)
    num_before = len(list(kept.iterdir()))
    given = [folder for folder in (first, HERE / "corpus" / target) if folder.is_dir()]
    command = [
        str(binary), str(kept), *map(str, given),
        f"-seed={seed}", f"-max_total_time={seconds}", f"-timeout={HANG_S}",
        f"-rss_limit_mb={RSS_LIMIT_MB}", "-len_control=0",
        f"-max_len={LONGEST_INPUT_BYTES.get(target, 1024)}",
        f"-artifact_prefix={kept.parent}/{target}-",
    ]  # fmt: skip
    if (HERE / f"{target}.dict").exists():
        command.append(f"-dict={HERE / f'{target}.dict'}")
    done = subprocess.run(
        command, env=os.environ | ENVIRONMENT, capture_output=True, text=True, errors="replace",
        timeout=seconds + 600, check=False,
    )  # fmt: skip
    runs = re.findall(r"^#(\d+)\s.* cov: (\d+)", done.stderr, re.MULTILINE)
    num_runs, coverage = map(int, runs[-1]) if runs else (0, 0)
    num_kept = len(list(kept.iterdir())) - num_before
    return Outcome(target, done.returncode, num_runs, coverage, num_kept, done.stderr)


def tell(outcome: Outcome, folder: pathlib.Path) -> None:
    """A line for a run that found nothing; for one that did, what and how to see it again."""
    if outcome.exit_code == 0:
        if not outcome.num_runs:
            sys.exit(f"fuzz: error: {outcome.target} ran no input\n{outcome.output[-2000:]}")
        print(
            f"{outcome.target:10} ok     {outcome.num_runs:8} inputs, {outcome.coverage:5} places "
            f"in the code, {outcome.num_kept:4} new inputs kept",
            flush=True,
        )
        return
    found = re.search(r"Test unit written to (\S+)", outcome.output)
    lines = [line for line in outcome.output.splitlines() if not line.startswith(("#", "NEW_FUNC"))]
    print("\n".join(line[:300] for line in lines[-60:]))
    print(f"{outcome.target:10} FAILED after {outcome.num_runs} inputs")
    if found:
        print(f"  see it again: {folder}/fuzz_{outcome.target} {found[1]}", flush=True)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="mpirun.sh fuzz", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(seeds.TARGETS))
    parser.add_argument("--seconds", type=int, default=600, help="for each target (default 600)")
    parser.add_argument("--at-once", type=int, default=2, help="targets at a time (default 2)")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs drawn (default: any)")
    parser.add_argument("--corpus", type=pathlib.Path, help="where new inputs are kept")
    given = parser.parse_args()
    unknown = sorted(set(given.targets) - set(seeds.TARGETS))
    if unknown:
        parser.error(f"unknown target '{unknown[0]}'; there are {', '.join(seeds.TARGETS)}")
    targets = given.targets or list(seeds.TARGETS)
    venv = pathlib.Path(sys.prefix)
    folder, corpus = venv / "fuzz", (given.corpus or venv / "fuzz-corpus").absolute()
    build(folder, targets)
    print(
        f"fuzz: {given.seconds} s for each of {', '.join(targets)}; new inputs: {corpus}",
        flush=True,
    )
    failed = []
    with concurrent.futures.ThreadPoolExecutor(given.at_once) as pool:
        runs = [
            pool.submit(
                fuzz, name, folder / f"fuzz_{name}", corpus / name, given.seconds, given.seed
            )
            for name in targets
        ]
        for run in concurrent.futures.as_completed(runs):
            outcome = run.result()
            tell(outcome, folder)
            if outcome.exit_code:
                failed.append(outcome.target)
    if failed:
        print(f"fuzz: failed: {' '.join(sorted(failed))}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
