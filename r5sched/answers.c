/* Acknowledgements and timeouts of blocks: what the R5 does with ACK, NACK, ERR and an expired
 * timer. What is here before it happened, or foreseen, is the emulation's: foreseen.c. */
#include "r5sched/firmware_parts.h"

void pw_answers_trace_step(pw_firmware *firmware, const pw_transaction *transaction, uint32_t state,
                           enum pw_block_event event, pw_time at_ns)
{
    uint64_t next = pw_block_transition_of(state, event)->next;
    pw_trace_add(firmware->trace, at_ns, PW_TRACE_TRANSITION,
                 (uint64_t)transaction->id | (uint64_t)transaction->sequence << 16,
                 (uint64_t)state | (uint64_t)event << 8 | next << 16);
}

enum pw_block_reaction pw_answers_step(pw_firmware *firmware, pw_transaction *transaction,
                                       enum pw_block_event event, pw_time at_ns)
{
    const pw_block_transition *transition = pw_block_transition_of(transaction->state, event);
    if (transition->reaction == PW_REACT_NONE) return PW_REACT_NONE;
    pw_answers_trace_step(firmware, transaction, transaction->state, event, at_ns);
    if (transition->next != PW_TRANSACTION_FREE) transaction->state = transition->next;
    return (enum pw_block_reaction)transition->reaction;
}

void pw_answers_release(pw_firmware *firmware, pw_transaction *transaction, pw_time at_ns)
{
    pw_transactions_release(&firmware->transactions, transaction);
    firmware->counters->transaction_wraps += transaction->id < PW_TRANSACTIONS;
    if (!firmware->num_stalled) return;
    firmware->num_stalled--;
    pw_r5_push(firmware, PW_EVENT_SCHEDULE, PRIORITY_SCHEDULE, at_ns, 0, 0);
}

uint64_t pw_answers_identity(const pw_firmware *firmware, const pw_transaction *transaction)
{
    return pw_identity(pw_transfer_on(firmware, transaction->channel)->stream,
                       transaction->block_idx);
}

pw_transaction *pw_answers_current(pw_firmware *firmware, uint64_t answer, uint64_t identity)
{
    pw_transaction *transaction = pw_transactions_find(&firmware->transactions, (uint16_t)answer);
    if (!transaction || transaction->sequence != (uint16_t)(answer >> 16)) return NULL;
    return pw_answers_identity(firmware, transaction) == identity ? transaction : NULL;
}

/* --- timeouts --- */

/* What is known of the peer's round trips; NULL: nobody asks, or there is no memory. */
static pw_round_trips *trips_to(pw_firmware *firmware, uint32_t peer)
{
    if (!pw_firmware_measures(firmware)) return NULL;
    pw_round_trips *trips = pw_peers_make(&firmware->round_trips, peer, sizeof *trips);
    if (!trips) firmware->lost_entry = true;
    else if (!trips->kbps) {
        const pw_unloaded unloaded = firmware->unloaded(firmware->owner, peer);
        pw_round_trips_init(trips, &unloaded);
    }
    return trips;
}

int64_t pw_firmware_timeout_ns(pw_firmware *firmware, uint32_t peer)
{
    const pw_settings *settings = firmware->settings;
    if (settings->timeout_ns < 0 || settings->timeout_from == PW_TIMEOUT_FIXED)
        return settings->timeout_ns;
    const pw_round_trips *trips =
        settings->timeout_from == PW_TIMEOUT_MEASURED ? trips_to(firmware, peer) : NULL;
    if (trips) return pw_round_trips_timeout_ns(trips);
    return PW_AUTO_WINDOWS * firmware->unloaded(firmware->owner, peer).window_ns;
}

pw_time pw_firmware_pace(pw_firmware *firmware, uint32_t peer, uint64_t num_bytes, pw_time at_ns)
{
    if (firmware->settings->congestion == PW_CONGESTION_NONE) return at_ns;
    pw_round_trips *trips = trips_to(firmware, peer);
    return trips ? pw_round_trips_pace(trips, num_bytes, at_ns) : at_ns;
}

