#include "native/parts.h"

#define CHUNK_BYTES 16384u /* or one part */

static uint32_t idx_of(size_t size)
{
    return (uint32_t)__builtin_ctzll(size) - PW_PARTS_SMALLEST_BITS;
}

static bool grow(pw_parts *parts, size_t size)
{
    const size_t num_parts = size < CHUNK_BYTES ? CHUNK_BYTES / size : 1;
    uint8_t *chunk = malloc(sizeof(max_align_t) + num_parts * size);
    if (!chunk) return false;
    pw_link_push(&parts->chunks, chunk);
    for (size_t i = num_parts; i-- > 0;)
        pw_parts_give(parts, chunk + sizeof(max_align_t) + i * size, size);
    parts->num_parts += (uint32_t)num_parts;
    return true;
}

void *pw_parts_take(pw_parts *parts, size_t size)
{
    if (idx_of(size) >= PW_PARTS_SIZES) return NULL;
    pw_link **list = &parts->free_lists[idx_of(size)];
    if (!*list && !grow(parts, size)) return NULL;
    return pw_link_pop(list);
}

void pw_parts_give(pw_parts *parts, void *part, size_t size)
{
    pw_link_push(&parts->free_lists[idx_of(size)], part);
}

void pw_parts_finish(pw_parts *parts)
{
    for (void *chunk; (chunk = pw_link_pop(&parts->chunks));) free(chunk);
    *parts = (pw_parts){.chunks = NULL};
}
