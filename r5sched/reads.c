/* Read requests: from the mailbox to a read channel, or to the FCFS buffer while none is free, or,
 * when that has no room either, left in the mailbox. In a mailbox shared with acknowledgements the
 * last keeps these from being read [R5 4]: nothing can free a channel then, and the engine comes to
 * rest with work pending (pw_firmware_is_deadlocked). A mailbox of their own cannot deadlock. */
#include "r5sched/firmware_parts.h"
#include "native/array.h"
#include <stdlib.h>

/* Read one by one, 32 bits each: domain, size, and source, destination, first and last data,
 * notification address of two words [R5 3.6.1]. */
#define READ_REQUEST_WORDS 12

int pw_firmware_read_request(pw_firmware *firmware, const pw_transfer *request, pw_time at_ns)
{
    if (firmware->free_read < 0) {
        uint32_t i = firmware->reads_capacity;
        if (PW_ARRAY_MAKE_ROOM(firmware->reads, i, firmware->reads_capacity, 8) < 0)
            return PW_ERR_NOMEM;
        for (; i < firmware->reads_capacity; i++) {
            firmware->reads[i].next = firmware->free_read;
            firmware->free_read = (int32_t)i;
        }
    }
    int32_t read = firmware->free_read;
    firmware->free_read = firmware->reads[read].next;
    firmware->reads[read] = (pw_read_request){.transfer = *request, .next = -1};
    pw_r5_push(firmware, PW_EVENT_READ_REQUEST, PRIORITY_MAILBOX, at_ns, (uint64_t)read, 0);
    return PW_OK;
}

static bool domain_waits(const pw_firmware *firmware, uint16_t pdid)
{
    for (int32_t read = firmware->first_waiting; read >= 0; read = firmware->reads[read].next)
        if (firmware->reads[read].transfer.pdid == pdid) return true;
    return false;
}

/* A free read channel for the request, unless others of its domain wait for one. */
static int channel_for(pw_firmware *firmware, int32_t read)
{
    uint16_t pdid = firmware->reads[read].transfer.pdid;
    if (domain_waits(firmware, pdid)) return PW_ERR_FULL;
    return pw_r5_claim(firmware, pdid, FIRST_READ_CHANNEL, PW_CHANNELS_PER_PAGE);
}

static void push_retry(pw_firmware *firmware, pw_time at_ns)
{
    if (firmware->retrying || firmware->settings->read_retry_ns == 0) return;
    firmware->retrying = true;
    pw_r5_push(firmware, PW_EVENT_READ_RETRY, PRIORITY_READS, at_ns, 0, 0);
}

static void keep(pw_firmware *firmware, int32_t read)
{
    firmware->counters->reads_queued++;
    firmware->num_buffered++;
    firmware->reads[read].next = -1;
    if (firmware->last_waiting >= 0) firmware->reads[firmware->last_waiting].next = read;
    else firmware->first_waiting = read;
    firmware->last_waiting = read;
}

bool pw_reads_take(pw_firmware *firmware, int32_t read, pw_actions *actions, pw_time at_ns)
{
    const pw_costs *costs = firmware->costs;
    bool buffer_has_room =
        firmware->num_buffered < (uint32_t)firmware->settings->read_buffer_requests;
    int channel = channel_for(firmware, read);
    if (channel < 0 && !buffer_has_room) return false;
    pw_r5_pass(firmware, true, at_ns);
    pw_time done_ns =
        pw_r5_work(firmware, at_ns,
                   READ_REQUEST_WORDS * costs->r5_read_request_word_ns + costs->r5_queue_op_ns);
    pw_r5_took(firmware,
               firmware->settings->read_mailbox_separate ? PW_MAILBOX_REQUESTS : PW_MAILBOX_ANSWERS,
               at_ns, done_ns);
    if (channel >= 0) pw_reads_serve(firmware, read, (uint32_t)channel, actions, done_ns);
    else {
        keep(firmware, read);
        push_retry(firmware, done_ns + firmware->settings->read_retry_ns);
    }
    return true;
}

void pw_reads_serve(pw_firmware *firmware, int32_t read, uint32_t channel, pw_actions *actions,
                    pw_time at_ns)
{
    const pw_transfer *transfer = &firmware->reads[read].transfer;
    pw_trace_add(firmware->trace, at_ns, PW_TRACE_READ_REQUEST, transfer->peer, transfer->stream);
    firmware->reads[read].next = firmware->free_read;
    firmware->free_read = read;
    pw_r5_start_transfer(firmware, channel, transfer);
    pw_r5_count_transfer(firmware, transfer);
    firmware->counters->reads_served++;
    pw_r5_admit(firmware, channel, actions, at_ns);
}

