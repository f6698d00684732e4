/* Items that come and go: lists and queues of them, and pools that they are from. An item
 * begins with its pw_link, and is at most in one. One thread at a time. */
#ifndef PW_NATIVE_POOL_H
#define PW_NATIVE_POOL_H
#include "native/types.h"
#include <stdlib.h>

typedef struct pw_link {
    struct pw_link *next;
} pw_link;

/* A list, empty with NULL: who came last leaves first. */
static inline void pw_link_push(pw_link **list, void *item)
{
    ((pw_link *)item)->next = *list;
    *list = item;
}

/* NULL when there is none. */
static inline void *pw_link_pop(pw_link **list)
{
    pw_link *item = *list;
    if (item) *list = item->next;
    return item;
}

/* Who came first leaves first. Zero: empty. */
typedef struct {
    void *first, *last;
} pw_queue;

static inline void pw_queue_append(pw_queue *queue, void *item)
{
    ((pw_link *)item)->next = NULL;
    if (queue->first) ((pw_link *)queue->last)->next = item;
    else queue->first = item;
    queue->last = item;
}

/* The first item, NULL when there is none. */
static inline void *pw_queue_take(pw_queue *queue)
{
    pw_link *item = queue->first;
    if (!item) return NULL;
    queue->first = item->next;
    if (!item->next) queue->last = NULL;
    return item;
}

/* Allocates only when more items are out than ever before. Zero: empty. */
typedef struct {
    pw_link *free_list, *chunks;
} pw_pool;

static inline void pw_pool_give(pw_pool *pool, void *item) { pw_link_push(&pool->free_list, item); }

#define PW_POOL_CHUNK_FIRST 4 /* items; each further chunk has twice as many, up to _MAX */
#define PW_POOL_CHUNK_MAX 16

/* Stands before its items. */
typedef struct {
    pw_link link;
    uint32_t num_items;
} pw_pool_chunk;
_Static_assert(sizeof(pw_pool_chunk) <= sizeof(max_align_t), "items are aligned");

/* The idx-th item of a chunk, given back, out or never taken: zero then, but for its link. */
static inline void *pw_pool_item(pw_pool_chunk *chunk, size_t idx, size_t item_bytes)
{
    return (uint8_t *)chunk + sizeof(max_align_t) + idx * item_bytes;
}

/* An item, whatever stands in it; NULL: no memory. item_bytes: the same each time. */
static inline void *pw_pool_take(pw_pool *pool, size_t item_bytes)
{
    if (!pool->free_list) {
        const pw_pool_chunk *before = (const pw_pool_chunk *)pool->chunks;
        uint32_t num_items = before ? 2 * before->num_items : PW_POOL_CHUNK_FIRST;
        if (num_items > PW_POOL_CHUNK_MAX) num_items = PW_POOL_CHUNK_MAX;
        pw_pool_chunk *chunk = calloc(1, sizeof(max_align_t) + num_items * item_bytes);
        if (!chunk) return NULL;
        chunk->num_items = num_items;
        pw_link_push(&pool->chunks, chunk);
        for (size_t i = num_items; i-- > 0;) pw_pool_give(pool, pw_pool_item(chunk, i, item_bytes));
    }
    return pw_link_pop(&pool->free_list);
}

/* All items end, given back or not. */
static inline void pw_pool_finish(pw_pool *pool)
{
    for (void *chunk; (chunk = pw_link_pop(&pool->chunks));) free(chunk);
    pool->free_list = NULL;
}
#endif
