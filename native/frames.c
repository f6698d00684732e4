/* Seals of frames, and the buffers that frames leave in. */
#include "native/frames.h"
#include "native/crc32c.h"
#include "native/pool.h"
#include <stdlib.h>
#include <string.h>

void pw_frame_seal(pw_frame_header *header, uint32_t covered_bytes)
{
    header->crc = 0;
    header->crc = pw_crc32c(0, header, covered_bytes);
}

bool pw_frame_is_sound(const pw_frame_header *header, uint32_t covered_bytes)
{
    pw_frame_header copy = *header;
    copy.crc = 0;
    uint32_t crc = pw_crc32c(0, &copy, sizeof copy);
    return pw_crc32c(crc, header + 1, covered_bytes - sizeof copy) == header->crc;
}

#define CHUNK_BUFFERS 4
_Static_assert(PW_BURST_BYTES % 64 == 0, "the buffers of a chunk are all aligned");

typedef struct {
    pw_link link;
    uint32_t peer, num_bytes, full_bytes;
    uint8_t *data;
} pw_buffer;

/* Buffers that were made together; all of them end with the pool. */
typedef struct {
    pw_link link;
    uint8_t *own; /* the pool's own memory for their data, NULL: the host's */
    pw_buffer buffers[CHUNK_BUFFERS];
} pw_chunk;

struct pw_burst_pool {
    uint32_t num_peers;
    pw_buffer **open; /* by peer */
    pw_link *free_list;
    pw_queue ready;
    pw_link *lent;   /* handed to the host */
    uint32_t *dirty; /* peers with an open buffer, in the order they were opened */
    uint32_t num_dirty;
    pw_link *chunks;
    pw_burst_allocate allocate;
    void *context;
};

int pw_burst_pool_create(uint32_t num_peers, pw_burst_pool **out)
{
    pw_burst_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return PW_ERR_NOMEM;
    pool->num_peers = num_peers;
    pool->open = calloc(num_peers, sizeof *pool->open);
    pool->dirty = calloc(num_peers, sizeof *pool->dirty);
    if (!pool->open || !pool->dirty) {
        pw_burst_pool_destroy(pool);
        return PW_ERR_NOMEM;
    }
    *out = pool;
    return PW_OK;
}

void pw_burst_pool_set_memory(pw_burst_pool *pool, pw_burst_allocate allocate, void *context)
{
    pool->allocate = allocate;
    pool->context = context;
}

void pw_burst_pool_destroy(pw_burst_pool *pool)
{
    if (!pool) return;
    for (pw_chunk *chunk; (chunk = pw_link_pop(&pool->chunks));) {
        free(chunk->own);
        free(chunk);
    }
    free(pool->open);
    free(pool->dirty);
    free(pool);
}

static bool grow(pw_burst_pool *pool)
{
    const size_t num_bytes = CHUNK_BUFFERS * (size_t)PW_BURST_BYTES;
    pw_chunk *chunk = calloc(1, sizeof *chunk);
    if (!chunk) return false;
    uint8_t *data = pool->allocate ? pool->allocate(pool->context, num_bytes) : NULL;
    if (!data && !(data = chunk->own = aligned_alloc(64, num_bytes))) {
        free(chunk);
        return false;
    }
    pw_link_push(&pool->chunks, chunk);
    for (int i = CHUNK_BUFFERS; i-- > 0;) {
        chunk->buffers[i].data = data + (size_t)i * PW_BURST_BYTES;
        pw_link_push(&pool->free_list, &chunk->buffers[i]);
    }
    return true;
}

static void make_ready(pw_burst_pool *pool, uint32_t peer)
{
    pw_queue_append(&pool->ready, pool->open[peer]);
    pool->open[peer] = NULL;
}

static void forget_dirty(pw_burst_pool *pool, uint32_t peer)
{
    uint32_t i = 0;
    while (pool->dirty[i] != peer) i++;
    pool->num_dirty--;
    memmove(&pool->dirty[i], &pool->dirty[i + 1], (pool->num_dirty - i) * sizeof *pool->dirty);
}

void pw_burst_reserve(pw_burst_pool *pool, uint32_t peer, uint32_t num_bytes)
{
    const pw_buffer *buffer = pool->open[peer];
    if (!buffer || buffer->full_bytes + num_bytes <= PW_BURST_BYTES) return;
    make_ready(pool, peer);
    forget_dirty(pool, peer);
}

void *pw_burst_append(pw_burst_pool *pool, uint32_t peer, uint32_t num_bytes)
{
    return pw_burst_append_part(pool, peer, num_bytes, num_bytes);
}

void *pw_burst_append_part(pw_burst_pool *pool, uint32_t peer, uint32_t num_bytes,
                           uint32_t full_bytes)
{
    pw_burst_reserve(pool, peer, full_bytes);
    pw_buffer *buffer = pool->open[peer];
    if (!buffer) {
        if (!pool->free_list && !grow(pool)) return NULL;
        buffer = pw_link_pop(&pool->free_list);
        buffer->peer = peer;
        buffer->num_bytes = buffer->full_bytes = 0;
        pool->open[peer] = buffer;
        pool->dirty[pool->num_dirty++] = peer;
    }
    void *frame = buffer->data + buffer->num_bytes;
    buffer->num_bytes += num_bytes;
    buffer->full_bytes += full_bytes;
    return frame;
}

void pw_burst_take_back(pw_burst_pool *pool, uint32_t peer, uint32_t num_bytes)
{
    pw_buffer *buffer = pool->open[peer];
    buffer->num_bytes -= num_bytes;
    buffer->full_bytes -= num_bytes;
    if (buffer->num_bytes) return;
    pool->open[peer] = NULL;
    forget_dirty(pool, peer);
    pw_link_push(&pool->free_list, buffer);
}

int pw_burst_take(pw_burst_pool *pool, pw_burst *out)
{
    if (!pool->ready.first) {
        if (!pool->num_dirty) return 0;
        for (uint32_t i = 0; i < pool->num_dirty; i++) make_ready(pool, pool->dirty[i]);
        pool->num_dirty = 0;
    }
    pw_buffer *buffer = pw_queue_take(&pool->ready);
    pw_link_push(&pool->lent, buffer);
    out->peer = buffer->peer;
    out->num_bytes = buffer->num_bytes;
    out->full_bytes = buffer->full_bytes;
    out->data = buffer->data;
    return 1;
}

bool pw_burst_is_full(const pw_burst_pool *pool) { return pool->ready.first != NULL; }

bool pw_burst_waits(const pw_burst_pool *pool, uint32_t peer)
{
    return pw_burst_is_full(pool) || pool->open[peer];
}

void pw_burst_release(pw_burst_pool *pool, uint8_t *data)
{
    for (pw_link **link = &pool->lent; *link; link = &(*link)->next)
        if (((pw_buffer *)*link)->data == data) {
            pw_link_push(&pool->free_list, pw_link_pop(link));
            return;
        }
}

uint32_t pw_burst_pool_num_buffers(const pw_burst_pool *pool)
{
    uint32_t num_buffers = 0;
    for (const pw_link *chunk = pool->chunks; chunk; chunk = chunk->next)
        num_buffers += CHUNK_BUFFERS;
    return num_buffers;
}
