/* Acknowledgements and timeouts of blocks: what the R5 does with ACK, NACK, ERR and an expired
 * timer, and answers that are foreseen (emulation only, see frames.h). */
#include "r5sched/firmware_parts.h"

#define FORESEEN 1 /* code of an ACK event that was foreseen */

void pw_answers_trace_step(pw_firmware *firmware, const pw_transaction *transaction, uint32_t state,
                           enum pw_block_event event, pw_time at_ns)
{
    uint64_t next = pw_block_transition_of(state, event)->next;
    pw_trace_add(firmware->trace, at_ns, PW_TRACE_TRANSITION,
                 (uint64_t)transaction->id | (uint64_t)transaction->sequence << 16,
                 (uint64_t)state | (uint64_t)event << 8 | next << 16);
}

/* Take the step that the table has for the event. Who reacts gives the entry back when it says
 * FREE. */
static enum pw_block_reaction step(pw_firmware *firmware, pw_transaction *transaction,
                                   enum pw_block_event event, pw_time at_ns)
{
    const pw_block_transition *transition = pw_block_transition_of(transaction->state, event);
    if (transition->reaction == PW_REACT_NONE) return PW_REACT_NONE;
    pw_answers_trace_step(firmware, transaction, transaction->state, event, at_ns);
    if (transition->next != PW_TRANSACTION_FREE) transaction->state = transition->next;
    return (enum pw_block_reaction)transition->reaction;
}

