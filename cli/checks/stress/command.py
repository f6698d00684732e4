"""`pagewire stress`: random programs under random settings until the time is over or one fails."""

import dataclasses
import pathlib
import random
import sys
import time
from collections.abc import Mapping

from rich.console import Console

from pagewire.cli.checks.stress import draw, launching, settings_draw, shrink, writing
from pagewire.cli.checks.stress.tally import Tally, amount
from pagewire.cli.kit.interrupts import Interrupted
from pagewire.cli.launch import launch as launcher
from pagewire.native.settings import ConfigError
from pagewire.run.settings import config
from pagewire.run.timeline import request

PROGRAMS_PER_LAUNCH = 1000
"""At most; a seed names launch and program in decimal."""

LAUNCH_S = 10.0
"""A launch begins no further program after so long: other settings shall have their turn."""

_BYTES_BESIDE = 16
"""Memory of a rank for each byte of its largest message: both buffers, what is expected, types."""

_NUM_REPEATS = 3  # tries to see a failure again
_NOT_FIXED = frozenset({"run.quiet", "run.json", "run.html", "run.transport"})


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """As given. first_launch: the launch to begin with; limit_s: for a step."""

    num_ranks: int
    minutes: float
    seed: int
    first_launch: int
    limit_s: int
    output: pathlib.Path
    shrink_minutes: float


def parse_seed(text: str) -> tuple[int, int]:
    """SEED or SEED:LAUNCH; without any, one that no run before has had."""
    if not text:
        return random.SystemRandom().randrange(1, 1_000_000), 0
    seed, _, first = text.partition(":")
    if not seed.isdecimal() or not (first or "0").isdecimal():
        raise ConfigError(f"--seed {text}: expected a whole number, or SEED:LAUNCH, e.g. 42:3")
    return int(seed), int(first or 0)


