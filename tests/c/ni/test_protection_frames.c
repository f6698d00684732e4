/* Frames about transfers that are not the hostile node's, or not any more, or in another order:
 * TRIES of each kind. No transfer of others ends by them, and memory is written once and by whom it
 * should be. And a file that is truncated while the NI copies. */
#include "tests/c/ni/hostile.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define BURSTS_KEPT 256

/* Bursts from one node to another that the test keeps back, or delivers again. */
typedef struct {
    uint32_t num_bytes[BURSTS_KEPT], count;
    uint8_t *data[BURSTS_KEPT];
} captured;

static void capture(rig *all, uint32_t node, const pw_burst *burst, void *context)
{
    captured *to = context;
    if (burst->peer == HOSTILE) {
        note_answers(all, burst);
        return;
    }
    assert(burst->peer == 1 - node);
    assert(to->count < BURSTS_KEPT);
    uint8_t *copy = aligned_alloc(64, (burst->num_bytes + 63) & ~63u);
    assert(copy);
    memcpy(copy, burst->data, burst->num_bytes);
    to->num_bytes[to->count] = burst->num_bytes;
    to->data[to->count++] = copy;
}

static void forget(captured *all)
{
    while (all->count) free(all->data[--all->count]);
}

/* Run one node alone; what it sends to the other one is captured. */
static void run_alone(rig *all, uint32_t node, captured *to)
{
    while (turn(all, node, capture, to)) continue;
}

static const pw_block_frame *first_block(const captured *kept)
{
    for (uint32_t i = 0; i < kept->count; i++) {
        const pw_frame_header *header = (const void *)kept->data[i];
        if (header->kind == PW_FRAME_BLOCK) return (const pw_block_frame *)(const void *)header;
    }
    assert(!"a block");
    return NULL;
}

static void deliver_all(rig *all, uint32_t to, uint32_t source, const captured *kept)
{
    for (uint32_t i = 0; i < kept->count; i++)
        assert(pw_ni_rx_burst(all->nis[to], source, kept->data[i], kept->num_bytes[i]) == PW_OK);
}

static void post_write(rig *all, uint32_t node, const uint8_t *source, uint8_t *destination,
                       uint32_t num_bytes)
{
    uint64_t id;
    pw_ni_enter(all->nis[node]);
    assert(pw_ni_write(all->nis[node], PDID, 1 - node, address_of(source), address_of(destination),
                       0, num_bytes, NULL, all->now_ns, &id) == PW_OK);
}

/* What answers the block, but comes from elsewhere. */
static pw_control_frame *add_wrong_answer(rig *all, const pw_block_frame *block, uint32_t number)
{
    static const uint8_t kinds[] = {PW_FRAME_ACK, PW_FRAME_NACK, PW_FRAME_ERR, PW_FRAME_NO_ANSWER,
                                    PW_FRAME_ERR_LATER};
    static const uint32_t codes[] = {PW_NACK_DECODE, PW_NACK_PROTECTION, PW_NACK_NO_CONTEXT,
                                     PW_NACK_PAGE_FAULT, PW_NACK_CORRUPT};
    pw_control_frame *frame = add_answer(all, block, kinds[number % 5], 1 + number);
    if (number / 25 % 3 == 2) frame->sequence++;
    frame->code = codes[number / 5 % 5];
    if (frame->header.kind == PW_FRAME_ERR)
        frame->argument0 = pw_err_word(PDID, frame->transaction_id, frame->sequence, PDID);
    if (frame->header.kind == PW_FRAME_ERR_LATER) frame->header.flags = PW_FLAG_ERR_FOLLOWS;
    return frame;
}

