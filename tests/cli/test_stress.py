"""`pagewire stress`: what it draws runs; what is planted is found, shrunk and written down."""

import os
import random
import re

import pytest
from cli_runs import command, ran
from refusals import refused

from pagewire.cli.checks.stress import command as stress_command
from pagewire.cli.checks.stress import draw, launching, settings_draw, shrink, writing
from pagewire.native.settings import ConfigError

MAX_BYTES = 1 << 20

# A destination whose last byte is wrong when the transfer is over.
PLANTED = """
import ctypes

from pagewire.node.strategies.strategy import Access, Cost, Lease, MemoryStrategy


class FlipsAByte(MemoryStrategy):
    def acquire(self, *, span, access):
        return Lease(span, token=access)

    def release(self, *, lease):
        if lease.token is Access.WRITE and lease.span.num_bytes > 1000:
            last = ctypes.c_uint8.from_address(lease.span.address + lease.span.num_bytes - 1)
            last.value ^= 1
        return Cost()
"""


def stress(folder, *words):
    """Run the command in a folder, where it writes its file too."""
    environ = {"PYTHONPATH": str(folder), "COLUMNS": "200"}
    words = ("stress", "--time-limit", "100", *words)
    return command(*words, cwd=folder, environ=environ, timeout_s=200)


def run_steps(steps, num_ranks, transport="facade", limit_s=40):
    """How a launch ended of the file that is written of a program."""
    text = writing.source(draw.Program(1, num_ranks, steps), "a program", limit_s)
    return launching.run_file(launching.Launch(num_ranks, transport, {}, os.environ), text, limit_s)


def step_of(number, kind="exchange", **arguments):
    return draw.Step(number, 0, ["world"], kind, arguments)


@pytest.mark.parametrize(("transport", "num_ranks"), [("facade", 1), ("facade", 2), ("fabric", 4)])
def test_the_same_programs_are_right_on_both_transports(transport, num_ranks):
    """Every kind of message, completion, collective, object and window; PAGEWIRE_TEST_SEEDS=9:50:
    50 other programs from the seed 9 on."""
    first, _, number = os.environ.get("PAGEWIRE_TEST_SEEDS", "0:8").partition(":")
    batch = {"first_seed": int(first), "num_programs": int(number), "max_bytes": 300_000}
    how = launching.Launch(num_ranks, transport, {}, os.environ)
    ended, done = launching.run_batch(how, {**batch, "limit_s": 100, "seconds": 1000.0})
    assert ended.exit_code == 0, ended.output
    assert [each["num_programs"] for each in done] == [int(number)] * num_ranks
    kinds = {kind for each in done for kind in each["steps"]}
    assert len(kinds) >= 15, kinds


