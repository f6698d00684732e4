/* Reads that a hostile node asks for, answers that it gives to others' blocks, and frames in
 * others' names or for the second time: TRIES of each kind, refused each time, counted, and memory
 * as it was. */
#include "tests/c/ni/hostile.h"
#include <fcntl.h>
#include <unistd.h>

#define READABLE_BYTES (GUARDED_PAGES / 2 * PAGE_BYTES)

static uint64_t readable(const rig *all)
{
    return address_of(all->guarded) + GUARDED_PAGES / 4 * PAGE_BYTES;
}

/* A refused read: no byte leaves. */
static void refuse_read(rig *all, pw_read_request_frame *frame)
{
    answers before = all->told;
    seal_read(frame);
    assert(deliver(all, HOSTILE) == PW_OK);
    assert(all->told.reads_refused == before.reads_refused + 1);
    assert(all->told.blocks == before.blocks);
}

static uint64_t refused_by_protection(const rig *all)
{
    return counters(all).reads_refused_protection;
}

/* --- keys and bounds */

static void test_a_right_key_reads(rig *all)
{
    seal_read(add_read(all, readable(all), 100, all->key));
    assert(deliver(all, HOSTILE) == PW_OK);
    assert(all->told.blocks == 1 && all->told.reads_refused == 0);
    pw_control_frame *ack = add_control(all, PW_FRAME_ACK, (all->next_stream - 1) | PW_STREAM_READ);
    ack->header.time_ns += 100000; /* behind the block */
    seal_control(ack);             /* of transaction 0, block 0 */
    assert(deliver(all, HOSTILE) == PW_OK);
}

static void test_wrong_keys(rig *all)
{
    uint64_t before = refused_by_protection(all);
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        uint64_t key = draw(&all->random);
        switch (tries % 5) {
        case 0: key = tries / 5; break;                                      /* from 0 on */
        case 1: key = all->key ^ UINT64_C(1) << (tries / 5 % 64); break;     /* one bit */
        case 2: key = all->key + UINT64_C(0x100000000) * (tries + 1); break; /* other generations */
        case 3: key = (uint64_t)(tries / 5 + 1) << 32 | 1; break; /* as a counter gives */
        default: break;
        }
        refuse_read(all, add_read(all, readable(all), 100, key));
        look(all, tries);
    }
    assert(refused_by_protection(all) == before + TRIES);
}

static void test_stale_keys(rig *all)
{
    pw_ni *victim = all->nis[VICTIM];
    uint64_t before = refused_by_protection(all), stale[64], key;
    for (uint32_t i = 0; i < 64; i++) {
        assert(pw_ni_register(victim, readable(all), READABLE_BYTES, PW_REMOTE_READ, &stale[i]) ==
               PW_OK);
        assert(pw_ni_unexpose(victim, stale[i]) == PW_OK);
    }
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        /* the slot is taken again under another key */
        assert(pw_ni_register(victim, readable(all), READABLE_BYTES, PW_REMOTE_READ, &key) ==
               PW_OK);
        uint64_t old = stale[below(&all->random, 64)];
        assert(old != key);
        refuse_read(all, add_read(all, readable(all), 100, old));
        assert(pw_ni_unexpose(victim, key) == PW_OK);
        stale[tries % 64] = key;
        look(all, tries);
    }
    assert(refused_by_protection(all) == before + TRIES);
}

static void test_ranges_beyond_a_buffer(rig *all)
{
    uint64_t before = refused_by_protection(all);
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        uint64_t address = readable(all), num_bytes = 1 + below(&all->random, 5000);
        switch (tries % 3) {
        case 0: address += READABLE_BYTES - below(&all->random, num_bytes); break;
        case 1: address -= 1 + below(&all->random, num_bytes); break;
        default: num_bytes = READABLE_BYTES + 1 + below(&all->random, 1 << 30);
        }
        refuse_read(all, add_read(all, address, num_bytes, all->key));
        look(all, tries);
    }
    assert(refused_by_protection(all) == before + TRIES);
}

