"""Classes that a user names as module:Class in a setting: found, imported, checked, with errors that say
what to do. For every extension point; each folder has its own base classes.
"""

import contextlib
import importlib
import inspect
import os
import re
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import TypeVar

from pagewire.native.settings import ConfigError, suggestion

_SPECIFICATION = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*")

Base = TypeVar("Base")


def is_specification(text: str) -> bool:
    """Is this of the form module:Class?"""
    return _SPECIFICATION.fullmatch(text) is not None


def create(setting: str, text: str, base: type[Base], *, folders: Sequence[str] = ()) -> Base:
    """An object of the class that `text`, the value of `setting`, names; ConfigError says why not.

    The module is looked for in the working directory, in `folders`, and where Python looks. The class derives from
    `base`, defines what is abstract there, and is made without arguments.
    """
    found = load(setting, text, base, folders=folders)
    try:
        return found()
    except Exception as error:
        raise ConfigError(
            f"{setting} = '{text}': {found.__name__}() raised {describe(error)}; "
            f"a {base.__name__} is made without arguments"
        ) from error


def load(setting: str, text: str, base: type[Base], *, folders: Sequence[str] = ()) -> type[Base]:
    """The class itself; as `create`."""
    where = f"{setting} = '{text}'"
    if not is_specification(text):
        raise ConfigError(f"{where}: expected module:Class")
    module_name, _, class_name = text.partition(":")
    module = _import(where, module_name, [os.getcwd(), *folders])
    origin = getattr(module, "__file__", None) or "built-in"
    found = getattr(module, class_name, None)
    if found is None:
        fitting = [name for name, value in vars(module).items() if _fits(value, base)]
        raise ConfigError(
            f"{where}: module '{module_name}' ({origin}) has no '{class_name}'"
            f"{suggestion(class_name, fitting)}; it has {', '.join(fitting) or f'no {base.__name__}'}"
        )
    whole_name = f"{base.__module__}.{base.__name__}"
    if not (isinstance(found, type) and issubclass(found, base)):
        raise ConfigError(
            f"{where}: '{class_name}' in {origin} is not a subclass of {whole_name}; derive it from that"
        )
    if inspect.isabstract(found):
        missing = sorted(getattr(found, "__abstractmethods__", ()))
        wanted = ", ".join(f"`{_definition(found, name)}`" for name in missing)
        raise ConfigError(
            f"{where}: '{class_name}' in {origin} does not define {', '.join(missing)}; define {wanted}"
        )
    return found


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


def _import(where: str, module_name: str, folders: Sequence[str]) -> ModuleType:
    try:
        with _looking_in(folders):
            return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        if module_name != missing and not module_name.startswith(f"{missing}."):
            reason = f"module '{module_name}' imports '{missing}', which is not there"
            raise ConfigError(f"{where}: {reason}") from error
        raise ConfigError(
            f"{where}: no module named '{missing}' in {' or '.join(dict.fromkeys(folders))}, nor installed; "
            "start in its folder, or add that to PYTHONPATH"
        ) from None
    except Exception as error:
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