static void release(pw_firmware *firmware, pw_transaction *transaction, pw_time at_ns)
{
    pw_transactions_release(&firmware->transactions, transaction);
    firmware->counters->transaction_wraps += transaction->id < PW_TRANSACTIONS;
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

/* What an answer is about, as its event keeps it. Nothing is answered before it is sent: what is
 * not pending in any attempt now must not pass for an answer to a block that the same numbers get
 * later. */
static uint64_t identity_of_event(pw_firmware *firmware, const pw_answer *answer)
{
    const pw_transaction *transaction =
        pw_transactions_find(&firmware->transactions, answer->transaction_id);
    bool is_pending = transaction && identity_of(firmware, transaction) == answer->identity;
    return is_pending ? answer->identity : PW_NO_IDENTITY;
}

static void acked(pw_firmware *firmware, pw_transaction *transaction, bool hold,
                  pw_actions *actions, pw_time at_ns)
{
    uint32_t channel = transaction->channel;
    pw_transfer *transfer = &firmware->transfers[channel];
    at_ns = pw_r5_work(firmware, at_ns, firmware->costs->r5_queue_op_ns);
    pw_trace_add(firmware->trace, at_ns, PW_TRACE_ACK, transaction->id, transaction->sequence);
    if (hold) pw_transactions_disarm(&firmware->transactions, transaction);
    else release(firmware, transaction, at_ns);
    firmware->counters->acks++;
    transfer->num_acked++;
    transfer->outstanding--;
    if (transfer->error) {
        if (!transfer->outstanding && !transfer->queued)
            pw_r5_finish(firmware, channel, actions, at_ns);
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

/* The block is sent again while an answer to the attempt is still to come. */
static void overtake(pw_firmware *firmware, pw_transaction *transaction)
{
    const pw_overtaken overtaken = {.identity = identity_of(firmware, transaction),
                                    .earliest_answer_ns = transaction->earliest_answer_ns,
                                    .peer = firmware->transfers[transaction->channel].peer,
                                    .id = transaction->id,
                                    .sequence = transaction->sequence};
    if (pw_transactions_note_overtaken(&firmware->transactions, &overtaken) < 0)
        firmware->lost_entry = true;
    pw_transactions_answered(&firmware->transactions, transaction);
}

static void retransmit(pw_firmware *firmware, pw_transaction *transaction, pw_actions *actions,
                       pw_time at_ns)
{
    const pw_costs *costs = firmware->costs;
    if (transaction->awaits_err) overtake(firmware, transaction);
    transaction->sequence = (transaction->sequence + 1) & PW_SEQUENCE_MASK;
    firmware->counters->sequence_wraps += transaction->sequence == 0;
    transaction->timer_cancelled = transaction->timer_decided = transaction->nack_seen = false;
    transaction->answer_ns = INT64_MIN;
    at_ns = pw_r5_work(firmware, at_ns,
                       costs->r5_queue_op_ns + costs->r5_start_block_ns +
                           costs->r5_logic_round_trip_ns);
    pw_timeout_start(firmware, transaction, at_ns);
    firmware->counters->retransmitted_blocks++;
    if (transaction->refused_ns)
        pw_log_histogram_add(&firmware->tallies->fault_waits,
                             (uint64_t)(at_ns - transaction->refused_ns));
    transaction->refused_ns = 0;
    pw_r5_act(actions, PW_ACTION_START_BLOCK, transaction->channel, at_ns)->transaction =
        transaction;
    if (transaction->last_block && firmware->transfers[transaction->channel].num_blocks > 1 &&
        firmware->transfers[transaction->channel].notified)
        pw_r5_notify(firmware, transaction->channel, actions, at_ns);
}

void pw_answers_go_back(pw_firmware *firmware, pw_transaction *transaction, pw_actions *actions,
                        pw_time at_ns)
{
    if (transaction->unanswered) overtake(firmware, transaction);
    step(firmware, transaction, PW_BLOCK_GO_BACK, at_ns);
    retransmit(firmware, transaction, actions, at_ns);
}

void pw_firmware_fail(pw_firmware *firmware, uint32_t channel, uint32_t code, pw_actions *actions,
                      pw_time at_ns)
{
    pw_transfer *transfer = &firmware->transfers[channel];
    transfer->error = (uint8_t)code;
    for (uint32_t i = 0; i < PW_TRANSACTIONS; i++) {
        pw_transaction *transaction = &firmware->transactions.entries[i];
        if (transaction->state == PW_TRANSACTION_FREE || transaction->channel != channel) continue;
        step(firmware, transaction, PW_BLOCK_ABANDONED, at_ns);
        release(firmware, transaction, at_ns);
    }
    transfer->outstanding = 0;
    if (transfer->queued) { /* the channel's next transfer must not inherit the place */
        transfer->queued = false;
        pw_scheduler_remove(&firmware->scheduler, (enum pw_class)transfer->queue, channel);
    }
    pw_r5_finish(firmware, channel, actions, at_ns);
}

/* Page fault: wait for the ERR, and for the timeout unless the NACK takes it away. */
static void wait_for_err(pw_firmware *firmware, pw_transaction *transaction, pw_time at_ns)
{
    if (!transaction->refused_ns) transaction->refused_ns = at_ns;
    if (!firmware->settings->nack_cancels_timer) return;
    transaction->timer_cancelled = true;
    pw_transactions_disarm(&firmware->transactions, transaction);
}

#define NACK_NOT_READY 8
#define NACK_SEQUENCE 9
#define NACK_MISSED 10

static enum pw_block_event event_of_nack(uint32_t code)
{
    switch (code) {
    case NACK_MISSED:
    case 1: return PW_BLOCK_NACK_PAGE_FAULT;
    case NACK_NOT_READY: return PW_BLOCK_NACK_NOT_READY;
    case NACK_SEQUENCE: return PW_BLOCK_NACK_SEQUENCE;
    case 2:
    case 3:
    case 5:
    case PW_UNRECOVERABLE: return PW_BLOCK_NACK_FATAL; /* bad address, no context, protection */
    default: return PW_BLOCK_NACK_RETRY;
    }
}

static enum pw_block_event event_of(const pw_event *event, const pw_transaction *transaction)
{
    bool sending = transaction->sending_until_ns > event->time_ns; /* retransmission bit */
    switch ((enum pw_event_kind)event->kind) {
    case PW_EVENT_ACK:
        return transaction->predicted && !transaction->confirmed ? PW_BLOCK_FORESEEN_ACK
                                                                 : PW_BLOCK_ACK;
    case PW_EVENT_NACK: return event_of_nack((uint32_t)(event->subject >> 32));
    case PW_EVENT_ERR: return sending ? PW_BLOCK_ERR_WHILE_SENT : PW_BLOCK_ERR;
    case PW_EVENT_TIMEOUT: return sending ? PW_BLOCK_TIMEOUT_WHILE_SENT : PW_BLOCK_TIMEOUT;
    default: return PW_BLOCK_HOPELESS;
    }
}

bool pw_answers_is_exhausted(pw_transaction *transaction, enum pw_block_event event, uint32_t code)
{
    if (pw_block_transition_of(transaction->state, event)->reaction != PW_REACT_RETRANSMIT)
        return false;
    if (++transaction->num_attempts > PW_ATTEMPTS_MAX) return true;
    bool damaged = event == PW_BLOCK_NACK_RETRY && code == 4;
    transaction->num_spoiled =
        (uint16_t)(transaction->num_spoiled + (transaction->spoiled || damaged));
    transaction->spoiled = false;
    return transaction->num_spoiled > PW_SEQUENCE_MASK;
}

static void count(pw_firmware *firmware, const pw_event *event, const pw_transaction *transaction,
                  pw_time at_ns)
{
    uint32_t code = (uint32_t)(event->subject >> 32);
    switch ((enum pw_event_kind)event->kind) {
    case PW_EVENT_NACK:
        if (code == NACK_NOT_READY) firmware->counters->rnr_nacks++;
        else if (code == NACK_SEQUENCE) firmware->counters->sequence_nacks++;
        else if (code == NACK_MISSED) firmware->counters->blocks_missed++;
        else firmware->counters->nacks[code & 7]++;
        pw_trace_add(firmware->trace, at_ns, PW_TRACE_NACK, transaction->id, code);
        return;
    case PW_EVENT_ERR:
        if (firmware->settings->translation == PW_TRANSLATION_NP)
            firmware->counters->two_sided_retries++;
        else firmware->counters->err_messages++;
        pw_trace_add(firmware->trace, at_ns, PW_TRACE_ERR, transaction->id, transaction->sequence);
        return;
    case PW_EVENT_TIMEOUT:
        firmware->counters->timeouts++;
        pw_trace_add(firmware->trace, at_ns, PW_TRACE_TIMEOUT, transaction->id,
                     transaction->sequence);
        return;
    default: return;
    }
}

/* An acknowledgement of an older attempt: the timeout is shorter than the round trip. When that
 * goes on for as many attempts as there are sequence numbers, no attempt's answer will ever be in
 * time. */
static void late_ack(pw_firmware *firmware, const pw_event *event, pw_actions *actions,
                     pw_time at_ns)
{
    pw_transaction *transaction =
        pw_transactions_find(&firmware->transactions, (uint16_t)event->subject);
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

/* The event comes while the block is still being sent. True when that settles it for now. */
static bool comes_too_early(pw_firmware *firmware, const pw_event *event,
                            pw_transaction *transaction, enum pw_block_event block_event)
{
    pw_event later = *event;
    switch (pw_block_transition_of(transaction->state, block_event)->reaction) {
    case PW_REACT_REARM: /* a timer does not run out while the block is sent */
        transaction->timer_decided = false;
        pw_timeout_start(firmware, transaction, transaction->sending_until_ns);
        pw_timeout_decide(firmware, transaction, event->detail);
        break;
    case PW_REACT_DEFER:
        later.time_ns = transaction->sending_until_ns;
        pw_event_queue_push(firmware->events, &later);
        break;
    default: return false;
    }
    step(firmware, transaction, block_event, event->time_ns);
    return true;
}

/* A timer that was cancelled, or an ACK that was foreseen and refuted since. */
static bool is_void(const pw_event *event, const pw_transaction *transaction)
{
    if (event->kind == PW_EVENT_TIMEOUT) return !transaction || transaction->timer_cancelled;
    bool foreseen = event->kind == PW_EVENT_ACK && event->subject >> 32 == FORESEEN;
    return foreseen && (!transaction || !transaction->predicted);
}

/* Take the step and do what the table says. */
static void react(pw_firmware *firmware, pw_transaction *transaction,
                  enum pw_block_event block_event, uint32_t code, pw_actions *actions,
                  pw_time at_ns)
{
    switch (step(firmware, transaction, block_event, at_ns)) {
    case PW_REACT_COMPLETE: acked(firmware, transaction, false, actions, at_ns); return;
    case PW_REACT_HOLD: acked(firmware, transaction, true, actions, at_ns); return;
    case PW_REACT_WAIT: wait_for_err(firmware, transaction, at_ns); return;
    case PW_REACT_RETRANSMIT:
        retransmit(firmware, transaction, actions, at_ns);
        if (pw_goes_back(firmware->settings))
            pw_go_back(firmware, transaction->channel, transaction->block_idx + 1, actions, at_ns);
        return;
    case PW_REACT_PAUSE: pw_go_back_pause(firmware, transaction->channel, at_ns); return;
    case PW_REACT_GO_BACK: pw_go_back(firmware, transaction->channel, 0, actions, at_ns); return;
    case PW_REACT_FAIL:
        pw_firmware_fail(firmware, transaction->channel,
                         block_event == PW_BLOCK_NACK_FATAL ? code : PW_UNRECOVERABLE, actions,
                         at_ns);
        return;
    default: /* not in the table */ firmware->counters->stale_answers++;
    }
}

void pw_answers_handle(pw_firmware *firmware, const pw_event *event, pw_actions *actions)
{
    bool from_timer = event->kind == PW_EVENT_TIMEOUT;
    pw_transaction *transaction = current(firmware, event->subject, event->detail);
    if (is_void(event, transaction)) return;
    enum pw_block_event block_event = transaction ? event_of(event, transaction) : PW_BLOCK_EVENTS;
    if (transaction && comes_too_early(firmware, event, transaction, block_event)) return;
    pw_r5_pass(firmware, !from_timer, event->time_ns);
    pw_time at_ns = from_timer ? pw_r5_work(firmware, event->time_ns, 0)
                               : read_mailbox(firmware, event->time_ns);
    if (!transaction) {
        firmware->counters->stale_answers++;
        if (event->kind == PW_EVENT_ACK) late_ack(firmware, event, actions, at_ns);
        return;
    }
    count(firmware, event, transaction, at_ns);
    uint32_t code = (uint32_t)(event->subject >> 32);
    if (pw_answers_is_exhausted(transaction, block_event, code)) block_event = PW_BLOCK_HOPELESS;
    react(firmware, transaction, block_event, code, actions, at_ns);
}

bool pw_firmware_may_predict(const pw_firmware *firmware, uint32_t channel)
{
    const pw_transfer *transfer = &firmware->transfers[channel];
    return firmware->num_active == 1 && !transfer->lookahead_off &&
           firmware->settings->lookahead_blocks > 0 &&
           firmware->transactions.num_free > PW_TRANSACTIONS / 2;
}

void pw_firmware_predict(pw_firmware *firmware, pw_transaction *transaction, pw_time at_ns)
{
    firmware->counters->lookahead_blocks++;
    uint32_t num_unconfirmed = ++firmware->transfers[transaction->channel].num_unconfirmed;
    if (num_unconfirmed >= (uint32_t)firmware->settings->lookahead_blocks)
        firmware->lookahead_full = true;
    transaction->predicted = true;
    transaction->predicted_ns = transaction->answer_ns = at_ns;
    pw_r5_push(firmware, PW_EVENT_ACK, PRIORITY_MAILBOX, at_ns,
               pw_answers_subject(transaction->id, transaction->sequence, FORESEEN),
               identity_of(firmware, transaction));
}

/* The answer to a block whose ACK was foreseen is here. True when that settles it. */
static bool confirm(pw_firmware *firmware, pw_transaction *transaction, bool is_ack, pw_time at_ns)
{
    pw_transfer *transfer = &firmware->transfers[transaction->channel];
    bool handled = transaction->state == PW_TRANSACTION_ACKED;
    transfer->num_unconfirmed--;
    if (2 * transfer->num_unconfirmed <= (uint32_t)firmware->settings->lookahead_blocks)
        firmware->lookahead_full = false;
    if (at_ns != transaction->predicted_ns || !is_ack) {
        firmware->counters->lookahead_misses++;
        transfer->lookahead_off = true;
    }
    if (!is_ack) { /* pending again: the answer is handled like any other */
        transaction->predicted = false;
        transaction->answer_ns = INT64_MIN;
        if (!handled) return false;
        step(firmware, transaction, PW_BLOCK_REFUTED, at_ns);
        transfer->num_acked--;
        transfer->outstanding++;
        transfer->awaits_confirmation = false;
        firmware->counters->acks--;
        pw_timeout_start(firmware, transaction, pw_later(at_ns, transaction->sending_until_ns));
        return false;
    }
    transaction->confirmed = true;
    if (handled) {
        step(firmware, transaction, PW_BLOCK_CONFIRMED, at_ns);
        release(firmware, transaction, at_ns);
    }
    if (transfer->awaits_confirmation && !transfer->num_unconfirmed)
        pw_r5_push(firmware, PW_EVENT_CONFIRMED, PRIORITY_MAILBOX, transfer->done_ns,
                   transaction->channel, 0);
    return true;
}

static uint64_t subject_of(const pw_answer *answer)
{
    return pw_answers_subject(answer->transaction_id, answer->sequence, answer->code);
}

static pw_overtaken *overtaken_by(pw_firmware *firmware, const pw_answer *answer)
{
    pw_overtaken *overtaken = pw_transactions_find_overtaken(
        &firmware->transactions, answer->transaction_id, answer->sequence, answer->identity);
    return overtaken && overtaken->peer == answer->peer ? overtaken : NULL;
}

void pw_firmware_settle_overtaken(pw_firmware *firmware, const pw_answer *answer)
{
    pw_overtaken *overtaken = overtaken_by(firmware, answer);
    if (overtaken) pw_transactions_overtaken_answered(&firmware->transactions, overtaken);
}

/* A peer that keeps to the protocol says before anything else that an ERR follows, and then sends
 * it. Said after the attempt's answer, that ERR would be waited for in vain. */
static bool is_believed(const pw_transaction *transaction, bool foreseen, bool err_follows)
{
    return !err_follows || !transaction || foreseen || transaction->unanswered;
}

/* The attempt's next answer is an ERR, which comes at err_ns or later. */
static void await_err(pw_firmware *firmware, pw_transaction *transaction, pw_time err_ns)
{
    pw_transactions_await(&firmware->transactions, transaction, err_ns);
    transaction->awaits_err = true;
}

void pw_firmware_answer(pw_firmware *firmware, const pw_answer *answer)
{
    uint64_t subject = subject_of(answer);
    bool is_missed = answer->kind == PW_EVENT_NACK && answer->code == NACK_MISSED;
    pw_transaction *transaction = current(firmware, subject, answer->identity);
    bool foreseen = transaction && transaction->predicted && !transaction->confirmed;
    if (!is_believed(transaction, foreseen, answer->err_follows)) {
        firmware->counters->stale_answers++;
        return;
    }
    if (foreseen && confirm(firmware, transaction, answer->kind == PW_EVENT_ACK, answer->at_ns))
        return;
    if (!answer->err_follows || pw_goes_back(firmware->settings))
        pw_firmware_settle_overtaken(firmware, answer);
    if (transaction) {
        pw_time known_ns = answer->err_follows || is_missed ? answer->err_ns : answer->at_ns;
        transaction->sending_until_ns = pw_later(transaction->sending_until_ns, answer->sent_ns);
        transaction->answer_ns = pw_later(transaction->answer_ns, known_ns);
        pw_timeout_decide(firmware, transaction, answer->identity);
        if (answer->kind == PW_EVENT_NACK) transaction->nack_seen = true;
        if (answer->err_follows) await_err(firmware, transaction, answer->err_ns);
        else pw_transactions_answered(&firmware->transactions, transaction);
    }
    pw_r5_push(firmware, answer->kind, PRIORITY_MAILBOX, answer->at_ns, subject,
               identity_of_event(firmware, answer));
    if (is_missed) /* the other end's software says when */
        pw_r5_push(firmware, PW_EVENT_ERR, PRIORITY_MAILBOX, answer->err_ns,
                   pw_answers_subject(answer->transaction_id, answer->sequence, 0),
                   identity_of_event(firmware, answer));
    if (!answer->err_follows && answer->kind == PW_EVENT_NACK && answer->code == 1)
        pw_firmware_no_answer(firmware, answer);
}

void pw_firmware_err_later(pw_firmware *firmware, const pw_answer *answer)
{
    pw_transaction *transaction = current(firmware, subject_of(answer), answer->identity);
    if (!transaction) return;
    if (!is_believed(transaction, false, true)) {
        firmware->counters->stale_answers++;
        return;
    }
    transaction->sending_until_ns = pw_later(transaction->sending_until_ns, answer->sent_ns);
    transaction->answer_ns = pw_later(transaction->answer_ns, answer->err_ns);
    pw_timeout_decide(firmware, transaction, answer->identity);
    await_err(firmware, transaction, answer->err_ns);
}

void pw_firmware_errs_later(pw_firmware *firmware, uint32_t peer, uint32_t stream, pw_time err_ns)
{
    pw_transactions *table = &firmware->transactions;
    uint16_t next;
    for (uint16_t slot = table->first_unanswered; slot != PW_NO_TRANSACTION; slot = next) {
        pw_transaction *transaction = &table->entries[slot];
        const pw_transfer *transfer = &firmware->transfers[transaction->channel];
        next = transaction->after;
        bool is_earlier = transaction->awaits_err && transaction->earliest_answer_ns < err_ns;
        if (!is_earlier || transfer->stream != stream || transfer->peer != peer) continue;
        transaction->answer_ns = pw_later(transaction->answer_ns, err_ns);
        pw_timeout_decide(firmware, transaction, identity_of(firmware, transaction));
        await_err(firmware, transaction, err_ns);
    }
    pw_transactions_overtaken_of_stream(table, peer, stream, err_ns);
}

void pw_firmware_extra_answer(pw_firmware *firmware, const pw_answer *answer)
{
    uint64_t subject = subject_of(answer);
    pw_transaction *transaction = current(firmware, subject, answer->identity);
    pw_r5_push(firmware, answer->kind, PRIORITY_MAILBOX, answer->at_ns, subject,
               identity_of_event(firmware, answer));
    if (answer->kind != PW_EVENT_NACK || answer->code != 1) return;
    if (answer->err_follows && transaction && transaction->awaits_err) {
        pw_firmware_err_later(firmware, answer); /* the ERR of both, as it is known now */
        return;
    }
    if (answer->err_follows) {
        const pw_overtaken copy = {.identity = answer->identity,
                                   .earliest_answer_ns = answer->err_ns,
                                   .peer = answer->peer,
                                   .id = answer->transaction_id,
                                   .sequence = answer->sequence};
        if (pw_transactions_note_overtaken(&firmware->transactions, &copy) < 0)
            firmware->lost_entry = true;
        return;
    }
    /* it takes away the timer, on which the block itself relies */
    if (firmware->settings->nack_cancels_timer && transaction && transaction->answer_ns == PW_NEVER)
        pw_r5_push(firmware, PW_EVENT_HOPELESS, PRIORITY_TIMEOUT, answer->at_ns, subject,
                   answer->identity);
}

void pw_firmware_spoiled(pw_firmware *firmware, const pw_answer *answer)
{
    pw_transaction *transaction = current(firmware, subject_of(answer), answer->identity);
    if (transaction) transaction->spoiled = true;
}

void pw_firmware_no_answer(pw_firmware *firmware, const pw_answer *answer)
{
    uint64_t subject = pw_answers_subject(answer->transaction_id, answer->sequence, 0);
    pw_transaction *transaction = current(firmware, subject, answer->identity);
    if (pw_goes_back(firmware->settings)) pw_firmware_settle_overtaken(firmware, answer);
    if (!transaction) return;
    pw_transactions_answered(&firmware->transactions, transaction);
    bool timer_helps = transaction->deadline_ns != PW_NEVER &&
                       !(transaction->nack_seen && firmware->settings->nack_cancels_timer);
    transaction->sending_until_ns = pw_later(transaction->sending_until_ns, answer->sent_ns);
    transaction->answer_ns = PW_NEVER;
    bool comes_again = answer->is_behind || firmware->transfers[transaction->channel].paused;
    if (timer_helps) pw_timeout_decide(firmware, transaction, answer->identity);
    else if (!comes_again)
        pw_r5_push(firmware, PW_EVENT_HOPELESS, PRIORITY_TIMEOUT, answer->at_ns, subject,
                   answer->identity);
}
