/* Events for the host in the order in which they came up: a ring that grows. One NI, one thread at
 * a time. */
#ifndef PW_NI_HOST_EVENTS_H
#define PW_NI_HOST_EVENTS_H
#include "ni/ni.h"

typedef struct {
    pw_host_event *ring;
    uint32_t capacity, head, num_events;
} pw_host_events;

/* PW_ERR_NOMEM: the event is not kept. */
int pw_host_events_push(pw_host_events *events, const pw_host_event *event);
/* The earliest ones, at most max; how many. */
int pw_host_events_take(pw_host_events *events, pw_host_event *out, int max);
void pw_host_events_destroy(pw_host_events *events);

#endif
