"""What must be refused is refused and counted, both ends hear of it, and both live on."""

import pytest
from engine_pair import BLOCK, DONE, FETCHED, PAGE, Pair, resident
from mappings import map_at, unmap

from pagewire.native import EngineError, lib
from pagewire.native.domains import open_domain

EXPOSED = lib.PW_HOST_EXPOSE_DONE
NOWHERE = 0x10_0000  # below what the kernel lets a process map
NO_CONTEXT = 3


def assert_lives_on(pair: Pair) -> None:
    """More transfers than there are channels, either way; then nothing is left."""
    for i in range(70):
        source, destination = resident(BLOCK + 1)
        if i % 2:
            pair.write(source, destination, at_ns=10**7, node=0, peer=1)
        else:
            pair.read(source, destination, at_ns=10**7)
        assert set(pair.errors().values()) == {0}
        assert destination.read() == source.read()
    pair.assert_quiet()


@pytest.mark.parametrize("hole_at", ["source", "destination"])
def test_hole_in_the_mapping_fails_the_transfer_in_the_middle(hole_at: str) -> None:
    pair = Pair()
    source, destination = resident(8 * BLOCK)
    holed = source if hole_at == "source" else destination
    unmap(holed.address + 5 * BLOCK, PAGE)
    pair.write(source, destination)
    assert set(pair.errors().values()) == {lib.PW_ERR_ADDRESS}
    assert pair.counters(0).acks > 0
    map_at(holed.address + 5 * BLOCK, PAGE)
    assert_lives_on(pair)


def test_read_from_an_unmapped_address_without_a_key_fails_at_the_reader() -> None:
    pair = Pair(reads_without_key=1)
    _, destination = resident(PAGE)
    pair.fetch_raw(NOWHERE, 0, destination.address, PAGE)
    assert pair.errors() == {FETCHED: lib.PW_ERR_ADDRESS}
    assert_lives_on(pair)


@pytest.mark.parametrize(
    "change",
    [
        {"key": 0},
        {"key": 1},
        {"key": 0xFFFF_FFFF},
        {"key": 1 << 32 | 65},
        {"source": -1},
        {"source": 1},
        {"num_bytes": 1},
        {"source": -PAGE, "num_bytes": PAGE},
        {"source": 2 * PAGE},
    ],
    ids=str,
)
def test_read_with_a_wrong_key_or_bounds_is_refused(change: dict[str, int]) -> None:
    pair = Pair()
    source, destination = resident(PAGE)
    before = destination.read()
    key = pair.expose(source)
    pair.fetch_raw(
        source.address + change.get("source", 0),
        change.get("key", key),
        destination.address,
        PAGE + change.get("num_bytes", 0),
    )
    assert pair.errors() == {FETCHED: lib.PW_ERR_PROTECTION}
    assert pair.counters(0).reads_refused == 1
    assert destination.read() == before
    # the region is still there for the one read that it is meant for
    pair.read(source, destination, key=key, at_ns=10**6)
    assert pair.errors() == {FETCHED: 0, EXPOSED: 0}
    assert_lives_on(pair)


def test_key_is_good_for_one_read() -> None:
    pair = Pair()
    source, destination = resident(BLOCK)
    key = pair.expose(source)
    first, second = (pair.read(source, destination, key=key) for _ in range(2))
    events = pair.run()
    errors = {(event.kind, event.id): event.error for event in events}
    assert errors == {
        (FETCHED, first): 0,
        (FETCHED, second): lib.PW_ERR_PROTECTION,
        (EXPOSED, key): 0,
    }
    pair.read(source, destination, key=key, at_ns=10**6)
    assert pair.errors() == {FETCHED: lib.PW_ERR_PROTECTION}
    assert pair.counters(0).reads_refused == 2
    other = pair.expose(source)
    assert other != key  # same slot, next generation
    assert lib.pw_ni_unexpose(pair.nis[0], key) == lib.PW_ERR_INVALID
    assert lib.pw_ni_unexpose(pair.nis[0], other) == lib.PW_OK
    assert lib.pw_ni_unexpose(pair.nis[0], other) == lib.PW_ERR_INVALID
    assert_lives_on(pair)


def test_region_is_for_one_peer() -> None:
    pair = Pair(3)
    source, destination = resident(PAGE)
    key = pair.expose(source, node=0, peer=2)
    pair.read(source, destination, key=key, node=1)
    assert pair.errors() == {FETCHED: lib.PW_ERR_PROTECTION}
    pair.read(source, destination, key=key, node=2)
    assert pair.errors() == {FETCHED: 0, EXPOSED: 0}
    pair.assert_quiet()


