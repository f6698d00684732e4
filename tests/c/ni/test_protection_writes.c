/* Writes that a hostile node sends: domains, addresses and mappings that are not its to write. Each
 * kind of attack is tried TRIES times, refused each time, counted, and leaves memory as it was. */
#include "tests/c/ni/hostile.h"
#include <fcntl.h>
#include <unistd.h>

/* One refused write; `code` is what the victim must answer. */
static void refuse_write(rig *all, pw_block_frame *block, uint32_t code)
{
    uint64_t before = all->told.nacks[code];
    seal_block(block);
    assert(deliver(all, HOSTILE) == PW_OK);
    assert(all->told.nacks[code] == before + 1 && all->told.acks == 0);
    abort_transfer(all);
}

static uint64_t inside(rig *all)
{
    return address_of(all->guarded) + below(&all->random, GUARDED_PAGES * PAGE_BYTES - PAGE_BYTES);
}

static uint64_t some_bytes(rig *all) { return 1 + below(&all->random, 700); }

static void test_wrong_domain(rig *all)
{
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        pw_block_frame *block = add_block(all, inside(all), some_bytes(all), 0);
        block->header.pdid = (uint16_t)(below(&all->random, UINT16_MAX) + 1);
        if (block->header.pdid == PDID) block->header.pdid = 0;
        refuse_write(all, block, PW_NACK_NO_CONTEXT);
        look(all, tries);
    }
    assert(counters(all).blocks_refused_context == TRIES);
}

/* The first block of a transfer says its domain; a later one must not borrow another's context. */
static void test_other_domain_within_a_transfer(rig *all)
{
    uint8_t *open = pages(16 * PAGE_BYTES);
    assert(pw_ni_open_domain(all->nis[VICTIM], OTHER_PDID) == PW_OK);
    uint64_t before = counters(all).blocks_refused_protection;
    uint64_t address = address_of(open) + 100, num_bytes = 2 * PW_BLOCK_BYTES;
    pw_block_frame *first = add_block(all, address, num_bytes, 0);
    seal_block(first);
    memset(open, 1, 16 * PAGE_BYTES); /* present */
    assert(deliver(all, HOSTILE) == PW_OK && all->told.acks == 1);
    all->told.acks = 0;
    uint32_t crc = pw_crc32c(0, open, 16 * PAGE_BYTES);
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        pw_block_frame *block = add_block(all, address, num_bytes, 1);
        block->header.pdid = OTHER_PDID;
        seal_block(block);
        assert(deliver(all, HOSTILE) == PW_OK && all->told.acks == 0);
        look(all, tries);
    }
    assert(pw_crc32c(0, open, 16 * PAGE_BYTES) == crc);
    assert(counters(all).blocks_refused_protection == before + TRIES);
    abort_transfer(all);
    munmap(open, 16 * PAGE_BYTES);
}

static void test_ranges_that_wrap(rig *all)
{
    uint64_t before = counters(all).blocks_refused_address;
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        pw_block_frame *block = add_block(all, inside(all), some_bytes(all), 0);
        uint64_t from_end = below(&all->random, block->block_bytes);
        switch (tries % 3) {
        case 0: /* the transfer ends behind the end of the address space */
            block->transfer_address = block->destination_address = UINT64_MAX - from_end;
            break;
        case 1: block->transfer_bytes = UINT64_MAX - from_end; break;
        default: /* the block would be in the guarded pages, its transfer is elsewhere */
            block->transfer_address = UINT64_MAX - PW_BLOCK_BYTES - from_end;
        }
        refuse_write(all, block, PW_NACK_DECODE);
        look(all, tries);
    }
    assert(counters(all).blocks_refused_address == before + TRIES);
}

/* The fields of a block must be those that its transfer gives it. */
static void test_blocks_beyond_their_transfer(rig *all)
{
    uint64_t before = counters(all).blocks_refused_address;
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        uint64_t address = inside(all) & ~UINT64_C(1023); /* no border of blocks within */
        pw_block_frame *block = add_block(all, address, some_bytes(all), 0);
        switch (tries % 4) {
        case 0: block->destination_address += 1 + below(&all->random, 1 << 20); break;
        case 1: block->destination_address -= 1 + below(&all->random, 1 << 20); break;
        case 2: block->block_idx = 1 + (uint32_t)below(&all->random, UINT32_MAX - 1); break;
        default: block->transfer_bytes += 1 + below(&all->random, 1 << 30);
        }
        refuse_write(all, block, PW_NACK_DECODE);
        look(all, tries);
    }
    assert(counters(all).blocks_refused_address == before + TRIES);
}

static void test_kernel_addresses(rig *all)
{
    const uint64_t known[] = {UINT64_C(0xffffffffff600000),
                              UINT64_C(0xffffffff81000000),
                              UINT64_C(0xffff888000000000),
                              UINT64_C(0x0000800000000000),
                              UINT64_C(0x00007ffffffff000),
                              UINT64_C(0xfffffffffffff000),
                              0};
    uint64_t before = counters(all).blocks_refused_address;
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        uint64_t address = (UINT64_C(1) << 63 | draw(&all->random) >> 1) & ~UINT64_C(0xffff);
        if (tries % 2) address = known[tries / 2 % (sizeof known / sizeof *known)];
        refuse_write(all, add_block(all, address, some_bytes(all), 0), PW_NACK_DECODE);
        look(all, tries);
    }
    assert(counters(all).blocks_refused_address == before + TRIES);
}

