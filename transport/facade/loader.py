"""Puts the facade under mpi4py.MPI at the moment mpi4py.MPI gets loaded.

Not earlier: programs set `mpi4py.rc` before their first `from mpi4py import MPI`. When a program
turned automatic initialization off, the facade waits for its MPI.Init or MPI.Init_thread.
"""

import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, cast

from pagewire.native.settings import ConfigError
from pagewire.run.settings import config
from pagewire.transport.facade.rank import here

_TARGET = "mpi4py.MPI"
_UNEXPECTED_BYTES = 64
_UNEXPECTED_TAG = 32767  # the largest that every MPI has


class _Loader:
    """A module's own loader, and what goes around it. It derives from nothing of importlib.abc,
    which takes long to load."""

    def __init__(self, real: Any, around: Callable[[Callable[[], None]], None]) -> None:
        self._real = real
        self._around = around

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._real.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        def load() -> None:
            self._real.exec_module(module)
            if module.__spec__ is not None:
                module.__spec__.loader = self._real

        self._around(load)


class _Finder:
    def __init__(self, name: str, around: Callable[[Callable[[], None]], None]) -> None:
        self.name = name
        self._around = around

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        sys.meta_path.remove(
            self
        )  # the module may have a finder of its own: ask it as if we were not here
        spec = importlib.util.find_spec(fullname)
        if spec is not None:
            spec.loader = cast(Any, _Loader(spec.loader, self._around))
        return spec


def around_import(name: str, around: Callable[[Callable[[], None]], None]) -> None:
    """When the module is imported, once, `around` is called with what loads it. Does nothing the
    second time."""
    if not any(isinstance(finder, _Finder) and finder.name == name for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(name, around))


def install_finder() -> None:
    """From now on `from mpi4py import MPI` gives the facade. Does nothing the second time."""
    if _TARGET in sys.modules:
        activate()
    else:
        around_import(_TARGET, _load_and_activate)


def _load_and_activate(load: Callable[[], None]) -> None:
    load()  # MPI_Init happens here
    activate()


@functools.cache
def is_over_fabric() -> bool:
    """Does the NI lie below the MPI library, so that there is nothing to replace?"""
    return config.load().run.transport == "fabric"


def load() -> ModuleType:
    """mpi4py.MPI as a program of this run shall see it."""
    return importlib.import_module(_TARGET) if is_over_fabric() else activate()


def activate() -> ModuleType:
    """Load mpi4py.MPI, replace its methods, return it. Does nothing the second time.

    Raises ConfigError where the facade has no rank.
    """
    if is_over_fabric():
        raise ConfigError(
            "run.transport = 'fabric': the RDMA library of pagewire.transport is the facade's; "
            "take run.transport = 'facade'"
        )
    MPI = importlib.import_module(_TARGET)
    if not here.is_open:
        if MPI.Is_initialized() and not MPI.Is_finalized():
            _install()
        elif not MPI.Is_initialized():
            for name in ("Init", "Init_thread"):
                setattr(MPI, name, _initializing(getattr(MPI, name)))
    return MPI


def _initializing(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def initialize(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        _install()
        return result

    return initialize


def _install() -> None:
    if not here.is_open:
        _take_unexpected_message(sys.modules[_TARGET])
        importlib.import_module("pagewire.transport.facade.installation").install()


def _take_unexpected_message(MPI: Any) -> None:
    """Receive one message that nobody waited for, before anything else is allocated.

    MPI makes buffers for such messages when the first one comes, which is sooner or later as this
    host's load has it. What the program allocates behind them would lie elsewhere in each run, and
    blocks are cut at addresses.
    """
    world = MPI.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    if size == 1:
        return
    sending = world.Isend(bytearray(_UNEXPECTED_BYTES), (rank + 1) % size, _UNEXPECTED_TAG)
    while (found := world.Improbe((rank - 1) % size, _UNEXPECTED_TAG)) is None:
        os.sched_yield()
    found.Recv(bytearray(_UNEXPECTED_BYTES))
    sending.Wait()
