"""The user's interface: channels, descriptors, notifications in the receiver's memory, poll's
states."""

import mmap
import struct

import pytest
from engine_costs import Steps
from engine_pair import (
    ARRIVED,
    BLOCK,
    DONE,
    FETCHED,
    PAGE,
    PDID,
    Buffer,
    Event,
    Pair,
    absent,
    make_descriptor,
    resident,
)
from mappings import LIBC, READ_WRITE

from pagewire.native import EngineError, ffi, lib

NOTIFIED = lib.PW_HOST_NOTIFIED
NOWHERE = 0x10_0000
WORDS = (0x1122334455667788, 2**64 - 1)
NO_WORDS = (0, 0)
CHECKS_ACCESS = bool(lib.pw_memory_checks_access(Pair().memories[0]))


def notification_page(resident: bool = True) -> Buffer:
    page = Buffer(PAGE)
    if resident:
        page.touch()
    return page


def words(page: Buffer, offset: int = 0) -> tuple[int, ...]:
    return struct.unpack_from("=QQ", page.read(), offset)


def by_kind(events: list[Event]) -> dict[int, Event]:
    assert len({event.kind for event in events}) == len(events)
    return {event.kind: event for event in events}


def posted(
    pair: Pair, num_bytes: int, page: Buffer, offset: int = 0
) -> tuple[Buffer, Buffer, dict[int, Event]]:
    """A write of resident buffers with a notification, run to its end."""
    source, destination = resident(num_bytes)
    pair.trace()
    pair.notify(source, destination, notification=page.address + offset, data=WORDS)
    return source, destination, by_kind(pair.run())


@pytest.mark.parametrize("num_bytes", [1, PAGE, BLOCK])
def test_one_block_notifies_at_half_a_round_trip(num_bytes: int) -> None:
    pair, page = Pair(), notification_page()
    steps = Steps(pair.costs)
    source, destination, events = posted(pair, num_bytes, page, offset=48)
    started = steps.post_write() + steps.notice() + steps.start_single()
    written = started + steps.walk() + steps.wire(num_bytes) + steps.latency() + steps.walk()
    assert events[NOTIFIED].time_ns == written + steps.walk()  # of the notification's own page
    assert events[NOTIFIED].id == page.address + 48
    assert events[ARRIVED].time_ns == events[NOTIFIED].time_ns
    assert events[DONE].time_ns == written + steps.acknowledged()
    assert words(page, 48) == WORDS
    assert words(page, 32) == words(page, 64) == NO_WORDS
    assert destination.read() == source.read()
    pair.assert_quiet()


def test_notification_beside_the_data_hits_the_tlb() -> None:
    pair = Pair()
    steps = Steps(pair.costs)
    source, destination = resident(PAGE)
    pair.trace()
    where = destination.address + PAGE - 16
    pair.post(source.address, destination.address, 256, notification=where, data=WORDS)
    events = by_kind(pair.run())
    assert events[NOTIFIED].time_ns == pair.time_of("ack_sent") + steps.l1_hit()
    assert words(destination, PAGE - 16) == WORDS


@pytest.mark.parametrize("last_bytes", [1, BLOCK])
@pytest.mark.parametrize("num_blocks", [2, 3, 7])
def test_several_blocks_notify_one_round_trip_after_the_last_but_one(
    num_blocks: int, last_bytes: int
) -> None:
    pair, page = Pair(), notification_page()
    steps, c = Steps(pair.costs), pair.costs
    source, destination, events = posted(pair, (num_blocks - 1) * BLOCK + last_bytes, page)
    acks = [row[0] for row in pair.log("ack")]
    told = acks[-2] + c.r5_completion_message_ns + steps.latency()
    last_written = pair.time_of("ack_sent", num_blocks - 1)
    assert (told > last_written) == (last_bytes == 1)  # a whole block is longer on its way
    assert events[NOTIFIED].time_ns == max(told, last_written) + steps.walk()
    assert events[ARRIVED].time_ns == events[NOTIFIED].time_ns
    assert words(page) == WORDS
    assert destination.read() == source.read()
    pair.assert_quiet()