/* A channel or a place in the buffer is free: whoever is left in a mailbox may come out. */
static void has_room(pw_firmware *firmware, pw_time at_ns)
{
    for (uint32_t i = 0; i < PW_NUM_MAILBOXES; i++) {
        pw_mailbox *mailbox = &firmware->mailboxes[i];
        if (!mailbox->blocked || mailbox->pumping) continue;
        mailbox->pumping = true;
        pw_r5_push(firmware, PW_EVENT_MAILBOX, PRIORITY_MAILBOX, at_ns, i, 0);
    }
}

/* Take the domain's request that waits longest out of the buffer, or -1. */
static int32_t take_waiting(pw_firmware *firmware, uint16_t pdid)
{
    int32_t before = -1, read = firmware->first_waiting;
    while (read >= 0 && firmware->reads[read].transfer.pdid != pdid) {
        before = read;
        read = firmware->reads[read].next;
    }
    if (read < 0) return -1;
    if (before < 0) firmware->first_waiting = firmware->reads[read].next;
    else firmware->reads[before].next = firmware->reads[read].next;
    if (firmware->last_waiting == read) firmware->last_waiting = before;
    firmware->num_buffered--;
    return read;
}

/* The channel goes to the domain's request that waits longest, before any request that comes
 * meanwhile can claim it. False when none waits. */
static bool hand_over(pw_firmware *firmware, uint32_t channel, pw_time at_ns)
{
    int32_t read = take_waiting(firmware, firmware->page_pdid[channel / PW_CHANNELS_PER_PAGE]);
    if (read < 0) return false;
    /* What the network still keeps of the transfer that was there must not pass for its own. */
    *pw_transfer_on(firmware, channel) = (pw_transfer){.active = true, .peer = PW_NO_PEER};
    pw_r5_push(firmware, PW_EVENT_READ_HANDED, PRIORITY_READS, at_ns, (uint64_t)read, channel);
    return true;
}

void pw_reads_channel_freed(pw_firmware *firmware, uint32_t channel, pw_time at_ns)
{
    pw_time retry_ns = firmware->settings->read_retry_ns;
    if (retry_ns == 0) hand_over(firmware, channel, at_ns);
    else if (firmware->num_buffered) push_retry(firmware, at_ns + retry_ns);
    has_room(firmware, at_ns);
}

/* Will anything happen on this node without a frame that nobody waits for? */
static bool at_rest(const pw_firmware *firmware)
{
    const pw_transactions *table = &firmware->transactions;
    if (pw_event_queue_length(firmware->events) || table->first_unanswered != PW_NO_TRANSACTION ||
        table->num_overtaken)
        return false;
    for (uint32_t channel = 0; channel < PW_NUM_CHANNELS; channel++) {
        const pw_virtual_channel *made = pw_firmware_channel(firmware, channel);
        if (made && made->transfer.active && made->transfer.num_unconfirmed) return false;
    }
    return true;
}

void pw_reads_retry(pw_firmware *firmware, pw_time at_ns)
{
    firmware->retrying = false;
    if (!firmware->num_buffered) return;
    firmware->counters->read_retries++;
    pw_time looked_ns = pw_r5_work(firmware, at_ns, firmware->costs->r5_queue_op_ns);
    for (int32_t read = firmware->first_waiting; read >= 0; read = firmware->reads[read].next) {
        int channel = pw_r5_claim(firmware, firmware->reads[read].transfer.pdid, FIRST_READ_CHANNEL,
                                  PW_CHANNELS_PER_PAGE);
        if (channel < 0) continue;
        hand_over(firmware, (uint32_t)channel, looked_ns);
        has_room(firmware, looked_ns);
        if (firmware->num_buffered) push_retry(firmware, looked_ns);
        return;
    }
    if (!at_rest(firmware)) push_retry(firmware, at_ns + firmware->settings->read_retry_ns);
}

bool pw_firmware_is_deadlocked(const pw_firmware *firmware)
{
    return firmware->mailboxes[PW_MAILBOX_ANSWERS].blocked && at_rest(firmware);
}
