"""Extension points: classes that a setting takes by name or as module:Class.

`Registry` is one for all kinds: page-in policies, scheduling policies, planners of impairments and
memory strategies. Each folder declares its own base class and registry. A class of the user's is
found, imported, checked and made here, with errors that say what to do.
"""

import contextlib
import dataclasses
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Generic, TypeVar

from pagewire.native.settings import ConfigError, suggestion

_SPECIFICATION = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*")
_NAME = re.compile(r"[A-Za-z][\w-]*")

Base = TypeVar("Base")
Answer = TypeVar("Answer")


class ExtensionError(RuntimeError):
    """A class of the user's raised, or answered what cannot be done; the run cannot go on."""


@dataclasses.dataclass(frozen=True, slots=True)
class Entry(Generic[Base]):
    """What one name of a registry means."""

    help: str
    cls: type[Base] | None = None
    """None: no class does it but the machine itself, in C."""


class Registry(Generic[Base]):
    """The extensions of one kind: built-in names, registered classes, and module:Class.

    `setting` is the dotted name of the setting that chooses, `base` the class to derive from.
    """

    def __init__(self, setting: str, base: type, built_in: Mapping[str, Entry[Base]]) -> None:
        self.setting = setting
        self.base: type[Base] = base
        self._entries = dict(built_in)

    def register(self, name: str, cls: type[Base], help: str = "") -> None:
        """Let the setting take `name` for this class; ConfigError when the name cannot be had."""
        if name in self._entries:
            raise ConfigError(f"{self.setting}: the name '{name}' is taken; choose another")
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{self.setting}: '{name}' cannot be a name; take letters, digits, _ and -"
            )
        _check_class(f"{self.setting}: '{name}'", cls, self.base)
        self._entries[name] = Entry(help or _first_line(cls), cls)

    def unregister(self, name: str) -> None:
        """Forget a name."""
        del self._entries[name]

    def entries(self) -> Mapping[str, Entry[Base]]:
        """Every name with its meaning, built-in ones first."""
        return dict(self._entries)

    def names(self) -> tuple[str, ...]:
        """Every name that the setting takes."""
        return tuple(self._entries)

    def accepts(self, text: str) -> bool:
        """Is this one of the names, or of the form module:Class? The class is not looked for."""
        return text in self._entries or is_specification(text)

    def help(self) -> str:
        """One phrase for the setting's help."""
        known = "; ".join(f"{name}: {each.help}" for name, each in self._entries.items())
        return f"{known}; module:Class: your own {self.base.__name__}"

    def is_native(self, text: str) -> bool:
        """Does the machine do this itself, in C, so that no class is asked?"""
        return text in self._entries and self._entries[text].cls is None

    def load(self, text: str, *, folders: Sequence[str] = ()) -> type[Base] | None:
        """The class behind a value of the setting; None when it is native. ConfigError says why
        not.

        A module is looked for in the working directory, in `folders`, and where Python looks.
        """
        if text in self._entries:
            return self._entries[text].cls
        if not is_specification(text):
            raise ConfigError(
                f"{self.setting} = '{text}': allowed is one of {', '.join(self._entries)}, or a "
                f"class of yours as module:Class{suggestion(text, self._entries)}"
            )
        where = f"{self.setting} = '{text}'"
        module_name, _, class_name = text.partition(":")
        module = import_module(where, module_name, [os.getcwd(), *folders])
        origin = getattr(module, "__file__", None) or "built-in"
        found = getattr(module, class_name, None)
        if found is None:
            fitting = [name for name, value in vars(module).items() if _fits(value, self.base)]
            raise ConfigError(
                f"{where}: module '{module_name}' ({origin}) has no '{class_name}'"
                f"{suggestion(class_name, fitting)}; it has "
                f"{', '.join(fitting) or f'no {self.base.__name__}'}"
            )
        _check_class(f"{where}: '{class_name}' in {origin}", found, self.base)
        return found  # type: ignore[no-any-return]

    def create(self, text: str, *, folders: Sequence[str] = ()) -> Base | None:
        """An object of the class behind a value, made without arguments; else as `load`."""
        cls = self.load(text, folders=folders)
        if cls is None:
            return None
        try:
            return cls()
        except BaseException as error:
            raise ConfigError(
                f"{self.setting} = '{text}': {cls.__name__}() raised {describe(error)}; "
                f"each {self.base.__name__} is made without arguments"
            ) from error


def is_specification(text: str) -> bool:
    """Is this of the form module:Class?"""
    return _SPECIFICATION.fullmatch(text) is not None


def ask(
    label: str,
    asked: object,
    question: Callable[[], Answer],
    refuse: Callable[[Answer], str],
    error: type[Exception],
) -> Answer:
    """What an object of a user's class answers; `error` when it raises, or `refuse` says why its
    answer is none. label, asked: how the text calls the object, and what it was asked for."""
    try:
        answer = question()
    except BaseException as raised:  # SystemExit too: ending quietly would leave the peers waiting
        raise error(f"{label} raised {describe(raised)} (asked for {asked})") from raised
    reason = refuse(answer)
    if reason:
        raise error(f"{label} answered {reason} (asked for {asked})")
    return answer


def _check_class(what: str, found: object, base: type) -> None:
    if not (isinstance(found, type) and issubclass(found, base)):
        raise ConfigError(
            f"{what} is not a subclass of {base.__module__}.{base.__name__}; derive it from that"
        )
    if inspect.isabstract(found):
        missing = sorted(getattr(found, "__abstractmethods__", ()))
        wanted = ", ".join(f"`{_definition(found, name)}`" for name in missing)
        raise ConfigError(f"{what} does not define {', '.join(missing)}; define {wanted}")


def _first_line(cls: type) -> str:
    return (inspect.getdoc(cls) or cls.__name__).partition("\n")[0].rstrip(".")


def describe(error: BaseException) -> str:
    """An exception in one line."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _definition(owner: type, name: str) -> str:
    """How a method of a class begins, without types."""
    signature = inspect.signature(getattr(owner, name))
    plain = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    bare = signature.replace(parameters=plain, return_annotation=signature.empty)
    return f"def {name}{bare}"


def _fits(value: object, base: type) -> bool:
    return isinstance(value, type) and issubclass(value, base) and not inspect.isabstract(value)


def import_module(where: str, module_name: str, folders: Sequence[str]) -> ModuleType:
    """A module of the user's; ConfigError, which begins with `where`, says why there is none."""
    try:
        with _looking_in(folders):
            return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        if module_name != missing and not module_name.startswith(f"{missing}."):
            reason = f"module '{module_name}' imports '{missing}', which is not there"
            raise ConfigError(f"{where}: {reason}") from error
        raise ConfigError(
            f"{where}: no module named '{missing}' in {' or '.join(dict.fromkeys(folders))}, nor "
            "installed; start in its folder, or add that to PYTHONPATH"
        ) from None
    except BaseException as error:
        reason = f"importing '{module_name}' raised {describe(error)}"
        raise ConfigError(f"{where}: {reason}") from error


@contextlib.contextmanager
def _looking_in(folders: Sequence[str]) -> Iterator[None]:
    before = list(sys.path)
    sys.path[:0] = folders
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = before
