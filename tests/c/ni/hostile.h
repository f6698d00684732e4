/* A victim, a friend, and a hostile node that drives the wire itself: engines of two nodes, and the
 * frames that a third sends. What the victim owns is watched: guarded pages, with bytes that nobody
 * may change. */
#ifndef PW_TESTS_HOSTILE_H
#define PW_TESTS_HOSTILE_H
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "native/crc32c.h"
#include "ni/ni.h"
#include "r5sched/segmentation.h"
#include "tests/c/platform.h"

#define TRIES 10000
#define PDID 1
#define OTHER_PDID 7 /* which the victim has not opened */
#define PAGE_BYTES 4096u
#define GUARDED_PAGES 64
#define HONEST_BYTES 20000 /* unaligned: two blocks, a short last packet */
#define A_LOOK 500         /* tries from one look at memory and honest transfers to the next */
#define FRAME_GAP_NS 30000 /* a tasklet is done with a page before the next one faults */
#define BUDGET 100000      /* turns until two nodes must be at rest */

enum { VICTIM, FRIEND, HOSTILE, NUM_NODES };

/* Not random(): the same on every C library. */
typedef struct {
    uint64_t state;
} drawing;

static inline uint64_t draw(drawing *from)
{
    uint64_t value = (from->state += UINT64_C(0x9e3779b97f4a7c15));
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

static inline uint64_t below(drawing *from, uint64_t end) { return draw(from) % end; }

/* What the victim has answered to the hostile node. */
typedef struct {
    uint64_t acks, nacks[8], reads_refused, blocks, others;
} answers;

typedef struct {
    pw_ni *nis[2];
    pw_memory *memories[2];
    uint8_t *guarded; /* the victim's */
    uint32_t guarded_crc;
    uint64_t key; /* of the middle half of it, for everybody */
    uint8_t *honest[2];
    answers told;
    drawing random;
    int64_t now_ns; /* of the hostile node's frames */
    uint32_t next_stream;
    uint32_t num_events, num_failed; /* of the victim's own transfers */
    _Alignas(64) uint8_t burst[PW_BURST_BYTES];
    uint32_t burst_bytes;
} rig;

static inline uint8_t *pages(size_t num_bytes)
{
    uint8_t *made =
        mmap(NULL, num_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(made != MAP_FAILED && madvise(made, num_bytes, MADV_NOHUGEPAGE) == 0);
    return made;
}

static inline uint64_t address_of(const void *data) { return (uint64_t)(uintptr_t)data; }

static inline uint32_t guarded_crc(const rig *all)
{
    return pw_crc32c(0, all->guarded, GUARDED_PAGES * PAGE_BYTES);
}

static inline void begin(rig *all)
{
    *all = (rig){.random = {1}, .now_ns = 1000, .next_stream = 1000};
    for (uint32_t node = 0; node < 2; node++) {
        const pw_memory_model_options none = {0};
        assert(pw_memory_create(PW_MEMORY_HOST, &none, &all->memories[node]) == PW_OK);
        assert(pw_ni_create(&platform_costs, &platform_settings, node, NUM_NODES,
                            all->memories[node], &all->nis[node]) == PW_OK);
        pw_ni_set_key_secret(all->nis[node], 0x1234567890abcdef + node);
        assert(pw_ni_open_domain(all->nis[node], PDID) == PW_OK);
        all->honest[node] = pages(2 * HONEST_BYTES);
    }
    all->guarded = pages(GUARDED_PAGES * PAGE_BYTES);
    for (uint32_t i = 0; i < GUARDED_PAGES * PAGE_BYTES; i++)
        all->guarded[i] = (uint8_t)draw(&all->random);
    all->guarded_crc = guarded_crc(all);
    assert(pw_ni_register(all->nis[VICTIM],
                          address_of(all->guarded) + GUARDED_PAGES / 4 * PAGE_BYTES,
                          GUARDED_PAGES / 2 * PAGE_BYTES, PW_REMOTE_READ, &all->key) == PW_OK);
}

static inline void end(rig *all)
{
    for (uint32_t node = 0; node < 2; node++) {
        pw_ni_destroy(all->nis[node]);
        pw_memory_destroy(all->memories[node]);
        munmap(all->honest[node], 2 * HONEST_BYTES);
    }
    munmap(all->guarded, GUARDED_PAGES * PAGE_BYTES);
}

static inline void note_answer(rig *all, const pw_frame_header *header)
{
    uint32_t code = ((const pw_control_frame *)(const void *)header)->code;
    switch (header->kind) {
    case PW_FRAME_ACK: all->told.acks++; return;
    case PW_FRAME_NACK: all->told.nacks[code & 7]++; return;
    case PW_FRAME_READ_REFUSED: all->told.reads_refused++; return;
    case PW_FRAME_BLOCK: all->told.blocks++; return;
    default: all->told.others++;
    }
}

static inline void note_answers(rig *all, const pw_burst *burst)
{
    for (uint32_t at = 0; at < burst->num_bytes;) {
        const pw_frame_header *header = (const void *)(burst->data + at);
        note_answer(all, header);
        at += header->frame_bytes;
    }
}

/* What a test does with a burst that a node has sent. */
typedef void take_burst(rig *all, uint32_t node, const pw_burst *burst, void *context);

/* One turn of a node's engine: its own transfers are counted, its bursts taken. */
static inline bool turn(rig *all, uint32_t node, take_burst *take, void *context)
{
    pw_host_event events[32];
    pw_burst burst;
    int count = pw_ni_run(all->nis[node], INT64_MAX - 1, events, 32);
    assert(count >= 0);
    bool moved = count > 0;
    for (int i = 0; i < count; i++) {
        bool is_own = events[i].kind == PW_HOST_FETCH_DONE || events[i].kind == PW_HOST_WRITE_DONE;
        all->num_events += is_own;
        all->num_failed += is_own && events[i].error != PW_OK;
    }
    while (pw_ni_tx_burst(all->nis[node], &burst)) {
        moved = true;
        take(all, node, &burst, context);
        pw_ni_tx_release(all->nis[node], burst.data);
    }
    return moved;
}

/* The peer gets it; what is for the hostile node is read and dropped. */
static inline void pass_on(rig *all, uint32_t node, const pw_burst *burst, void *context)
{
    (void)context;
    if (burst->peer == HOSTILE) note_answers(all, burst);
    else
        assert(pw_ni_rx_burst(all->nis[burst->peer], node, burst->data, burst->num_bytes) == PW_OK);
}

static inline void rest(rig *all)
{
    bool moved = true;
    for (int turns = 0; moved; turns++) {
        assert(turns < BUDGET);
        moved = turn(all, VICTIM, pass_on, NULL);
        moved |= turn(all, FRIEND, pass_on, NULL);
    }
}

/* --- honest transfers */

/* The victim writes to its friend and reads from it, and has what it must have. */
static inline void go_on(rig *all)
{
    uint64_t id, key;
    uint32_t before = all->num_events;
    pw_ni *victim = all->nis[VICTIM], *friend = all->nis[FRIEND];
    for (uint32_t i = 0; i < HONEST_BYTES; i++)
        all->honest[VICTIM][i] = (uint8_t)draw(&all->random);
    memset(all->honest[FRIEND], 0, 2 * HONEST_BYTES);
    pw_ni_enter(victim);
    assert(pw_ni_write(victim, PDID, FRIEND, address_of(all->honest[VICTIM]),
                       address_of(all->honest[FRIEND]) + 8, 0, HONEST_BYTES, NULL, all->now_ns,
                       &id) == PW_OK);
    rest(all);
    assert(memcmp(all->honest[VICTIM], all->honest[FRIEND] + 8, HONEST_BYTES) == 0);
    assert(pw_ni_expose(friend, VICTIM, address_of(all->honest[FRIEND]) + 8, HONEST_BYTES, NULL,
                        &key) == PW_OK);
    assert(pw_ni_fetch(victim, PDID, FRIEND, address_of(all->honest[FRIEND]) + 8, key,
                       address_of(all->honest[VICTIM]) + HONEST_BYTES, HONEST_BYTES, all->now_ns,
                       &id) == PW_OK);
    rest(all);
    assert(memcmp(all->honest[VICTIM], all->honest[VICTIM] + HONEST_BYTES, HONEST_BYTES) == 0);
    assert(all->num_events == before + 2 && all->num_failed == 0);
}

static inline void look(rig *all, uint32_t tries)
{
    if (tries % A_LOOK) return;
    assert(guarded_crc(all) == all->guarded_crc);
    go_on(all);
}

/* --- the hostile node's frames */

static inline void *add(rig *all, uint32_t num_bytes)
{
    uint32_t length = (num_bytes + 7) & ~7u;
    assert(all->burst_bytes + length <= sizeof all->burst);
    uint8_t *frame = all->burst + all->burst_bytes;
    memset(frame, 0, length);
    all->burst_bytes += length;
    return frame;
}

static inline pw_frame_header header_of(rig *all, uint8_t kind, uint32_t stream,
                                        uint32_t frame_bytes)
{
    return (pw_frame_header){.magic = PW_FRAME_MAGIC,
                             .kind = kind,
                             .frame_bytes = frame_bytes,
                             .source_node = HOSTILE,
                             .pdid = PDID,
                             .time_ns = all->now_ns += FRAME_GAP_NS,
                             .stream = stream};
}

/* A write of one block, all of whose fields are right; seal it after changes. */
static inline pw_block_frame *add_block(rig *all, uint64_t address, uint64_t num_bytes,
                                        uint32_t block_idx)
{
    uint32_t first_bytes = pw_first_block_bytes(PW_BLOCK_BYTES, address, num_bytes);
    uint32_t block_bytes = pw_block_bytes(PW_BLOCK_BYTES, num_bytes, first_bytes, block_idx);
    uint32_t num_packets = (block_bytes + PW_PACKET_BYTES - 1) / PW_PACKET_BYTES;
    uint32_t crc_bytes = (num_packets * 4 + 7) & ~7u;
    uint32_t frame_bytes = (uint32_t)(sizeof(pw_block_frame) + crc_bytes + block_bytes + 7) & ~7u;
    pw_block_frame *block = add(all, frame_bytes);
    uint8_t *payload = (uint8_t *)(block + 1) + crc_bytes;
    memset(payload, 0xee, block_bytes);
    *block = (pw_block_frame){
        .header = header_of(all, PW_FRAME_BLOCK, all->next_stream, frame_bytes),
        .block_idx = block_idx,
        .transaction_id = all->next_stream & 0x3fff,
        .destination_address = address + pw_block_offset(PW_BLOCK_BYTES, first_bytes, block_idx),
        .transfer_address = address,
        .transfer_bytes = num_bytes,
        .packet_mask = ~UINT64_C(0) >> (PW_BLOCK_PACKETS - num_packets),
        .block_bytes = block_bytes,
        .num_packets = (uint16_t)num_packets,
        .packet_interval_ps = 100000,
    };
    if (pw_num_blocks(PW_BLOCK_BYTES, address, num_bytes) == 1)
        block->header.flags = PW_FLAG_NOTIFY;
    block->last_packet_ns = block->header.time_ns + 1000;
    pw_crc32c_packets(NULL, payload, block_bytes, (uint32_t *)(block + 1));
    return block;
}

static inline void seal_block(pw_block_frame *block)
{
    uint32_t crc_bytes = (block->num_packets * 4u + 7u) & ~7u;
    pw_frame_seal(&block->header, (uint32_t)sizeof *block + crc_bytes);
}

static inline pw_control_frame *add_control(rig *all, uint8_t kind, uint32_t stream)
{
    pw_control_frame *frame = add(all, sizeof *frame);
    frame->header = header_of(all, kind, stream, sizeof *frame);
    return frame;
}

/* What answers a block. */
static inline pw_control_frame *add_answer(rig *all, const pw_block_frame *block, uint8_t kind,
                                           int64_t after_ns)
{
    pw_control_frame *frame = add_control(all, kind, block->header.stream);
    frame->block_idx = block->block_idx;
    frame->transaction_id = block->transaction_id;
    frame->sequence = block->sequence;
    frame->header.time_ns = block->last_packet_ns + after_ns;
    return frame;
}

static inline void seal_control(pw_control_frame *frame)
{
    pw_frame_seal(&frame->header, sizeof *frame);
}

static inline pw_read_request_frame *add_read(rig *all, uint64_t address, uint64_t num_bytes,
                                              uint64_t key)
{
    pw_read_request_frame *frame = add(all, sizeof *frame);
    *frame = (pw_read_request_frame){
        .header = header_of(all, PW_FRAME_READ_REQUEST, all->next_stream++ | PW_STREAM_READ,
                            sizeof *frame),
        .source_address = address,
        .destination_address = 1 << 20,
        .num_bytes = num_bytes,
        .key = key,
    };
    return frame;
}

static inline void seal_read(pw_read_request_frame *frame)
{
    pw_frame_seal(&frame->header, sizeof *frame);
}

/* Send what was added, in the name of a node; what the victim's engine says, before it runs. */
static inline int hand_over(rig *all, uint32_t source)
{
    pw_ni_enter(all->nis[VICTIM]);
    int code = pw_ni_rx_burst(all->nis[VICTIM], source, all->burst, all->burst_bytes);
    all->burst_bytes = 0;
    return code;
}

static inline int deliver(rig *all, uint32_t source)
{
    int code = hand_over(all, source);
    rest(all);
    return code;
}

/* As an honest source does after a NACK; so no transfer is left. */
static inline void abort_transfer(rig *all)
{
    pw_control_frame *frame = add_control(all, PW_FRAME_ABORT, all->next_stream++);
    frame->code = PW_NACK_DECODE;
    seal_control(frame);
    assert(deliver(all, HOSTILE) == PW_OK);
}

static inline pw_counters counters(const rig *all)
{
    pw_counters out;
    pw_ni_read_counters(all->nis[VICTIM], &out);
    return out;
}

#endif
