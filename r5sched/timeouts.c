/* Timeouts of blocks, in the three ways of the R5 thesis [R5 3.4]:
 * absolute: the entry holds the time at which it expires.
 * tick: the entry holds the value of a global counter of ticks, and expires when the counter is
 * further by more than the timeout in (whole, rounded up) ticks: between timeout and timeout + 1
 * tick for a timeout of whole ticks, never early. countdown: the entry holds the ticks that are
 * left, and at each tick the R5 decrements every entry: the same tick as above, but an
 * on-chip-memory operation for each entry at each tick, before anything that expired is sent again.
 */
#include "r5sched/firmware_parts.h"

static pw_time deadline(const pw_settings *settings, pw_time at_ns)
{
    int64_t timeout_ns = settings->timeout_ns, tick_ns = settings->tick_ns;
    if (timeout_ns < 0) return PW_NEVER;
    if (settings->timeout_implementation == PW_TIMEOUT_ABSOLUTE) return at_ns + timeout_ns;
    int64_t num_ticks = (timeout_ns + tick_ns - 1) / tick_ns;
    return (at_ns / tick_ns + num_ticks + 1) * tick_ns;
}

static pw_time next_tick(const pw_settings *settings, pw_time at_ns)
{
    return (at_ns / settings->tick_ns + 1) * settings->tick_ns;
}

void pw_timeout_start(pw_firmware *firmware, pw_transaction *transaction, pw_time at_ns)
{
    const pw_settings *settings = firmware->settings;
    pw_transactions_arm(&firmware->transactions, transaction, deadline(settings, at_ns));
    if (settings->timeout_implementation != PW_TIMEOUT_COUNTDOWN || settings->timeout_ns < 0 ||
        firmware->ticking)
        return;
    firmware->ticking = true;
    pw_r5_push(firmware, PW_EVENT_TICK, PRIORITY_TICK, next_tick(settings, at_ns), 0, 0);
}

pw_time pw_firmware_deadline(const pw_firmware *firmware, const pw_transaction *transaction)
{
    if (transaction->sending_until_ns <= transaction->deadline_ns) return transaction->deadline_ns;
    return deadline(firmware->settings,
                    transaction->sending_until_ns); /* it will be set again then */
}

void pw_timeout_decide(pw_firmware *firmware, pw_transaction *transaction, uint64_t identity)
{
    if (transaction->timer_decided || transaction->answer_ns <= transaction->deadline_ns) return;
    transaction->timer_decided = true;
    pw_event event = {
        /* many may share a tick: those in list order */
        .time_ns = transaction->deadline_ns,
        .priority = PRIORITY_TIMEOUT,
        .source = transaction->arm_number,
        .kind = PW_EVENT_TIMEOUT,
        .subject = pw_answers_subject(transaction->id, transaction->sequence, 0,
                                      firmware->transfers[transaction->channel].peer),
        .detail = identity,
    };
    pw_event_queue_push(firmware->events, &event);
}

void pw_timeout_tick(pw_firmware *firmware, pw_time at_ns)
{
    uint32_t num_armed = firmware->transactions.num_armed;
    firmware->ticking = num_armed > 0;
    if (!num_armed) return;
    firmware->counters->countdown_decrements += num_armed;
    pw_r5_work(firmware, at_ns, num_armed * firmware->costs->r5_queue_op_ns);
    pw_r5_push(firmware, PW_EVENT_TICK, PRIORITY_TICK, next_tick(firmware->settings, at_ns), 0, 0);
}
