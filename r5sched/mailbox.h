/* A mailbox of the R5: entries leave in the order they came. An entry that finds it full waits
 * before it, in order, and loses nothing (flow control of the links). Only entries that cannot be
 * taken out at once are kept here; of the others it is known when the R5 took them. Not
 * thread-safe. */
#ifndef PW_R5SCHED_MAILBOX_H
#define PW_R5SCHED_MAILBOX_H
#include "native/event_queue.h"

typedef struct {
    pw_time *taken_ns; /* ring of depth: when the last entries were taken out */
    uint32_t depth, next_taken;
    pw_event *waiting; /* ring */
    uint32_t capacity, head, num_waiting;
    bool blocked; /* the head cannot be taken out */
    bool pumping; /* an event that looks at the head again is in the queue */
} pw_mailbox;

int pw_mailbox_init(pw_mailbox *mailbox, uint32_t depth);
void pw_mailbox_destroy(pw_mailbox *mailbox);
/* An entry came at at_ns and leaves at taken_ns. True when it found the mailbox full. */
bool pw_mailbox_pass(pw_mailbox *mailbox, pw_time at_ns, pw_time taken_ns);
/* Keep an entry behind those that wait. PW_ERR_NOMEM, or 1 when it found the mailbox full, else 0.
 */
int pw_mailbox_keep(pw_mailbox *mailbox, const pw_event *entry);
static inline const pw_event *pw_mailbox_head(const pw_mailbox *mailbox)
{
    return &mailbox->waiting[mailbox->head];
}
void pw_mailbox_drop_head(pw_mailbox *mailbox);
#endif