/* The acknowledgement of a block was read at at_ns. Updating its peer's entry takes the R5 an
 * operation on on-chip memory (assumed). When that is done. */
static pw_time note_round_trip(pw_firmware *firmware, const pw_transaction *transaction,
                               pw_time at_ns)
{
    pw_round_trips *trips =
        trips_to(firmware, pw_transfer_on(firmware, transaction->channel)->peer);
    if (!trips || transaction->sequence) return at_ns;
    const pw_time round_trip_ns = at_ns - transaction->started_ns;
    pw_round_trips_note(trips, round_trip_ns);
    if (firmware->settings->congestion != PW_CONGESTION_NONE)
        firmware->counters->rate_cuts +=
            pw_round_trips_follow(trips, transaction->block_bytes, round_trip_ns, at_ns);
    return pw_r5_work(firmware, at_ns, firmware->costs->r5_queue_op_ns);
}

static void note_timeout(pw_firmware *firmware, const pw_transaction *transaction, pw_time at_ns)
{
    pw_round_trips *trips =
        trips_to(firmware, pw_transfer_on(firmware, transaction->channel)->peer);
    if (!trips) return;
    pw_round_trips_note_timeout(trips);
    if (firmware->settings->congestion != PW_CONGESTION_NONE)
        firmware->counters->rate_cuts += pw_round_trips_follow_timeout(trips, at_ns);
}

/* Timeouts of blocks, in the three ways of the R5 thesis [R5 3.4]:
 * absolute: the entry holds the time at which it expires.
 * tick: the entry holds the value of a global counter of ticks, and expires when the counter is
 * further by the timeout in (whole, rounded up) ticks: up to one tick early. countdown: the entry
 * holds the ticks that are left behind the one before it in the list, and at each tick the R5
 * decrements the list's head: the same tick as above, and an on-chip-memory operation more at each
 * [R5 4.3]. */
static pw_time deadline(pw_firmware *firmware, const pw_transaction *transaction, pw_time at_ns)
{
    const pw_settings *settings = firmware->settings;
    uint32_t peer = pw_transfer_on(firmware, transaction->channel)->peer;
    int64_t timeout_ns = pw_firmware_timeout_ns(firmware, peer), tick_ns = settings->tick_ns;
    if (timeout_ns < 0) return PW_NEVER;
    if (settings->timeout_implementation == PW_TIMEOUT_ABSOLUTE) return at_ns + timeout_ns;
    int64_t num_ticks = (timeout_ns + tick_ns - 1) / tick_ns;
    return (at_ns / tick_ns + num_ticks) * tick_ns;
}

static pw_time next_tick(const pw_settings *settings, pw_time at_ns)
{
    return (at_ns / settings->tick_ns + 1) * settings->tick_ns;
}

pw_time pw_timeout_table_ns(const pw_firmware *firmware)
{
    return (firmware->settings->timeout_ns < 0 ? 1 : 2) * firmware->costs->r5_queue_op_ns;
}

void pw_timeout_start(pw_firmware *firmware, pw_transaction *transaction, pw_time at_ns)
{
    const pw_settings *settings = firmware->settings;
    pw_transactions_arm(&firmware->transactions, transaction,
                        deadline(firmware, transaction, at_ns));
    if (settings->timeout_implementation != PW_TIMEOUT_COUNTDOWN || settings->timeout_ns < 0 ||
        firmware->ticking)
        return;
    firmware->ticking = true;
    pw_r5_push(firmware, PW_EVENT_TICK, PRIORITY_TICK, next_tick(settings, at_ns), 0, 0);
}

pw_time pw_firmware_deadline(pw_firmware *firmware, const pw_transaction *transaction)
{
    if (transaction->sending_until_ns <= transaction->deadline_ns) return transaction->deadline_ns;
    return deadline(firmware, transaction,
                    transaction->sending_until_ns); /* it will be set again then */
}

