#include "ni/host_events.h"
#include <stdlib.h>

static int grow(pw_host_events *events)
{
    uint32_t capacity = events->capacity ? 2 * events->capacity : 64;
    pw_host_event *bigger = malloc(capacity * sizeof *bigger);
    if (!bigger) return PW_ERR_NOMEM;
    for (uint32_t i = 0; i < events->num_events; i++)
        bigger[i] = events->ring[(events->head + i) % events->capacity];
    free(events->ring);
    *events =
        (pw_host_events){.ring = bigger, .capacity = capacity, .num_events = events->num_events};
    return PW_OK;
}

int pw_host_events_push(pw_host_events *events, const pw_host_event *event)
{
    if (events->num_events == events->capacity && grow(events) < 0) return PW_ERR_NOMEM;
    events->ring[(events->head + events->num_events++) % events->capacity] = *event;
    return PW_OK;
}

int pw_host_events_take(pw_host_events *events, pw_host_event *out, int max)
{
    int num_taken = 0;
    while (num_taken < max && events->num_events) {
        out[num_taken++] = events->ring[events->head];
        events->head = (events->head + 1) % events->capacity;
        events->num_events--;
    }
    return num_taken;
}

void pw_host_events_destroy(pw_host_events *events) { free(events->ring); }
