/* Channels and mailboxes, new transfers, the scheduler's turns, and the loop over events. */
#include "native/array.h"
#include "r5sched/firmware.h"
#include "r5sched/firmware_parts.h"
#include "r5sched/segmentation.h"
#include <stdlib.h>
#include <string.h>

#define FIRST_TAKEN 16u

static void mailbox_destroy(pw_mailbox *mailbox)
{
    free(mailbox->taken_ns);
    pw_pool_finish(&mailbox->entries);
}

/* An entry came at at_ns and leaves at taken_ns. 1 when it found the mailbox full, PW_ERR_NOMEM. */
static int mailbox_pass(pw_mailbox *mailbox, pw_time at_ns, pw_time taken_ns)
{
    const uint32_t next = mailbox->next_taken;
    bool was_full = false;
    if (mailbox->num_taken == mailbox->depth)
        was_full = mailbox->taken_ns[next] > at_ns; /* the one depth places before */
    else if (PW_ARRAY_MAKE_ROOM(mailbox->taken_ns, mailbox->num_taken, mailbox->taken_capacity,
                                FIRST_TAKEN) < 0)
        return PW_ERR_NOMEM;
    else mailbox->num_taken++;
    mailbox->taken_ns[next] = taken_ns;
    mailbox->next_taken = next + 1 == mailbox->depth ? 0 : next + 1;
    return was_full;
}

/* Keep an entry behind those that wait. PW_ERR_NOMEM, or 1 when it found the mailbox full, else 0.
 */
static int mailbox_keep(pw_mailbox *mailbox, const pw_event *entry)
{
    pw_mailbox_entry *kept = pw_pool_take(&mailbox->entries, sizeof *kept);
    if (!kept) return PW_ERR_NOMEM;
    kept->event = *entry;
    pw_queue_append(&mailbox->waiting, kept);
    return mailbox->num_waiting++ >= mailbox->depth;
}

static void mailbox_drop_head(pw_mailbox *mailbox)
{
    pw_pool_give(&mailbox->entries, pw_queue_take(&mailbox->waiting));
    mailbox->num_waiting--;
}

bool pw_descriptor_is_valid(const pw_descriptor *descriptor)
{
    return descriptor->transfer_bytes &&
           descriptor->destination_address_notification % PW_NOTIFICATION_BYTES == 0 &&
           descriptor->reserved[0] <= PW_HINT_LOW && descriptor->reserved[1] <= PW_WINDOW_MAX;
}

pw_transfer pw_transfer_of(const pw_descriptor *descriptor, uint32_t peer, uint16_t pdid)
{
    return (pw_transfer){
        .source_address = descriptor->source_address,
        .destination_address = descriptor->destination_address,
        .num_bytes = descriptor->transfer_bytes,
        .peer = peer,
        .pdid = pdid,
        .notification = pw_descriptor_notification(descriptor),
        .hint = (uint8_t)descriptor->reserved[0],
        .window_blocks = (uint8_t)descriptor->reserved[1],
    };
}

int pw_firmware_init(pw_firmware *firmware, const pw_costs *costs, const pw_settings *settings,
                     const pw_receiver_rules *receiver, pw_counters *counters, pw_tallies *tallies,
                     pw_event_queue *events, pw_trace *trace)
{
    memset(firmware, 0, sizeof *firmware);
    firmware->costs = costs;
    firmware->settings = settings;
    firmware->receiver = receiver;
    firmware->counters = counters;
    firmware->tallies = tallies;
    firmware->events = events;
    firmware->trace = trace;
    firmware->free_read = firmware->first_waiting = firmware->last_waiting = -1;
    firmware->scheduler.high_limit_bytes = (uint64_t)settings->high_limit_bytes;
    firmware->scheduler.medium_limit_bytes = (uint64_t)settings->medium_limit_bytes;
    firmware->scheduler.is_dynamic = settings->requeue_dynamic;
    firmware->scheduler.is_strict = settings->strict_priority;
    firmware->r5 = &firmware->own_r5;
    pw_transactions_init(&firmware->transactions, settings->ticket_queue);
    for (uint32_t i = 0; i < PW_NUM_MAILBOXES; i++)
        firmware->mailboxes[i].depth = (uint32_t)settings->mailbox_entries;
    return PW_OK;
}

