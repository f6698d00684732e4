/* A hostile process at the shared rings: it writes frames of its own making into the ring that the
 * victim reads, which is an engine in this process. */
#include "tests/c/ni/hostile.h"
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/wires/shared_bursts.h"

#define KINDS 6

/* What the victim's process tells the hostile one, as an MPI message would. */
typedef struct {
    uint64_t guarded, key;
    pw_segment_facts facts;
} told;

static void carry(int from, int to, void *in, const void *out, size_t num_bytes)
{
    assert(write(to, out, num_bytes) == (ssize_t)num_bytes);
    assert(read(from, in, num_bytes) == (ssize_t)num_bytes);
}

static pw_shared_bursts *join(uint32_t node, uint32_t peer, int from, int to, told *theirs,
                              told mine)
{
    pw_shared_bursts *shared;
    uint8_t is_mutual[NUM_NODES] = {0}, word = 1;
    assert(pw_shared_create(node, NUM_NODES, &shared, &mine.facts) == PW_OK);
    carry(from, to, theirs, &mine, sizeof mine);
    assert(pw_shared_meet(shared, peer, &theirs->facts) == 1);
    carry(from, to, &is_mutual[peer], &word, 1);
    assert(pw_shared_agree(shared, is_mutual) == 1);
    return shared;
}

/* What the victim must make of it is counted in main. */
static void add_try(rig *all, const told *victim, uint32_t kind)
{
    pw_control_frame *abort_frame;
    all->next_stream++;
    uint64_t inside = victim->guarded + below(&all->random, GUARDED_PAGES / 2 * PAGE_BYTES);
    pw_block_frame *block;
    pw_read_request_frame *read;
    switch (kind) {
    case 0: /* domain */
        block = add_block(all, inside, 200, 0);
        block->header.pdid = OTHER_PDID;
        seal_block(block);
        break;
    case 1: /* kernel */
        seal_block(add_block(all, UINT64_C(0xffff888000000000) + (inside & 0xffff), 200, 0));
        break;
    case 2: /* key */
        read = add_read(all, inside, 200, victim->key + 1 + below(&all->random, 1 << 20));
        seal_read(read);
        return;
    case 3: /* bounds */ seal_read(add_read(all, victim->guarded, 200, victim->key)); return;
    case 4: /* name */
        block = add_block(all, inside, 200, 0);
        block->header.source_node = FRIEND;
        seal_block(block);
        return;
    default: /* damage behind the seal */
        block = add_block(all, inside, 200, 0);
        seal_block(block);
        block->destination_address ^= 1 + below(&all->random, 1 << 20);
        return;
    }
    abort_frame = add_control(all, PW_FRAME_ABORT, all->next_stream); /* the transfer is over */
    abort_frame->code = PW_NACK_DECODE;
    seal_control(abort_frame);
}

static int attack(int from, int to)
{
    static rig all;
    told victim, mine = {.key = 0};
    uint8_t word = 0;
    pw_shared_bursts *shared = join(HOSTILE, VICTIM, from, to, &victim, mine);
    pw_wire_burst burst;
    all.next_stream = 0;
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        for (uint32_t kind = 0; kind < KINDS; kind++) add_try(&all, &victim, kind);
        uint8_t *data = malloc(all.burst_bytes);
        bool is_free;
        memcpy(data, all.burst, all.burst_bytes);
        assert(pw_shared_send(shared, VICTIM, data, all.burst_bytes, &is_free) == PW_OK);
        if (is_free) free(data);
        all.burst_bytes = 0;
        do {
            while (pw_shared_poll(shared, &burst) == 1) pw_shared_taken(shared, &burst);
            while ((data = pw_shared_sent(shared))) free(data);
            if (pw_shared_num_pending(shared) > 32) sched_yield();
        } while (pw_shared_num_pending(shared) > 32);
    }
    while (pw_shared_num_pending(shared)) {
        for (uint8_t *data; (data = pw_shared_sent(shared));) free(data);
        sched_yield();
    }
    assert(write(to, &word, 1) == 1 && read(from, &word, 1) == 1); /* both are done */
    pw_shared_destroy(shared);
    return 0;
}

int main(void)
{
    static rig all;
    int there[2], back[2], status;
    assert(pipe(there) == 0 && pipe(back) == 0);
    pid_t hostile = fork();
    assert(hostile >= 0);
    if (hostile == 0) _exit(attack(there[0], back[1]));
    begin(&all);
    told mine = {.guarded = address_of(all.guarded), .key = all.key}, theirs;
    pw_shared_bursts *shared = join(VICTIM, HOSTILE, back[0], there[1], &theirs, mine);
    uint32_t num_bursts = 0;
    while (num_bursts < TRIES) {
        pw_wire_burst burst;
        int here = pw_shared_poll(shared, &burst);
        assert(here >= 0 && waitpid(hostile, &status, WNOHANG) == 0);
        if (!here) {
            sched_yield();
            continue;
        }
        assert(burst.source == HOSTILE);
        pw_ni_enter(all.nis[VICTIM]);
        int code = pw_ni_rx_burst(all.nis[VICTIM], burst.source, burst.data, burst.num_bytes);
        assert(code == PW_ERR_MALFORMED); /* some of its frames */
        pw_shared_taken(shared, &burst);
        rest(&all);
        all.now_ns += FRAME_GAP_NS;
        look(&all, num_bursts++);
    }
    pw_counters counted = counters(&all);
    assert(counted.blocks_refused_context == TRIES && counted.blocks_refused_address == TRIES);
    assert(counted.reads_refused_protection == 2 * TRIES);
    assert(counted.forged_frames == TRIES);
    assert(counted.malformed_frames == 2 * TRIES);
    assert(all.told.acks == 0 && all.told.blocks == 0);
    assert(guarded_crc(&all) == all.guarded_crc);
    uint8_t word;
    assert(read(back[0], &word, 1) == 1 && write(there[1], &word, 1) == 1);
    assert(waitpid(hostile, &status, 0) == hostile && WIFEXITED(status) && !WEXITSTATUS(status));
    pw_shared_destroy(shared);
    end(&all);
    return 0;
}
