#include "r5sched/firmware.h"
#include "r5sched/segmentation.h"
#include <stdlib.h>
#include <string.h>

/* Order of the main loop [R5 3]: new transfers, scheduler, acknowledgement mailbox, timeouts. */
enum { PRIORITY_NEW, PRIORITY_SCHEDULE, PRIORITY_MAILBOX, PRIORITY_TIMEOUT };

#define FORESEEN 1              /* code of an ACK event that was foreseen */
#define READ_REQUEST_WORDS 8    /* 256-bit request, read 32 bits at a time [R5 3.5] */
#define FIRST_READ_CHANNEL PW_WRITE_CHANNELS

int pw_firmware_init(pw_firmware *firmware, const pw_costs *costs, const pw_settings *settings,
                     pw_counters *counters, pw_event_queue *events, pw_trace *trace)
{
    memset(firmware, 0, sizeof *firmware);
    firmware->costs = costs;
    firmware->settings = settings;
    firmware->counters = counters;
    firmware->events = events;
    firmware->trace = trace;
    firmware->free_read = firmware->first_waiting = firmware->last_waiting = -1;
    pw_calendar_init(&firmware->r5);
    pw_scheduler_init(&firmware->scheduler, (uint64_t)settings->high_limit_bytes, (uint64_t)settings->medium_limit_bytes);
    pw_transactions_init(&firmware->transactions);
    return PW_OK;
}

void pw_firmware_destroy(pw_firmware *firmware) { free(firmware->reads); }

int pw_firmware_open_page(pw_firmware *firmware, uint16_t pdid)
{
    for (int page = 0; page < PW_CHANNEL_PAGES; page++)
        if (firmware->page_pdid[page] == 0) {
            firmware->page_pdid[page] = pdid;
            for (uint32_t slot = FIRST_READ_CHANNEL; slot < PW_CHANNELS_PER_PAGE; slot++)
                firmware->descriptors[(uint32_t)page * PW_CHANNELS_PER_PAGE + slot].done = 2;
            return page;
        }
    return PW_ERR_FULL;
}