void pw_firmware_destroy(pw_firmware *firmware)
{
    for (uint32_t i = 0; i < PW_NUM_MAILBOXES; i++) mailbox_destroy(&firmware->mailboxes[i]);
    for (uint32_t channel = 0; channel < PW_NUM_CHANNELS; channel++)
        free(pw_firmware_channel(firmware, channel));
    for (uint32_t page = 0; page < PW_CHANNEL_PAGES; page++) free(firmware->pages[page]);
    pw_scheduler_destroy(&firmware->scheduler);
    free(firmware->reads);
    pw_calendar_finish(&firmware->own_r5);
    pw_peers_clear(&firmware->round_trips);
    pw_transactions_destroy(&firmware->transactions);
}

void pw_firmware_share(pw_firmware *firmware, const pw_firmware *with) { firmware->r5 = with->r5; }

int pw_firmware_open_page(pw_firmware *firmware, uint16_t pdid)
{
    for (uint32_t page = 0; page < PW_CHANNEL_PAGES; page++) {
        if (firmware->page_pdid[page]) continue;
        if (!firmware->pages[page])
            firmware->pages[page] = calloc(PW_CHANNELS_PER_PAGE, sizeof *firmware->pages[page]);
        if (!firmware->pages[page] ||
            pw_scheduler_make_room(&firmware->scheduler, (page + 1) * PW_CHANNELS_PER_PAGE) < 0)
            return PW_ERR_NOMEM;
        firmware->page_pdid[page] = pdid;
        return (int)page;
    }
    return PW_ERR_FULL;
}

/* What stands in the channel's descriptor before its first transfer. */
static pw_descriptor first_descriptor(uint32_t channel)
{
    bool is_read = channel % PW_CHANNELS_PER_PAGE >= FIRST_READ_CHANNEL;
    return (pw_descriptor){.done = is_read ? 2 : 0};
}

uint32_t pw_firmware_num_busy(const pw_firmware *firmware)
{
    uint32_t num_busy = 0;
    for (uint32_t channel = 0; channel < PW_NUM_CHANNELS; channel++) {
        const pw_virtual_channel *made = pw_firmware_channel(firmware, channel);
        num_busy += made && made->transfer.active;
    }
    return num_busy;
}

pw_descriptor pw_firmware_descriptor(const pw_firmware *firmware, uint32_t channel)
{
    const pw_virtual_channel *made = pw_firmware_channel(firmware, channel);
    if (made) return made->descriptor;
    return firmware->page_pdid[channel / PW_CHANNELS_PER_PAGE] ? first_descriptor(channel)
                                                               : (pw_descriptor){0};
}

/* A channel that was never claimed: its number or PW_ERR_NOMEM, after which nothing may go on. */
static int make_channel(pw_firmware *firmware, uint32_t channel)
{
    pw_virtual_channel *made = calloc(1, sizeof *made);
    if (!made) {
        firmware->lost_entry = true;
        return PW_ERR_NOMEM;
    }
    made->descriptor = first_descriptor(channel);
    firmware->pages[channel / PW_CHANNELS_PER_PAGE][channel % PW_CHANNELS_PER_PAGE] = made;
    return (int)channel;
}

int pw_r5_claim(pw_firmware *firmware, uint16_t pdid, uint32_t from, uint32_t to)
{
    if (firmware->settings->engine == PW_ENGINE_ZDMA && to - from > firmware->costs->zdma_channels)
        to = from + (uint32_t)firmware->costs->zdma_channels;
    for (uint32_t page = 0; page < PW_CHANNEL_PAGES; page++) {
        if (firmware->page_pdid[page] != pdid) continue;
        for (uint32_t slot = from; slot < to; slot++) {
            uint32_t channel = page * PW_CHANNELS_PER_PAGE + slot;
            const pw_virtual_channel *made = firmware->pages[page][slot];
            if (!made) return make_channel(firmware, channel);
            if (!made->transfer.active && !made->user_state) return (int)channel;
        }
        return PW_ERR_FULL;
    }
    return PW_ERR_CONTEXT;
}

