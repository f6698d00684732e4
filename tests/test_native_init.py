"""Status codes as exceptions."""

import pytest

from pagewire.native import EngineError, check, describe, lib


def test_code_that_is_not_negative_passes_through() -> None:
    assert check(0, "nothing") == 0
    assert check(17, "nothing") == 17


@pytest.mark.parametrize("name", [name for name in dir(lib) if name.startswith("PW_ERR_")])
def test_each_code_is_named(name: str) -> None:
    code = getattr(lib, name)
    with pytest.raises(EngineError, match=rf"^open the door: {name} \({code}\)") as error:
        check(code, "open the door")
    assert error.value.code == code


def test_unknown_code_is_said_to_be_unknown() -> None:
    with pytest.raises(EngineError, match="unknown status code -999"):
        check(-999, "open the door")


@pytest.mark.parametrize("name", [name for name in dir(lib) if name.startswith("PW_ERR_")])
def test_each_code_says_what_it_means_and_what_to_do(name: str) -> None:
    code = getattr(lib, name)
    assert describe(code).startswith(f"{name} ({code}), ")
    assert "; " in describe(code) or name == "PW_ERR_HOST"  # errno tells what to do
