/* Events that are removed from a queue: the others leave in the order that they had. */
#include <assert.h>

#include "native/event_queue.h"

#define NUM_EVENTS 1000u

static uint64_t state = 12345;

static uint64_t draw(uint64_t limit)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % limit;
}

/* Asked once of each; context: how often it was. */
static bool is_third(void *context, const pw_event *event)
{
    ++*(uint32_t *)context;
    return event->subject % 3 == 0;
}

int main(void)
{
    pw_event_queue *queue;
    pw_event event = {0};
    assert(pw_event_queue_create(1, &queue) == PW_OK);
    assert(!pw_event_queue_first(queue));
    for (uint32_t round = 0; round < 20; round++) {
        uint32_t num_asked = 0, num_left = 0;
        for (uint32_t i = 0; i < NUM_EVENTS; i++) {
            event = (pw_event){.time_ns = (int64_t)draw(50), .subject = i};
            assert(pw_event_queue_push(queue, &event) == PW_OK);
        }
        pw_event_queue_remove(queue, is_third, &num_asked);
        assert(num_asked == NUM_EVENTS);
        assert(pw_event_queue_length(queue) == NUM_EVENTS - (NUM_EVENTS + 2) / 3);
        pw_event before = {.time_ns = -1};
        for (; pw_event_queue_pop(queue, &event); num_left++) {
            assert(event.subject % 3);
            assert(event.time_ns > before.time_ns ||
                   (event.time_ns == before.time_ns && event.subject > before.subject));
            before = event;
        }
        assert(num_left == NUM_EVENTS - (NUM_EVENTS + 2) / 3);
    }
    pw_event_queue_destroy(queue);
    return 0;
}
