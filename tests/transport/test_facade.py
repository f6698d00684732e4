"""The facade's door: every name is there, and none costs a start that does not use it."""

import subprocess
import sys

from pagewire.transport import facade


def test_every_name_of_the_door_is_there():
    for name in facade._MODULE_OF:
        assert getattr(facade, name) is not None
    assert not hasattr(facade, "no_such_name")


def test_the_door_loads_nothing():
    program = (
        "import sys, pagewire.transport.facade as door; "
        "print([name for name in sys.modules if name.startswith(door.__name__ + '.')])"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