@pytest.mark.parametrize("transport", ["facade", "fabric"])
def test_random_programs_end_well_on_a_transport(tmp_path, transport):
    words = ["-n", "3", "--minutes", "0.02", "--seed", "2024", "--transport", transport]
    done = stress(tmp_path, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    found = re.match(r"(\d+) programs in \d+ launches, (\d+) steps, .* checked; nothing", last)
    assert found, done.stdout
    assert int(found[1]) >= 1
    assert int(found[2]) >= 3


def test_a_limit_that_the_settings_set_is_no_failure(tmp_path):
    words = ["-n", "2", "--minutes", "0.01", "--seed", "3", "--transport", "fabric"]
    for text in ("backend=model", "frame_limit_pages=8"):
        words += ["--set", f"memory_backend.{text}"]
    done = stress(tmp_path, *words, "--memory", "pin")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "launch 3:0 met a limit that it had drawn: " in done.stdout
    assert not list(tmp_path.iterdir())


def test_a_limit_that_nobody_set_is_a_failure():
    ended = launching.Ended(
        1, "pagewire: memory_backend.frame_limit_pages gives the model 2 frames"
    )
    assert ended.limit({"memory_backend.frame_limit_pages": "2"}) == ended.output
    assert not ended.limit({"run.memory": "pin"})
    wrong = launching.Ended(1, "WrongError: 1 of 2 bytes are wrong")
    assert not wrong.limit({"memory_backend.frame_limit_pages": "2"})


def test_a_planted_bug_is_found_shrunk_and_written_to_a_file_that_fails_too(tmp_path):
    (tmp_path / "planted.py").write_text(PLANTED)
    path = tmp_path / "mine.py"
    words = ["-n", "2", "--minutes", "1", "--seed", "5", "--shrink-minutes", "0.1"]
    words += ["--output", str(path)]
    done = stress(tmp_path, *words, "--set", "run.memory=planted:FlipsAByte")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "one program failed" in done.stdout
    written = path.read_text()
    assert "run.memory=planted:FlipsAByte" in written
    assert "WrongError" in written
    steps = written.partition("STEPS = [")[2]
    assert 1 <= len(re.findall(r"^    \(\d+, ", steps, re.MULTILINE)) <= 3
    line = next(each for each in done.stdout.splitlines() if "./mpirun.sh" in each)
    environ = {"PYTHONPATH": str(tmp_path)}
    again = ran("launch", *line.split()[1:], code=1, cwd=tmp_path, environ=environ)
    assert "WrongError" in again.stderr


def test_a_program_that_hangs_says_where_each_rank_is_and_ends():
    # The rank's synchronous send to itself waits for a receive that comes only behind it.
    waits = {"source": 0, "dest": 0, "send": "Ssend", "receive": "Recv"}
    step = step_of(1, "message", **waits, send_count=9, receive_count=9)
    ended = run_steps([step], 1, limit_s=3)
    assert ended.exit_code != 0
    assert ended.kind == "hang"
    assert "in message" in ended.output  # the stack


def test_threads_reduce_objects_in_another_order_on_each_rank():
    def busy(number, rank):
        counts = {"send_count": 8 << 20, "receive_count": 8 << 20}
        place = {"source": rank, "dest": rank, "send": "Isend", "receive": "Irecv"}
        return step_of(number, "message", **place, **counts)

    def scan(number):
        return step_of(number, "object_collective", name="scan", root=0, num_bytes=10)

    parts = [[busy(2, 1), scan(3)], [busy(4, 0), scan(5)]]
    ended = run_steps([step_of(1, "threads", parts=parts)], 2, "fabric")
    assert ended.exit_code == 0, ended.output


def test_a_rank_ahead_sends_nothing_into_receives_of_any_message():
    takes_any = {"send": "Ibsend", "finish": "Waitall", "any_source": True, "any_tag": True}

    def alone(number, num_messages):
        messages = [[0, 0, 300_000, 0]] * num_messages
        arguments = {"messages": messages, "send": "Isend", "finish": "Waitall"}
        return draw.Step(number, 0, ["split", [1]], "burst", arguments)

    steps = [
        alone(1, 1),
        alone(2, 200),  # rank 0 goes on meanwhile
        step_of(3, "burst", messages=[[0, 1, 9, 0], [1, 1, 9, 0]], **takes_any),
        step_of(4, "burst", messages=[[0, 1, 500, 0]], **takes_any),
    ]
    ended = run_steps(steps, 2)
    assert ended.exit_code == 0, ended.output


def test_equal_seeds_draw_equal_programs():
    assert draw.program(7, 4, MAX_BYTES) == draw.program(7, 4, MAX_BYTES)
    assert draw.program(7, 4, MAX_BYTES) != draw.program(8, 4, MAX_BYTES)


def test_all_kinds_of_steps_are_drawn():
    programs = [draw.program(seed, 4, MAX_BYTES) for seed in range(60)]
    kinds = {step.kind for program in programs for step in program.steps}
    assert kinds >= {"message", "burst", "window", "threads", "collective", "reduction", "atomics"}
    sizes = [
        step.arguments["num_bytes"]
        for program in programs
        for step in program.steps
        if step.kind == "exchange"
    ]
    assert max(sizes) <= MAX_BYTES
    assert min(sizes) < 100


@pytest.mark.parametrize("num_ranks", [1, 2, 5])
def test_a_program_is_written_with_all_that_it_uses(num_ranks):
    for seed in range(20):
        program = draw.program(seed, num_ranks, MAX_BYTES)
        text = writing.source(program, 'with """quotes""" and \\', 60)
        compile(text, "program.py", "exec")
        assert "pagewire.cli" not in text
        defined = set(re.findall(r"^def (\w+)", text, re.MULTILINE))
        assert {step.kind for step in program.steps} <= defined
        assert "run_program" in defined


@pytest.mark.parametrize("transport", ["facade", "fabric"])
def test_every_value_can_be_drawn(transport):
    """A value that is never valid would be no draw."""
    fixed = {"memory_backend.backend": "model", "memory_backend.huge_pages": "true"}
    of_transport = settings_draw.OF_TRANSPORT[transport]
    for name, values in (settings_draw.VALUES | of_transport | settings_draw.OF_MODEL).items():
        for value in values:
            settings = {**fixed, name: value.format(seed=1)}
            assert settings_draw.is_valid(settings, transport), settings


def test_drawn_settings_are_valid_and_keep_what_is_given():
    fixed = {"run.memory": "pin", "run.timeout": "none"}
    names = set()
    for seed in range(100):
        for transport in ("facade", "fabric"):
            drawn = settings_draw.draw(random.Random(seed), transport, fixed)
            assert settings_draw.is_valid(drawn, transport)
            assert {name: drawn[name] for name in fixed} == fixed
            names.update(drawn)
    assert len(names) > 30


def test_settings_that_nothing_can_be_added_to_are_refused():
    with pytest.raises(ConfigError, match="no valid settings"):
        settings_draw.draw(random.Random(1), "facade", {"run.timeout": "never"})


def test_shrinking_leaves_the_steps_settings_and_ranks_that_matter():
    program = draw.program(3, 4, MAX_BYTES)
    steps = [step for step in program.steps if step.kind != "threads"][:8]
    wanted = step_of(1000, name="Sendrecv", shift=1, num_bytes=50_000, offset=7, memory="shared")
    other = step_of(1001, name="Isendrecv", shift=1, num_bytes=9, offset=0, memory="heap")
    program = draw.Program(3, 4, [*steps[:4], wanted, *steps[4:], other])
    settings = {"run.memory": "pin", "run.policy": "all", "run.timeout": "10ms"}

    def fails(case):
        exchanges = [step for step in case.program.steps if step.kind == "exchange"]
        return (
            any(step.arguments["num_bytes"] > 1000 for step in exchanges)
            and any(step.number == 1001 for step in exchanges)
            and case.settings.get("run.policy") == "all"
            and case.program.num_ranks >= 2
        )

    found = shrink.Shrinker(fails, {"run.memory": "pin"}, 60).shrink(shrink.Case(program, settings))
    assert [step.number for step in found.program.steps][-1] == 1001
    assert len(found.program.steps) == 2
    assert found.settings == {"run.memory": "pin", "run.policy": "all"}
    assert found.program.num_ranks == 2
    assert 1000 < found.program.steps[0].arguments["num_bytes"] <= 2002
    assert found.program.steps[0].arguments["memory"] == "heap"


def test_what_is_shrunk_never_blocks_by_itself():
    """A blocking send becomes none to oneself whose receive comes behind it."""
    waits = {"source": 0, "dest": 1, "send": "Send", "receive": "Recv", "late": False}
    step = step_of(1, "message", **waits, send_count=1, receive_count=1)
    tried = []

    def fails(case):
        tried.append(case.program)
        return True

    shrink.Shrinker(fails, {}, 60).shrink(shrink.Case(draw.Program(1, 2, [step]), {}))
    for program in tried:
        given = program.steps[0].arguments
        assert given["source"] != given["dest"]
        assert program.num_ranks == 2


def test_a_known_suspect_is_tried_alone_first():
    program = draw.program(3, 4, MAX_BYTES)
    number = program.steps[-1].number

    def fails(case):
        return any(step.number == number for step in case.program.steps)

    found = shrink.Shrinker(fails, {}, 60, number).shrink(shrink.Case(program, {}))
    assert [step.number for step in found.program.steps] == [number]


def test_a_shrinker_out_of_time_keeps_what_it_has():
    case = shrink.Case(draw.program(3, 4, MAX_BYTES), {})
    assert shrink.Shrinker(lambda _: True, {}, -1).shrink(case) == case


def test_a_seed_may_name_a_launch():
    for text, seed in {"42": (42, 0), "42:3": (42, 3), "0:0": (0, 0)}.items():
        assert stress_command.parse_seed(text) == seed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        *((["--seed", text], "SEED:LAUNCH") for text in ("x", "4:y", "-1", "1.5")),
        (["--minutes", "0"], "--minutes"),
        (["--output", "no/where/file.py"], "--output"),
    ],
)
def test_bad_input_ends_with_a_line(words, said):
    assert said in refused("stress", "-n", "2", *words)
