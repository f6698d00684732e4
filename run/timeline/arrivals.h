/* Messages on their way, in the order in which they come. One thread at a time. */
#ifndef PW_RUN_TIMELINE_ARRIVALS_H
#define PW_RUN_TIMELINE_ARRIVALS_H
#include "native/types.h"

typedef struct {
    pw_time at_ns;
    uint32_t source, destination;
    uint64_t num_bytes, flow;
} pw_message_arrival;

/* Zeroed: none. */
typedef struct {
    pw_message_arrival *heap;
    size_t num_arrivals, capacity;
} pw_arrivals;

/* PW_ERR_NOMEM. */
int pw_arrivals_add(pw_arrivals *arrivals, const pw_message_arrival *arrival);
/* Whether one has come by then: the earliest, which is taken out. */
bool pw_arrivals_take(pw_arrivals *arrivals, pw_time by_ns, pw_message_arrival *arrival);
void pw_arrivals_destroy(pw_arrivals *arrivals);
#endif