bool pw_firmware_has_page(const pw_firmware *firmware, uint16_t pdid)
{
    for (int page = 0; page < PW_CHANNEL_PAGES; page++)
        if (firmware->page_pdid[page] == pdid) return true;
    return false;
}

int pw_firmware_claim_write(pw_firmware *firmware, uint16_t pdid)
{
    return pw_r5_claim(firmware, pdid, 0, FIRST_READ_CHANNEL);
}

/* The upper half of stream ids belongs to readers (PW_STREAM_READ). */
uint32_t pw_firmware_new_stream(pw_firmware *firmware)
{
    return firmware->next_stream++ & INT32_MAX;
}

pw_time pw_r5_work(pw_firmware *firmware, pw_time at_ns, pw_time cost_ns)
{
    pw_time start_ns = pw_calendar_book(firmware->r5, at_ns, cost_ns);
    if (cost_ns)
        pw_trace_detail(firmware->trace, start_ns, PW_TRACE_R5, firmware->trace->node,
                        (uint64_t)cost_ns, 0);
    return start_ns + cost_ns;
}

void pw_r5_pass(pw_firmware *firmware, bool has_entry, pw_time at_ns)
{
    if (firmware->settings->queue_counters) return;
    const pw_costs *costs = firmware->costs;
    uint32_t num_mailboxes =
        (firmware->settings->read_mailbox_separate ? 3u : 2u) - (has_entry ? 1u : 0u);
    uint32_t num_queues =
        (firmware->transactions.num_armed ? 0u : 1u) + (firmware->num_buffered ? 0u : 1u);
    for (int queue = 0; queue < PW_NUM_CLASSES; queue++)
        num_queues += firmware->scheduler.length[queue] ? 0 : 1;
    firmware->counters->empty_queue_reads += num_mailboxes + num_queues;
    pw_r5_work(firmware, at_ns,
               num_mailboxes * costs->r5_ack_read_ns + num_queues * costs->r5_queue_op_ns);
}

void pw_r5_took(pw_firmware *firmware, enum pw_mailbox_idx mailbox, pw_time at_ns, pw_time taken_ns)
{
    int was_full = mailbox_pass(&firmware->mailboxes[mailbox], at_ns, taken_ns);
    if (was_full < 0) firmware->lost_entry = true;
    else if (!firmware->pumping)
        firmware->counters->mailbox_full += (uint64_t)was_full; /* else counted when it was kept */
}

void pw_r5_push(pw_firmware *firmware, enum pw_event_kind kind, uint16_t priority, pw_time at_ns,
                uint64_t subject, uint64_t detail)
{
    pw_event event = {.time_ns = at_ns,
                      .priority = priority,
                      .kind = (uint32_t)kind,
                      .subject = subject,
                      .detail = detail};
    pw_event_queue_push(firmware->events, &event);
}

void pw_actions_finish(pw_actions *actions)
{
    free(actions->list);
    *actions = (pw_actions){0};
}

pw_action *pw_r5_act(pw_actions *actions, enum pw_action_kind kind, uint32_t channel, pw_time at_ns)
{
    if (PW_ARRAY_MAKE_ROOM(actions->list, actions->num_actions, actions->capacity, 4) < 0)
        actions->is_short = true;
    pw_action *action = actions->is_short ? &actions->lost : &actions->list[actions->num_actions++];
    action->kind = kind;
    action->channel = channel;
    action->code = 0;
    action->transaction = NULL;
    action->at_ns = at_ns;
    return action;
}

void pw_r5_count_transfer(pw_firmware *firmware, const pw_transfer *transfer)
{
    firmware->counters->transfers++;
    pw_tallies_message(firmware->tallies, transfer->peer, transfer->num_bytes);
}

