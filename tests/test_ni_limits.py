"""An NI that is made with a number out of its range: which one is told by name."""

import pytest

from pagewire.native import ffi, lib
from pagewire.transport.node.engine import engine_struct
from pagewire.transport.settings.config import load
from pagewire.transport.settings.platform import load as load_platform

SETTINGS = load(environ={}).engine_settings()
COSTS = load_platform("exanest-qfdb").costs.as_dict()


def refused(costs: dict[str, int], settings: dict[str, int]) -> str | None:
    made = (
        engine_struct("pw_costs", COSTS | costs),
        engine_struct("pw_settings", SETTINGS | settings),
    )
    name = lib.pw_ni_refused(*made)
    memory, ni = ffi.new("pw_memory **"), ffi.new("pw_ni **")
    assert lib.pw_memory_create(lib.PW_MEMORY_HOST, ffi.NULL, memory) == 0
    code = lib.pw_ni_create(*made, 0, 1, memory[0], ni)
    if code == 0:
        lib.pw_ni_destroy(ni[0])
    lib.pw_memory_destroy(memory[0])
    assert code == (lib.PW_ERR_INVALID if name else lib.PW_OK)
    return ffi.string(name).decode() if name else None


def test_defaults_are_fine() -> None:
    assert refused({}, {}) is None


@pytest.mark.parametrize(
    "name,value",
    [("window_blocks", 0), ("window_blocks", 65), ("tick_ns", 0), ("policy", 4), ("policy", -1)],
)
def test_setting_out_of_range_is_named(name: str, value: int) -> None:
    assert refused({}, {name: value}) == name


@pytest.mark.parametrize(
    "name,value", [("link_mbps", 0), ("nodes_per_qfdb", 0), ("packetizer_payload_bytes", -1)]
)
def test_cost_out_of_range_is_named(name: str, value: int) -> None:
    assert refused({name: value}, {}) == name


def test_stall_with_a_policy_of_the_host_is_refused() -> None:
    assert refused({}, {"policy": lib.PW_POLICY_HOST, "stall": 1}) == "policy"
