"""Page-in policies: which pages the driver brings in for a fault (MECHANISMS 5).

`BUILT_IN` names those that the engine has. A user's own is a class on `PageInPolicy`, named by
`run.policy = module:Class`; docs/extending.md tells how to write, run and test one.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType, ModuleType

from pagewire.native import lib
from pagewire.native.settings import ConfigError, suggestion


@dataclasses.dataclass(frozen=True, slots=True)
class BuiltIn:
    """A policy of the engine: its number there, and what it brings in."""

    number: int
    help: str


BUILT_IN: Mapping[str, BuiltIn] = MappingProxyType(
    {
        "page": BuiltIn(int(lib.PW_POLICY_PAGE), "the one"),
        "block": BuiltIn(int(lib.PW_POLICY_BLOCK), "rest of the block"),
        "all": BuiltIn(int(lib.PW_POLICY_ALL), "rest of the transfer"),
    }
)
"""The policies of the engine by name."""


@dataclasses.dataclass(frozen=True, slots=True)
class PageFault:
    """What a policy may know of a fault. Pages are numbers of 4 KB pages (address >> 12).

    At the source the engine's own policies bring in `smmu.touch_ahead_pages` at most; a policy of
    one's own is free.
    """

    page: int
    """whose access faulted"""
    block: range
    """pages of the block, at most 5, at this end of the transfer"""
    transfer: range
    """pages of the whole transfer, at this end"""
    at_destination: bool
    """True: the NI writes a block that arrives; False: it reads a block that leaves"""
    time_ns: int
    """virtual time at which the tasklet calls get_user_pages"""
    pdid: int
    bank: int
    """context bank, by index"""
    source_node: int
    """node that the block comes from"""
    transaction_id: int
    sequence: int
    """of the block; 0 unless it was sent before"""
    probe: Callable[[int, int], Sequence[bool]] = dataclasses.field(repr=False, compare=False)

    @property
    def is_write(self) -> bool:
        """What FSYNR0.WNR says."""
        return self.at_destination

    def resident(self, first_page: int, num_pages: int) -> tuple[bool, ...]:
        """Which of these pages are in memory or being brought in; one that is not mapped is not."""
        if first_page < 0 or not 0 <= num_pages <= 1 << 20:
            raise ValueError(
                f"resident({first_page}, {num_pages}): up to {1 << 20} pages from 0 on"
            )
        return tuple(self.probe(first_page, num_pages))


class PageInPolicy(abc.ABC):
    """Decides which pages a fault brings in. One object a node, made without arguments.

    Its answers may depend on what it was asked before and on nothing else: no clock, no unseeded
    random numbers. Else two runs differ.
    """

    @abc.abstractmethod
    def pages(self, *, fault: PageFault) -> range:
        """The pages to bring in, in ascending order: a range with step 1 that holds `fault.page`.

        It may reach outside of the transfer, and is cut where pages are not mapped (below 0 too). Each
        absent page costs what the platform says, and the block waits for the last one.
        """


def reason_to_refuse(pages: object, fault: PageFault) -> str:
    """Why this is no answer to the fault; empty when it is one."""
    if not isinstance(pages, range):
        return f"a {type(pages).__name__} ({pages!r}) instead of a range of pages"
    if pages.step != 1:
        return f"{pages!r}: the step must be 1"
    if fault.page not in pages:
        return f"{pages!r}: the faulting page {fault.page} must be in it"
    return ""


def is_built_in(name: str) -> bool:
    return name in BUILT_IN


def number(name: str) -> int:
    """The engine's number of a policy: a user's is the host's business."""
    return BUILT_IN[name].number if is_built_in(name) else int(lib.PW_POLICY_HOST)


def load(name: str, *, folders: Sequence[str] = ()) -> PageInPolicy:
    """An object of the class that `module:Class` names.

    The module is looked for in the working directory, in `folders`, and where Python looks. Raises
    ConfigError, whose text says what is wrong with it.
    """
    found = load_class(name, folders=folders)
    try:
        return found()
    except Exception as error:
        raise ConfigError(
            f"{_setting(name)}: {found.__name__}() raised {_describe(error)}; "
            "a policy is made without arguments"
        ) from error


def load_class(name: str, *, folders: Sequence[str] = ()) -> type[PageInPolicy]:
    """The class that `module:Class` names; as `load`."""
    module_name, _, class_name = name.partition(":")
    module = _import(name, module_name, [os.getcwd(), *folders])
    origin = getattr(module, "__file__", None) or "built-in"
    found = getattr(module, class_name, None)
    if found is None:
        policies = [each for each, value in vars(module).items() if _is_policy(value)]
        has = f"has {', '.join(policies)}" if policies else "has no page-in policy"
        raise ConfigError(
            f"{_setting(name)}: module '{module_name}' ({origin}) has no '{class_name}'"
            f"{suggestion(class_name, policies)}; it {has}"
        )
    if not (isinstance(found, type) and issubclass(found, PageInPolicy)):
        raise ConfigError(
            f"{_setting(name)}: '{class_name}' in {origin} is not a subclass of "
            "pagewire.smmu.policy.PageInPolicy; derive it from that"
        )
    if inspect.isabstract(found):
        missing = ", ".join(sorted(found.__abstractmethods__))
        raise ConfigError(
            f"{_setting(name)}: '{class_name}' in {origin} does not define {missing}; "
            "define `def pages(self, *, fault)`"
        )
    return found


def _is_policy(value: object) -> bool:
    return (
        isinstance(value, type)
        and issubclass(value, PageInPolicy)
        and not inspect.isabstract(value)
    )


def _import(name: str, module_name: str, folders: Sequence[str]) -> ModuleType:
    try:
        with _looking_in(folders):
            return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        if module_name != missing and not module_name.startswith(f"{missing}."):
            raise ConfigError(
                f"{_setting(name)}: module '{module_name}' imports '{missing}', which is not there"
            ) from error
        raise ConfigError(
            f"{_setting(name)}: no module named '{missing}' in {' or '.join(dict.fromkeys(folders))}, "
            "nor installed; start in its folder, or add that to PYTHONPATH"
        ) from None
    except Exception as error:
        raise ConfigError(
            f"{_setting(name)}: importing '{module_name}' raised {_describe(error)}"
        ) from error


@contextlib.contextmanager
def _looking_in(folders: Sequence[str]) -> Iterator[None]:
    before = list(sys.path)
    sys.path[:0] = folders
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = before


def _setting(name: str) -> str:
    return f"run.policy = '{name}'"


def _describe(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
