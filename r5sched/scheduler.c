#include "r5sched/scheduler.h"

enum pw_class pw_scheduler_classify(const pw_scheduler *scheduler, uint64_t num_bytes)
{
    if (num_bytes <= scheduler->high_limit_bytes) return PW_CLASS_HIGH;
    return num_bytes <= scheduler->medium_limit_bytes ? PW_CLASS_MEDIUM : PW_CLASS_LOW;
}

void pw_scheduler_enqueue(pw_scheduler *scheduler, enum pw_class queue, uint32_t channel)
{
    uint32_t tail = (scheduler->head[queue] + scheduler->length[queue]++) % PW_NUM_CHANNELS;
    scheduler->channels[queue][tail] = (uint16_t)channel;
    scheduler->num_queued++;
}

/* The highest class that has a transfer queued; strictly none, while a higher one has blocks to
 * issue and waits for its window. */
static enum pw_class next_queue(const pw_scheduler *scheduler)
{
    enum pw_class queue = PW_CLASS_HIGH;
    for (; queue < PW_NUM_CLASSES && !scheduler->length[queue]; queue++)
        if (scheduler->is_strict && scheduler->num_open[queue]) return PW_NUM_CLASSES;
    return queue;
}

int pw_scheduler_dequeue(pw_scheduler *scheduler, uint32_t *channel)
{
    enum pw_class queue = next_queue(scheduler);
    if (queue == PW_NUM_CLASSES) return 0;
    *channel = scheduler->channels[queue][scheduler->head[queue]];
    scheduler->head[queue] = (scheduler->head[queue] + 1) % PW_NUM_CHANNELS;
    scheduler->length[queue]--;
    scheduler->num_queued--;
    return 1;
}

void pw_scheduler_put_back(pw_scheduler *scheduler, enum pw_class queue, uint32_t channel)
{
    scheduler->head[queue] = (scheduler->head[queue] + PW_NUM_CHANNELS - 1) % PW_NUM_CHANNELS;
    scheduler->channels[queue][scheduler->head[queue]] = (uint16_t)channel;
    scheduler->length[queue]++;
    scheduler->num_queued++;
}

void pw_scheduler_remove(pw_scheduler *scheduler, enum pw_class queue, uint32_t channel)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < scheduler->length[queue]; i++) {
        uint16_t other = scheduler->channels[queue][(scheduler->head[queue] + i) % PW_NUM_CHANNELS];
        if (other != channel)
            scheduler->channels[queue][(scheduler->head[queue] + kept++) % PW_NUM_CHANNELS] = other;
    }
    scheduler->num_queued -= scheduler->length[queue] - kept;
    scheduler->length[queue] = kept;
}
