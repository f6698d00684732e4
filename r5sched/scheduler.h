/* The R5's scheduler: three circular queues of channels by class; the highest non-empty one first
 * [R5 3.2.2]. Not thread-safe. */
#ifndef PW_R5SCHED_SCHEDULER_H
#define PW_R5SCHED_SCHEDULER_H
#include "native/types.h"

enum pw_class { PW_CLASS_HIGH = 0, PW_CLASS_MEDIUM = 1, PW_CLASS_LOW = 2, PW_NUM_CLASSES };

#define PW_NUM_CHANNELS (PW_CHANNEL_PAGES * PW_CHANNELS_PER_PAGE)

typedef struct {
    bool is_dynamic; /* the class of a transfer that goes back to a queue follows what is left */
    bool is_strict;  /* a transfer that waits for its window keeps lower classes waiting */
    uint16_t *channels[PW_NUM_CLASSES]; /* rings of num_channels: each is in one queue at most */
    uint32_t num_channels;
    uint32_t head[PW_NUM_CLASSES], length[PW_NUM_CLASSES];
    uint32_t num_queued;               /* in all of them */
    uint32_t num_open[PW_NUM_CLASSES]; /* transfers with blocks to issue, in the queue or waiting
                                          for their window */
    uint64_t high_limit_bytes, medium_limit_bytes;
} pw_scheduler;

/* There are so many channels from now on. PW_ERR_NOMEM. */
int pw_scheduler_make_room(pw_scheduler *scheduler, uint32_t num_channels);
void pw_scheduler_destroy(pw_scheduler *scheduler);
/* Of what class a transfer is at first its size says, or the user's hint. */
enum pw_class pw_scheduler_classify(const pw_scheduler *scheduler, uint64_t num_bytes);
void pw_scheduler_enqueue(pw_scheduler *scheduler, enum pw_class queue, uint32_t channel);
/* 1 and the channel at the head of the queue that is served next; 0 when none is. */
int pw_scheduler_dequeue(pw_scheduler *scheduler, uint32_t *channel);
/* Put back where it was taken from (the transaction table is full). */
void pw_scheduler_put_back(pw_scheduler *scheduler, enum pw_class queue, uint32_t channel);
/* Take a channel out of its queue, wherever it is there. */
void pw_scheduler_remove(pw_scheduler *scheduler, enum pw_class queue, uint32_t channel);
#endif