void pw_timeout_decide(pw_firmware *firmware, pw_transaction *transaction, uint64_t identity)
{
    const bool is_open = firmware->is_in_order && transaction->awaits_err; /* which comes first */
    if (transaction->timer_decided || transaction->deadline_ns == PW_NEVER ||
        (!is_open && transaction->answer_ns <= transaction->deadline_ns))
        return;
    transaction->timer_decided = true;
    pw_event event = {
        /* many may share a tick: those in list order */
        .time_ns = transaction->deadline_ns,
        .priority = PRIORITY_TIMEOUT,
        .source = transaction->arm_number,
        .kind = PW_EVENT_TIMEOUT,
        .subject = pw_answers_subject(transaction->id, transaction->sequence, 0),
        .detail = identity,
    };
    pw_event_queue_push(firmware->events, &event);
}

void pw_timeout_tick(pw_firmware *firmware, pw_time at_ns)
{
    firmware->ticking = firmware->transactions.num_armed > 0;
    if (!firmware->ticking) return;
    firmware->counters->countdown_decrements++;
    pw_r5_work(firmware, at_ns, firmware->costs->r5_queue_op_ns);
    pw_r5_push(firmware, PW_EVENT_TICK, PRIORITY_TICK, next_tick(firmware->settings, at_ns), 0, 0);
}

/* --- reactions --- */

