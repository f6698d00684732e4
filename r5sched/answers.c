/* Acknowledgements and timeouts of blocks: what the R5 does with ACK, NACK, ERR and an expired timer, and
 * answers that are foreseen (emulation only, see frames.h). */
#include "r5sched/firmware_parts.h"

#define FORESEEN 1              /* code of an ACK event that was foreseen */

static void release(pw_firmware *firmware, pw_transaction *transaction, pw_time at_ns)
{
    pw_transactions_release(&firmware->transactions, transaction);
    if (!firmware->num_stalled) return;
    firmware->num_stalled--;
    pw_r5_push(firmware, PW_EVENT_SCHEDULE, PRIORITY_SCHEDULE, at_ns, 0, 0);
}

uint64_t pw_answers_subject(uint16_t id, uint16_t sequence, uint32_t code)
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
    at_ns = pw_r5_work(firmware, at_ns, firmware->costs->r5_queue_op_ns);
    pw_trace_add(firmware->trace, at_ns, PW_TRACE_ACK, transaction->id, transaction->sequence);
    transaction->state = PW_TRANSACTION_ACKED;
    if (transaction->predicted && !transaction->confirmed) pw_transactions_disarm(&firmware->transactions, transaction);
    else release(firmware, transaction, at_ns);
    firmware->counters->acks++;
    transfer->num_acked++;
    transfer->outstanding--;
    if (transfer->error) {
        if (!transfer->outstanding && !transfer->queued) pw_r5_finish(firmware, channel, actions, at_ns);
        return;
    }
    if (transfer->num_acked == transfer->num_blocks) {
        transfer->done_ns = at_ns;
        transfer->awaits_confirmation = transfer->num_unconfirmed != 0;
        if (!transfer->awaits_confirmation) pw_r5_finish(firmware, channel, actions, at_ns);
        return;
    }
    bool all_out = transfer->next_block == transfer->num_blocks;
    if (all_out && !transfer->notified && transfer->num_acked + 1 == transfer->num_blocks)
        pw_r5_notify(firmware, channel, actions, at_ns);
    if (!all_out && !transfer->queued) pw_r5_requeue(firmware, channel, at_ns);
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
    at_ns = pw_r5_work(firmware, at_ns, costs->r5_queue_op_ns + costs->r5_start_block_ns + costs->r5_logic_round_trip_ns);
    pw_timeout_start(firmware, transaction, at_ns);
    firmware->counters->retransmitted_blocks++;
    pw_r5_act(actions, PW_ACTION_START_BLOCK, transaction->channel, at_ns)->transaction = transaction;
    if (transaction->last_block && firmware->transfers[transaction->channel].num_blocks > 1 &&
        firmware->transfers[transaction->channel].notified)
        pw_r5_notify(firmware, transaction->channel, actions, at_ns);
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
        pw_scheduler_remove(&firmware->scheduler, (enum pw_class)transfer->queue, channel);
    }
    pw_r5_finish(firmware, channel, actions, at_ns);
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
        transaction->spoiled |= code == 4;
        retransmit(firmware, transaction, actions, at_ns);
    }
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

static pw_time read_mailbox(pw_firmware *firmware, pw_time at_ns)
{
    pw_time read_ns = pw_r5_work(firmware, at_ns, firmware->costs->r5_ack_read_ns);
    pw_r5_took(firmware, PW_MAILBOX_ANSWERS, at_ns, read_ns);
    return read_ns;
}