void pw_r5_start_transfer(pw_firmware *firmware, uint32_t channel, const pw_transfer *transfer)
{
    pw_transfer *own = pw_transfer_on(firmware, channel);
    *own = *transfer;
    own->active = true;
    firmware->num_active++;
    own->in_order_ns = INT64_MIN;
    uint64_t block_max = (uint64_t)firmware->settings->block_bytes;
    own->first_block_bytes =
        pw_first_block_bytes(block_max, own->destination_address, own->num_bytes);
    own->num_blocks = pw_num_blocks(block_max, own->destination_address, own->num_bytes);
    own->queue = own->hint ? (uint8_t)(own->hint - PW_HINT_HIGH)
                           : (uint8_t)pw_scheduler_classify(&firmware->scheduler, own->num_bytes);
    if (!own->window_blocks) own->window_blocks = (uint8_t)firmware->settings->window_blocks;
    pw_descriptor *descriptor = &pw_firmware_channel(firmware, channel)->descriptor;
    descriptor->source_address = own->source_address;
    descriptor->destination_address = own->destination_address;
    descriptor->destination_address_notification = own->notification.address;
    descriptor->first_data_notification = own->notification.data[0];
    descriptor->last_data_notification = own->notification.data[1];
    descriptor->transfer_bytes = (uint32_t)own->num_bytes;
    descriptor->done = 0;
    descriptor->reserved[0] = own->hint;
    descriptor->reserved[1] = transfer->window_blocks;
}

void pw_firmware_trigger(pw_firmware *firmware, uint32_t channel, const pw_transfer *transfer,
                         pw_time at_ns)
{
    pw_r5_start_transfer(firmware, channel, transfer);
    pw_r5_push(firmware, PW_EVENT_NEW_TRANSFER, PRIORITY_NEW, at_ns, channel, 0);
}

/* A write of ZDMA is notified when all of it is acknowledged: one round trip more [PSI 1.3.2]. Who
 * does what a transfer's end asks for sends it. */
static bool notifies_at_end(const pw_firmware *firmware, uint32_t channel)
{
    return firmware->settings->engine == PW_ENGINE_ZDMA &&
           channel % PW_CHANNELS_PER_PAGE < FIRST_READ_CHANNEL;
}

/* The last block of a transfer carries the notification itself when it is the only one; else the
 * notification waits for the penultimate acknowledgement [R5 2.3.3]. */
void pw_r5_notify(pw_firmware *firmware, uint32_t channel, pw_actions *actions, pw_time at_ns)
{
    if (notifies_at_end(firmware, channel)) return;
    pw_transfer_on(firmware, channel)->notified = true;
    pw_r5_act(actions, PW_ACTION_NOTIFY, channel,
              pw_r5_work(firmware, at_ns, firmware->costs->r5_completion_message_ns));
}

/* The transfer is (no longer) one of its class that has blocks to issue. Lower ones may go when
 * none is. */
static void set_open(pw_firmware *firmware, pw_transfer *transfer, bool open, pw_time at_ns)
{
    if (transfer->open == open) return;
    transfer->open = open;
    uint32_t *num_open = &firmware->scheduler.num_open[transfer->queue];
    *num_open += open ? 1 : UINT32_MAX;
    for (; !*num_open && firmware->num_deferred; firmware->num_deferred--)
        pw_r5_push(firmware, PW_EVENT_SCHEDULE, PRIORITY_SCHEDULE, at_ns, 0, 0);
}

void pw_r5_finish(pw_firmware *firmware, uint32_t channel, pw_actions *actions, pw_time at_ns)
{
    pw_transfer *transfer = pw_transfer_on(firmware, channel);
    set_open(firmware, transfer, false, at_ns);
    pw_action *action =
        pw_r5_act(actions, transfer->error ? PW_ACTION_FAILED : PW_ACTION_DONE, channel, at_ns);
    action->code = transfer->error;
    action->transfer = *transfer;
    transfer->active = false;
    transfer->finished_ns = at_ns;
    if (transfer->num_unconfirmed) firmware->lookahead_full = false; /* given up */
    firmware->num_active--;
    bool is_read = channel % PW_CHANNELS_PER_PAGE >= FIRST_READ_CHANNEL;
    pw_firmware_channel(firmware, channel)->descriptor.done = is_read ? 2 : 1;
    if (is_read) pw_reads_channel_freed(firmware, channel, at_ns);
}

