"""Classes in Python under the libfabric provider: memory strategies, page-in and scheduling
policies.

The provider is a library of its own, which MPI loads when it starts; what its node asks a class is
handed to it here before. Its node is made of the same C as this package's extension, which reads
and answers it therefore. The calls come from inside of mpi4py's, in the thread that made them.
"""

import ctypes
import os
import sys
from typing import Any

from pagewire.native import check, ffi
from pagewire.run.answers import Answers
from pagewire.run.settings import platform
from pagewire.run.settings.config import Config

_LIBRARY = "libpagewire-fi.so"


class _Hooks(ctypes.Structure):
    """pw_fi_host_hooks of process.c."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("decide", ctypes.c_void_p),
        ("schedule", ctypes.c_void_p),
        ("strategy", ctypes.c_void_p),
        ("strategy_self", ctypes.c_void_p),
        ("created", ctypes.c_void_p),
    )


class FabricHost:
    """Answers the node of the provider in this process; lives as long as that."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._answers = Answers(config, _print)

    def hooks(self) -> _Hooks:
        """What the provider shall call; NULL for what is built in."""
        answers = self._answers
        hooks = _Hooks(
            struct_size=ctypes.sizeof(_Hooks),
            decide=_address(answers.decide),
            schedule=_address(answers.schedule),
            created=_address(answers.callback("int(pw_node *)", self._created)),
        )
        if answers.strategy is not None:
            hooks.strategy = _address(answers.strategy.ops)
            hooks.strategy_self = _address(answers.strategy.handle)
        return hooks

    def _created(self, node: Any) -> None:
        self._answers.bind(node, platform.load(self._config.run.platform).tables)


def _print(error: BaseException) -> None:
    """Nobody is above but C; the run ends."""
    import traceback  # takes long to load

    traceback.print_exception(error)
    sys.stderr.flush()


def _address(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))


_hosts: list[FabricHost] = []


def install(config: Config) -> None:
    """Hand the settings' classes to the provider that MPI will load. Before MPI starts."""
    host = FabricHost(config)
    _hosts.append(host)
    folder = os.environ["FI_PROVIDER_PATH"].partition(":")[0]  # the user's own stand behind it
    library = ctypes.CDLL(os.path.join(folder, _LIBRARY))
    hooks = host.hooks()
    check(library.pagewire_fabric_set_hooks(ctypes.byref(hooks)), "classes for the provider")
