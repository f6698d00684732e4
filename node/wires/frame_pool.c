#include "node/wires/frame_pool.h"
#include "native/array.h"
#include <stdlib.h>
#include <string.h>

#define SLAB_FRAMES 64u
#define ALIGNMENT 64u

static size_t slab_bytes(const pw_frame_pool *pool)
{
    return (size_t)SLAB_FRAMES * pool->frame_bytes;
}

static bool grow(pw_frame_pool *pool, pw_wire *wire)
{
    if (PW_ARRAY_MAKE_ROOM(pool->slabs, pool->num_slabs, pool->slabs_capacity, 4) < 0) return false;
    uint8_t *first =
        wire && wire->ops->allocate ? wire->ops->allocate(wire, slab_bytes(pool)) : NULL;
    bool is_wires = first != NULL;
    if (!first) first = aligned_alloc(ALIGNMENT, slab_bytes(pool));
    if (!first) return false;
    pool->slabs[pool->num_slabs++] = (pw_frame_slab){first, is_wires};
    for (uint32_t i = SLAB_FRAMES; i-- > 0;)
        pw_frame_give(pool, first + (size_t)i * pool->frame_bytes);
    return true;
}

uint8_t *pw_frame_take(pw_frame_pool *pool, pw_wire *wire)
{
    if (!pool->free_list && !grow(pool, wire)) return NULL;
    uint8_t *frame = pool->free_list;
    memcpy(&pool->free_list, frame, sizeof pool->free_list);
    return frame;
}

bool pw_frame_is_own(const pw_frame_pool *pool, const uint8_t *data)
{
    for (uint32_t i = 0; i < pool->num_slabs; i++)
        if ((uintptr_t)data - (uintptr_t)pool->slabs[i].first < slab_bytes(pool)) return true;
    return false;
}

void pw_frame_give(pw_frame_pool *pool, uint8_t *frame)
{
    memcpy(frame, &pool->free_list, sizeof pool->free_list);
    pool->free_list = frame;
}

void pw_frame_pool_finish(pw_frame_pool *pool)
{
    for (uint32_t i = 0; i < pool->num_slabs; i++)
        if (!pool->slabs[i].is_wires) free(pool->slabs[i].first);
    free(pool->slabs);
    *pool = (pw_frame_pool){0};
}