class Stress:
    """One run of the command."""

    def __init__(self, options: Options, environ: Mapping[str, str], console: Console) -> None:
        given = config.load(environ=environ)
        self._options = options
        self._environ = environ
        self._console = console
        self._transport = given.run.transport
        self._fixed = {
            name: text for name, text in given.not_default().items() if name not in _NOT_FIXED
        }
        # A rank that hangs says what it waits for before it is ended.
        self._fixed.setdefault("run.watchdog", f"{max(1, options.limit_s // 2)}s")
        free = launching.available_bytes() // (options.num_ranks * _BYTES_BESIDE)
        self._max_bytes = min(draw.MAX_BYTES, free)
        self.tally = Tally()

    def run(self) -> int:
        """0: nothing was found; 1: something was."""
        options = self._options
        self._say(
            f"seed {options.seed}: {options.num_ranks} ranks, transport {self._transport}, "
            f"messages up to {amount(self._max_bytes)}"
            + ("" if self._max_bytes == draw.MAX_BYTES else " (this host's free memory)")
        )
        end_s = time.monotonic() + 60 * options.minutes
        number = options.first_launch
        while number == options.first_launch or time.monotonic() < end_s:
            if not self._launch(number, max(1.0, min(LAUNCH_S, end_s - time.monotonic()))):
                return 1
            number += 1
        return 0

    def _launch(self, number: int, seconds: float) -> bool:
        """A batch of programs with settings of its own; whether all went well."""
        options = self._options
        rng = random.Random(f"{options.seed}:{number}")
        settings = settings_draw.draw(rng, self._transport, self._fixed)
        first_seed = (options.seed * 1000 + number) * PROGRAMS_PER_LAUNCH
        batch = {
            "first_seed": first_seed,
            "num_programs": PROGRAMS_PER_LAUNCH,
            "max_bytes": self._max_bytes,
            "limit_s": options.limit_s,
            "seconds": seconds,
        }
        ended, done = launching.run_batch(self._how(settings, options.num_ranks), batch)
        self.tally.add(settings, done)
        if ended.exit_code == 0:
            self._say(f"launch {options.seed}:{number} ok; {self.tally.summary()}")
            return True
        limit = ended.limit(settings)
        if limit:
            self._say(f"launch {options.seed}:{number} met a limit that it had drawn: {limit}")
            return True
        num_done = min(each["num_programs"] for each in done)
        self._say(
            f"launch {options.seed}:{number}, program {num_done}: {ended.summary}\n"
            f"  settings: {' '.join(settings_draw.as_words(settings)) or 'all default'}"
        )
        program = draw.program(first_seed + num_done, options.num_ranks, self._max_bytes)
        self._find_cause(shrink.Case(program, settings), ended, f"{options.seed}:{number}")
        return False

    def _how(self, settings: Mapping[str, str], num_ranks: int) -> launching.Launch:
        return launching.Launch(num_ranks, self._transport, settings, self._environ)

    def _find_cause(self, case: shrink.Case, ended: launching.Ended, name: str) -> None:
        """See it fail alone, shrink it, and write it down."""
        last = [ended]

        def fails(tried: shrink.Case) -> bool:
            text = writing.source(tried.program, "", self._options.limit_s)
            how = self._how(tried.settings, tried.program.num_ranks)
            now = launching.run_file(how, text, self._options.limit_s)
            is_same = now.exit_code != 0 and now.kind == ended.kind
            if is_same:
                last[0] = now
            return is_same

        again = any(fails(case) for _ in range(_NUM_REPEATS))
        if not again:
            self._say(
                f"the program alone did not fail in {_NUM_REPEATS} tries: what was before it, or "
                f"chance, has a part in it; `pagewire stress --seed {name}` runs the same launch"
            )
        elif self._options.shrink_minutes > 0:
            seconds = 60 * self._options.shrink_minutes
            shrinker = shrink.Shrinker(fails, self._fixed, seconds, last[0].suspect)
            num_steps = len(case.program.steps)
            case = shrinker.shrink(case)
            self._say(
                f"shrunk from {num_steps} to {len(case.program.steps)} steps on "
                f"{case.program.num_ranks} ranks in {shrinker.num_runs} runs"
            )
        self._write(case, last[0], name, again)

    def _write(self, case: shrink.Case, ended: launching.Ended, name: str, again: bool) -> None:
        path = self._options.output
        how = self._how(case.settings, case.program.num_ranks)
        command = " ".join(["./mpirun.sh", *how.options(), str(path)])
        output = "\n".join(f"    {line}" for line in ended.output.splitlines())
        headline = (
            f"A random program that failed{'' if again else ' once'}: pagewire stress "
            f"-n {self._options.num_ranks} --seed {name}\n\n{ended.summary}\n\nRun it by\n\n"
            f"    {command}\n\nIt printed\n\n{output}"
        )
        path.write_text(writing.source(case.program, headline, self._options.limit_s))
        self._say(f"{ended.summary}\nwritten to {path}; run it by\n  {command}")

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


def main(options: Options, environ: Mapping[str, str]) -> int:
    """Run until the time is over, a program fails, or the user interrupts."""
    launcher.check_ranks(options.num_ranks)
    if options.minutes <= 0:
        raise ConfigError(f"--minutes {options.minutes}: must be more than 0")
    launcher.check_writable("--output", str(options.output))
    launcher.check_settings(environ)
    request.check_none(environ, "stress")
    console = Console(soft_wrap=True, emoji=False)
    stress = Stress(options, environ, console)
    try:
        code = stress.run()
    except Interrupted as interrupt:
        print(f"pagewire: {interrupt.sentence}", file=sys.stderr)
        code = interrupt.exit_code
    for table in stress.tally.tables():
        console.print(table)
    found = "nothing was wrong" if code == 0 else "" if code != 1 else "one program failed"
    console.print("; ".join(filter(None, [stress.tally.summary(), found])), highlight=False)
    return code