static void test_answers_to_blocks_of_others(rig *all)
{
    const uint32_t at_a_time = 100;
    uint64_t before = counters(all).answers_refused;
    for (uint32_t tries = 0; tries < TRIES; tries += at_a_time) {
        captured kept = {.count = 0};
        uint32_t num_events = all->num_events;
        memset(all->honest[FRIEND], 0, HONEST_BYTES);
        post_write(all, VICTIM, all->honest[VICTIM], all->honest[FRIEND], HONEST_BYTES);
        run_alone(all, VICTIM, &kept);
        for (uint32_t i = 0; i < at_a_time; i++) {
            bool in_other_domain = i % 10 == 9; /* by who may answer, but not so */
            pw_control_frame *frame = add_wrong_answer(all, first_block(&kept), i);
            frame->header.source_node = in_other_domain ? FRIEND : HOSTILE;
            if (in_other_domain) frame->header.pdid = OTHER_PDID;
            seal_control(frame);
            assert(hand_over(all, frame->header.source_node) == PW_OK);
            run_alone(all, VICTIM, &kept);
        }
        assert(all->num_events == num_events);
        deliver_all(all, FRIEND, VICTIM, &kept);
        forget(&kept);
        rest(all);
        assert(all->num_events == num_events + 1 && all->num_failed == 0);
        assert(memcmp(all->honest[VICTIM], all->honest[FRIEND], HONEST_BYTES) == 0);
        look(all, tries);
    }
    assert(counters(all).answers_refused == before + TRIES);
}

/* The numbers of the next block are easily guessed: an answer that is there before it. */
static void test_answers_before_their_blocks(rig *all)
{
    const uint32_t at_a_time = 100;
    captured kept = {.count = 0};
    post_write(all, VICTIM, all->honest[VICTIM], all->honest[FRIEND], 1000);
    run_alone(all, VICTIM, &kept);
    pw_block_frame next = *first_block(&kept);
    deliver_all(all, FRIEND, VICTIM, &kept);
    forget(&kept);
    rest(all);
    for (uint32_t tries = 0; tries < TRIES; tries += at_a_time) {
        uint32_t num_events = all->num_events;
        next.header.stream++;
        next.transaction_id = (next.transaction_id + 1) & 0x3fff;
        int64_t posted_ns = all->now_ns;
        for (uint32_t i = 0; i < at_a_time; i++) { /* from the call until the answer is due */
            pw_control_frame *frame = add_control(all, PW_FRAME_ACK, next.header.stream);
            frame->transaction_id = next.transaction_id;
            frame->header.time_ns = posted_ns + 60 * i;
            seal_control(frame);
        }
        assert(hand_over(all, HOSTILE) == PW_OK);
        int64_t now_ns = all->now_ns;
        all->now_ns = posted_ns;
        post_write(all, VICTIM, all->honest[VICTIM], all->honest[FRIEND], 1000);
        all->now_ns = now_ns;
        run_alone(all, VICTIM, &kept);
        assert(all->num_events == num_events); /* nobody has got the block yet */
        const pw_block_frame *block = first_block(&kept);
        assert(block->header.stream == next.header.stream);
        assert(block->transaction_id == next.transaction_id);
        deliver_all(all, FRIEND, VICTIM, &kept);
        forget(&kept);
        rest(all);
        assert(all->num_events == num_events + 1 && all->num_failed == 0);
    }
    look(all, 0);
}

/* Ends, bounds and grants of a stream that the friend writes to the victim. */
static void test_news_of_transfers_of_others(rig *all)
{
    static const uint8_t kinds[] = {PW_FRAME_CLOSE, PW_FRAME_ABORT, PW_FRAME_READ_REFUSED,
                                    PW_FRAME_BOUND, PW_FRAME_DROPPED};
    captured kept = {.count = 0};
    uint8_t *target = pages(HONEST_BYTES);
    uint64_t stale = counters(all).stale_frames;
    post_write(all, FRIEND, all->honest[FRIEND], target, HONEST_BYTES);
    run_alone(all, FRIEND, &kept);
    uint32_t stream = first_block(&kept)->header.stream, num_events = all->num_events;
    deliver_all(all, VICTIM, FRIEND, &kept); /* the answers stay away */
    forget(&kept);
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        pw_control_frame *frame = add_control(all, kinds[tries % 5], stream);
        frame->code = PW_NACK_PROTECTION;
        seal_control(frame);
        assert(hand_over(all, HOSTILE) == PW_OK);
    }
    assert(counters(all).stale_frames == stale + TRIES / 5 * 4);
    rest(all);
    assert(all->num_events == num_events + 1 && all->num_failed == 0);
    assert(memcmp(target, all->honest[FRIEND], HONEST_BYTES) == 0);
    look(all, 0);
    munmap(target, HONEST_BYTES);
}