@pytest.mark.parametrize("num_blocks", [1, 2, 5])
def test_absent_notification_page_is_a_fault_of_the_last_block(num_blocks: int) -> None:
    pair, page = Pair(timeout_ns=-1), notification_page(resident=False)
    steps, c = Steps(pair.costs), pair.costs
    source, destination, events = posted(pair, num_blocks * BLOCK, page)
    sent, here = pair.counters(0), pair.counters(1)
    assert sent.nacks[1] == sent.err_messages == sent.retransmitted_blocks == 1
    assert here.translation_faults_destination == here.pages_paged_in == here.fifo_pushed == 1
    fault = pair.time_of("fault_destination")
    paged_in = pair.time_of("page_in_done")
    tasklet = c.tasklet_other_ns
    assert paged_in == fault + c.handler_ns + tasklet + c.page_in_fixed_ns + c.page_in_page_ns
    err_sent = paged_in + c.netlink_ns + c.user_wakeup_ns + c.err_send_ns
    assert pair.time_of("err_sent") == err_sent
    assert events[NOTIFIED].time_ns > err_sent + 2 * steps.latency()
    assert events[DONE].error == events[NOTIFIED].error == 0
    assert words(page) == WORDS
    assert destination.read() == source.read()
    pair.assert_quiet()


@pytest.mark.parametrize("num_blocks", [1, 2, 5])
def test_unmapped_notification_is_an_error_at_both_ends(num_blocks: int) -> None:
    pair = Pair()
    source, destination = resident(num_blocks * BLOCK)
    channel = pair.open_channel()
    pair.notify(source, destination, notification=NOWHERE, data=WORDS, channel=channel)
    events = by_kind(pair.run())
    errors = {kind: event.error for kind, event in events.items()}
    assert errors == dict.fromkeys((DONE, ARRIVED, NOTIFIED), lib.PW_ERR_ADDRESS)
    assert pair.counters(0).nacks[2] == 1
    assert lib.pw_ni_poll_channel(pair.nis[0], channel, 10**9) == lib.PW_CHANNEL_FAILED
    page = notification_page()
    pair.notify(
        source, destination, notification=page.address, data=WORDS, at_ns=10**9, channel=channel
    )
    pair.finish()
    assert words(page) == WORDS


@pytest.mark.skipif(not CHECKS_ACCESS, reason="this kernel does not tell what a mapping allows")
def test_read_only_notification_page_is_an_error() -> None:
    pair, page = Pair(), notification_page()
    assert LIBC.mprotect(page.address, PAGE, mmap.PROT_READ) == 0
    _, _, events = posted(pair, PAGE, page)
    assert events[DONE].error == events[NOTIFIED].error == lib.PW_ERR_PROTECTION
    assert LIBC.mprotect(page.address, PAGE, READ_WRITE) == 0
    assert words(page) == NO_WORDS


@pytest.mark.parametrize("num_bytes", [1, BLOCK, 2 * BLOCK, 40 * BLOCK + 1])
@pytest.mark.parametrize("absent", [False, True], ids=["present", "absent"])
def test_read_notifies_in_the_readers_memory(num_bytes: int, absent: bool) -> None:
    pair, page = Pair(reads_without_key=1), notification_page(resident=not absent)
    steps = Steps(pair.costs)
    pair.trace()
    source, destination = resident(num_bytes)
    pair.read_notified(
        source.address,
        destination.address,
        num_bytes,
        notification=page.address,
        data=WORDS,
    )
    events = by_kind(pair.run())
    assert events[FETCHED].time_ns == events[NOTIFIED].time_ns
    assert events[FETCHED].node == events[NOTIFIED].node == 1
    if not absent and num_bytes <= BLOCK:
        started = steps.post_read() + steps.start_single()
        written = started + steps.walk() + steps.wire(num_bytes) + steps.latency() + steps.walk()
        assert events[NOTIFIED].time_ns == written + steps.walk()
    assert pair.counters(0).nacks[1] == absent
    assert words(page) == WORDS
    assert destination.read() == source.read()
    pair.assert_quiet()


def test_looking_ahead_changes_no_time_of_a_read_that_notifies() -> None:
    times = []
    for lookahead in (0, 256):
        pair = Pair(lookahead_blocks=lookahead, reads_without_key=1)
        page = notification_page(resident=False)
        source, destination = resident(100 * BLOCK)
        pair.read_notified(
            source.address, destination.address, source.num_bytes, notification=page.address
        )
        events = by_kind(pair.run())
        times.append(events[NOTIFIED].time_ns)
        assert (pair.counters(0).lookahead_blocks > 0) == (lookahead > 0)
    assert times[0] == times[1]


