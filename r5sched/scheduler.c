#include "r5sched/scheduler.h"
#include <stdlib.h>

int pw_scheduler_make_room(pw_scheduler *scheduler, uint32_t num_channels)
{
    if (num_channels <= scheduler->num_channels) return PW_OK;
    uint16_t *rings = calloc((size_t)PW_NUM_CLASSES * num_channels, sizeof *rings);
    if (!rings) return PW_ERR_NOMEM;
    uint16_t *before = scheduler->channels[0];
    for (int queue = 0; queue < PW_NUM_CLASSES; queue++) {
        uint16_t *ring = rings + (size_t)queue * num_channels;
        for (uint32_t i = 0; i < scheduler->length[queue]; i++)
            ring[i] =
                scheduler->channels[queue][(scheduler->head[queue] + i) % scheduler->num_channels];
        scheduler->channels[queue] = ring;
        scheduler->head[queue] = 0;
    }
    scheduler->num_channels = num_channels;
    free(before);
    return PW_OK;
}

void pw_scheduler_destroy(pw_scheduler *scheduler)
{
    free(scheduler->channels[0]); /* of which the others are parts */
    scheduler->channels[0] = NULL;
}

enum pw_class pw_scheduler_classify(const pw_scheduler *scheduler, uint64_t num_bytes)
{
    if (num_bytes <= scheduler->high_limit_bytes) return PW_CLASS_HIGH;
    return num_bytes <= scheduler->medium_limit_bytes ? PW_CLASS_MEDIUM : PW_CLASS_LOW;
}

void pw_scheduler_enqueue(pw_scheduler *scheduler, enum pw_class queue, uint32_t channel)
{
    uint32_t tail = (scheduler->head[queue] + scheduler->length[queue]++) % scheduler->num_channels;
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
    scheduler->head[queue] = (scheduler->head[queue] + 1) % scheduler->num_channels;
    scheduler->length[queue]--;
    scheduler->num_queued--;
    return 1;
}

void pw_scheduler_put_back(pw_scheduler *scheduler, enum pw_class queue, uint32_t channel)
{
    scheduler->head[queue] =
        (scheduler->head[queue] + scheduler->num_channels - 1) % scheduler->num_channels;
    scheduler->channels[queue][scheduler->head[queue]] = (uint16_t)channel;
    scheduler->length[queue]++;
    scheduler->num_queued++;
}

void pw_scheduler_remove(pw_scheduler *scheduler, enum pw_class queue, uint32_t channel)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < scheduler->length[queue]; i++) {
        uint16_t other =
            scheduler->channels[queue][(scheduler->head[queue] + i) % scheduler->num_channels];
        if (other != channel)
            scheduler
                ->channels[queue][(scheduler->head[queue] + kept++) % scheduler->num_channels] =
                other;
    }
    scheduler->num_queued -= scheduler->length[queue] - kept;
    scheduler->length[queue] = kept;
}
