/* Smoke test of the event queue without Python: order over growth. */
#include <assert.h>

#include "native/event_queue.h"

int main(void)
{
    pw_event_queue *queue;
    pw_event event = {0};
    assert(pw_event_queue_create(1, &queue) == PW_OK);
    assert(pw_event_queue_next_ns(queue) == PW_NEVER && !pw_event_queue_pop(queue, &event));
    for (int64_t i = 0; i < 1000; i++) {
        event = (pw_event){.time_ns = i * 7919 % 1000, .subject = (uint64_t)i};
        assert(pw_event_queue_push(queue, &event) == PW_OK);
    }
    assert(pw_event_queue_length(queue) == 1000);
    for (int64_t i = 0; i < 1000; i++)
        assert(pw_event_queue_pop(queue, &event) == 1 && event.time_ns == i);
    pw_event_queue_destroy(queue);
    pw_event_queue_destroy(NULL);
    return 0;
}
