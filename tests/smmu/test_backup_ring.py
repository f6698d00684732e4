"""The backup ring of an Ethernet NIC with on-demand paging: what arrives for an absent page is kept
and copied; without room it is dropped (the cold ring)."""

import pytest
from engine_pair import BLOCK, PAGE, PDID, Pair, absent, resident, write

from pagewire.native import lib
from pagewire.run.settings.config import load

LATER_NS = 50_000_000


def ring_pair(**values: int) -> Pair:
    pair = Pair(translation=lib.PW_TRANSLATION_BACKUP_RING, **values)
    pair.trace()
    return pair


def fault_ns(pair: Pair, num_pages: int) -> int:
    return pair.costs.odp_fault_ns + (num_pages - 1) * pair.costs.odp_fault_page_ns


@pytest.mark.parametrize("num_pages", [1, 4])
def test_block_is_copied_when_its_pages_are_in(num_pages: int) -> None:
    pair = ring_pair()
    write(pair, *absent(num_pages * PAGE))
    receiver, sender = pair.counters(1), pair.counters(0)
    ready_ns = pair.time_of("fault_destination") + fault_ns(pair, num_pages)
    assert pair.time_of("ack_sent") == ready_ns + num_pages * pair.costs.backup_copy_page_ns
    assert (receiver.odp_faults, receiver.blocks_kept, receiver.blocks_dropped) == (1, 1, 0)
    assert sender.rnr_nacks == sender.retransmitted_blocks == sender.timeouts == 0


def test_pages_that_the_table_has_are_written_at_once() -> None:
    pair = ring_pair()
    source, destination = resident(BLOCK)
    write(pair, source, destination)
    lib.pw_ni_invalidate(pair.nis[1], PDID, destination.first_page, 1)
    write(pair, source, destination, LATER_NS)
    assert pair.counters(1).blocks_kept == 2
    ready_ns = pair.time_of("fault_destination", 1) + fault_ns(pair, 4)
    assert pair.time_of("ack_sent", 1) == ready_ns + pair.costs.backup_copy_page_ns


def test_cold_ring_drops_until_the_fault_is_over() -> None:
    took_ns = {}
    for blocks in (0, 1, 64):
        pair = ring_pair(odp_backup_blocks=blocks, window_blocks=4)
        took_ns[blocks] = write(pair, *absent(4 * BLOCK))
        assert pair.counters(1).blocks_dropped == pair.counters(0).timeouts == max(4 - blocks, 0)
        assert pair.counters(1).blocks_kept == min(blocks, 4)
    assert took_ns[64] < took_ns[1] == pytest.approx(took_ns[0], rel=0.05)


def test_source_waits_as_with_odp() -> None:
    took_ns = []
    for unit in (lib.PW_TRANSLATION_BACKUP_RING, lib.PW_TRANSLATION_ODP):
        pair = Pair(translation=unit)
        source, destination = resident(PAGE)
        for at_ns in (0, LATER_NS):
            write(pair, source, destination, at_ns)
        lib.pw_ni_invalidate(pair.nis[0], PDID, source.first_page, 1)
        took_ns.append(write(pair, source, destination, 2 * LATER_NS))
    assert took_ns[0] == took_ns[1]


def test_strategy_brings_its_unit() -> None:
    config = load(["run.memory=backup-ring", "odp.backup_blocks=8"], environ={})
    values = config.unit_settings()
    assert values["translation"] == lib.PW_TRANSLATION_BACKUP_RING
    assert values["odp_backup_blocks"] == 8
