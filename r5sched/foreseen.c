/* What the emulation knows of answers apart from the machine: they are physically here before or
 * after the virtual time at which they happen, or are foreseen. Which of an attempt's answers is
 * still to come bounds how far virtual time may go. */
#include "r5sched/firmware_parts.h"

/* What an answer is about, as its event keeps it. Nothing is answered before it is sent: what is
 * not pending in any attempt now must not pass for an answer to a block that the same numbers get
 * later. */
static uint64_t identity_of_event(pw_firmware *firmware, const pw_answer *answer)
{
    const pw_transaction *transaction =
        pw_transactions_find(&firmware->transactions, answer->transaction_id);
    bool is_pending = transaction && pw_answers_identity(firmware, transaction) == answer->identity;
    return is_pending ? answer->identity : PW_NO_IDENTITY;
}

void pw_foreseen_overtake(pw_firmware *firmware, pw_transaction *transaction)
{
    const pw_overtaken overtaken = {.identity = pw_answers_identity(firmware, transaction),
                                    .earliest_answer_ns = transaction->earliest_answer_ns,
                                    .peer = pw_transfer_on(firmware, transaction->channel)->peer,
                                    .id = transaction->id,
                                    .sequence = transaction->sequence};
    if (pw_transactions_note_overtaken(&firmware->transactions, &overtaken) < 0)
        firmware->lost_entry = true;
    pw_transactions_answered(&firmware->transactions, transaction);
}

bool pw_firmware_may_predict(const pw_firmware *firmware, uint32_t channel)
{
    const pw_transfer *transfer = pw_transfer_on(firmware, channel);
    return firmware->num_active == 1 && !transfer->lookahead_off &&
           firmware->settings->lookahead_blocks > 0 && !pw_firmware_measures(firmware) &&
           firmware->transactions.num_free > PW_TRANSACTIONS / 2;
}

bool pw_firmware_is_at_rest(const pw_firmware *firmware, pw_time *from_ns)
{
    const pw_transactions *table = &firmware->transactions;
    *from_ns = pw_calendar_idle_since(firmware->r5, PW_NEVER);
    return !pw_firmware_measures(firmware) && !firmware->num_active && !firmware->num_buffered &&
           !table->num_overtaken && table->num_free == PW_TRANSACTIONS &&
           !pw_event_queue_length(firmware->events) &&
           !firmware->mailboxes[PW_MAILBOX_ANSWERS].num_waiting &&
           !firmware->mailboxes[PW_MAILBOX_REQUESTS].num_waiting;
}

void pw_firmware_predict(pw_firmware *firmware, pw_transaction *transaction, pw_time at_ns)
{
    firmware->counters->lookahead_blocks++;
    uint32_t num_unconfirmed = ++pw_transfer_on(firmware, transaction->channel)->num_unconfirmed;
    if (num_unconfirmed >= (uint32_t)firmware->settings->lookahead_blocks)
        firmware->lookahead_full = true;
    transaction->predicted = true;
    transaction->predicted_ns = transaction->answer_ns = at_ns;
    pw_r5_push(firmware, PW_EVENT_ACK, PRIORITY_MAILBOX, at_ns,
               pw_answers_subject(transaction->id, transaction->sequence, PW_FORESEEN),
               pw_answers_identity(firmware, transaction));
}

