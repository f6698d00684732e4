"""Every byte arrives through firehoses and through UTLB, over both transports. What they do and
what it takes: tests/c/node/test_firehoses.c, tests/c/node/test_utlb.c."""

from __future__ import annotations

import pytest
from test_pieces import MIX, run


@pytest.mark.parametrize("transport", ["facade", "fabric"])
def test_every_byte_arrives_through_firehoses(transport, tmp_path):
    """Each of three nodes holds five pages of each other: chunks, waits and moves."""
    words = ("--memory", "firehose", "--transport", transport)
    limits = ("--set", "strategy.firehose_limit=40KiB", "--set", "strategy.firehose_victims=64KiB")
    out, totals = run(tmp_path, MIX, 3, *words, *limits)
    assert out.count("fine") == 3 and out.count("truncated") == 1
    assert totals["translation_faults"] == 0
    assert totals["firehose_moves"] > 0 and totals["firehose_waits"] > 0


@pytest.mark.parametrize("transport", ["facade", "fabric"])
def test_every_byte_arrives_through_utlb(transport, tmp_path):
    limits = ("--set", "strategy.utlb_limit=256KiB", "--set", "strategy.utlb_cache_entries=4096")
    out, totals = run(tmp_path, MIX, 3, "--memory", "utlb", "--transport", transport, *limits)
    assert out.count("fine") == 3 and out.count("truncated") == 1
    assert totals["translation_faults"] == 0 < totals["strategy_evictions"]
    assert totals["utlb_hits"] > totals["utlb_misses"] > 0 == totals["walks"]
