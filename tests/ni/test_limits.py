"""An NI that is made with a number out of its range: which one is told by name."""

import re

import pytest
from engine_pair import Pair

from pagewire.native import ffi, lib
from pagewire.ni.engine_view import engine_struct
from pagewire.run.settings.config import load
from pagewire.run.settings.platform import load as load_platform

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
    text = ffi.new("char[300]")
    assert lib.pw_ni_explain_refusal(*made, text, len(text)) == bool(name)
    if name:
        value = ({**COSTS, **SETTINGS} | costs | settings)[ffi.string(name).decode()]
        assert re.fullmatch(
            rf"{ffi.string(name).decode()} = {value}: .*(allowed is|take) .*",
            ffi.string(text).decode(),
        )
    return ffi.string(name).decode() if name else None


def test_defaults_are_fine() -> None:
    assert refused({}, {}) is None


@pytest.mark.parametrize(
    "name,value",
    [
        ("window_blocks", 0),
        ("window_blocks", 65),
        ("tick_ns", 0),
        ("policy", 4),
        ("engine", 2),
        ("policy", -1),
        ("num_context_banks", 129),
        ("parallel_walks", 0),
        ("outstanding_accesses", 257),
        ("ni_fifo_depth", 513),
        ("tasklet_entries", 0),
        ("touch_ahead_pages", 0),
        ("touch_ahead_pages", 5),
        ("l1_sets", 3),
        ("l2_ways", 1025),
        ("l1_ways", 2**32 + 1),
        ("tlb_line_pages", 256),
        ("walk_cache_entries", -1),
        ("prefetch_entries", 1025),
    ],
)
def test_setting_out_of_range_is_named(name: str, value: int) -> None:
    assert refused({}, {name: value}) == name


@pytest.mark.parametrize(
    "name,value",
    [
        ("link_mbps", 0),
        ("nodes_per_qfdb", 0),
        ("packetizer_payload_bytes", -1),
        ("walk_accesses", 9),
        ("hop_ns", -1),
        ("hop_ns", 10**9 + 1),
        ("packetizer_writes", 1001),
        ("smmu_clock_ps", 2**62),
    ],
)
def test_cost_out_of_range_is_named(name: str, value: int) -> None:
    assert refused({name: value}, {}) == name


def test_every_cost_has_an_upper_limit() -> None:
    """Times are added and multiplied: what has no limit wraps around."""
    for name in COSTS:
        assert refused({name: 2**62}, {}) == name
        assert refused({name: -1}, {}) == name


@pytest.mark.parametrize(
    "settings,name",
    [
        ({"policy": lib.PW_POLICY_HOST, "stall": 1}, "policy"),
        ({"interleave": lib.PW_INTERLEAVE_PACKET, "stall": 1}, "interleave"),
        ({"interleave": lib.PW_INTERLEAVE_PACKET, "policy": lib.PW_POLICY_HOST}, "interleave"),
        ({"page_in": lib.PW_PAGE_IN_TOUCH_A_PAGE, "stall": 1}, "page_in"),
        ({"engine": lib.PW_ENGINE_ZDMA, "interleave": lib.PW_INTERLEAVE_PACKET}, "engine"),
        ({"engine": lib.PW_ENGINE_ZDMA, "translation": lib.PW_TRANSLATION_ODP}, "engine"),
        ({"l1_sets": 2**20, "l1_ways": 32}, "l1_sets"),
        ({"l2_sets": 2**20, "l2_ways": 16, "tlb_line_pages": 2}, "l2_sets"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings: dict[str, int], name: str) -> None:
    assert refused({}, settings) == name


def test_every_setting_that_the_engine_refuses_is_named() -> None:
    """Whatever value breaks the making of an NI, `refused` asserts that it has a sentence."""
    for name in SETTINGS:
        for value in (-1, 0, 2**31, 2**62):
            if name not in ("mailbox_entries", "l1_sets", "l2_sets", "model_frame_limit_pages"):
                refused({}, {name: value})


@pytest.mark.parametrize(
    "site,plan,word",
    [
        (lib.PW_IMPAIRMENT_SITES, {}, "site"),
        (0, {"denom": 0}, "denom"),
        (0, {"denom": 10**9 + 1}, "denom"),
        (0, {"num": 2}, "num"),
        (0, {"amount_ns": -1}, "amount_ns"),
    ],
)
def test_plan_of_an_impairment_that_is_refused_has_a_reason(
    site: int, plan: dict[str, int], word: str
) -> None:
    fine = ffi.new("pw_impairment_site *", {"num": 1, "denom": 1})
    assert lib.pw_impairment_refused(0, fine) == ffi.NULL
    bad = ffi.new("pw_impairment_site *", {"num": 1, "denom": 1} | plan)
    assert word in ffi.string(lib.pw_impairment_refused(site, bad)).decode()
    assert lib.pw_ni_plan_impairment(Pair(1).nis[0], site, bad) == lib.PW_ERR_INVALID
