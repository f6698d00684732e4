/* Channels of the RDMA library (transport/rdma.py): insert, trigger, wait, poll. Each call locks
 * the node, and what the CPU does within it is no compute.
 *
 * began_ns: the wall clock (CLOCK_MONOTONIC) when the program called. */
#ifndef PW_FACADE_ONE_SIDED_H
#define PW_FACADE_ONE_SIDED_H
#include "transport/facade/messaging.h"

/* cdef begin */
#define PW_ONE_SIDED_READS (-1) /* in the place of a write channel's number */

typedef struct {
    pw_descriptor descriptor; /* what is to be inserted, or was inserted last */
    uint64_t key;
    pw_handle *handle; /* of the transfer that was triggered last; NULL: none was */
    int64_t poll_ns;   /* what a look at its state costs the CPU */
    uint32_t peer;
    int32_t number; /* of the write channel */
    uint8_t is_inserted;
} pw_one_sided;
/* cdef end */

/* Put the descriptor into the channel. A scheduling policy is asked about a write whose descriptor
 * says neither hint nor window. */
int pw_one_sided_insert(pw_messaging *messaging, pw_one_sided *channel, int64_t began_ns);
/* Start what was inserted; *channel has the transfer from now on. */
int pw_one_sided_trigger(pw_messaging *messaging, pw_one_sided *channel, int64_t began_ns);
/* Until the transfer is over: PW_CHANNEL_FINISHED or _FAILED, or PW_ERR_*. 0: it takes long; the
 * call has not ended, and goes on with began_ns 0. */
int pw_one_sided_wait(pw_messaging *messaging, pw_one_sided *channel, int64_t began_ns);
/* The transfer's state at the CPU's time, PW_CHANNEL_*; or PW_ERR_*. */
int pw_one_sided_poll(pw_messaging *messaging, pw_one_sided *channel, int64_t began_ns);
/* Give the last transfer back; one that is under way goes on. */
void pw_one_sided_forget(pw_messaging *messaging, pw_one_sided *channel);
#endif
