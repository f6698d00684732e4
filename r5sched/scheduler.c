#include "r5sched/scheduler.h"

void pw_scheduler_init(pw_scheduler *scheduler, uint64_t high_limit_bytes,
                       uint64_t medium_limit_bytes, const pw_scheduling_policy *policy)
{
    *scheduler = (pw_scheduler){.policy = policy,
                                .high_limit_bytes = high_limit_bytes,
                                .medium_limit_bytes = medium_limit_bytes};
}

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

int pw_scheduler_dequeue(pw_scheduler *scheduler, uint32_t *channel)
{
    enum pw_class queue = scheduler->policy->next(scheduler);
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
