/* Event queue: a heap ordered by (time, priority, source, sequence). The sequence is given by
 * push, so events equal in all else leave in the order they came, or by who pushes. Grows by
 * doubling; no allocation while it fits. Not thread-safe. */
#ifndef PW_NATIVE_EVENT_QUEUE_H
#define PW_NATIVE_EVENT_QUEUE_H
#include "native/types.h"

/* cdef begin */
typedef struct {
    int64_t time_ns;
    uint64_t sequence; /* set by pw_event_queue_push */
    uint16_t priority; /* lower leaves first */
    uint16_t source;   /* node the event comes from */
    uint32_t kind;
    uint64_t subject; /* what it is about: index, id or packed value, by kind */
    uint64_t detail;
} pw_event;

typedef struct pw_event_queue pw_event_queue;
int pw_event_queue_create(uint32_t capacity, pw_event_queue **out);
/* Events that it has room for without more memory. */
uint32_t pw_event_queue_capacity(const pw_event_queue *queue);
void pw_event_queue_destroy(pw_event_queue *queue);
/* PW_ERR_NOMEM: the event is lost, and the queue remembers that one was. */
int pw_event_queue_push(pw_event_queue *queue, const pw_event *event);
/* 1 and *out when there is one, else 0. */
int pw_event_queue_pop(pw_event_queue *queue, pw_event *out);
/* Time of the first event, INT64_MAX when empty. */
int64_t pw_event_queue_next_ns(const pw_event_queue *queue);
uint32_t pw_event_queue_length(const pw_event_queue *queue);
/* Has a push failed since the queue was created? */
bool pw_event_queue_lost_event(const pw_event_queue *queue);
/* cdef end */
/* The same, with the event's own sequence. */
int pw_event_queue_push_as_is(pw_event_queue *queue, const pw_event *event);
/* The first event, NULL when empty; good until the next change. */
const pw_event *pw_event_queue_first(const pw_event_queue *queue);
/* Every event of which `goes` says so goes; it is asked once of each. */
void pw_event_queue_remove(pw_event_queue *queue,
                           bool (*goes)(void *context, const pw_event *event), void *context);
#endif
