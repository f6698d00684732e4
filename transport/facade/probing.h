/* Probes: looks for a message that a receive would get, and receives of what was taken by one. Each
 * locks the node, so that of two threads that probe one takes the message. */
#ifndef PW_FACADE_PROBING_H
#define PW_FACADE_PROBING_H
#include "transport/facade/messaging.h"

/* cdef begin */
/* What a probe found. */
typedef struct {
    uint64_t num_bytes;
    int32_t source, tag;
    pw_operation *taken; /* PW_PROBE_TAKE: for pw_call_receive_found */
} pw_found;

#define PW_PROBE_TAKE 1 /* nobody else gets it */
#define PW_PROBE_WAIT 2 /* one look of a wait: the clock goes on to the arrival */
/* Look for the message that a receive would get. 1: it is told in *out, 0: none is here, and unless
 * this is a wait, the look costs what a failed test costs. */
int pw_call_probe(pw_messaging *messaging, pw_channel *channel, int32_t source, int32_t tag,
                  uint32_t flags, pw_found *out);
/* Receive what was taken: the operation of that, or PW_ERR_*. */
int64_t pw_call_receive_found(pw_messaging *messaging, pw_operation *arrived, uint64_t address,
                              uint64_t capacity_bytes, uint32_t flags);
/* cdef end */
#endif
