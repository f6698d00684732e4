#include "node/waiting_list.h"

#include <stdlib.h>

#define CHUNK_ENTRIES 64

struct pw_waiting_chunk {
    pw_waiting_chunk *next;
    pw_waiting entry[CHUNK_ENTRIES];
};

static int grow(pw_waiting_pool *pool)
{
    pw_waiting_chunk *chunk = malloc(sizeof *chunk);
    if (!chunk) return PW_ERR_NOMEM;
    chunk->next = pool->chunks;
    pool->chunks = chunk;
    for (uint32_t i = 0; i < CHUNK_ENTRIES; i++) {
        chunk->entry[i].next = pool->free_list;
        pool->free_list = &chunk->entry[i];
    }
    return PW_OK;
}

static void append(pw_waiting_list *list, pw_waiting *entry)
{
    entry->next = NULL;
    if (list->last) list->last->next = entry;
    else list->first = entry;
    list->last = entry;
}

static pw_waiting *take(pw_waiting_list *list)
{
    pw_waiting *entry = list->first;
    list->first = entry->next;
    if (!list->first) list->last = NULL;
    return entry;
}

int pw_waiting_append(pw_waiting_pool *pool, pw_waiting_list *list, uint8_t *data,
                      uint32_t num_bytes)
{
    if (!pool->free_list && grow(pool)) return PW_ERR_NOMEM;
    pw_waiting *entry = pool->free_list;
    pool->free_list = entry->next;
    entry->data = data;
    entry->num_bytes = num_bytes;
    append(list, entry);
    return PW_OK;
}

void pw_waiting_move(pw_waiting_list *from, pw_waiting_list *to) { append(to, take(from)); }

uint8_t *pw_waiting_take(pw_waiting_pool *pool, pw_waiting_list *list)
{
    if (!list->first) return NULL;
    pw_waiting *entry = take(list);
    entry->next = pool->free_list;
    pool->free_list = entry;
    return entry->data;
}

void pw_waiting_finish(pw_waiting_pool *pool)
{
    while (pool->chunks) {
        pw_waiting_chunk *chunk = pool->chunks;
        pool->chunks = chunk->next;
        free(chunk);
    }
    pool->free_list = NULL;
}
