/* What the firmware's files use of each other: firmware.c (channels, new transfers, scheduler),
 * reads.c (read requests), answers.c (acknowledgements, timeouts), foreseen.c (the emulation's). */
#ifndef PW_R5SCHED_FIRMWARE_PARTS_H
#define PW_R5SCHED_FIRMWARE_PARTS_H
#include "r5sched/firmware.h"

/* Order of the main loop [R5 3]: new transfers, scheduler, acknowledgement mailbox, timeouts,
 * pending read requests. A duplicate in the mailbox of new transfers is of the next pass. */
enum {
    PRIORITY_NEW,
    PRIORITY_SCHEDULE,
    PRIORITY_DUPLICATE,
    PRIORITY_MAILBOX,
    PRIORITY_TICK,
    PRIORITY_TIMEOUT,
    PRIORITY_READS
};

#define FIRST_READ_CHANNEL PW_WRITE_CHANNELS

/* firmware.c */
/* Book R5 time; returns when the work is done. */
pw_time pw_r5_work(pw_firmware *firmware, pw_time at_ns, pw_time cost_ns);
/* A pass of the loop handles one thing, an entry of a mailbox or not. Without the counters it also
 * reads what is empty. */
void pw_r5_pass(pw_firmware *firmware, bool has_entry, pw_time at_ns);
/* An entry that came to a mailbox at at_ns was taken out at taken_ns. */
void pw_r5_took(pw_firmware *firmware, enum pw_mailbox_idx mailbox, pw_time at_ns,
                pw_time taken_ns);
void pw_r5_push(pw_firmware *firmware, enum pw_event_kind kind, uint16_t priority, pw_time at_ns,
                uint64_t subject, uint64_t detail);
pw_action *pw_r5_act(pw_actions *actions, enum pw_action_kind kind, uint32_t channel,
                     pw_time at_ns);
/* The completion notification of a transfer of several blocks. */
void pw_r5_notify(pw_firmware *firmware, uint32_t channel, pw_actions *actions, pw_time at_ns);
/* A channel of the domain that no transfer is on, from slot from to slot to of its page. */
int pw_r5_claim(pw_firmware *firmware, uint16_t pdid, uint32_t from, uint32_t to);
void pw_r5_count_transfer(pw_firmware *firmware, const pw_transfer *transfer);
void pw_r5_start_transfer(pw_firmware *firmware, uint32_t channel, const pw_transfer *transfer);
/* A transfer is ready: bypass the queues when it is urgent and no other urgent one waits. */
void pw_r5_admit(pw_firmware *firmware, uint32_t channel, pw_actions *actions, pw_time at_ns);
void pw_r5_requeue(pw_firmware *firmware, uint32_t channel, pw_time at_ns);
void pw_r5_finish(pw_firmware *firmware, uint32_t channel, pw_actions *actions, pw_time at_ns);

/* answers.c */
/* An entry of the acknowledgement mailbox, or a timeout. */
void pw_answers_handle(pw_firmware *firmware, const pw_event *event, pw_actions *actions);
/* Take the step that the table has for the event. Who reacts gives the entry back when it says
 * FREE. */
enum pw_block_reaction pw_answers_step(pw_firmware *firmware, pw_transaction *transaction,
                                       enum pw_block_event event, pw_time at_ns);
/* A step of protocol.h from a state, for the trace. */
void pw_answers_trace_step(pw_firmware *firmware, const pw_transaction *transaction, uint32_t state,
                           enum pw_block_event event, pw_time at_ns);
void pw_answers_release(pw_firmware *firmware, pw_transaction *transaction, pw_time at_ns);
uint64_t pw_answers_identity(const pw_firmware *firmware, const pw_transaction *transaction);
/* The pending transaction that an answer is for, or NULL when it is of an older attempt. */
pw_transaction *pw_answers_current(pw_firmware *firmware, uint64_t answer, uint64_t identity);
#define PW_FORESEEN 1 /* code of an ACK event that was foreseen */
static inline uint64_t pw_answers_subject(uint16_t id, uint16_t sequence, uint32_t code)
{
    return (uint64_t)id | (uint64_t)sequence << 16 | (uint64_t)code << 32;
}
/* What it takes to write a block's entry of the table, and its place in the timeout list: an
 * operation on on-chip memory each [R5 3.5]. */
pw_time pw_timeout_table_ns(const pw_firmware *firmware);
/* Do settings ask for round trips? */
static inline bool pw_firmware_measures(const pw_firmware *firmware)
{
    const pw_settings *settings = firmware->settings;
    return settings->timeout_from == PW_TIMEOUT_MEASURED ||
           settings->congestion != PW_CONGESTION_NONE;
}
/* (Re-)start the block's timer at at_ns. */
void pw_timeout_start(pw_firmware *firmware, pw_transaction *transaction, pw_time at_ns);
/* The block's timeout happens when it is known that no answer comes before it. */
void pw_timeout_decide(pw_firmware *firmware, pw_transaction *transaction, uint64_t identity);
/* Countdown: the head of the list is decremented. */
void pw_timeout_tick(pw_firmware *firmware, pw_time at_ns);
/* The pause of a transfer whose receiver was not ready is over. */
void pw_go_back_resume(pw_firmware *firmware, uint32_t channel, uint32_t stream,
                       pw_actions *actions, pw_time at_ns);

/* foreseen.c */
/* The block is sent again while an answer to the attempt is still to come. */
void pw_foreseen_overtake(pw_firmware *firmware, pw_transaction *transaction);

/* reads.c */
/* Take the request out of its mailbox. False: it stays there, since neither a channel nor the
 * buffer has room for it. */
bool pw_reads_take(pw_firmware *firmware, int32_t read, pw_actions *actions, pw_time at_ns);
/* The request has a channel: it becomes a transfer. */
void pw_reads_serve(pw_firmware *firmware, int32_t read, uint32_t channel, pw_actions *actions,
                    pw_time at_ns);
/* The periodic look at the buffer. */
void pw_reads_retry(pw_firmware *firmware, pw_time at_ns);
/* A read channel is free again. */
void pw_reads_channel_freed(pw_firmware *firmware, uint32_t channel, pw_time at_ns);
#endif