/* Every burst of ended transfers once more, in their own name and in that of who has seen them. */
static void test_frames_again(rig *all)
{
    enum { TRANSFERS = 50, BYTES = 3 * PW_PACKET_BYTES };
    captured seen = {.count = 0};
    uint8_t *target = pages(TRANSFERS * PAGE_BYTES);
    memset(target, 1, TRANSFERS * PAGE_BYTES);
    for (uint32_t i = 0; i < TRANSFERS; i++) {
        captured kept = {.count = 0};
        post_write(all, FRIEND, all->honest[FRIEND], target + i * PAGE_BYTES, BYTES);
        run_alone(all, FRIEND, &kept);
        deliver_all(all, VICTIM, FRIEND, &kept);
        for (uint32_t j = 0; j < kept.count; j++) {
            const pw_burst burst = {
                .peer = VICTIM, .num_bytes = kept.num_bytes[j], .data = kept.data[j]};
            if (((const pw_frame_header *)(const void *)burst.data)->kind == PW_FRAME_BLOCK)
                capture(all, FRIEND, &burst, &seen);
        }
        forget(&kept);
        rest(all);
        assert(memcmp(target + i * PAGE_BYTES, all->honest[FRIEND], BYTES) == 0);
    }
    memset(target, 2, TRANSFERS * PAGE_BYTES); /* the program goes on */
    uint64_t ended = counters(all).blocks_refused_ended, forged = counters(all).forged_frames;
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        uint32_t i = (uint32_t)below(&all->random, seen.count);
        uint32_t source = tries % 2 ? FRIEND : HOSTILE;
        int code = pw_ni_rx_burst(all->nis[VICTIM], source, seen.data[i], seen.num_bytes[i]);
        assert(code == (source == FRIEND ? PW_OK : PW_ERR_MALFORMED));
        rest(all);
        look(all, tries);
    }
    for (uint32_t i = 0; i < TRANSFERS * PAGE_BYTES; i++) assert(target[i] == 2);
    assert(counters(all).blocks_refused_ended == ended + TRIES / 2);
    assert(counters(all).forged_frames == forged + TRIES / 2);
    forget(&seen);
    munmap(target, TRANSFERS * PAGE_BYTES);
}

/* The frames of a transfer, some of them twice, in any order. */
static void test_frames_in_another_order(rig *all)
{
    enum { FRAMES = 5, BYTES = 2 * PW_BLOCK_BYTES + 100 };
    uint8_t *open = pages(4 * PW_BLOCK_BYTES);
    memset(open, 1, 4 * PW_BLOCK_BYTES);
    uint64_t address = address_of(open) + 5000;
    for (uint32_t tries = 0; tries < TRIES; tries += 8) {
        uint32_t order[8] = {0, 1, 2, 3, 4};
        for (uint32_t i = FRAMES; i < 8; i++) order[i] = (uint32_t)below(&all->random, FRAMES);
        for (uint32_t i = 7; i > 0; i--) {
            uint32_t other = (uint32_t)below(&all->random, i + 1), kept = order[i];
            order[i] = order[other];
            order[other] = kept;
        }
        for (uint32_t i = 0; i < 8; i++) {
            pw_control_frame *control;
            if (order[i] < 3 && order[i] < pw_num_blocks(PW_BLOCK_BYTES, address, BYTES))
                seal_block(add_block(all, address, BYTES, order[i]));
            else {
                control = add_control(all, order[i] == 3 ? PW_FRAME_COMPLETION : PW_FRAME_CLOSE,
                                      all->next_stream);
                seal_control(control);
            }
            assert(deliver(all, HOSTILE) == PW_OK);
        }
        abort_transfer(all);
        look(all, tries);
    }
    for (uint32_t i = 0; i < 4 * PW_BLOCK_BYTES; i++) {
        bool is_within = i >= 5000 && i < 5000 + BYTES;
        assert(open[i] == 1 || (is_within && open[i] == 0xee));
    }
    pw_ni_pools pools;
    pw_ni_read_pools(all->nis[VICTIM], &pools);
    assert(pools.inbounds < 64);
    munmap(open, 4 * PW_BLOCK_BYTES);
}