def test_registered_region_serves_any_number_of_reads_until_it_is_taken_back() -> None:
    pair = Pair(3)
    source, destination = resident(3 * BLOCK)
    key = ffi.new("uint64_t *")
    assert lib.pw_ni_register(pair.nis[0], source.address, source.num_bytes, 1, key) == 0

    def read(node: int, with_key: int) -> int:
        destination.fill(bytes(destination.num_bytes))
        pair.read_notified(
            source.address + 1, destination.address, 2 * BLOCK, key=with_key, node=node
        )
        return by_kind(pair.run())[FETCHED].error

    for i in range(40):
        assert read(1 + i % 2, key[0]) == 0
        assert destination.read()[: 2 * BLOCK] == source.read()[1 : 2 * BLOCK + 1]
    assert read(1, key[0] ^ 1 << 33) == lib.PW_ERR_PROTECTION
    assert pair.counters(0).reads_refused == 1
    pair.read_notified(
        source.address + BLOCK + 1, destination.address, 2 * BLOCK, key=key[0]
    )  # one byte too far
    assert by_kind(pair.run())[FETCHED].error == lib.PW_ERR_PROTECTION
    assert read(2, key[0]) == 0
    assert lib.pw_ni_unexpose(pair.nis[0], key[0]) == 0
    assert read(1, key[0]) == lib.PW_ERR_PROTECTION
    pair.assert_quiet()


@pytest.mark.parametrize("channel", [False, True])
def test_key_of_a_write_is_checked_by_its_owner_alone(channel: bool) -> None:
    """Any unit, and any write that has one; without one the PDID guards, unless one is needed."""
    for keys, keyless in (("UNIT", 0), ("NEEDED", lib.PW_ERR_PROTECTION)):
        pair = Pair(write_keys=getattr(lib, f"PW_WRITE_KEYS_{keys}"))
        source, destination = resident(2 * BLOCK)
        key, read_only = pair.register(destination), pair.register(destination, rights=1)

        def error(with_key: int, offset: int = 0) -> int:
            addresses = source.address, destination.address + offset
            if channel:
                pair.post(*addresses, BLOCK, key=with_key)
            else:
                pair.write_raw(*addresses, BLOCK, key=with_key)
            return min(event.error for event in pair.run())

        assert error(key) == error(key, BLOCK) == 0
        assert error(0) == keyless
        before = destination.read()
        destination.fill(bytes(2 * BLOCK))
        for refused in ((key ^ 1 << 40, 0), (read_only, 0), (key, BLOCK + 1), (key, -1)):
            assert error(*refused) == lib.PW_ERR_PROTECTION
        assert destination.read() == bytes(2 * BLOCK) != before
        assert lib.pw_ni_unexpose(pair.nis[1], key) == 0
        assert error(key) == lib.PW_ERR_PROTECTION


def test_poll_goes_through_ongoing_and_paused_to_finished() -> None:
    pair = Pair(timeout_ns=-1)
    pair.trace()
    source, destination = absent(BLOCK)
    channel, ni = pair.open_channel(), pair.nis[0]
    state = lambda at_ns: lib.pw_ni_poll_channel(ni, channel, at_ns)
    done = lambda: scratchpad(pair, channel).done
    assert state(0) == lib.PW_ERR_INVALID
    pair.notify(source, destination, channel=channel)
    assert (state(0), done()) == (lib.PW_CHANNEL_ONGOING, 0)
    pair.run(horizon_ns=3_000)
    assert (state(3_000), done()) == (lib.PW_CHANNEL_ONGOING, 2)
    nacked = pair.time_of("nack_sent") + Steps(pair.costs).latency()
    pair.run(horizon_ns=nacked - 1)
    assert state(nacked - 1) == lib.PW_CHANNEL_ONGOING
    pair.run(horizon_ns=nacked)
    assert (state(nacked), done()) == (lib.PW_CHANNEL_PAUSED, 2)
    events = by_kind(pair.run())
    finished = events[DONE].time_ns
    assert state(finished - 1) == lib.PW_CHANNEL_ONGOING
    assert (state(finished), done()) == (lib.PW_CHANNEL_FINISHED, 1)


def scratchpad(pair: Pair, channel: int) -> object:
    out = ffi.new("pw_descriptor *")
    assert lib.pw_ni_read_descriptor(pair.nis[0], channel, out) == 0
    return out


def test_descriptor_stands_in_the_scratchpad_as_it_was_written() -> None:
    pair, page = Pair(), notification_page()
    source, destination = resident(100)
    channel = pair.open_channel()
    pair.notify(source, destination, notification=page.address, data=WORDS, channel=channel)
    pair.run()
    kept = scratchpad(pair, channel)
    assert (kept.source_address, kept.destination_address) == (source.address, destination.address)
    assert kept.destination_address_notification == page.address
    assert (kept.first_data_notification, kept.last_data_notification) == WORDS
    assert (kept.transfer_bytes, kept.done) == (100, 1)
    assert scratchpad(pair, 32).done == 2  # a read channel that is free
    assert lib.pw_ni_read_descriptor(pair.nis[0], 1024, ffi.new("pw_descriptor *")) < 0