static void acked(pw_firmware *firmware, pw_transaction *transaction, bool hold,
                  pw_actions *actions, pw_time at_ns)
{
    uint32_t channel = transaction->channel;
    pw_transfer *transfer = pw_transfer_on(firmware, channel);
    at_ns = note_round_trip(firmware, transaction, at_ns);
    at_ns = pw_r5_work(firmware, at_ns, firmware->costs->r5_queue_op_ns);
    pw_trace_add(firmware->trace, at_ns, PW_TRACE_ACK, transaction->id, transaction->sequence);
    if (hold) pw_transactions_disarm(&firmware->transactions, transaction);
    else pw_answers_release(firmware, transaction, at_ns);
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

static void retransmit(pw_firmware *firmware, pw_transaction *transaction, pw_actions *actions,
                       pw_time at_ns)
{
    const pw_costs *costs = firmware->costs;
    if (transaction->awaits_err) pw_foreseen_overtake(firmware, transaction);
    transaction->sequence = (transaction->sequence + 1) & PW_SEQUENCE_MASK;
    firmware->counters->sequence_wraps += transaction->sequence == 0;
    transaction->timer_cancelled = transaction->timer_decided = transaction->nack_seen = false;
    transaction->answer_ns = INT64_MIN;
    at_ns = pw_r5_work(firmware, at_ns,
                       pw_timeout_table_ns(firmware) + costs->r5_start_block_ns +
                           costs->r5_logic_round_trip_ns);
    pw_timeout_start(firmware, transaction, at_ns);
    firmware->counters->retransmitted_blocks++;
    if (transaction->refused_ns)
        pw_log_histogram_add(&firmware->tallies->fault_waits,
                             (uint64_t)(at_ns - transaction->refused_ns));
    transaction->refused_ns = 0;
    pw_r5_act(actions, PW_ACTION_START_BLOCK, transaction->channel, at_ns)->transaction =
        transaction;
    if (transaction->last_block && pw_transfer_on(firmware, transaction->channel)->num_blocks > 1 &&
        pw_transfer_on(firmware, transaction->channel)->notified)
        pw_r5_notify(firmware, transaction->channel, actions, at_ns);
}

void pw_firmware_fail(pw_firmware *firmware, uint32_t channel, uint32_t code, pw_actions *actions,
                      pw_time at_ns)
{
    pw_transfer *transfer = pw_transfer_on(firmware, channel);
    transfer->error = (uint8_t)code;
    for (uint32_t i = 0; i < PW_TRANSACTIONS; i++) {
        pw_transaction *transaction = pw_transactions_at(&firmware->transactions, i);
        if (!transaction || transaction->channel != channel) continue;
        pw_answers_step(firmware, transaction, PW_BLOCK_ABANDONED, at_ns);
        pw_answers_release(firmware, transaction, at_ns);
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

static bool is_exhausted(const pw_firmware *firmware, pw_transaction *transaction,
                         enum pw_block_event event, uint32_t code)
{
    if (pw_block_transition_of(transaction->state, event)->reaction != PW_REACT_RETRANSMIT)
        return false;
    if (firmware->settings->engine == PW_ENGINE_ZDMA) return true; /* it sends nothing again */
    if (++transaction->num_attempts > PW_ATTEMPTS_MAX) return true;
    bool damaged = event == PW_BLOCK_NACK_RETRY && code == PW_NACK_CORRUPT;
    transaction->num_spoiled =
        (uint16_t)(transaction->num_spoiled + (transaction->spoiled || damaged));
    transaction->spoiled = false;
    return transaction->num_spoiled > PW_SEQUENCE_MASK;
}

/* --- going back --- */

/* Go-back-N, as an InfiniBand NIC does it, for a transfer: the receiver takes blocks in their order
 * alone. What was sent behind one that it did not take is sent again: at once when the receiver
 * tells of the gap, with a timeout of the first, or after the pause for which a receiver asks that
 * is not ready, since its NIC handles a fault. */
/* The transfer's blocks from first_block on that are not acknowledged, in their order; how many. */
static uint32_t find_outstanding(pw_firmware *firmware, uint32_t channel, uint32_t first_block,
                                 pw_transaction *blocks[PW_WINDOW_MAX])
{
    uint32_t num_blocks = 0;
    for (uint32_t i = 0; i < PW_TRANSACTIONS; i++) {
        pw_transaction *each = pw_transactions_at(&firmware->transactions, i);
        if (!each || each->channel != channel || each->block_idx < first_block) continue;
        uint32_t place = num_blocks++;
        for (; place > 0 && blocks[place - 1]->block_idx > each->block_idx; place--)
            blocks[place] = blocks[place - 1];
        blocks[place] = each;
    }
    return num_blocks;
}

static void go_back_block(pw_firmware *firmware, pw_transaction *transaction, pw_actions *actions,
                          pw_time at_ns)
{
    if (transaction->unanswered) pw_foreseen_overtake(firmware, transaction);
    pw_answers_step(firmware, transaction, PW_BLOCK_GO_BACK, at_ns);
    retransmit(firmware, transaction, actions, at_ns);
}

static void go_back(pw_firmware *firmware, uint32_t channel, uint32_t first_block,
                    pw_actions *actions, pw_time at_ns)
{
    pw_transaction *blocks[PW_WINDOW_MAX];
    if (pw_transfer_on(firmware, channel)->paused) return; /* the end of the pause goes back */
    uint32_t num_blocks = find_outstanding(firmware, channel, first_block, blocks);
    if (num_blocks && first_block == 0 && is_exhausted(firmware, blocks[0], PW_BLOCK_GO_BACK, 0)) {
        pw_firmware_fail(firmware, channel, PW_UNRECOVERABLE, actions, at_ns);
        return;
    }
    for (uint32_t i = 0; i < num_blocks; i++) {
        firmware->counters->blocks_gone_back += i > 0 || first_block > 0;
        go_back_block(firmware, blocks[i], actions, at_ns);
    }
}

static void pause(pw_firmware *firmware, uint32_t channel, pw_time at_ns)
{
    pw_transfer *transfer = pw_transfer_on(firmware, channel);
    if (transfer->paused) return;
    transfer->paused = true;
    pw_transaction *blocks[PW_WINDOW_MAX];
    uint32_t num_blocks = find_outstanding(firmware, channel, 0, blocks);
    for (uint32_t i = 0; i < num_blocks; i++) {
        blocks[i]->timer_cancelled = true;
        pw_transactions_disarm(&firmware->transactions, blocks[i]);
    }
    pw_time pause_ns = firmware->receiver->pause_ns;
    firmware->counters->rnr_wait_ns += pause_ns;
    pw_r5_push(firmware, PW_EVENT_PAUSE_OVER, PRIORITY_TIMEOUT, at_ns + pause_ns, channel,
               transfer->stream);
}

void pw_go_back_resume(pw_firmware *firmware, uint32_t channel, uint32_t stream,
                       pw_actions *actions, pw_time at_ns)
{
    pw_transfer *transfer = pw_transfer_on(firmware, channel);
    if (!transfer->active || !transfer->paused || transfer->stream != stream) return;
    transfer->paused = false;
    go_back(firmware, channel, 0, actions, at_ns);
    bool has_more = transfer->active && transfer->next_block < transfer->num_blocks &&
                    transfer->outstanding < transfer->window_blocks;
    if (has_more && !transfer->queued) pw_r5_requeue(firmware, channel, at_ns);
}

/* --- answers --- */

static enum pw_block_event event_of_nack(uint32_t code)
{
    switch (code) {
    case PW_NACK_MISSED:
    case PW_NACK_PAGE_FAULT: return PW_BLOCK_NACK_PAGE_FAULT;
    case PW_NACK_NOT_READY: return PW_BLOCK_NACK_NOT_READY;
    case PW_NACK_SEQUENCE: return PW_BLOCK_NACK_SEQUENCE;
    case PW_NACK_DECODE:
    case PW_NACK_NO_CONTEXT:
    case PW_NACK_PROTECTION:
    case PW_UNRECOVERABLE: return PW_BLOCK_NACK_FATAL;
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

static void count(pw_firmware *firmware, const pw_event *event, const pw_transaction *transaction,
                  pw_time at_ns)
{
    uint32_t code = (uint32_t)(event->subject >> 32);
    switch ((enum pw_event_kind)event->kind) {
    case PW_EVENT_NACK:
        if (code == PW_NACK_NOT_READY) firmware->counters->rnr_nacks++;
        else if (code == PW_NACK_SEQUENCE) firmware->counters->sequence_nacks++;
        else if (code == PW_NACK_MISSED) firmware->counters->blocks_missed++;
        else firmware->counters->nacks[code & 7]++;
        pw_trace_add(firmware->trace, at_ns, PW_TRACE_NACK, transaction->id, code);
        return;
    case PW_EVENT_ERR:
        if (firmware->receiver->retries_two_sided) firmware->counters->two_sided_retries++;
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
    if (!transaction || pw_answers_identity(firmware, transaction) != event->detail) return;
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
    pw_answers_step(firmware, transaction, block_event, event->time_ns);
    return true;
}

/* A timer that was cancelled, or an ACK that was foreseen and refuted since. */
static bool is_void(const pw_event *event, const pw_transaction *transaction)
{
    if (event->kind == PW_EVENT_TIMEOUT) return !transaction || transaction->timer_cancelled;
    bool foreseen = event->kind == PW_EVENT_ACK && event->subject >> 32 == PW_FORESEEN;
    return foreseen && (!transaction || !transaction->predicted);
}

/* Take the step and do what the table says. */
static void react(pw_firmware *firmware, pw_transaction *transaction,
                  enum pw_block_event block_event, uint32_t code, pw_actions *actions,
                  pw_time at_ns)
{
    switch (pw_answers_step(firmware, transaction, block_event, at_ns)) {
    case PW_REACT_COMPLETE: acked(firmware, transaction, false, actions, at_ns); return;
    case PW_REACT_HOLD: acked(firmware, transaction, true, actions, at_ns); return;
    case PW_REACT_WAIT: wait_for_err(firmware, transaction, at_ns); return;
    case PW_REACT_RETRANSMIT:
        if (block_event == PW_BLOCK_TIMEOUT) note_timeout(firmware, transaction, at_ns);
        retransmit(firmware, transaction, actions, at_ns);
        if (firmware->receiver->goes_back)
            go_back(firmware, transaction->channel, transaction->block_idx + 1, actions, at_ns);
        return;
    case PW_REACT_PAUSE: pause(firmware, transaction->channel, at_ns); return;
    case PW_REACT_GO_BACK: go_back(firmware, transaction->channel, 0, actions, at_ns); return;
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
    pw_transaction *transaction = pw_answers_current(firmware, event->subject, event->detail);
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
    if (is_exhausted(firmware, transaction, block_event, code)) block_event = PW_BLOCK_HOPELESS;
    react(firmware, transaction, block_event, code, actions, at_ns);
}
