/* Operations that are over at some virtual time, in the order of that time, until the CPU may know:
 * then an entry goes to the completion queue, and a counter counts. */
#ifndef PW_FABRIC_TIMELINE_H
#define PW_FABRIC_TIMELINE_H
#include "transport/fabric/objects.h"

/* Zeroed: empty. */
typedef struct {
    pw_fi_operation **operations; /* a heap */
    uint64_t num_operations, capacity, next_sequence;
} pw_fi_timeline;

/* complete_ns is set; the operation is in no list. PW_ERR_NOMEM. */
int pw_fi_timeline_add(pw_fi_timeline *timeline, pw_fi_operation *operation);
/* The earliest one; NULL: none. */
pw_fi_operation *pw_fi_timeline_first(const pw_fi_timeline *timeline);
pw_fi_operation *pw_fi_timeline_take(pw_fi_timeline *timeline);
void pw_fi_timeline_finish(pw_fi_timeline *timeline);
/* Without those of this endpoint, which go to `out`. */
void pw_fi_timeline_drop(pw_fi_timeline *timeline, const pw_fi_endpoint *endpoint, pw_fi_list *out);

/* Ends an operation at its complete_ns: on the timeline, or at once back to the pool when nobody
 * wants to know. */
int pw_fi_end(pw_fi_process *process, pw_fi_operation *operation);
/* Tell of everything that is over by the CPU's clock; and of the earliest that is over later, for
 * which the clock jumps, when nothing else was there and is_waiting. Whether anything was told. */
bool pw_fi_deliver(pw_fi_process *process, bool is_waiting);
/* A message that landed in a multi-receive buffer has been told of, or the buffer takes no more:
 * when that was the last, the application has it back. */
void pw_fi_release(pw_fi_process *process, pw_fi_operation *buffer);
#endif