def test_descriptor_has_the_layout_of_the_machine() -> None:
    """[R5 2.3.3]: 64 B, every field at its place."""
    assert ffi.sizeof("pw_descriptor") == 64
    descriptor = make_descriptor(0x11, 0x22, 0x66, 0x33, (0x44, 0x55))
    descriptor.done = 0x77
    descriptor.reserved = (0x88, 0x99)
    assert bytes(ffi.buffer(descriptor)) == struct.pack(
        "=5Q2I2Q", 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99
    )


def test_scratchpad_has_16_pages_of_64_channels() -> None:
    assert (lib.PW_CHANNEL_PAGES, lib.PW_CHANNELS_PER_PAGE, lib.PW_WRITE_CHANNELS) == (16, 64, 32)
    pair = Pair()
    for page in range(1, 16):
        assert lib.pw_ni_open_domain(pair.nis[0], 100 + page) == 0
        assert lib.pw_ni_open_channel(pair.nis[0], 100 + page) == 64 * page
        assert lib.pw_ni_close_channel(pair.nis[0], 64 * page) == 0
    for channel in range(1024):  # a read channel is free from the start on
        assert scratchpad(pair, channel).done == (2 if channel % 64 >= 32 else 0)


@pytest.mark.parametrize("hint,window_blocks", [(0, 0), (1, 1), (3, 7), (2, 64)])
def test_hint_and_window_of_a_descriptor_reach_the_firmware(hint: int, window_blocks: int) -> None:
    pair = Pair(bypass=0)
    pair.trace()
    source, destination = resident(70 * BLOCK)
    channel, ni = pair.open_channel(), pair.nis[0]
    descriptor = make_descriptor(source.address, destination.address, source.num_bytes)
    descriptor.reserved = (hint, window_blocks)
    check = lib.pw_ni_insert_descriptor(ni, channel, 1, descriptor, 0, 0)
    assert check > 0 and lib.pw_ni_trigger(ni, channel, check, ffi.new("uint64_t *")) > 0
    pair.run()
    first_ack = pair.time_of("ack")
    assert len([t for t, *_ in pair.log("block_started") if t < first_ack]) == (window_blocks or 2)
    own = pair.counters(0)
    by_hint = (own.requeues_low, own.requeues_high, own.requeues_medium, own.requeues_low)
    assert by_hint[hint] == own.requeues_high + own.requeues_medium + own.requeues_low > 0
    assert tuple(scratchpad(pair, channel).reserved) == (hint, window_blocks)
    assert destination.read() == source.read()
    for bad in ((4, 0), (0, 65), (2**40, 0)):
        descriptor.reserved = bad
        assert lib.pw_ni_insert_descriptor(ni, channel, 1, descriptor, 0, 0) == lib.PW_ERR_INVALID


def test_write_through_a_channel_takes_the_time_of_a_plain_write() -> None:
    times = []
    for through_channel in (False, True):
        pair = Pair()
        source, destination = resident(3 * BLOCK)
        if through_channel:
            pair.notify(source, destination)
        else:
            pair.write(source, destination)
        times.append({kind: event.time_ns for kind, event in by_kind(pair.run()).items()})
    assert times[0] == times[1]


def test_a_process_has_32_write_channels() -> None:
    pair = Pair()
    ni = pair.nis[0]
    assert [pair.open_channel() for _ in range(32)] == list(range(32))
    assert lib.pw_ni_open_channel(ni, PDID) == lib.PW_ERR_FULL
    source, destination = resident(1)
    with pytest.raises(EngineError, match="PW_ERR_FULL"):
        pair.write(source, destination)
    assert lib.pw_ni_close_channel(ni, 5) == 0
    assert lib.pw_ni_close_channel(ni, 5) == lib.PW_ERR_INVALID
    pair.write(source, destination)  # takes the free one for one transfer
    assert lib.pw_ni_open_channel(ni, PDID) == lib.PW_ERR_FULL
    pair.run()
    assert pair.open_channel() == 5
    assert lib.pw_ni_open_channel(ni, PDID + 1) == lib.PW_ERR_CONTEXT