static void test_ranges_that_wrap(rig *all)
{
    uint64_t before = counters(all).reads_refused_address;
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        uint64_t part = 1 + below(&all->random, 5000);
        pw_read_request_frame *frame = add_read(all, readable(all), 5001, all->key);
        switch (tries % 3) {
        case 0: frame->source_address = UINT64_MAX - part; break;
        case 1: frame->destination_address = UINT64_MAX - part; break;
        default: frame->num_bytes = UINT64_MAX - part;
        }
        refuse_read(all, frame);
        look(all, tries);
    }
    assert(counters(all).reads_refused_address == before + TRIES);
}

static void test_wrong_domain(rig *all)
{
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        pw_read_request_frame *frame = add_read(all, readable(all), 100, all->key);
        frame->header.pdid = (uint16_t)(2 + below(&all->random, UINT16_MAX - 1));
        refuse_read(all, frame);
        look(all, tries);
    }
    assert(counters(all).reads_refused_context == TRIES);
}

static void test_key_of_another_node(rig *all)
{
    uint64_t before = refused_by_protection(all), key;
    assert(pw_ni_expose(all->nis[VICTIM], FRIEND, readable(all), READABLE_BYTES, NULL, &key) ==
           PW_OK);
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        refuse_read(all, add_read(all, readable(all), 100, key));
        look(all, tries);
    }
    assert(refused_by_protection(all) == before + TRIES);
    assert(pw_ni_unexpose(all->nis[VICTIM], key) == PW_OK);
}

/* The key is right, but the file behind the memory has been truncated since. */
static void test_reads_of_a_truncated_file(rig *all)
{
    uint64_t key, before = all->told.blocks;
    int file = memfd_create("truncated", 0);
    assert(file >= 0 && ftruncate(file, 4 * PAGE_BYTES) == 0);
    uint8_t *memory = mmap(NULL, 4 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert(memory != MAP_FAILED);
    memset(memory, 1, 4 * PAGE_BYTES);
    assert(pw_ni_register(all->nis[VICTIM], address_of(memory), 4 * PAGE_BYTES, PW_REMOTE_READ,
                          &key) == PW_OK);
    assert(ftruncate(file, 0) == 0);
    uint64_t failed = counters(all).transfers_failed;
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        seal_read(
            add_read(all, address_of(memory) + below(&all->random, 3 * PAGE_BYTES), 200, key));
        assert(deliver(all, HOSTILE) == PW_OK);
        look(all, tries);
    }
    assert(counters(all).transfers_failed == failed + TRIES && all->told.blocks == before);
    assert(pw_ni_unexpose(all->nis[VICTIM], key) == PW_OK);
    munmap(memory, 4 * PAGE_BYTES);
    close(file);
}

/* --- names */

/* Whatever a frame says, it is the wire that knows from whom it came. */
static void test_forged_sources(rig *all)
{
    uint64_t before = counters(all).forged_frames, told = all->told.acks + all->told.blocks;
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        uint32_t name = tries % 2 ? FRIEND : (uint32_t)draw(&all->random);
        if (name == HOSTILE) name = VICTIM;
        pw_block_frame *block;
        pw_read_request_frame *read;
        pw_control_frame *control;
        switch (tries % 3) {
        case 0:
            block = add_block(all, readable(all), 100, 0);
            block->header.source_node = name;
            seal_block(block);
            break;
        case 1:
            read = add_read(all, readable(all), 100, all->key);
            read->header.source_node = name;
            seal_read(read);
            break;
        default:
            control = add_control(all, (uint8_t)(PW_FRAME_ACK + below(&all->random, 4)),
                                  (uint32_t)draw(&all->random));
            control->code = PW_NACK_DECODE;
            control->header.source_node = name;
            seal_control(control);
        }
        assert(deliver(all, HOSTILE) == PW_ERR_MALFORMED);
        look(all, tries);
    }
    assert(counters(all).forged_frames == before + TRIES);
    assert(all->told.acks + all->told.blocks == told);
}

int main(void)
{
    static rig all;
    begin(&all);
    test_a_right_key_reads(&all);
    test_wrong_keys(&all);
    test_stale_keys(&all);
    test_ranges_beyond_a_buffer(&all);
    test_ranges_that_wrap(&all);
    test_wrong_domain(&all);
    test_key_of_another_node(&all);
    test_reads_of_a_truncated_file(&all);
    test_forged_sources(&all);
    end(&all);
    return 0;
}