/* What a refused page-in leaves is gone: nothing grows with the number of tries. */
static void expect_no_growth(const rig *all)
{
    pw_ni_pools pools;
    pw_ni_read_pools(all->nis[VICTIM], &pools);
    assert(pools.tasklet_runs <= 64 && pools.inbounds <= 64 && pools.events <= 2048);
}

/* TRIES writes to memory whose mapping forbids them. */
static void forbid(rig *all, uint8_t *memory, size_t num_bytes, uint32_t code)
{
    pw_counters before = counters(all);
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        uint64_t address = address_of(memory) + below(&all->random, num_bytes - 800);
        refuse_write(all, add_block(all, address, some_bytes(all), 0), code);
        look(all, tries);
    }
    pw_counters now = counters(all);
    assert(now.blocks_refused_address + now.blocks_refused_protection ==
           before.blocks_refused_address + before.blocks_refused_protection + TRIES);
    expect_no_growth(all);
}

static void test_unmapped(rig *all)
{
    uint8_t *hole = pages(16 * PAGE_BYTES);
    memset(hole, 1, 16 * PAGE_BYTES);
    munmap(hole, 16 * PAGE_BYTES);
    forbid(all, hole, 16 * PAGE_BYTES, PW_NACK_DECODE);
}

static void test_not_writable(rig *all, int protection)
{
    uint8_t *memory = pages(16 * PAGE_BYTES);
    memset(memory, 1, 8 * PAGE_BYTES); /* the rest was never touched */
    assert(mprotect(memory, 16 * PAGE_BYTES, protection) == 0);
    forbid(all, memory, 16 * PAGE_BYTES, PW_NACK_PROTECTION);
    assert(mprotect(memory, 16 * PAGE_BYTES, PROT_READ) == 0);
    for (uint32_t i = 0; i < 16 * PAGE_BYTES; i++) assert(memory[i] == (i < 8 * PAGE_BYTES));
    munmap(memory, 16 * PAGE_BYTES);
}

static void test_truncated_file(rig *all)
{
    int file = memfd_create("truncated", 0);
    assert(file >= 0 && ftruncate(file, 16 * PAGE_BYTES) == 0);
    for (int flags = MAP_SHARED; flags; flags = flags == MAP_SHARED ? MAP_PRIVATE : 0) {
        uint8_t *memory = mmap(NULL, 16 * PAGE_BYTES, PROT_READ | PROT_WRITE, flags, file, 0);
        assert(memory != MAP_FAILED && ftruncate(file, 16 * PAGE_BYTES) == 0);
        memory[0] = memory[5 * PAGE_BYTES] = 1; /* some pages are there when it shrinks */
        assert(ftruncate(file, 0) == 0);
        forbid(all, memory, 16 * PAGE_BYTES, PW_NACK_DECODE);
        munmap(memory, 16 * PAGE_BYTES);
    }
    close(file);
}

/* The last block brings the address of two words. */
static void test_notifications(rig *all)
{
    uint8_t *open = pages(PAGE_BYTES), *forbidden = pages(PAGE_BYTES);
    memset(open, 1, PAGE_BYTES);
    forbidden[0] = 1;
    assert(mprotect(forbidden, PAGE_BYTES, PROT_READ) == 0);
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        pw_block_frame *block = add_block(all, address_of(open), 64, 0);
        block->notification.data[0] = block->notification.data[1] = UINT64_MAX;
        uint32_t code = PW_NACK_DECODE;
        switch (tries % 3) {
        case 0: block->notification.address = UINT64_MAX - 15; break;
        case 1: block->notification.address = inside(all) | 1; break; /* must be 16-aligned */
        default:
            block->notification.address = address_of(forbidden) + 16 * below(&all->random, 200);
            code = PW_NACK_PROTECTION;
        }
        refuse_write(all, block, code);
        look(all, tries);
    }
    for (uint32_t i = 0; i < PAGE_BYTES; i++) assert(open[i] == 1 && forbidden[i] == (i == 0));
    munmap(open, PAGE_BYTES);
    munmap(forbidden, PAGE_BYTES);
}

/* A node has so many channels; who begins more transfers, and ends none, is no honest node. */
static void test_transfers_without_end(rig *all)
{
    pw_ni_pools pools;
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        pw_block_frame *block =
            add_block(all, UINT64_C(1) << 63, UINT64_C(3) << 30, 0); /* a bit a block is kept */
        seal_block(block);
        all->next_stream++;
        assert(deliver(all, HOSTILE) == PW_OK && all->told.acks == 0);
        look(all, tries);
    }
    assert(counters(all).transfers_refused == TRIES - 1024);
    pw_ni_read_pools(all->nis[VICTIM], &pools);
    assert(pools.inbounds < 1100);
}

int main(void)
{
    static rig all;
    begin(&all);
    test_wrong_domain(&all);
    test_ranges_that_wrap(&all);
    test_blocks_beyond_their_transfer(&all);
    test_kernel_addresses(&all);
    test_unmapped(&all);
    test_not_writable(&all, PROT_READ);
    test_not_writable(&all, PROT_NONE);
    test_truncated_file(&all);
    test_notifications(&all);
    test_other_domain_within_a_transfer(&all);
    test_transfers_without_end(&all);
    end(&all);
    return 0;
}