/* --- a file that changes its length all the time */

typedef struct {
    int file;
    atomic_bool is_over;
} shrinking;

static void *shrink(void *context)
{
    shrinking *self = context;
    while (!atomic_load(&self->is_over)) {
        if (ftruncate(self->file, 0) < 0 || ftruncate(self->file, 16 * PAGE_BYTES) < 0) abort();
        usleep(20);
    }
    return NULL;
}

static void test_a_file_that_is_truncated_meanwhile(rig *all)
{
    pthread_t thread;
    shrinking self = {.file = memfd_create("shrinking", 0)};
    assert(self.file >= 0 && ftruncate(self.file, 16 * PAGE_BYTES) == 0);
    uint8_t *memory = mmap(NULL, 16 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, self.file, 0);
    assert(memory != MAP_FAILED);
    assert(pthread_create(&thread, NULL, shrink, &self) == 0);
    uint64_t told = all->told.acks;
    for (uint64_t code = 0; code < 8; code++) told += all->told.nacks[code];
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        pw_block_frame *block =
            add_block(all, address_of(memory) + below(&all->random, 15 * PAGE_BYTES), 3000, 0);
        seal_block(block);
        assert(deliver(all, HOSTILE) == PW_OK);
        abort_transfer(all);
        look(all, tries);
    }
    atomic_store(&self.is_over, true);
    pthread_join(thread, NULL);
    uint64_t now = all->told.acks;
    for (uint64_t code = 0; code < 8; code++) now += all->told.nacks[code];
    assert(now == told + TRIES); /* written or refused, and nobody is dead */
    munmap(memory, 16 * PAGE_BYTES);
    close(self.file);
}

/* After the NI has looked at the pages and before it copies. */
static void test_a_file_that_is_truncated_between_two_blocks(rig *all)
{
    enum { BYTES = 2 * PW_BLOCK_BYTES };
    int file = memfd_create("truncated", 0);
    assert(file >= 0 && ftruncate(file, 12 * PAGE_BYTES) == 0);
    uint8_t *memory = mmap(NULL, 12 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert(memory != MAP_FAILED);
    uint64_t address = (address_of(memory) + PW_BLOCK_BYTES - 1) & ~(uint64_t)(PW_BLOCK_BYTES - 1);
    all->told = (answers){0};
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        assert(ftruncate(file, 12 * PAGE_BYTES) == 0);
        memset(memory, 1, 12 * PAGE_BYTES);
        seal_block(add_block(all, address, BYTES, 0));
        assert(deliver(all, HOSTILE) == PW_OK && all->told.acks == tries + 1);
        assert(ftruncate(file, 0) == 0);
        seal_block(add_block(all, address, BYTES, 1));
        assert(hand_over(all, HOSTILE) == PW_OK);
        rest(all);
        abort_transfer(all);
        look(all, tries);
    }
    assert(all->told.acks == TRIES && all->told.nacks[PW_NACK_DECODE] == TRIES);
    munmap(memory, 12 * PAGE_BYTES);
    close(file);
}

int main(void)
{
    static rig all;
    begin(&all);
    go_on(&all);
    test_answers_before_their_blocks(&all);
    test_answers_to_blocks_of_others(&all);
    test_news_of_transfers_of_others(&all);
    test_frames_again(&all);
    test_frames_in_another_order(&all);
    test_a_file_that_is_truncated_between_two_blocks(&all);
    test_a_file_that_is_truncated_meanwhile(&all);
    end(&all);
    return 0;
}
