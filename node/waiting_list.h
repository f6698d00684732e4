/* Bursts in order that a wire could not send yet, or whose buffers the node has not taken back yet:
 * queues of entries out of one pool. */
#ifndef PW_NODE_WAITING_LIST_H
#define PW_NODE_WAITING_LIST_H
#include "native/pool.h"

typedef struct {
    pw_link link;
    uint8_t *data;
    uint32_t num_bytes;
} pw_waiting;

typedef pw_queue pw_waiting_list;
typedef pw_pool pw_waiting_pool;

/* PW_ERR_NOMEM. */
static inline int pw_waiting_append(pw_pool *pool, pw_queue *list, uint8_t *data,
                                    uint32_t num_bytes)
{
    pw_waiting *entry = pw_pool_take(pool, sizeof *entry);
    if (!entry) return PW_ERR_NOMEM;
    entry->data = data;
    entry->num_bytes = num_bytes;
    pw_queue_append(list, entry);
    return PW_OK;
}

/* The first entry of a list, which is not empty, goes to the end of the other one. */
static inline void pw_waiting_move(pw_queue *from, pw_queue *to)
{
    pw_queue_append(to, pw_queue_take(from));
}

/* Drop the first entry, NULL when there is none; its buffer. */
static inline uint8_t *pw_waiting_take(pw_pool *pool, pw_queue *list)
{
    pw_waiting *entry = pw_queue_take(list);
    if (entry) pw_pool_give(pool, entry);
    return entry ? entry->data : NULL;
}
#endif
