#include "run/timeline/arrivals.h"
#include <stdlib.h>

#define FIRST_CAPACITY 64

/* Flows are numbered as messages leave. */
static bool is_before(const pw_message_arrival *a, const pw_message_arrival *b)
{
    if (a->at_ns != b->at_ns) return a->at_ns < b->at_ns;
    return a->flow < b->flow;
}

int pw_arrivals_add(pw_arrivals *arrivals, const pw_message_arrival *arrival)
{
    if (arrivals->num_arrivals == arrivals->capacity) {
        size_t capacity = arrivals->capacity ? 2 * arrivals->capacity : FIRST_CAPACITY;
        pw_message_arrival *bigger = realloc(arrivals->heap, capacity * sizeof *bigger);
        if (!bigger) return PW_ERR_NOMEM;
        arrivals->heap = bigger;
        arrivals->capacity = capacity;
    }
    pw_message_arrival *heap = arrivals->heap;
    size_t idx = arrivals->num_arrivals++;
    for (; idx && is_before(arrival, &heap[(idx - 1) / 2]); idx = (idx - 1) / 2)
        heap[idx] = heap[(idx - 1) / 2];
    heap[idx] = *arrival;
    return PW_OK;
}

bool pw_arrivals_take(pw_arrivals *arrivals, pw_time by_ns, pw_message_arrival *arrival)
{
    pw_message_arrival *heap = arrivals->heap;
    if (!arrivals->num_arrivals || heap[0].at_ns > by_ns) return false;
    *arrival = heap[0];
    const pw_message_arrival moving = heap[--arrivals->num_arrivals];
    size_t idx = 0;
    for (size_t child; (child = 2 * idx + 1) < arrivals->num_arrivals; idx = child) {
        if (child + 1 < arrivals->num_arrivals && is_before(&heap[child + 1], &heap[child]))
            child++;
        if (!is_before(&heap[child], &moving)) break;
        heap[idx] = heap[child];
    }
    heap[idx] = moving;
    return true;
}

void pw_arrivals_destroy(pw_arrivals *arrivals)
{
    free(arrivals->heap);
    *arrivals = (pw_arrivals){0};
}