/* The answer to a block whose ACK was foreseen is here. True when that settles it. */
static bool confirm(pw_firmware *firmware, pw_transaction *transaction, bool is_ack, pw_time at_ns)
{
    pw_transfer *transfer = pw_transfer_on(firmware, transaction->channel);
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
        pw_answers_step(firmware, transaction, PW_BLOCK_REFUTED, at_ns);
        transfer->num_acked--;
        transfer->outstanding++;
        transfer->awaits_confirmation = false;
        firmware->counters->acks--;
        pw_timeout_start(firmware, transaction, pw_later(at_ns, transaction->sending_until_ns));
        return false;
    }
    transaction->confirmed = true;
    if (handled) {
        pw_answers_step(firmware, transaction, PW_BLOCK_CONFIRMED, at_ns);
        pw_answers_release(firmware, transaction, at_ns);
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

/* What is handed over in order of time is here when it is due, and holds up nothing. */
static pw_time waited_for_ns(const pw_firmware *firmware, pw_time err_ns)
{
    return firmware->is_in_order ? PW_NEVER : err_ns;
}

/* The attempt's next answer is an ERR, which comes at err_ns or later. */
static void await_err(pw_firmware *firmware, pw_transaction *transaction, pw_time err_ns)
{
    pw_transactions_await(&firmware->transactions, transaction, waited_for_ns(firmware, err_ns));
    transaction->awaits_err = true;
}

void pw_firmware_answer(pw_firmware *firmware, const pw_answer *answer)
{
    uint64_t subject = subject_of(answer);
    bool is_missed = answer->kind == PW_EVENT_NACK && answer->code == PW_NACK_MISSED;
    pw_transaction *transaction = pw_answers_current(firmware, subject, answer->identity);
    bool foreseen = transaction && transaction->predicted && !transaction->confirmed;
    if (!is_believed(transaction, foreseen, answer->err_follows)) {
        firmware->counters->stale_answers++;
        return;
    }
    if (foreseen && confirm(firmware, transaction, answer->kind == PW_EVENT_ACK, answer->at_ns))
        return;
    if (!answer->err_follows || firmware->receiver->goes_back)
        pw_firmware_settle_overtaken(firmware, answer);
    if (transaction) {
        pw_time known_ns = answer->err_follows || is_missed ? answer->err_ns : answer->at_ns;
        transaction->sending_until_ns = pw_later(transaction->sending_until_ns, answer->sent_ns);
        transaction->answer_ns = pw_later(transaction->answer_ns, known_ns);
        if (answer->kind == PW_EVENT_NACK) transaction->nack_seen = true;
        if (answer->err_follows) await_err(firmware, transaction, answer->err_ns);
        else pw_transactions_answered(&firmware->transactions, transaction);
        pw_timeout_decide(firmware, transaction, answer->identity);
    }
    pw_r5_push(firmware, answer->kind, PRIORITY_MAILBOX, answer->at_ns, subject,
               identity_of_event(firmware, answer));
    if (is_missed) /* the other end's software says when */
        pw_r5_push(firmware, PW_EVENT_ERR, PRIORITY_MAILBOX, answer->err_ns,
                   pw_answers_subject(answer->transaction_id, answer->sequence, 0),
                   identity_of_event(firmware, answer));
    if (!answer->err_follows && answer->kind == PW_EVENT_NACK && answer->code == PW_NACK_PAGE_FAULT)
        pw_firmware_no_answer(firmware, answer);
}

void pw_firmware_err_later(pw_firmware *firmware, const pw_answer *answer)
{
    pw_transaction *transaction =
        pw_answers_current(firmware, subject_of(answer), answer->identity);
    if (!transaction) return;
    if (!is_believed(transaction, false, true)) {
        firmware->counters->stale_answers++;
        return;
    }
    transaction->sending_until_ns = pw_later(transaction->sending_until_ns, answer->sent_ns);
    transaction->answer_ns = pw_later(transaction->answer_ns, answer->err_ns);
    await_err(firmware, transaction, answer->err_ns);
    pw_timeout_decide(firmware, transaction, answer->identity);
}

void pw_firmware_errs_later(pw_firmware *firmware, uint32_t peer, uint32_t stream, pw_time err_ns)
{
    pw_transactions *table = &firmware->transactions;
    uint16_t next;
    for (uint16_t slot = table->first_unanswered; slot != PW_NO_TRANSACTION; slot = next) {
        pw_transaction *transaction = pw_transactions_at(table, slot);
        const pw_transfer *transfer = pw_transfer_on(firmware, transaction->channel);
        next = transaction->after;
        bool is_earlier = transaction->awaits_err && transaction->earliest_answer_ns < err_ns;
        if (!is_earlier || transfer->stream != stream || transfer->peer != peer) continue;
        transaction->answer_ns = pw_later(transaction->answer_ns, err_ns);
        pw_timeout_decide(firmware, transaction, pw_answers_identity(firmware, transaction));
        await_err(firmware, transaction, err_ns);
    }
    pw_transactions_overtaken_of_stream(table, peer, stream, err_ns);
}

void pw_firmware_extra_answer(pw_firmware *firmware, const pw_answer *answer)
{
    uint64_t subject = subject_of(answer);
    pw_transaction *transaction = pw_answers_current(firmware, subject, answer->identity);
    pw_r5_push(firmware, answer->kind, PRIORITY_MAILBOX, answer->at_ns, subject,
               identity_of_event(firmware, answer));
    if (answer->kind != PW_EVENT_NACK || answer->code != PW_NACK_PAGE_FAULT) return;
    if (answer->err_follows && transaction && transaction->awaits_err) {
        pw_firmware_err_later(firmware, answer); /* the ERR of both, as it is known now */
        return;
    }
    if (answer->err_follows) {
        const pw_overtaken copy = {.identity = answer->identity,
                                   .earliest_answer_ns = waited_for_ns(firmware, answer->err_ns),
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
    pw_transaction *transaction =
        pw_answers_current(firmware, subject_of(answer), answer->identity);
    if (transaction) transaction->spoiled = true;
}

void pw_firmware_passed(pw_firmware *firmware, const pw_answer *attempt, pw_time late_ns)
{
    pw_transactions *table = &firmware->transactions;
    pw_transaction *transaction =
        pw_answers_current(firmware, subject_of(attempt), attempt->identity);
    pw_overtaken *overtaken = overtaken_by(firmware, attempt);
    if (overtaken) pw_transactions_overtaken_passed(table, overtaken, attempt->at_ns);
    if (!transaction || !transaction->unanswered) return;
    transaction->sending_until_ns += pw_later(late_ns, 0);
    pw_transactions_await(table, transaction, attempt->at_ns);
}

void pw_firmware_no_answer(pw_firmware *firmware, const pw_answer *answer)
{
    uint64_t subject = pw_answers_subject(answer->transaction_id, answer->sequence, 0);
    pw_transaction *transaction = pw_answers_current(firmware, subject, answer->identity);
    if (firmware->receiver->goes_back) pw_firmware_settle_overtaken(firmware, answer);
    if (!transaction) return;
    pw_transactions_answered(&firmware->transactions, transaction);
    bool timer_helps = transaction->deadline_ns != PW_NEVER &&
                       !(transaction->nack_seen && firmware->settings->nack_cancels_timer);
    transaction->sending_until_ns = pw_later(transaction->sending_until_ns, answer->sent_ns);
    transaction->answer_ns = PW_NEVER;
    bool comes_again = answer->is_behind || pw_transfer_on(firmware, transaction->channel)->paused;
    if (timer_helps) pw_timeout_decide(firmware, transaction, answer->identity);
    else if (!comes_again)
        pw_r5_push(firmware, PW_EVENT_HOPELESS, PRIORITY_TIMEOUT, answer->at_ns, subject,
                   answer->identity);
}