static void enqueue(pw_firmware *firmware, uint32_t channel, pw_time at_ns)
{
    pw_transfer *transfer = pw_transfer_on(firmware, channel);
    transfer->queued = true;
    pw_scheduler_enqueue(&firmware->scheduler, (enum pw_class)transfer->queue, channel);
    pw_r5_push(firmware, PW_EVENT_SCHEDULE, PRIORITY_SCHEDULE,
               pw_r5_work(firmware, at_ns, firmware->costs->r5_queue_op_ns), 0, 0);
}

void pw_r5_requeue(pw_firmware *firmware, uint32_t channel, pw_time at_ns)
{
    pw_transfer *transfer = pw_transfer_on(firmware, channel);
    if (!transfer->hint) {
        uint64_t rest = transfer->num_bytes -
                        pw_block_offset((uint64_t)firmware->settings->block_bytes,
                                        transfer->first_block_bytes, transfer->next_block);
        enum pw_class queue = firmware->scheduler.is_dynamic
                                  ? pw_scheduler_classify(&firmware->scheduler, rest)
                                  : (enum pw_class)transfer->queue;
        if (queue != transfer->queue) set_open(firmware, transfer, false, at_ns);
        transfer->queue = (uint8_t)queue;
        set_open(firmware, transfer, true, at_ns);
    }
    uint64_t *const by_queue[PW_NUM_CLASSES] = {&firmware->counters->requeues_high,
                                                &firmware->counters->requeues_medium,
                                                &firmware->counters->requeues_low};
    ++*by_queue[transfer->queue];
    enqueue(firmware, channel, at_ns);
}

/* Issue blocks while the window has room. Returns false when the transaction table is full. */
static bool issue(pw_firmware *firmware, uint32_t channel, pw_actions *actions, pw_time at_ns)
{
    const pw_costs *costs = firmware->costs;
    pw_transfer *transfer = pw_transfer_on(firmware, channel);
    bool single = transfer->num_blocks == 1;
    pw_time id_ns =
        firmware->settings->ticket_queue ? costs->r5_queue_op_ns : costs->r5_id_search_ns;
    while (!transfer->paused && transfer->next_block < transfer->num_blocks &&
           transfer->outstanding < transfer->window_blocks) {
        pw_transaction *transaction = pw_transactions_claim(&firmware->transactions);
        if (!transaction) {
            firmware->lost_entry |= firmware->transactions.num_free > 0;
            firmware->counters->table_full++;
            return false;
        }
        transaction->channel = channel;
        transaction->block_idx = transfer->next_block++;
        transaction->block_bytes =
            pw_block_bytes((uint64_t)firmware->settings->block_bytes, transfer->num_bytes,
                           transfer->first_block_bytes, transaction->block_idx);
        transaction->last_block = transaction->block_idx + 1 == transfer->num_blocks;
        transfer->outstanding++;
        /* id; table and timeout list; start; and for the only block its completion message */
        pw_time cost_ns = id_ns + pw_timeout_table_ns(firmware) + costs->r5_start_block_ns +
                          costs->r5_logic_round_trip_ns +
                          (single ? costs->r5_completion_message_ns : 0);
        at_ns = pw_r5_work(firmware, at_ns, cost_ns);
        pw_answers_trace_step(firmware, transaction, PW_TRANSACTION_FREE, PW_BLOCK_START, at_ns);
        pw_timeout_start(firmware, transaction, at_ns);
        transfer->notified = single && !notifies_at_end(firmware, channel);
        firmware->counters->blocks++;
        pw_r5_act(actions, PW_ACTION_START_BLOCK, channel, at_ns)->transaction = transaction;
        /* the penultimate acknowledgement was here first (window of 1, table full, R5 busy) */
        if (transaction->last_block && !single && transfer->num_acked + 1 == transfer->num_blocks)
            pw_r5_notify(firmware, channel, actions, at_ns);
    }
    set_open(firmware, transfer, transfer->next_block < transfer->num_blocks, at_ns);
    return true;
}

