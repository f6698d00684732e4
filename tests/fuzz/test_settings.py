"""Whatever stands in platform files, configuration files, the environment and on the command line:
it is taken, or refused with a ConfigError, and the engine takes what Python has taken."""

import copy
import pathlib
import tomllib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pagewire.native import ffi, lib
from pagewire.native.settings import ConfigError
from pagewire.run.settings import node_file, platform
from pagewire.run.settings.config import REGISTRY, load

fuzzed = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine takes its time."""
BUNDLED = tomllib.loads((platform.FOLDER / f"{platform.names()[0]}.toml").read_text())
DEFAULT = load(environ={})
numbers = (
    st.integers()
    | st.floats()
    | st.sampled_from([2**63 - 1, 2**63, -(2**63), 2**64, 10**400, 1e308, -1, 0, True])
)
values = st.recursive(
    numbers | st.text(max_size=8) | st.none(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(document: Any) -> list[tuple[Any, ...]]:
    """The path of every value in a document, tables and lists included."""
    inside = document.items() if isinstance(document, dict) else enumerate(document)
    found: list[tuple[Any, ...]] = []
    for key, value in inside:
        found.append((key,))
        if isinstance(value, (dict, list)):
            found += [(key, *rest) for rest in places(value)]
    return found


PLACES = places(BUNDLED)


def put(document: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        document = document[key]
    document[path[-1]] = value


def check_engine_takes(costs: dict[str, int]) -> None:
    """Costs go to the engine as they are: it refuses some by name, and never sees others."""
    given_costs = ffi.new("pw_costs *", costs)
    refused = lib.pw_ni_refused(given_costs, ffi.new("pw_settings *", DEFAULT.engine_settings()))
    assert refused == ffi.NULL or ffi.string(refused).decode() in costs


@fuzzed
@given(st.lists(st.tuples(st.sampled_from(PLACES), values), min_size=1, max_size=2))
def test_any_value_at_any_place_of_a_platform_is_taken_or_refused(changes: Any) -> None:
    document = copy.deepcopy(BUNDLED)
    for path, value in changes:
        try:
            put(document, path, value)
        except (KeyError, TypeError, IndexError):  # the change before took the place away
            continue
    try:
        parsed = platform.parse(document, "fuzzed")
    except ConfigError as error:
        assert str(error)
        return
    check_engine_takes(parsed.costs.as_dict())
    node_file.content(DEFAULT, parsed, num_ranks=2)


@fuzzed
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode), st.booleans())
def test_any_bytes_of_a_toml_file_are_taken_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, is_platform: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.toml"
    path.write_bytes(content)
    try:
        if is_platform:
            platform.load(str(path))
        else:
            load(environ={}, config_path=str(path))
    except ConfigError as error:
        assert str(path) in str(error)


def test_a_cost_beyond_all_numbers_of_the_engine_is_refused() -> None:
    document = copy.deepcopy(BUNDLED)
    document["costs"]["hop"] |= {"value": 1e14, "unit": "s"}
    with pytest.raises(ConfigError, match=r"costs\.hop\.value = .* s: at most 1e\+12 ns"):
        platform.parse(document, "fuzzed")


@pytest.mark.parametrize(
    "content",
    ["a=" + "[" * 5000, "a=" + "{b=" * 5000, f"a={'9' * 5000}", "[run]\ntimeout=" + "[" * 5000],
    ids=["lists", "tables", "digits", "setting"],
)
def test_a_toml_file_that_python_cannot_hold_is_refused(
    tmp_path: pathlib.Path, content: str
) -> None:
    path = tmp_path / "deep.toml"
    path.write_text(content)
    for read in (lambda: platform.load(str(path)), lambda: load(environ={}, config_path=str(path))):
        with pytest.raises(ConfigError, match=r"deep\.toml"):
            read()


texts = st.text(max_size=30) | numbers.map(str) | st.sampled_from(
    ["1ms", "1e400s", "64KiB", "none", "0x10", "1_000", "٣", "nan", "inf", "a.b:C", "os:system",
     ":", "1:0:0", "1:2:3:4:5", "9" * 5000]
)  # fmt: skip
names = st.sampled_from(sorted(REGISTRY)) | st.text(max_size=12)


@fuzzed
@given(st.lists(st.tuples(names, texts), max_size=3), st.lists(st.tuples(names, texts), max_size=2))
def test_any_text_of_any_setting_is_taken_or_refused(
    assigned: list[tuple[str, str]], exported: list[tuple[str, str]]
) -> None:
    environ = {
        f"PAGEWIRE_{name.replace('.', '_').upper()}": text
        for name, text in exported
        if "\0" not in name + text
    }
    try:
        config = load([f"{name}={text}" for name, text in assigned], environ=environ)
    except ConfigError as error:
        assert str(error)
        return
    numbers_of_engine = ffi.new("pw_settings *", config.engine_settings())
    assert numbers_of_engine.window_blocks > 0
    again = load([f"{name}={text}" for name, text in config.not_default().items()], environ={})
    assert again.engine_settings() == config.engine_settings()


@fuzzed
@given(st.lists(st.text(max_size=10), max_size=3).map(":".join) | st.text(max_size=20))
def test_any_name_of_an_extension_is_taken_or_refused(text: str) -> None:
    for name in ("run.policy", "run.memory", "firmware.scheduling", "impairments.planner"):
        try:
            load([f"{name}={text}"], environ={})
        except ConfigError as error:
            assert name in str(error)