static int claim(pw_firmware *firmware, uint16_t pdid, uint32_t from, uint32_t to)
{
    for (uint32_t page = 0; page < PW_CHANNEL_PAGES; page++) {
        if (firmware->page_pdid[page] != pdid) continue;
        for (uint32_t slot = from; slot < to; slot++) {
            uint32_t channel = page * PW_CHANNELS_PER_PAGE + slot;
            if (!firmware->transfers[channel].active) return (int)channel;
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

int pw_firmware_claim_write(pw_firmware *firmware, uint16_t pdid) { return claim(firmware, pdid, 0, FIRST_READ_CHANNEL); }

/* Book R5 time; returns when the work is done. */
static pw_time work(pw_firmware *firmware, pw_time at_ns, pw_time cost_ns)
{
    return pw_calendar_book(&firmware->r5, at_ns, cost_ns) + cost_ns;
}

static void push(pw_firmware *firmware, enum pw_event_kind kind, uint16_t priority, pw_time at_ns, uint64_t subject, uint64_t detail)
{
    pw_event event = {.time_ns = at_ns, .priority = priority, .kind = (uint32_t)kind, .subject = subject, .detail = detail};
    pw_event_queue_push(firmware->events, &event);
}

static pw_action *add_action(pw_actions *actions, enum pw_action_kind kind, uint32_t channel, pw_time at_ns)
{
    pw_action *action = &actions->list[actions->num_actions++];
    action->kind = kind;
    action->channel = channel;
    action->code = 0;
    action->transaction = NULL;
    action->at_ns = at_ns;
    return action;
}

static void start_transfer(pw_firmware *firmware, uint32_t channel, const pw_transfer *transfer)
{
    pw_transfer *own = &firmware->transfers[channel];
    *own = *transfer;
    own->active = true;
    firmware->num_active++;
    own->notified = own->queued = own->lookahead_off = own->awaits_confirmation = false;
    own->num_unconfirmed = 0;
    own->error = 0;
    own->first_block_bytes = pw_first_block_bytes(own->destination_address, own->num_bytes);
    own->num_blocks = pw_num_blocks(own->destination_address, own->num_bytes);
    own->next_block = own->outstanding = own->num_acked = 0;
    own->class_ = (uint8_t)pw_scheduler_classify(&firmware->scheduler, own->num_bytes);
    pw_descriptor *descriptor = &firmware->descriptors[channel];
    descriptor->source_address = own->source_address;
    descriptor->destination_address = own->destination_address;
    descriptor->transfer_bytes = (uint32_t)own->num_bytes;
    descriptor->done = 0;
}

void pw_firmware_trigger(pw_firmware *firmware, uint32_t channel, const pw_transfer *transfer, pw_time at_ns)
{
    start_transfer(firmware, channel, transfer);
    push(firmware, PW_EVENT_NEW_TRANSFER, PRIORITY_NEW, at_ns, channel, 0);
}

/* The last block of a transfer carries the notification itself when it is the only one; else the
 * notification waits for the penultimate acknowledgement [R5 2.3.3]. */
static void notify(pw_firmware *firmware, uint32_t channel, pw_actions *actions, pw_time at_ns)
{
    firmware->transfers[channel].notified = true;
    add_action(actions, PW_ACTION_NOTIFY, channel, work(firmware, at_ns, firmware->costs->r5_completion_message_ns));
}

/* A read channel is free again: it goes to the domain's request that waits longest, before any request
 * that comes meanwhile can claim it. */
static void hand_over(pw_firmware *firmware, uint32_t channel, pw_time at_ns)
{
    uint16_t pdid = firmware->page_pdid[channel / PW_CHANNELS_PER_PAGE];
    int32_t before = -1, read = firmware->first_waiting;
    while (read >= 0 && firmware->reads[read].pdid != pdid) {
        before = read;
        read = firmware->reads[read].next;
    }
    if (read < 0) return;
    if (before < 0) firmware->first_waiting = firmware->reads[read].next;
    else firmware->reads[before].next = firmware->reads[read].next;
    if (firmware->last_waiting == read) firmware->last_waiting = before;
    firmware->transfers[channel].active = true;
    push(firmware, PW_EVENT_READ_REQUEST, PRIORITY_TIMEOUT, at_ns, (uint64_t)read, channel + 1);
}

static void finish(pw_firmware *firmware, uint32_t channel, pw_actions *actions, pw_time at_ns)
{
    pw_transfer *transfer = &firmware->transfers[channel];
    pw_action *action = add_action(actions, transfer->error ? PW_ACTION_FAILED : PW_ACTION_DONE, channel, at_ns);
    action->code = transfer->error;
    action->transfer = *transfer;
    transfer->active = false;
    if (transfer->num_unconfirmed) firmware->lookahead_full = false;    /* given up */
    firmware->num_active--;
    bool is_read = channel % PW_CHANNELS_PER_PAGE >= FIRST_READ_CHANNEL;
    firmware->descriptors[channel].done = is_read ? 2 : 1;
    if (is_read) hand_over(firmware, channel, at_ns);
}

static void enqueue(pw_firmware *firmware, uint32_t channel, pw_time at_ns)
{
    pw_transfer *transfer = &firmware->transfers[channel];
    transfer->queued = true;
    pw_scheduler_enqueue(&firmware->scheduler, (enum pw_class)transfer->class_, channel);
    push(firmware, PW_EVENT_SCHEDULE, PRIORITY_SCHEDULE, work(firmware, at_ns, firmware->costs->r5_queue_op_ns), 0, 0);
}

static pw_time deadline(const pw_firmware *firmware, pw_time at_ns)
{
    int64_t timeout_ns = firmware->settings->timeout_ns;
    return timeout_ns < 0 ? PW_NEVER : at_ns + timeout_ns;
}

/* Issue blocks while the window has room. Returns false when the transaction table is full. */
static bool issue(pw_firmware *firmware, uint32_t channel, pw_actions *actions, pw_time at_ns)
{
    const pw_costs *costs = firmware->costs;
    pw_transfer *transfer = &firmware->transfers[channel];
    bool single = transfer->num_blocks == 1;
    while (transfer->next_block < transfer->num_blocks &&
           transfer->outstanding < (uint32_t)firmware->settings->window_blocks) {
        pw_transaction *transaction = pw_transactions_claim(&firmware->transactions);
        if (!transaction) {
            firmware->counters->table_full++;
            return false;
        }
        transaction->channel = channel;
        transaction->block_idx = transfer->next_block++;
        transaction->block_bytes = pw_block_bytes(transfer->num_bytes, transfer->first_block_bytes, transaction->block_idx);
        transaction->last_block = transaction->block_idx + 1 == transfer->num_blocks;
        transfer->outstanding++;
        /* ticket; table and timeout list; start; and for the only block its completion message */
        pw_time cost_ns = 2 * costs->r5_queue_op_ns + costs->r5_start_block_ns + costs->r5_logic_round_trip_ns +
                          (single ? costs->r5_completion_message_ns : 0);
        at_ns = work(firmware, at_ns, cost_ns);
        pw_transactions_arm(&firmware->transactions, transaction, deadline(firmware, at_ns));
        transfer->notified = single;
        firmware->counters->blocks++;
        add_action(actions, PW_ACTION_START_BLOCK, channel, at_ns)->transaction = transaction;
        /* the penultimate acknowledgement was here first (window of 1, table full, R5 busy) */
        if (transaction->last_block && !single && transfer->num_acked + 1 == transfer->num_blocks)
            notify(firmware, channel, actions, at_ns);
    }
    return true;
}

/* A transfer is ready at at_ns: bypass the queues when it is urgent and no other urgent one waits. */
static void admit(pw_firmware *firmware, uint32_t channel, pw_actions *actions, pw_time at_ns)
{
    pw_transfer *transfer = &firmware->transfers[channel];
    firmware->descriptors[channel].done = channel % PW_CHANNELS_PER_PAGE < FIRST_READ_CHANNEL ? 2 : 0;
    if (transfer->num_blocks == 0) {
        notify(firmware, channel, actions, at_ns);
        finish(firmware, channel, actions, at_ns);
        return;
    }
    bool bypass = transfer->class_ == PW_CLASS_HIGH && !firmware->scheduler.length[PW_CLASS_HIGH];
    if (bypass && issue(firmware, channel, actions, at_ns) && transfer->next_block == transfer->num_blocks) return;
    if (transfer->outstanding < (uint32_t)firmware->settings->window_blocks)
        enqueue(firmware, channel, at_ns);
}

static void new_transfer(pw_firmware *firmware, uint32_t channel, pw_actions *actions, pw_time at_ns)
{
    at_ns = work(firmware, at_ns, firmware->costs->r5_notice_transfer_ns);
    pw_trace_add(firmware->trace, at_ns, PW_TRACE_TRANSFER_NOTICED, channel, firmware->transfers[channel].num_bytes);
    firmware->counters->transfers++;
    admit(firmware, channel, actions, at_ns);
}

int pw_firmware_read_request(pw_firmware *firmware, const pw_read_request *request, pw_time at_ns)
{
    if (firmware->free_read < 0) {
        uint32_t capacity = firmware->reads_capacity ? 2 * firmware->reads_capacity : 64;
        pw_read_request *reads = realloc(firmware->reads, capacity * sizeof *reads);
        if (!reads) return PW_ERR_NOMEM;
        firmware->reads = reads;
        for (uint32_t i = firmware->reads_capacity; i < capacity; i++) {
            reads[i].next = firmware->free_read;
            firmware->free_read = (int32_t)i;
        }
        firmware->reads_capacity = capacity;
    }
    int32_t read = firmware->free_read;
    firmware->free_read = firmware->reads[read].next;
    firmware->reads[read] = *request;
    firmware->reads[read].next = -1;
    push(firmware, PW_EVENT_READ_REQUEST, PRIORITY_MAILBOX, at_ns, (uint64_t)read, 0);
    return PW_OK;
}

/* channel: the one handed over to a request that waited, or -1 for a new request. */
static void serve_read(pw_firmware *firmware, int32_t read, int channel, pw_actions *actions, pw_time at_ns)
{
    pw_read_request request = firmware->reads[read];
    const pw_costs *costs = firmware->costs;
    pw_time words_ns = channel >= 0 ? 0 : READ_REQUEST_WORDS * costs->r5_read_request_word_ns;
    at_ns = work(firmware, at_ns, words_ns + costs->r5_queue_op_ns);
    if (channel < 0) channel = claim(firmware, request.pdid, FIRST_READ_CHANNEL, PW_CHANNELS_PER_PAGE);
    if (channel < 0) {      /* out of the mailbox, so that acknowledgements behind it go on */
        firmware->counters->reads_queued++;
        firmware->reads[read].next = -1;
        if (firmware->last_waiting >= 0) firmware->reads[firmware->last_waiting].next = read;
        else firmware->first_waiting = read;
        firmware->last_waiting = read;
        return;
    }
    pw_trace_add(firmware->trace, at_ns, PW_TRACE_READ_REQUEST, request.peer, request.stream);
    firmware->reads[read].next = firmware->free_read;
    firmware->free_read = read;
    pw_transfer transfer = {
        .source_address = request.source_address, .destination_address = request.destination_address,
        .num_bytes = request.num_bytes, .cookie = request.cookie, .peer = request.peer,
        .stream = request.stream, .pdid = request.pdid,
    };
    start_transfer(firmware, (uint32_t)channel, &transfer);
    firmware->counters->transfers++;
    firmware->counters->reads_served++;
    admit(firmware, (uint32_t)channel, actions, at_ns);
}

static void schedule(pw_firmware *firmware, pw_actions *actions, pw_time at_ns)
{
    /* While the R5 is busy more urgent transfers may still come: choose when it is free. */
    pw_time free_ns = pw_calendar_peek(&firmware->r5, at_ns, firmware->costs->r5_queue_op_ns);
    if (free_ns > at_ns) {
        push(firmware, PW_EVENT_SCHEDULE, PRIORITY_SCHEDULE, free_ns, 0, 0);
        return;
    }
    uint32_t channel;
    if (!pw_scheduler_dequeue(&firmware->scheduler, &channel)) return;
    at_ns = work(firmware, at_ns, firmware->costs->r5_queue_op_ns);
    pw_transfer *transfer = &firmware->transfers[channel];
    transfer->queued = false;
    if (issue(firmware, channel, actions, at_ns)) return;
    transfer->queued = true;
    pw_scheduler_put_back(&firmware->scheduler, (enum pw_class)transfer->class_, channel);
    firmware->num_stalled++;
}

static void release(pw_firmware *firmware, pw_transaction *transaction, pw_time at_ns)
{
    pw_transactions_release(&firmware->transactions, transaction);
    if (!firmware->num_stalled) return;
    firmware->num_stalled--;
    push(firmware, PW_EVENT_SCHEDULE, PRIORITY_SCHEDULE, at_ns, 0, 0);
}

static uint64_t subject(uint16_t id, uint16_t sequence, uint32_t code)
{
    return (uint64_t)id | (uint64_t)sequence << 16 | (uint64_t)code << 32;
}

static uint64_t identity_of(const pw_firmware *firmware, const pw_transaction *transaction)
{
    return pw_identity(firmware->transfers[transaction->channel].stream, transaction->block_idx);
}

/* The pending transaction that an answer is for, or NULL when it is of an older attempt. */
static pw_transaction *current(pw_firmware *firmware, uint64_t answer, uint64_t identity)
{
    pw_transaction *transaction = pw_transactions_find(&firmware->transactions, (uint16_t)answer);
    if (!transaction || transaction->sequence != (uint16_t)(answer >> 16)) return NULL;
    return identity_of(firmware, transaction) == identity ? transaction : NULL;
}

static void acked(pw_firmware *firmware, pw_transaction *transaction, pw_actions *actions, pw_time at_ns)
{
    uint32_t channel = transaction->channel;
    pw_transfer *transfer = &firmware->transfers[channel];
    at_ns = work(firmware, at_ns, firmware->costs->r5_queue_op_ns);
    pw_trace_add(firmware->trace, at_ns, PW_TRACE_ACK, transaction->id, transaction->sequence);
    transaction->state = PW_TRANSACTION_ACKED;
    if (transaction->predicted && !transaction->confirmed) pw_transactions_disarm(&firmware->transactions, transaction);
    else release(firmware, transaction, at_ns);
    firmware->counters->acks++;
    transfer->num_acked++;
    transfer->outstanding--;
    if (transfer->error) {
        if (!transfer->outstanding && !transfer->queued) finish(firmware, channel, actions, at_ns);
        return;
    }
    if (transfer->num_acked == transfer->num_blocks) {
        transfer->done_ns = at_ns;
        transfer->awaits_confirmation = transfer->num_unconfirmed != 0;
        if (!transfer->awaits_confirmation) finish(firmware, channel, actions, at_ns);
        return;
    }
    bool all_out = transfer->next_block == transfer->num_blocks;
    if (all_out && !transfer->notified && transfer->num_acked + 1 == transfer->num_blocks)
        notify(firmware, channel, actions, at_ns);
    if (!all_out && !transfer->queued) enqueue(firmware, channel, at_ns);
}

static void retransmit(pw_firmware *firmware, pw_transaction *transaction, pw_actions *actions, pw_time at_ns)
{
    const pw_costs *costs = firmware->costs;
    transaction->num_spoiled = (uint16_t)(transaction->num_spoiled + transaction->spoiled);
    transaction->spoiled = false;
    if (transaction->num_spoiled > PW_SEQUENCE_MASK) {
        pw_firmware_fail(firmware, transaction->channel, PW_UNRECOVERABLE, actions, at_ns);
        return;
    }
    transaction->sequence = (transaction->sequence + 1) & PW_SEQUENCE_MASK;
    transaction->state = PW_TRANSACTION_RETRANSMITTED;
    transaction->timer_cancelled = transaction->timer_decided = transaction->nack_seen = false;
    transaction->answer_ns = INT64_MIN;
    at_ns = work(firmware, at_ns, costs->r5_queue_op_ns + costs->r5_start_block_ns + costs->r5_logic_round_trip_ns);
    pw_transactions_arm(&firmware->transactions, transaction, deadline(firmware, at_ns));
    firmware->counters->retransmitted_blocks++;
    add_action(actions, PW_ACTION_START_BLOCK, transaction->channel, at_ns)->transaction = transaction;
    if (transaction->last_block && firmware->transfers[transaction->channel].num_blocks > 1 &&
        firmware->transfers[transaction->channel].notified)
        notify(firmware, transaction->channel, actions, at_ns);
}

void pw_firmware_fail(pw_firmware *firmware, uint32_t channel, uint32_t code, pw_actions *actions, pw_time at_ns)
{
    pw_transfer *transfer = &firmware->transfers[channel];
    transfer->error = (uint8_t)code;
    for (uint32_t i = 0; i < PW_TRANSACTIONS; i++) {
        pw_transaction *transaction = &firmware->transactions.entries[i];
        if (transaction->state != PW_TRANSACTION_FREE && transaction->channel == channel) release(firmware, transaction, at_ns);
    }
    transfer->outstanding = 0;
    if (transfer->queued) {         /* the channel's next transfer must not inherit the place */
        transfer->queued = false;
        pw_scheduler_remove(&firmware->scheduler, (enum pw_class)transfer->class_, channel);
    }
    finish(firmware, channel, actions, at_ns);
}

static void nacked(pw_firmware *firmware, pw_transaction *transaction, uint32_t code, pw_actions *actions, pw_time at_ns)
{
    firmware->counters->nacks[code & 7]++;
    pw_trace_add(firmware->trace, at_ns, PW_TRACE_NACK, transaction->id, code);
    transaction->state = PW_TRANSACTION_NACKED;
    switch (code) {
    case 1:                     /* page fault: wait for the ERR or the timeout */
        if (!firmware->settings->nack_cancels_timer) return;
        transaction->timer_cancelled = true;
        pw_transactions_disarm(&firmware->transactions, transaction);
        return;
    case 2: case 3: case 5: case PW_UNRECOVERABLE:  /* bad address, no context, protection: fatal */
        pw_firmware_fail(firmware, transaction->channel, code, actions, at_ns);
        return;
    default:
        transaction->spoiled = true;
        retransmit(firmware, transaction, actions, at_ns);
    }
}

/* The block's timeout happens when it is known that no answer comes before it. */
static void decide_timeout(pw_firmware *firmware, pw_transaction *transaction, uint64_t identity)
{
    if (transaction->timer_decided || transaction->answer_ns <= transaction->deadline_ns) return;
    transaction->timer_decided = true;
    push(firmware, PW_EVENT_TIMEOUT, PRIORITY_TIMEOUT, transaction->deadline_ns,
         subject(transaction->id, transaction->sequence, 0), identity);
}

/* An acknowledgement of an older attempt: the timeout is shorter than the round trip. When that goes on
 * for as many attempts as there are sequence numbers, no attempt's answer will ever be in time. */
static void late_ack(pw_firmware *firmware, const pw_event *event, pw_actions *actions, pw_time at_ns)
{
    pw_transaction *transaction = pw_transactions_find(&firmware->transactions, (uint16_t)event->subject);
    if (!transaction || identity_of(firmware, transaction) != event->detail) return;
    if (++transaction->num_late_acks > PW_SEQUENCE_MASK)
        pw_firmware_fail(firmware, transaction->channel, PW_UNRECOVERABLE, actions, at_ns);
}

static void answered(pw_firmware *firmware, const pw_event *event, pw_actions *actions)
{
    bool from_timer = event->kind == PW_EVENT_TIMEOUT;
    pw_transaction *transaction = current(firmware, event->subject, event->detail);
    if (from_timer && (!transaction || transaction->timer_cancelled)) return;
    if (event->kind == PW_EVENT_ACK && event->subject >> 32 == FORESEEN && (!transaction || !transaction->predicted)) return;
    bool restarts = from_timer || event->kind == PW_EVENT_ERR;
    if (restarts && transaction && transaction->sending_until_ns > event->time_ns) {
        if (from_timer) {           /* retransmission bit: a timer does not run out while the block is sent */
            transaction->timer_decided = false;
            pw_transactions_arm(&firmware->transactions, transaction, deadline(firmware, transaction->sending_until_ns));
            decide_timeout(firmware, transaction, event->detail);
            return;
        }
        pw_event later = *event;
        later.time_ns = transaction->sending_until_ns;
        pw_event_queue_push(firmware->events, &later);
        return;
    }
    pw_time read_ns = from_timer ? 0 : firmware->costs->r5_ack_read_ns;
    pw_time at_ns = work(firmware, event->time_ns, read_ns);
    if (!transaction) {
        firmware->counters->stale_answers++;
        if (event->kind == PW_EVENT_ACK) late_ack(firmware, event, actions, at_ns);
        return;
    }
    switch ((enum pw_event_kind)event->kind) {
    case PW_EVENT_ACK:
        acked(firmware, transaction, actions, at_ns);
        return;
    case PW_EVENT_NACK:
        nacked(firmware, transaction, (uint32_t)(event->subject >> 32), actions, at_ns);
        return;
    case PW_EVENT_ERR:
        firmware->counters->err_messages++;
        pw_trace_add(firmware->trace, at_ns, PW_TRACE_ERR, transaction->id, transaction->sequence);
        retransmit(firmware, transaction, actions, at_ns);
        return;
    case PW_EVENT_HOPELESS:
        pw_firmware_fail(firmware, transaction->channel, PW_UNRECOVERABLE, actions, at_ns);
        return;
    default:
        firmware->counters->timeouts++;
        pw_trace_add(firmware->trace, at_ns, PW_TRACE_TIMEOUT, transaction->id, transaction->sequence);
        retransmit(firmware, transaction, actions, at_ns);
    }
}

bool pw_firmware_may_predict(const pw_firmware *firmware, uint32_t channel)
{
    const pw_transfer *transfer = &firmware->transfers[channel];
    return firmware->num_active == 1 && !transfer->lookahead_off &&
           firmware->settings->lookahead_blocks > 0 && firmware->transactions.num_free > PW_TRANSACTIONS / 2;
}

void pw_firmware_predict(pw_firmware *firmware, pw_transaction *transaction, pw_time at_ns)
{
    firmware->counters->lookahead_blocks++;
    uint32_t num_unconfirmed = ++firmware->transfers[transaction->channel].num_unconfirmed;
    if (num_unconfirmed >= (uint32_t)firmware->settings->lookahead_blocks) firmware->lookahead_full = true;
    transaction->predicted = true;
    transaction->predicted_ns = transaction->answer_ns = at_ns;
    push(firmware, PW_EVENT_ACK, PRIORITY_MAILBOX, at_ns, subject(transaction->id, transaction->sequence, FORESEEN),
         identity_of(firmware, transaction));
}

/* The answer to a block whose ACK was foreseen is here. True when that settles it. */
static bool confirm(pw_firmware *firmware, pw_transaction *transaction, bool is_ack, pw_time at_ns)
{
    pw_transfer *transfer = &firmware->transfers[transaction->channel];
    bool handled = transaction->state == PW_TRANSACTION_ACKED;
    transfer->num_unconfirmed--;
    if (2 * transfer->num_unconfirmed <= (uint32_t)firmware->settings->lookahead_blocks) firmware->lookahead_full = false;
    if (at_ns != transaction->predicted_ns || !is_ack) {
        firmware->counters->lookahead_misses++;
        transfer->lookahead_off = true;
    }
    if (!is_ack) {              /* pending again: the answer is handled like any other */
        transaction->predicted = false;
        transaction->answer_ns = INT64_MIN;
        if (!handled) return false;
        transaction->state = PW_TRANSACTION_ISSUED;
        transfer->num_acked--;
        transfer->outstanding++;
        transfer->awaits_confirmation = false;
        firmware->counters->acks--;
        pw_transactions_arm(&firmware->transactions, transaction, deadline(firmware, pw_later(at_ns, transaction->sending_until_ns)));
        return false;
    }
    transaction->confirmed = true;
    if (handled) release(firmware, transaction, at_ns);
    if (transfer->awaits_confirmation && !transfer->num_unconfirmed)
        push(firmware, PW_EVENT_CONFIRMED, PRIORITY_MAILBOX, transfer->done_ns, transaction->channel, 0);
    return true;
}

void pw_firmware_answer(pw_firmware *firmware, enum pw_event_kind kind, uint16_t transaction_id, uint16_t sequence,
                        uint32_t code, uint64_t identity, bool last, pw_time sent_ns, pw_time at_ns)
{
    uint64_t answer = subject(transaction_id, sequence, code);
    pw_transaction *transaction = current(firmware, answer, identity);
    if (transaction && transaction->predicted && confirm(firmware, transaction, kind == PW_EVENT_ACK, at_ns)) return;
    if (transaction) {
        transaction->sending_until_ns = pw_later(transaction->sending_until_ns, sent_ns);
        transaction->answer_ns = pw_later(transaction->answer_ns, at_ns);
        decide_timeout(firmware, transaction, identity);
    }
    push(firmware, kind, PRIORITY_MAILBOX, at_ns, answer, identity);
    if (transaction && kind == PW_EVENT_NACK) transaction->nack_seen = true;
    if (transaction && last) pw_transactions_answered(&firmware->transactions, transaction);
    if (last && kind == PW_EVENT_NACK && code == 1) pw_firmware_no_answer(firmware, transaction_id, sequence, identity, sent_ns, at_ns);
}

void pw_firmware_extra_answer(pw_firmware *firmware, enum pw_event_kind kind, uint16_t transaction_id, uint16_t sequence,
                              uint32_t code, uint64_t identity, bool last, pw_time at_ns)
{
    uint64_t answer = subject(transaction_id, sequence, code);
    push(firmware, kind, PRIORITY_MAILBOX, at_ns, answer, identity);
    if (!last || kind != PW_EVENT_NACK || code != 1 || !firmware->settings->nack_cancels_timer) return;
    const pw_transaction *transaction = current(firmware, answer, identity);
    /* it takes away the timer, on which the block itself relies */
    if (transaction && transaction->answer_ns == PW_NEVER) push(firmware, PW_EVENT_HOPELESS, PRIORITY_TIMEOUT, at_ns, answer, identity);
}

void pw_firmware_spoiled(pw_firmware *firmware, uint16_t transaction_id, uint16_t sequence, uint64_t identity)
{
    pw_transaction *transaction = current(firmware, subject(transaction_id, sequence, 0), identity);
    if (transaction) transaction->spoiled = true;
}

void pw_firmware_no_answer(pw_firmware *firmware, uint16_t transaction_id, uint16_t sequence, uint64_t identity,
                           pw_time sent_ns, pw_time at_ns)
{
    uint64_t answer = subject(transaction_id, sequence, 0);
    pw_transaction *transaction = current(firmware, answer, identity);
    if (!transaction) return;
    pw_transactions_answered(&firmware->transactions, transaction);
    bool timer_helps = transaction->deadline_ns != PW_NEVER && !(transaction->nack_seen && firmware->settings->nack_cancels_timer);
    transaction->sending_until_ns = pw_later(transaction->sending_until_ns, sent_ns);
    transaction->answer_ns = PW_NEVER;
    if (timer_helps) decide_timeout(firmware, transaction, identity);
    else push(firmware, PW_EVENT_HOPELESS, PRIORITY_TIMEOUT, at_ns, answer, identity);
}

void pw_firmware_handle(pw_firmware *firmware, const pw_event *event, pw_actions *actions)
{
    switch ((enum pw_event_kind)event->kind) {
    case PW_EVENT_NEW_TRANSFER:
        new_transfer(firmware, (uint32_t)event->subject, actions, event->time_ns);
        return;
    case PW_EVENT_READ_REQUEST:
        serve_read(firmware, (int32_t)event->subject, (int)event->detail - 1, actions, event->time_ns);
        return;
    case PW_EVENT_CONFIRMED:
        if (firmware->transfers[event->subject].awaits_confirmation)
            finish(firmware, (uint32_t)event->subject, actions, event->time_ns);
        return;
    case PW_EVENT_SCHEDULE:
        schedule(firmware, actions, event->time_ns);
        return;
    default:
        answered(firmware, event, actions);
    }
}
