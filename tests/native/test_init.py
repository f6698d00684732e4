"""Status codes as exceptions, and what the compiled modules are linked with."""

import pathlib
import re
import subprocess

import pytest

import pagewire.native
from pagewire.native import EngineError, check, describe, lib


def test_code_that_is_not_negative_passes_through() -> None:
    assert check(0, "nothing") == 0
    assert check(17, "nothing") == 17


@pytest.mark.parametrize("name", [name for name in dir(lib) if name.startswith("PW_ERR_")])
def test_each_code_is_named_and_says_what_it_means_and_what_to_do(name: str) -> None:
    code = getattr(lib, name)
    with pytest.raises(EngineError, match=rf"^open the door: {name} \({code}\)") as error:
        check(code, "open the door")
    assert error.value.code == code
    assert describe(code).startswith(f"{name} ({code}), ")
    assert "; " in describe(code) or name == "PW_ERR_HOST"  # errno tells what to do


def test_unknown_code_is_said_to_be_unknown() -> None:
    with pytest.raises(EngineError, match="unknown status code -999"):
        check(-999, "open the door")


@pytest.mark.parametrize("part", ["_native.abi3.so", "fabric/libpagewire-fi.so"])
def test_memory_of_our_own_is_asked_of_ourselves_alone(part: str) -> None:
    """The C library must not resize what native/own_memory.c gave."""
    path = pathlib.Path(pagewire.native.__file__).parents[1] / part
    if not path.exists():
        pytest.skip("this installation has no libfabric provider")
    symbols = subprocess.run(
        ["nm", "-D", "--undefined-only", path], capture_output=True, text=True, check=True
    ).stdout
    asked = set(re.findall(r"U (\w+)", symbols))
    assert not asked & {
        "malloc", "calloc", "realloc", "reallocarray", "free", "aligned_alloc", "posix_memalign",
        "memalign", "valloc", "getline", "getdelim", "open_memstream",
    }  # fmt: skip
