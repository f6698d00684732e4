"""The MPI of the emulated machine: mpi4py's methods, replaced so that their data goes by the NI.

This is the door; what lies behind is private to the facade. A name's module is loaded when the name
is asked for, so that a rank's start is not longer for what it does not use.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pagewire.transport.facade.loader import activate as activate
    from pagewire.transport.facade.loader import install_finder as install_finder
    from pagewire.transport.facade.loader import is_over_fabric as is_over_fabric
    from pagewire.transport.facade.loader import load as load
    from pagewire.transport.facade.notices import Notice as Notice
    from pagewire.transport.facade.patching import native as native
    from pagewire.transport.facade.program_time import replace_clocks as replace_clocks
    from pagewire.transport.facade.progress import failed_test as failed_test
    from pagewire.transport.facade.progress import make_progress as make_progress
    from pagewire.transport.facade.progress import test_turn as test_turn
    from pagewire.transport.facade.progress import turn as turn
    from pagewire.transport.facade.progress import watch as watch
    from pagewire.transport.facade.python_calls import HeldChannel as HeldChannel
    from pagewire.transport.facade.rank import Wait as Wait
    from pagewire.transport.facade.rank import here as here
    from pagewire.transport.facade.regions import region as region

_MODULES = {
    "loader": ("activate", "install_finder", "is_over_fabric", "load"),
    "notices": ("Notice",),
    "patching": ("native",),
    "program_time": ("replace_clocks",),
    "progress": ("failed_test", "make_progress", "test_turn", "turn", "watch"),
    "python_calls": ("HeldChannel",),
    "rank": ("Wait", "here"),
    "regions": ("region",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