void pw_r5_admit(pw_firmware *firmware, uint32_t channel, pw_actions *actions, pw_time at_ns)
{
    pw_transfer *transfer = pw_transfer_on(firmware, channel);
    pw_firmware_channel(firmware, channel)->descriptor.done =
        channel % PW_CHANNELS_PER_PAGE < FIRST_READ_CHANNEL ? 2 : 0;
    if (transfer->num_blocks == 0) {
        pw_r5_notify(firmware, channel, actions, at_ns);
        pw_r5_finish(firmware, channel, actions, at_ns);
        return;
    }
    bool bypass = firmware->settings->bypass && transfer->queue == PW_CLASS_HIGH;
    if (bypass) at_ns = pw_r5_work(firmware, at_ns, firmware->costs->r5_bypass_check_ns);
    bypass = bypass && !firmware->scheduler.length[PW_CLASS_HIGH];
    firmware->counters->scheduler_bypasses += bypass;
    if (bypass && issue(firmware, channel, actions, at_ns) &&
        transfer->next_block == transfer->num_blocks)
        return;
    if (transfer->outstanding >= transfer->window_blocks) return;
    set_open(firmware, transfer, true, at_ns);
    enqueue(firmware, channel, at_ns);
}

/* The mailbox's first entry is of a transfer that the R5 knows from the word. */
static void drop_duplicate(pw_firmware *firmware, pw_time at_ns)
{
    if (!firmware->duplicate_waits) return;
    firmware->duplicate_waits = false;
    firmware->counters->mailbox_duplicates++;
    pw_r5_work(firmware, at_ns, firmware->costs->r5_ack_read_ns);
}

/* The user's trigger leaves the channel in the mailbox and, when the last one there was taken, in
 * the special scratchpad word, which the R5 looks at first: what it knows from the word it meets
 * again in the mailbox, and drops. It does so in the next pass, thus behind the scheduler, and
 * before any other entry. */
static void new_transfer(pw_firmware *firmware, uint32_t channel, pw_actions *actions,
                         pw_time at_ns)
{
    const pw_costs *costs = firmware->costs;
    bool in_word = firmware->settings->fast_path && at_ns >= firmware->word_free_ns;
    drop_duplicate(firmware, at_ns);
    pw_r5_pass(firmware, true, at_ns);
    at_ns = pw_r5_work(firmware, at_ns,
                       in_word ? costs->r5_notice_transfer_ns : costs->r5_mailbox_notice_ns);
    pw_trace_add(firmware->trace, at_ns, PW_TRACE_TRANSFER_NOTICED, channel,
                 pw_transfer_on(firmware, channel)->num_bytes);
    pw_r5_count_transfer(firmware, pw_transfer_on(firmware, channel));
    pw_r5_admit(firmware, channel, actions, at_ns);
    if (!in_word) return;
    firmware->word_free_ns = at_ns;
    firmware->counters->fast_path_hits++;
    firmware->duplicate_waits = true;
    pw_r5_push(firmware, PW_EVENT_DUPLICATE, PRIORITY_DUPLICATE,
               pw_calendar_peek(firmware->r5, at_ns, costs->r5_ack_read_ns), 0, 0);
}

static void schedule(pw_firmware *firmware, pw_actions *actions, pw_time at_ns)
{
    /* While the R5 is busy more urgent transfers may still come: choose when it is free. */
    pw_time free_ns = pw_calendar_peek(firmware->r5, at_ns, firmware->costs->r5_queue_op_ns);
    if (free_ns > at_ns) {
        pw_r5_push(firmware, PW_EVENT_SCHEDULE, PRIORITY_SCHEDULE, free_ns, 0, 0);
        return;
    }
    uint32_t channel;
    if (firmware->scheduler.num_queued) pw_r5_pass(firmware, false, at_ns);
    if (!pw_scheduler_dequeue(&firmware->scheduler, &channel)) {
        if (firmware->scheduler.num_queued > firmware->num_deferred) firmware->num_deferred++;
        return;
    }
    at_ns = pw_r5_work(firmware, at_ns, firmware->costs->r5_queue_op_ns);
    pw_transfer *transfer = pw_transfer_on(firmware, channel);
    transfer->queued = false;
    if (issue(firmware, channel, actions, at_ns)) return;
    transfer->queued = true;
    pw_scheduler_put_back(&firmware->scheduler, (enum pw_class)transfer->queue, channel);
    firmware->num_stalled++;
}

