/* Event queue: see event_queue.h. A heap of four children a node: an event is 40 bytes, so the
 * children share two or three cache lines and the heap is half as deep as a binary one. */
#include "native/event_queue.h"
#include "native/array.h"

#include <stdlib.h>

#define ARITY 4u
#define CAPACITY_MIN 16u

struct pw_event_queue {
    pw_event *events;
    uint32_t length, capacity;
    uint64_t next_sequence;
    bool lost_event;
};

_Static_assert(sizeof(pw_event) == 40, "events are copied around the heap");

static inline bool leaves_before(const pw_event *a, const pw_event *b)
{
    if (a->time_ns != b->time_ns) return a->time_ns < b->time_ns;
    if (a->priority != b->priority) return a->priority < b->priority;
    if (a->source != b->source) return a->source < b->source;
    return a->sequence < b->sequence;
}

int pw_event_queue_create(uint32_t capacity, pw_event_queue **out)
{
    pw_event_queue *queue = calloc(1, sizeof(*queue));
    if (!queue) return PW_ERR_NOMEM;
    queue->capacity = capacity < CAPACITY_MIN ? CAPACITY_MIN : capacity;
    queue->events = malloc((size_t)queue->capacity * sizeof(*queue->events));
    if (!queue->events) {
        free(queue);
        return PW_ERR_NOMEM;
    }
    *out = queue;
    return PW_OK;
}

void pw_event_queue_destroy(pw_event_queue *queue)
{
    if (!queue) return;
    free(queue->events);
    free(queue);
}

int pw_event_queue_push(pw_event_queue *queue, const pw_event *event)
{
    pw_event entered = *event;
    entered.sequence = queue->next_sequence++;
    return pw_event_queue_push_as_is(queue, &entered);
}

int pw_event_queue_push_as_is(pw_event_queue *queue, const pw_event *event)
{
    const pw_event entered = *event;
    if (PW_ARRAY_MAKE_ROOM(queue->events, queue->length, queue->capacity, CAPACITY_MIN) < 0) {
        queue->lost_event = true;
        return PW_ERR_NOMEM;
    }
    pw_event *events = queue->events;
    uint32_t hole = queue->length++;
    while (hole > 0) {
        uint32_t parent = (hole - 1) / ARITY;
        if (!leaves_before(&entered, &events[parent])) break;
        events[hole] = events[parent];
        hole = parent;
    }
    events[hole] = entered;
    return PW_OK;
}

/* The event enters where it is at home below the hole. */
static void sift_down(pw_event_queue *queue, uint32_t hole, pw_event moved)
{
    pw_event *events = queue->events;
    uint32_t length = queue->length;
    for (;;) {
        uint64_t first = (uint64_t)hole * ARITY + 1;
        if (first >= length) break;
        uint64_t end = first + ARITY < length ? first + ARITY : length;
        uint32_t best = (uint32_t)first;
        for (uint32_t child = best + 1; child < end; child++)
            if (leaves_before(&events[child], &events[best])) best = child;
        if (!leaves_before(&events[best], &moved)) break;
        events[hole] = events[best];
        hole = best;
    }
    events[hole] = moved;
}

int pw_event_queue_pop(pw_event_queue *queue, pw_event *out)
{
    if (queue->length == 0) return 0;
    *out = queue->events[0];
    uint32_t length = --queue->length;
    if (length) sift_down(queue, 0, queue->events[length]);
    return 1;
}

void pw_event_queue_remove(pw_event_queue *queue,
                           bool (*goes)(void *context, const pw_event *event), void *context)
{
    uint32_t num_kept = 0;
    for (uint32_t i = 0; i < queue->length; i++)
        if (!goes(context, &queue->events[i])) queue->events[num_kept++] = queue->events[i];
    queue->length = num_kept;
    for (uint32_t i = num_kept; i-- > 0;) sift_down(queue, i, queue->events[i]);
}

const pw_event *pw_event_queue_first(const pw_event_queue *queue)
{
    return queue->length ? &queue->events[0] : NULL;
}

int64_t pw_event_queue_next_ns(const pw_event_queue *queue)
{
    return queue->length > 0 ? queue->events[0].time_ns : PW_NEVER;
}

uint32_t pw_event_queue_length(const pw_event_queue *queue) { return queue->length; }

bool pw_event_queue_lost_event(const pw_event_queue *queue) { return queue->lost_event; }

uint32_t pw_event_queue_capacity(const pw_event_queue *queue) { return queue->capacity; }
