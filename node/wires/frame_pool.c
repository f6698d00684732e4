#include "node/wires/frame_pool.h"
#include "native/array.h"
#include <stdlib.h>
#include <string.h>

/* Of the pool's own slabs: each has twice as many as the one before. A wire's have all. */
#define FIRST_FRAMES 4u
#define SLAB_FRAMES_MAX 64u
#define ALIGNMENT 64u

static size_t slab_bytes(const pw_frame_pool *pool, uint32_t num_frames)
{
    return (size_t)num_frames * pool->frame_bytes;
}

static bool grow(pw_frame_pool *pool, pw_wire *wire)
{
    if (PW_ARRAY_MAKE_ROOM(pool->slabs, pool->num_slabs, pool->slabs_capacity, 4) < 0) return false;
    uint32_t num_frames = SLAB_FRAMES_MAX;
    uint8_t *first = wire && wire->ops->allocate
                         ? wire->ops->allocate(wire, slab_bytes(pool, num_frames))
                         : NULL;
    bool is_wires = first != NULL;
    if (!is_wires) {
        if (pool->num_slabs < 4) num_frames = FIRST_FRAMES << pool->num_slabs;
        first = aligned_alloc(ALIGNMENT, slab_bytes(pool, num_frames));
    }
    if (!first) return false;
    pool->slabs[pool->num_slabs++] = (pw_frame_slab){first, num_frames, is_wires};
    for (uint32_t i = num_frames; i-- > 0;)
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
        if ((uintptr_t)data - (uintptr_t)pool->slabs[i].first <
            slab_bytes(pool, pool->slabs[i].num_frames))
            return true;
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
