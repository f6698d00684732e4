"""The registry of extensions: names, classes, and everything that a class may raise."""

import abc
import sys

import pytest

from pagewire.native.extension import Entry, Registry
from pagewire.native.settings import ConfigError, Declaration


class Engine(abc.ABC):
    """A made-up kind."""

    @abc.abstractmethod
    def start(self) -> None: ...


class Diesel(Engine):
    """Starts late.

    More text.
    """

    def start(self) -> None: ...


class Unfinished(Engine): ...


class Raising(Diesel):
    error: BaseException = SystemExit(3)

    def __init__(self) -> None:
        raise self.error


HERE = __name__


@pytest.fixture
def registry() -> Registry[Engine]:
    return Registry("car.engine", Engine, {"none": Entry("roll"), "diesel": Entry("slow", Diesel)})


def test_names_mean_classes_or_the_machine_itself(registry):
    assert registry.names() == ("none", "diesel")
    assert (registry.is_native("none"), registry.is_native("diesel")) == (True, False)
    assert not registry.is_native("a:B")
    assert registry.load("none") is None is registry.create("none")
    assert type(registry.create("diesel")) is Diesel
    assert type(registry.create(f"{HERE}:Diesel")) is Diesel
    assert registry.help() == "none: roll; diesel: slow; module:Class: your own Engine"


def test_registered_class_has_a_name_and_its_own_help(registry):
    registry.register("late", Diesel)
    assert registry.accepts("late") and registry.load("late") is Diesel
    assert registry.entries()["late"].help == "Starts late"
    registry.unregister("late")
    assert not registry.accepts("late")


@pytest.mark.parametrize(
    ("name", "cls", "text"),
    [
        ("none", Diesel, "taken"),
        ("no name", Diesel, "cannot be a name"),
        ("a:B", Diesel, "cannot be a name"),
        ("mine", int, "not a subclass of"),
        ("mine", Unfinished, "does not define start; define `def start"),
    ],
)
def test_what_cannot_be_registered_says_why(registry, name, cls, text):
    with pytest.raises(ConfigError, match=text) as caught:
        registry.register(name, cls)
    assert "car.engine" in str(caught.value)


def test_unknown_name_lists_what_there_is(registry):
    with pytest.raises(ConfigError) as caught:
        registry.create("deisel")
    assert str(caught.value) == (
        "car.engine = 'deisel': allowed is one of none, diesel, or a class of yours as "
        "module:Class (did you mean 'diesel'?)"
    )


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), OSError()])
def test_anything_raised_by_a_constructor_is_an_error_that_names_it(registry, error, monkeypatch):
    monkeypatch.setattr(Raising, "error", error)
    with pytest.raises(ConfigError, match=rf"Raising\(\) raised {type(error).__name__}") as caught:
        registry.create(f"{HERE}:Raising")
    assert caught.value.__cause__ is error


def test_module_that_exits_is_an_error_that_names_it(registry, tmp_path, monkeypatch):
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="importing 'exits' raised SystemExit: 0"):
        registry.create("exits:X")
    sys.modules.pop("exits", None)


def test_setting_takes_a_name_that_is_registered_later(registry):
    declaration = Declaration("car", "engine", "text", "none", "", extensions=registry)
    assert registry.help().startswith("none: roll; ")
    registry.register("late", Diesel)
    assert declaration.choices == ("none", "diesel", "late")