void pw_answers_handle(pw_firmware *firmware, const pw_event *event, pw_actions *actions)
{
    bool from_timer = event->kind == PW_EVENT_TIMEOUT;
    pw_transaction *transaction = current(firmware, event->subject, event->detail);
    if (from_timer && (!transaction || transaction->timer_cancelled)) return;
    if (event->kind == PW_EVENT_ACK && event->subject >> 32 == FORESEEN && (!transaction || !transaction->predicted)) return;
    bool restarts = from_timer || event->kind == PW_EVENT_ERR;
    if (restarts && transaction && transaction->sending_until_ns > event->time_ns) {
        if (from_timer) {           /* retransmission bit: a timer does not run out while the block is sent */
            transaction->timer_decided = false;
            pw_timeout_start(firmware, transaction, transaction->sending_until_ns);
            pw_timeout_decide(firmware, transaction, event->detail);
            return;
        }
        pw_event later = *event;
        later.time_ns = transaction->sending_until_ns;
        pw_event_queue_push(firmware->events, &later);
        return;
    }
    pw_r5_pass(firmware, event->time_ns);
    pw_time at_ns = from_timer ? pw_r5_work(firmware, event->time_ns, 0) : read_mailbox(firmware, event->time_ns);
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
    pw_r5_push(firmware, PW_EVENT_ACK, PRIORITY_MAILBOX, at_ns, pw_answers_subject(transaction->id, transaction->sequence, FORESEEN),
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
        pw_timeout_start(firmware, transaction, pw_later(at_ns, transaction->sending_until_ns));
        return false;
    }
    transaction->confirmed = true;
    if (handled) release(firmware, transaction, at_ns);
    if (transfer->awaits_confirmation && !transfer->num_unconfirmed)
        pw_r5_push(firmware, PW_EVENT_CONFIRMED, PRIORITY_MAILBOX, transfer->done_ns, transaction->channel, 0);
    return true;
}

void pw_firmware_answer(pw_firmware *firmware, enum pw_event_kind kind, uint16_t transaction_id, uint16_t sequence,
                        uint32_t code, uint64_t identity, bool last, pw_time sent_ns, pw_time at_ns)
{
    uint64_t answer = pw_answers_subject(transaction_id, sequence, code);
    pw_transaction *transaction = current(firmware, answer, identity);
    if (transaction && transaction->predicted && confirm(firmware, transaction, kind == PW_EVENT_ACK, at_ns)) return;
    if (transaction) {
        transaction->sending_until_ns = pw_later(transaction->sending_until_ns, sent_ns);
        transaction->answer_ns = pw_later(transaction->answer_ns, at_ns);
        pw_timeout_decide(firmware, transaction, identity);
    }
    pw_r5_push(firmware, kind, PRIORITY_MAILBOX, at_ns, answer, identity);
    if (transaction && kind == PW_EVENT_NACK) transaction->nack_seen = true;
    if (transaction && last) pw_transactions_answered(&firmware->transactions, transaction);
    if (last && kind == PW_EVENT_NACK && code == 1) pw_firmware_no_answer(firmware, transaction_id, sequence, identity, sent_ns, at_ns);
}

void pw_firmware_extra_answer(pw_firmware *firmware, enum pw_event_kind kind, uint16_t transaction_id, uint16_t sequence,
                              uint32_t code, uint64_t identity, bool last, pw_time at_ns)
{
    uint64_t answer = pw_answers_subject(transaction_id, sequence, code);
    pw_r5_push(firmware, kind, PRIORITY_MAILBOX, at_ns, answer, identity);
    if (!last || kind != PW_EVENT_NACK || code != 1 || !firmware->settings->nack_cancels_timer) return;
    const pw_transaction *transaction = current(firmware, answer, identity);
    /* it takes away the timer, on which the block itself relies */
    if (transaction && transaction->answer_ns == PW_NEVER)
        pw_r5_push(firmware, PW_EVENT_HOPELESS, PRIORITY_TIMEOUT, at_ns, answer, identity);
}

void pw_firmware_spoiled(pw_firmware *firmware, uint16_t transaction_id, uint16_t sequence, uint64_t identity)
{
    pw_transaction *transaction = current(firmware, pw_answers_subject(transaction_id, sequence, 0), identity);
    if (transaction) transaction->spoiled = true;
}

void pw_firmware_no_answer(pw_firmware *firmware, uint16_t transaction_id, uint16_t sequence, uint64_t identity,
                           pw_time sent_ns, pw_time at_ns)
{
    uint64_t answer = pw_answers_subject(transaction_id, sequence, 0);
    pw_transaction *transaction = current(firmware, answer, identity);
    if (!transaction) return;
    pw_transactions_answered(&firmware->transactions, transaction);
    bool timer_helps = transaction->deadline_ns != PW_NEVER && !(transaction->nack_seen && firmware->settings->nack_cancels_timer);
    transaction->sending_until_ns = pw_later(transaction->sending_until_ns, sent_ns);
    transaction->answer_ns = PW_NEVER;
    if (timer_helps) pw_timeout_decide(firmware, transaction, identity);
    else pw_r5_push(firmware, PW_EVENT_HOPELESS, PRIORITY_TIMEOUT, at_ns, answer, identity);
}

