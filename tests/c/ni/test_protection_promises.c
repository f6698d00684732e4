/* A victim writes to the hostile node, which promises ERRs that it has sent already or never sends,
 * once more, too early or after the answer, and then answers like any other. Virtual time stands
 * still before an ERR that is to come: the victim must not wait for those that do not. */
#include "tests/c/ni/hostile.h"

#define WAYS 10
#define A_ROUND (WAYS * 25)

/* The last block that the victim has sent to the hostile node. */
typedef struct {
    pw_block_frame block;
    uint32_t count;
} seen;

static void watch(rig *all, uint32_t node, const pw_burst *burst, void *context)
{
    seen *to = context;
    (void)all, (void)node;
    assert(burst->peer == HOSTILE);
    for (uint32_t at = 0; at < burst->num_bytes;) {
        const pw_frame_header *header = (const void *)(burst->data + at);
        if (header->kind == PW_FRAME_BLOCK) {
            memcpy(&to->block, header, sizeof to->block);
            to->count++;
        }
        at += header->frame_bytes;
    }
}

/* The victim alone, until it has nothing to do; true when a transfer of its ends. */
static bool run_victim(rig *all, seen *to)
{
    uint32_t before = all->num_events;
    while (turn(all, VICTIM, watch, to)) continue;
    assert(all->num_failed == 0);
    return all->num_events > before;
}

static void add_ack(rig *all, const pw_block_frame *block, int64_t after_ns)
{
    seal_control(add_answer(all, block, PW_FRAME_ACK, after_ns));
}

static void add_err(rig *all, const pw_block_frame *block, int64_t after_ns, bool is_right)
{
    pw_control_frame *frame = add_answer(all, block, PW_FRAME_ERR, after_ns);
    frame->argument0 =
        pw_err_word(PDID, block->transaction_id, block->sequence, is_right ? PDID : OTHER_PDID);
    seal_control(frame);
}

static void add_promise(rig *all, const pw_block_frame *block, bool with_nack, int64_t after_ns,
                        int64_t err_after_ns)
{
    pw_control_frame *frame =
        add_answer(all, block, with_nack ? PW_FRAME_NACK : PW_FRAME_ERR_LATER, after_ns);
    if (with_nack) frame->code = PW_NACK_PAGE_FAULT;
    frame->header.flags = PW_FLAG_ERR_FOLLOWS;
    frame->argument0 = (uint64_t)(block->last_packet_ns + err_after_ns);
    seal_control(frame);
}

static void say(rig *all) { assert(hand_over(all, HOSTILE) == PW_OK); }

/* Post a write to the hostile node, and see its block come so many times. */
static void post(rig *all, seen *sent, uint32_t num_copies)
{
    uint64_t id;
    pw_ni_enter(all->nis[VICTIM]);
    assert(pw_ni_write(all->nis[VICTIM], PDID, HOSTILE, address_of(all->honest[VICTIM]), 1 << 20, 0,
                       1000, NULL, all->now_ns, &id) == PW_OK);
    assert(!run_victim(all, sent) && sent->count == num_copies);
}

/* One write to the hostile node, which answers in one of the ways. */
static void write_to_hostile(rig *all, uint32_t way)
{
    const int64_t behind_timeout_ns = platform_settings.timeout_ns * 3 / 2;
    const bool with_nack = way & 1;
    seen sent = {.count = 0};
    post(all, &sent, 1);
    const pw_block_frame first = sent.block;
    switch (way / 2) {
    case 0: /* the same promise again, when its ERR is here but virtual time is not so far */
        add_promise(all, &first, with_nack, 1000, 30000);
        add_err(all, &first, 30000, true);
        add_promise(all, &first, with_nack, 1000, 30000);
        break;
    case 1: /* after the answer, and before it in virtual time */
        add_ack(all, &first, 5000);
        add_promise(all, &first, with_nack, 1000, 2000);
        break;
    default: /* of an ERR so late that the timer comes first; then the answer after all */
        add_promise(all, &first, with_nack, 1000, behind_timeout_ns);
        say(all);
        assert(!run_victim(all, &sent) && sent.count == 2);
        if (way / 2 == 2) add_ack(all, &first, behind_timeout_ns);
        if (way / 2 == 3)
            seal_control(add_answer(all, &first, PW_FRAME_NO_ANSWER, behind_timeout_ns));
        if (way / 2 == 4) add_err(all, &first, behind_timeout_ns, false); /* it is refused */
    }
    say(all);
    bool has_ended = run_victim(all, &sent);
    if (sent.block.sequence != first.sequence) {
        assert(!has_ended);
        add_ack(all, &sent.block, 1000);
        say(all);
        has_ended = run_victim(all, &sent);
    }
    assert(has_ended);
    all->now_ns += 2 * behind_timeout_ns;
}

/* A promise for a copy that the network has made of the block; but it has made none of that. */
static void promise_for_no_copy(rig *all)
{
    seen sent = {.count = 0};
    post(all, &sent, 2);
    assert(sent.block.header.flags & PW_FLAG_COPY);
    add_ack(all, &sent.block, 5000); /* to the block itself, which was the first of the two */
    add_promise(all, &sent.block, true, 1000, 2000);
    pw_control_frame *promise = (void *)(all->burst + all->burst_bytes - sizeof *promise);
    promise->sequence++;
    promise->header.flags |= PW_FLAG_COPY;
    seal_control(promise);
    assert(hand_over(all, HOSTILE) == PW_ERR_MALFORMED);
    assert(run_victim(all, &sent));
}

static void test_promises_for_no_copy(rig *all)
{
    const pw_impairment_site always = {.num = 1, .denom = 1, .seed = 1, .amount_ns = 100};
    assert(pw_ni_plan_impairment(all->nis[VICTIM], PW_IMPAIRMENT_DUPLICATION, &always) == PW_OK);
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        promise_for_no_copy(all);
        look(all, tries);
    }
}

int main(void)
{
    static rig all;
    begin(&all);
    go_on(&all);
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        write_to_hostile(&all, tries % WAYS);
        if (tries < WAYS || tries % A_ROUND == 0) go_on(&all);
    }
    test_promises_for_no_copy(&all);
    end(&all);
    return 0;
}
