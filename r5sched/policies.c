/* The built-in scheduling policies [R5 3.2.2, 4]: two ways to class a transfer that goes back to a
 * queue, two to choose the queue that is served. A new one is a function here and a place in the
 * table. */
#include "r5sched/scheduler.h"

/* A transfer stays in the class that it had at first. */
static enum pw_class stay(const pw_scheduler *scheduler, enum pw_class queue, uint64_t rest_bytes)
{
    (void)scheduler, (void)rest_bytes;
    return queue;
}

/* What is left of a transfer is classed like a new one of that size. */
static enum pw_class follow_rest(const pw_scheduler *scheduler, enum pw_class queue,
                                 uint64_t rest_bytes)
{
    (void)queue;
    return pw_scheduler_classify(scheduler, rest_bytes);
}

/* The highest class that has a transfer queued. */
static enum pw_class serve_queued(const pw_scheduler *scheduler)
{
    enum pw_class queue = PW_CLASS_HIGH;
    while (queue < PW_NUM_CLASSES && !scheduler->length[queue]) queue++;
    return queue;
}

/* The highest class that has a transfer with blocks to issue; none while that waits for its window.
 */
static enum pw_class serve_open(const pw_scheduler *scheduler)
{
    enum pw_class queue = PW_CLASS_HIGH;
    for (; queue < PW_NUM_CLASSES && !scheduler->length[queue]; queue++)
        if (scheduler->num_open[queue]) return PW_NUM_CLASSES;
    return queue;
}

/* By is_dynamic and is_strict. */
static const pw_scheduling_policy policies[2][2] = {
    {{stay, serve_queued}, {stay, serve_open}},
    {{follow_rest, serve_queued}, {follow_rest, serve_open}},
};

const pw_scheduling_policy *pw_scheduling_policy_of(bool is_dynamic, bool is_strict)
{
    return &policies[is_dynamic][is_strict];
}
