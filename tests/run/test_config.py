"""Settings: their text forms, the order of their origins, and what is refused."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagewire.native import declared, ffi, lib
from pagewire.native.settings import ConfigError, format_value, parse_value
from pagewire.run.settings import config
from pagewire.run.settings.config import REGISTRY, Config, load
from pagewire.run.settings.sections import RunConfig


def refused(*assignments: str, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load(assignments, environ=environ or {})
    return str(caught.value)


def test_defaults_are_those_of_the_dataclasses():
    assert load(environ={}) == Config()
    assert Config().not_default() == {}
    assert {each.source for each in Config().settings()} == {"default"}


def test_every_setting_has_help_and_a_variable_of_its_own():
    assert all(declaration.help for declaration in REGISTRY.values())
    assert len({declaration.environment for declaration in REGISTRY.values()}) == len(REGISTRY)
    assert not {each.environment for each in REGISTRY.values()} & config.NOT_SETTINGS


@pytest.mark.parametrize("name", REGISTRY)
def test_default_survives_its_own_text(name):
    declaration = REGISTRY[name]
    text = format_value(declaration, declaration.default)
    assert parse_value(declaration, text) == declaration.default


@given(st.text(max_size=20))
def test_any_text_is_a_value_or_refused_with_the_setting_named(text):
    for name in ("run.timeout", "run.err", "ni.fifo_depth", "memory_backend.fault_fraction"):
        try:
            parse_value(REGISTRY[name], text)
        except ConfigError as error:
            assert name in str(error)


@pytest.mark.parametrize(
    ("text", "timeout_ns"),
    [
        ("1ms", 1_000_000),
        ("500us", 500_000),
        ("2.5 ms", 2_500_000),
        ("1.1us", 1_100),
        ("25000ns", 25_000),
        ("1s", 1_000_000_000),
        ("none", None),
    ],
)
def test_duration_takes_units(text, timeout_ns):
    assert load([f"run.timeout={text}"], environ={}).run.timeout_ns == timeout_ns


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [
        ("16KiB", 16384),
        ("64", 64),
        ("1kB", 1000),
        ("0.5KiB", 512),
        ("64k", 65536),
        ("0.125M", 131072),
    ],
)
def test_size_takes_units(text, num_bytes):
    assert load([f"run.eager_limit={text}"], environ={}).run.eager_limit_bytes == num_bytes


def test_command_line_beats_environment_beats_file_beats_default(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text(
        '[run]\ntimeout = "2ms"\nmemory = "pin"\npolicy = "all"\n[ni]\nfifo_depth = 8\n'
    )
    environ = {"PAGEWIRE_RUN_TIMEOUT": "3ms", "PAGEWIRE_RUN_MEMORY": "ideal"}
    environ["PAGEWIRE_CONFIG"] = str(file)
    loaded = load(["run.timeout=4ms"], environ=environ)
    assert (loaded.run.timeout_ns, loaded.run.memory) == (4_000_000, "ideal")
    assert (loaded.run.policy, loaded.ni.fifo_depth) == ("all", 8)
    sources = {each.name: each.source for each in loaded.settings()}
    assert sources["run.timeout"] == "command line"
    assert sources["run.memory"] == "environment PAGEWIRE_RUN_MEMORY"
    assert sources["run.policy"] == f"file {file}"
    assert sources["run.err"] == "default"
    assert loaded.not_default() == {
        "run.memory": "ideal",
        "run.policy": "all",
        "run.timeout": "4ms",
        "ni.fifo_depth": "8",
    }


def test_variables_of_the_launchers_command_line_keep_their_origin():
    environ = {"PAGEWIRE_RUN_MEMORY": "pin", "PAGEWIRE_COMMAND_LINE": "PAGEWIRE_RUN_MEMORY"}
    assert load(environ=environ).sources["run.memory"] == "command line"


def test_unknown_keys_are_named_with_the_closest(tmp_path):
    assert "did you mean 'run.memory'" in refused("run.memori=part")
    assert "unknown setting 'nothing'; sections are run, " in refused("nothing=1")
    assert "section.name=value" in refused("run.memory")
    message = refused(environ={"PAGEWIRE_RUN_TIMEOU": "1ms"})
    assert "PAGEWIRE_RUN_TIMEOU " in message and "PAGEWIRE_RUN_TIMEOUT'" in message
    file = tmp_path / "settings.toml"
    for text, expected in [
        ("[runn]\n", "unknown section 'runn' (did you mean 'run'?)"),
        ("[run]\nmemry = 'part'\n", "did you mean 'run.memory'"),
        ("run = 3\n", "must be a table"),
        ("[run]\ntimeout = 5\n", "the unit is missing"),
        ("[run]\nmemory = 5\n", "one of part"),
        ("[run\n", str(file)),
    ]:
        file.write_text(text)
        assert expected in refused(environ={"PAGEWIRE_CONFIG": str(file)})
    assert "No such file" in refused(environ={"PAGEWIRE_CONFIG": str(tmp_path / "none.toml")})


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("run.timeout=5", "the unit is missing; allowed is a duration with unit (ns, us, ms, s)"),
        ("run.timeout=5min", "unknown unit 'min'"),
        ("run.timeout=0ns", "from 1us"),
        ("run.timeout=1.5ns", "not a whole number of ns"),
        ("run.eager_limit=none", "a size in bytes"),
        (
            "run.memory=prt",
            "one of part, part-prefetch, pretouch, pretouch-once, hybrid, ideal, pin",
        ),
        ("run.policy=mine:", "one of page, block, all, or a class"),
        ("run.err=maybe", "true or false"),
        ("run.compute=replay", "run.compute_replay"),
        ("run.compute_scale=-1", "from 0.0"),
        ("ni.fifo_depth=513", "from 1 to 512"),
        ("ni.fifo_depth=1.5", "whole number"),
        ("smmu.num_context_banks=0", "from 1 to 128"),
        ("smmu.l2_sets=3", "power of two"),
        ("smmu.hupcf=2", "from 0 to 1"),
        ("smmu.mode=stal", "one of terminate, stall"),
        ("driver.page_in=touch", "one of touch-ahead, touch-a-page"),
        ("driver.touch_ahead_pages=5", "from 1 to 4"),
        ("driver.variant=arm", "one of part, psi"),
        ("driver.library_core=3", "one of same, other"),
        ("ni.interleave=block", "one of none, packet"),
        ("ni.reads_without_key=2", "true or false"),
        ("smmu.parallel_walks=17", "from 1 to 16"),
        ("smmu.outstanding_accesses=0", "from 1 to 256"),
        ("firmware.window_blocks=65", "from 1 to 64"),
        ("firmware.medium_limit=1KiB", "below firmware.high_limit"),
        ("memory_backend.fault_fraction=nan", "from 0.0 to 1.0"),
        ("odp.fault_pages=0", "from 1 to "),
        ("odp.rnr_timer=0", "the unit is missing"),
    ],
)
def test_bad_value_is_refused_with_what_is_allowed(assignment, expected):
    message = refused(assignment)
    assert expected in message
    assert assignment.partition("=")[0] in message


def test_configuration_in_which_nothing_recovers_a_fault_is_refused():
    message = refused("run.err=off", "run.timeout=none")
    assert "nothing would send a faulted block again" in message
    load(["run.err=off", "run.timeout=none", "run.memory=ideal"], environ={})
    assert "run.nack_cancels_timer" in refused("run.err=off", "run.nack_cancels_timer=on")


def test_stall_is_refused_with_a_thread_that_cannot_resume():
    message = refused("smmu.mode=stall", "driver.page_in=touch-a-page")
    assert "RESUME" in message and "driver.page_in = 'touch-ahead'" in message


@pytest.mark.parametrize(
    "way", ["driver.err_by=kernel", "driver.err_by=a:B", "driver.err_after=page"]
)
def test_touch_a_page_is_refused_with_errs_that_the_thread_does_not_order(way):
    message = refused(way, "driver.page_in=touch-a-page")
    assert way.replace("=", " = '") in message and "driver.page_in = 'touch-ahead'" in message


@pytest.mark.parametrize(
    "other", ["smmu.mode=stall", "run.policy=mine:Policy", "driver.err_by=mine:Errs"]
)
def test_interleaving_is_refused_with_accesses_that_wait(other):
    message = refused("ni.interleave=packet", other)
    assert "ni.interleave = 'packet'" in message and other.partition("=")[0] in message
    assert "take ni.interleave = 'none'" in message


@pytest.mark.parametrize("memory", ["odp", "np-rdma", "ats", "backup-ring"])
@pytest.mark.parametrize("other", ["smmu.mode=stall", "smmu.hupcf=0", "ni.interleave=packet"])
def test_unit_that_does_not_interrupt_is_refused_with_ways_of_interrupts(memory, other):
    assert other.partition("=")[0] in refused(f"run.memory={memory}", other)


@pytest.mark.parametrize(
    "other",
    ["run.memory=odp", "run.memory=np-rdma", "run.translation=mini", "ni.interleave=packet"],
)
def test_zdma_is_refused_with_what_sends_again_or_takes_turns(other):
    name, _, value = other.partition("=")
    message = refused("ni.engine=zdma", other)
    assert "ni.engine = 'zdma'" in message and f"{name} = '{value}'" in message
    assert "take " in message


def test_values_given_in_python_pass_the_same_limits():
    with pytest.raises(ConfigError, match="one of part"):
        RunConfig(memory="x")
    with pytest.raises(ConfigError, match="true or false"):
        RunConfig(err=1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        RunConfig().memory = "pin"


def test_engine_settings_are_those_of_the_engines_struct():
    start = ffi.offsetof("pw_node_config", "settings")
    fields = [start + field.offset for _, field in ffi.typeof("pw_settings").fields]
    offsets = [row.offset for row in declared.rows().values()]
    assert sorted(each for each in offsets if start <= each <= max(fields)) == fields
    assert len(Config().engine_settings()) == len(fields)


@pytest.mark.parametrize("name", REGISTRY)
def test_every_choice_has_a_number_of_its_own_in_the_engine(name):
    numbers = [number for _, number, _ in declared.choices(name)]
    assert sorted(numbers) == list(range(len(numbers)))


@pytest.mark.parametrize(
    ("assignment", "field", "number"),
    [
        ("run.memory=ideal", "ideal", 1),
        ("run.memory=pin", "ideal", 0),
        ("run.err=off", "err_enabled", 0),
        ("run.policy=all", "policy", lib.PW_POLICY_ALL),
        ("driver.variant=psi", "driver_variant", lib.PW_DRIVER_PSI),
        ("driver.library_core=other", "library_core", lib.PW_LIBRARY_CORE_OTHER),
        ("driver.page_in=touch-a-page", "page_in", lib.PW_PAGE_IN_TOUCH_A_PAGE),
        ("driver.touch_ahead_pages=2", "touch_ahead_pages", 2),
        ("driver.entries_per_tasklet_run=1", "tasklet_entries", 1),
        ("ni.interleave=packet", "interleave", lib.PW_INTERLEAVE_PACKET),
        ("ni.reads_without_key=on", "reads_without_key", 1),
        ("smmu.mode=stall", "stall", 1),
        ("memory_backend.backend=model", "memory_backend", lib.PW_MEMORY_MODEL),
    ],
)
def test_setting_reaches_the_engine(assignment, field, number):
    assert load([assignment], environ={}).engine_settings()[field] == number


def test_engine_settings_are_integers_in_base_units():
    settings = load(
        ["run.timeout=none", "run.policy=block", "memory_backend.fault_fraction=0.05"], environ={}
    ).engine_settings()
    assert all(type(value) is int for value in settings.values())
    assert settings["timeout_ns"] == -1
    assert settings["policy"] == 1
    assert settings["model_fault_millionths"] == 50_000
    assert settings["high_limit_bytes"] == 16384