def test_misuse_of_a_channel_is_refused() -> None:
    pair, page = Pair(), notification_page()
    ni, id_ = pair.nis[0], ffi.new("uint64_t *")
    source, destination = resident(BLOCK)
    addresses = source.address, destination.address
    fine = make_descriptor(*addresses, BLOCK, page.address, WORDS)

    def insert(descriptor: object, channel: int = 0, peer: int = 1) -> int:
        return int(lib.pw_ni_insert_descriptor(ni, channel, peer, descriptor, 0, 0))

    assert insert(fine) == lib.PW_ERR_INVALID  # not open
    assert pair.open_channel() == 0
    assert lib.pw_ni_trigger(ni, 0, 0, id_) == lib.PW_ERR_INVALID  # nothing inserted
    assert insert(make_descriptor(*addresses, 0)) == lib.PW_ERR_INVALID
    assert insert(make_descriptor(*addresses, 1, page.address + 8)) == lib.PW_ERR_INVALID
    assert insert(fine, peer=2) == lib.PW_ERR_INVALID
    assert insert(fine, channel=1024) == lib.PW_ERR_INVALID
    assert insert(fine) == 5 * pair.costs.core_register_write_ns
    assert lib.pw_ni_poll_channel(ni, 0, 0) == lib.PW_ERR_INVALID  # not triggered
    assert lib.pw_ni_trigger(ni, 0, 0, id_) == pair.costs.core_register_write_ns
    assert lib.pw_ni_trigger(ni, 0, 0, id_) == lib.PW_ERR_INVALID
    assert insert(fine) == lib.PW_ERR_INVALID
    assert lib.pw_ni_close_channel(ni, 0) == lib.PW_ERR_INVALID
    pair.run()
    assert words(page) == WORDS
    assert lib.pw_ni_close_channel(ni, 0) == 0
    pair.assert_quiet()


def test_channel_is_used_again_and_again() -> None:
    pair, page = Pair(), notification_page()
    source, destination = resident(2 * BLOCK)
    channel = pair.open_channel()
    for turn in range(100):
        source.fill(bytes([turn]) * source.num_bytes)
        destination.drop()
        page.drop()
        pair.post(
            source.address,
            destination.address,
            1 + turn * 300,
            notification=page.address,
            data=(turn, turn + 1),
            at_ns=turn * 10**7,
            channel=channel,
        )
        assert {event.error for event in pair.run()} == {0}
        assert words(page) == (turn, turn + 1)
        assert destination.read()[: 1 + turn * 300] == bytes([turn]) * (1 + turn * 300)
    pair.assert_quiet()


@pytest.mark.parametrize("num_blocks", [1, 3])
def test_notification_to_an_absent_page_stalls_where_faults_stall(num_blocks: int) -> None:
    pair, page = Pair(stall=1), notification_page(resident=False)
    source, destination, events = posted(pair, num_blocks * BLOCK, page)
    assert sum(pair.counters(0).nacks) == 0
    assert pair.counters(1).translation_faults_destination == 1
    resumed = pair.time_of("page_in_done")
    assert events[NOTIFIED].time_ns > resumed
    assert events[NOTIFIED].error == events[DONE].error == 0
    if num_blocks == 1:
        assert events[DONE].time_ns < resumed  # the block is acknowledged, its words wait
    assert words(page) == WORDS
    assert destination.read() == source.read()
    pair.assert_quiet()
    pair = Pair(stall=1)
    pair.notify(source, destination, notification=NOWHERE)
    assert {event.error for event in pair.run()} == {lib.PW_ERR_ADDRESS}


def test_notification_that_is_unmapped_after_the_last_block_is_an_error_at_the_receiver() -> None:
    pair, page = Pair(), notification_page()
    source, destination = resident(2 * BLOCK)
    pair.notify(source, destination, notification=page.address)
    told = []

    def unmap(node: int, peer: int, burst: bytearray) -> None:
        if (
            not told and node == 1 and len(burst) >= 2 * 64
        ):  # both acknowledgements are on their way
            told.append(LIBC.munmap(page.address, PAGE))
            lib.pw_ni_enter(pair.nis[1])

    pair.tamper = unmap
    events = by_kind(pair.run())
    assert told == [0]
    assert events[NOTIFIED].error == events[ARRIVED].error == lib.PW_ERR_ADDRESS
    assert events[DONE].error == 0  # every block was acknowledged
    assert destination.read() == source.read()
    fixed_noreplace = 0x100000 | mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    again = LIBC.mmap(page.address, PAGE, mmap.PROT_READ, fixed_noreplace, -1, 0)
    assert again == page.address
    pair.assert_quiet()