/* False: the entry cannot be taken out of its mailbox now. */
static bool take(pw_firmware *firmware, const pw_event *entry, pw_actions *actions)
{
    if (entry->kind == PW_EVENT_READ_REQUEST)
        return pw_reads_take(firmware, (int32_t)entry->subject, actions, entry->time_ns);
    if (entry->kind == PW_EVENT_TICK) pw_timeout_tick(firmware, entry->time_ns);
    else pw_answers_handle(firmware, entry, actions);
    return true;
}

/* Something came to a mailbox. Timers wait as well while that of the acknowledgements is blocked:
 * it may be for ever, and blocks whose acknowledgements cannot be read would be sent again for
 * ever. */
static void arrive(pw_firmware *firmware, const pw_event *entry, pw_actions *actions)
{
    bool is_request = entry->kind == PW_EVENT_READ_REQUEST;
    bool is_timer = entry->kind == PW_EVENT_TIMEOUT || entry->kind == PW_EVENT_TICK;
    pw_mailbox *mailbox =
        &firmware->mailboxes[is_request && firmware->settings->read_mailbox_separate
                                 ? PW_MAILBOX_REQUESTS
                                 : PW_MAILBOX_ANSWERS];
    if (!mailbox->num_waiting && take(firmware, entry, actions)) return;
    firmware->counters->reads_held += is_request;
    if (!mailbox->num_waiting) mailbox->blocked = true;
    int code = mailbox_keep(mailbox, entry);
    firmware->lost_entry |= code < 0;
    firmware->counters->mailbox_full += code == 1 && !is_timer;
}

/* There may be room for the request at the head; then what stands behind it follows, one at a time.
 */
static void pump(pw_firmware *firmware, pw_mailbox *mailbox, pw_actions *actions, pw_time at_ns)
{
    pw_event entry = *pw_mailbox_head(mailbox);
    entry.time_ns = at_ns;
    firmware->pumping = true;
    mailbox->blocked = mailbox->pumping = !take(firmware, &entry, actions);
    firmware->pumping = mailbox->pumping = false;
    if (mailbox->blocked) return;
    mailbox_drop_head(mailbox);
    if (!mailbox->num_waiting) return;
    mailbox->pumping = true;
    pw_r5_push(firmware, PW_EVENT_MAILBOX, PRIORITY_MAILBOX, at_ns,
               (uint64_t)(mailbox - firmware->mailboxes), 0);
}

void pw_firmware_handle(pw_firmware *firmware, const pw_event *event, pw_actions *actions)
{
    uint32_t subject = (uint32_t)event->subject;
    pw_time at_ns = event->time_ns;
    switch ((enum pw_event_kind)event->kind) {
    case PW_EVENT_NEW_TRANSFER: new_transfer(firmware, subject, actions, at_ns); return;
    case PW_EVENT_DUPLICATE: drop_duplicate(firmware, at_ns); return;
    case PW_EVENT_READ_HANDED:
        pw_reads_serve(firmware, (int32_t)subject, (uint32_t)event->detail, actions,
                       pw_r5_work(firmware, at_ns, firmware->costs->r5_queue_op_ns));
        return;
    case PW_EVENT_READ_RETRY: pw_reads_retry(firmware, at_ns); return;
    case PW_EVENT_MAILBOX: pump(firmware, &firmware->mailboxes[subject], actions, at_ns); return;
    case PW_EVENT_CONFIRMED:
        if (pw_transfer_on(firmware, subject)->awaits_confirmation)
            pw_r5_finish(firmware, subject, actions, at_ns);
        return;
    case PW_EVENT_SCHEDULE: schedule(firmware, actions, at_ns); return;
    case PW_EVENT_PAUSE_OVER:
        pw_go_back_resume(firmware, subject, (uint32_t)event->detail, actions, at_ns);
        return;
    case PW_EVENT_HOPELESS: pw_answers_handle(firmware, event, actions); return;
    default: arrive(firmware, event, actions);
    }
}