@pytest.mark.parametrize("num_bytes", [PAGE, 5 * BLOCK])
def test_no_context_bank_at_the_destination_is_nack_3(num_bytes: int) -> None:
    pair = Pair(without_domain=[1])
    source, destination = resident(num_bytes)
    before = destination.read()
    pair.write(source, destination)
    assert pair.errors() == {DONE: lib.PW_ERR_CONTEXT}
    assert pair.counters(0).nacks[NO_CONTEXT] > 0
    assert destination.read() == before
    pair.assert_quiet()


def test_no_context_bank_at_the_reads_target_is_refused() -> None:
    pair = Pair(without_domain=[0])
    source, destination = resident(PAGE)
    pair.fetch_raw(source.address, 0, destination.address, PAGE)
    assert pair.errors() == {FETCHED: lib.PW_ERR_CONTEXT}
    assert pair.counters(0).reads_refused == 1
    pair.assert_quiet()


def test_no_domain_no_transfer() -> None:
    pair = Pair(without_domain=[0])
    source, destination = resident(PAGE)
    with pytest.raises(EngineError, match="CONTEXT"):
        pair.write(source, destination)
    with pytest.raises(EngineError, match="CONTEXT"):
        pair.fetch_raw(source.address, 0, destination.address, PAGE, node=0, peer=1)
    pair.assert_quiet()


@pytest.mark.parametrize(
    "banks,domains,limit",
    [
        (16, 16, "scratchpad has 16 pages"),
        (3, 3, "raise smmu.num_context_banks"),
        (128, 16, "scratchpad has 16 pages, .* more context banks do not help"),
    ],
)
def test_domains_end_with_banks_or_scratchpad_pages(banks: int, domains: int, limit: str) -> None:
    pair = Pair(without_domain=[0, 1], num_context_banks=banks)
    for pdid in range(1, domains + 1):
        assert lib.pw_ni_open_domain(pair.nis[0], pdid) == lib.PW_OK
        assert lib.pw_ni_open_domain(pair.nis[0], pdid) == lib.PW_ERR_INVALID
    with pytest.raises(EngineError, match=limit):
        open_domain(pair.nis[0], domains + 1)
    open_domain(pair.nis[1], domains)
    pair.carry(*resident(PAGE), pdid=domains)
    assert lib.pw_ni_open_domain(pair.nis[0], 0) == lib.PW_ERR_INVALID


def test_arguments_out_of_range_are_invalid() -> None:
    pair = Pair()
    source, destination = resident(PAGE)
    for peer, num_bytes in ((2, PAGE), (1, 2**32 + 1)):
        with pytest.raises(EngineError, match="INVALID"):
            pair.write(source, destination, peer=peer, num_bytes=num_bytes)
        with pytest.raises(EngineError, match="INVALID"):
            pair.fetch_raw(source.address, 0, destination.address, num_bytes, node=0, peer=peer)
    pair.assert_quiet()


def test_transfer_that_fails_while_it_is_queued_leaves_its_channel_clean() -> None:
    """The next transfer on that channel must not start before it was triggered."""
    pair = Pair(window_blocks=64, timeout_ns=-1)
    pair.trace(100_000)
    buffers = [resident(70 * BLOCK) for _ in range(20)]  # 20 x 64 blocks do not fit in the table
    # A block whose first page leaves, and which fails at the source while the next ones wait for
    # room. Were its first page absent it would fail when the engine comes to it, long before the
    # table is full.
    for page in range(81, 84):
        buffers[1][0].drop(page)
    for source, destination in buffers:
        pair.write(source, destination)
    horizon_ns, failed = 0, []
    while not failed:
        horizon_ns += 10_000
        failed = [event for event in pair.run(horizon_ns) if event.kind == DONE and event.error]
    assert pair.counters(0).table_full > 0
    source, destination = resident(3 * BLOCK)
    late = 10**9
    channel_reused = pair.write(source, destination, at_ns=late)
    events = pair.run()
    assert destination.read() == source.read()
    done = [event for event in events if event.kind == DONE]
    assert [event.error for event in done] == [0] * 20 and done[-1].id == channel_reused
    assert len([row for row in pair.log("block_started") if row[0] >= late]) == 3
    pair.assert_quiet()
