/* Seals of frames, and the buffers that frames leave in. */
#include "native/frames.h"
#include "native/crc32c.h"
#include "native/peers.h"
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

/* What is kept of a peer. */
typedef struct {
    pw_peer peer;
    struct pw_buffer *open; /* that its next frame goes to; NULL: none yet */
} pw_burst_peer;

typedef struct pw_buffer {
    pw_link link;
    pw_burst_peer *receiver;
    uint32_t num_bytes, full_bytes, capacity;
    uint8_t *data;
    struct pw_buffer *opened_before, *opened_behind; /* while it is open */
} pw_buffer;

/* Buffers that were made together; all of them end with the pool. */
typedef struct {
    pw_link link;
    uint8_t *own; /* the pool's own memory for their data, NULL: the host's */
    pw_buffer buffers[CHUNK_BUFFERS];
} pw_chunk;

struct pw_burst_pool {
    pw_peers peers; /* of pw_burst_peer */
    pw_link *free_list;
    pw_queue ready;
    pw_link *lent;                         /* handed to the host */
    pw_buffer *opened_first, *opened_last; /* open ones, in the order in which they were opened */
    pw_link *chunks;
    bool is_part; /* see pw_burst_pool_set_part */
    pw_burst_allocate allocate;
    void *context;
};

int pw_burst_pool_create(pw_burst_pool **out)
{
    *out = calloc(1, sizeof **out);
    return *out ? PW_OK : PW_ERR_NOMEM;
}

void pw_burst_pool_set_memory(pw_burst_pool *pool, pw_burst_allocate allocate, void *context)
{
    pool->allocate = allocate;
    pool->context = context;
}

void pw_burst_pool_set_part(pw_burst_pool *pool) { pool->is_part = true; }

void pw_burst_pool_destroy(pw_burst_pool *pool)
{
    if (!pool) return;
    for (pw_chunk *chunk; (chunk = pw_link_pop(&pool->chunks));) {
        for (int i = 0; pool->is_part && i < CHUNK_BUFFERS; i++) free(chunk->buffers[i].data);
        free(chunk->own);
        free(chunk);
    }
    pw_peers_clear(&pool->peers);
    free(pool);
}

static bool grow(pw_burst_pool *pool)
{
    const size_t num_bytes = CHUNK_BUFFERS * (size_t)PW_BURST_BYTES;
    pw_chunk *chunk = calloc(1, sizeof *chunk);
    if (!chunk) return false;
    uint8_t *data = NULL;
    if (pool->allocate && !pool->is_part) data = pool->allocate(pool->context, num_bytes);
    if (!data && !pool->is_part && !(data = chunk->own = aligned_alloc(64, num_bytes))) {
        free(chunk);
        return false;
    }
    pw_link_push(&pool->chunks, chunk);
    for (int i = CHUNK_BUFFERS; i-- > 0;) {
        if (data) chunk->buffers[i].data = data + (size_t)i * PW_BURST_BYTES;
        if (data) chunk->buffers[i].capacity = PW_BURST_BYTES;
        pw_link_push(&pool->free_list, &chunk->buffers[i]);
    }
    return true;
}

#define PART_BYTES 320u /* a buffer's at first, and what is reserved: two blocks' frames fit in */

/* Of a pool of parts: is there room for num_bytes more, or can it be made? */
static bool has_room(pw_buffer *buffer, uint32_t num_bytes)
{
    const uint32_t wanted = buffer->num_bytes + num_bytes;
    uint32_t capacity = buffer->capacity ? buffer->capacity : PART_BYTES;
    if (wanted <= buffer->capacity) return true;
    while (capacity < wanted) capacity *= 2;
    uint8_t *data = realloc(buffer->data, capacity);
    if (!data) return false;
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

static pw_buffer *open_of(const pw_burst_pool *pool, uint32_t peer)
{
    const pw_burst_peer *known = pw_peers_find(&pool->peers, peer);
    return known ? known->open : NULL;
}

static bool open_buffer(pw_burst_pool *pool, uint32_t peer)
{
    pw_burst_peer *known = pw_peers_find(&pool->peers, peer);
    if (!known) known = pw_peers_make(&pool->peers, peer, sizeof *known);
    if (!known || (!pool->free_list && !grow(pool))) return false;
    pw_buffer *buffer = known->open = pw_link_pop(&pool->free_list);
    buffer->receiver = known;
    buffer->num_bytes = buffer->full_bytes = 0;
    buffer->opened_behind = NULL;
    buffer->opened_before = pool->opened_last;
    if (pool->opened_last) pool->opened_last->opened_behind = buffer;
    else pool->opened_first = buffer;
    pool->opened_last = buffer;
    return true;
}

/* No further frame goes to it. */
static void close_buffer(pw_burst_pool *pool, pw_buffer *buffer)
{
    buffer->receiver->open = NULL;
    if (buffer->opened_before) buffer->opened_before->opened_behind = buffer->opened_behind;
    else pool->opened_first = buffer->opened_behind;
    if (buffer->opened_behind) buffer->opened_behind->opened_before = buffer->opened_before;
    else pool->opened_last = buffer->opened_before;
}

/* The open burst is full for so many bytes: it is ready. */
static void make_way(pw_burst_pool *pool, uint32_t peer, uint32_t full_bytes)
{
    pw_buffer *buffer = open_of(pool, peer);
    if (!buffer || buffer->full_bytes + full_bytes <= PW_BURST_BYTES) return;
    close_buffer(pool, buffer);
    pw_queue_append(&pool->ready, buffer);
}

void pw_burst_reserve(pw_burst_pool *pool, uint32_t peer, uint32_t num_bytes)
{
    make_way(pool, peer, num_bytes);
    pw_buffer *buffer = open_of(pool, peer);
    if (buffer && pool->is_part)
        (void)has_room(buffer, PART_BYTES); /* without, a frame will tell */
}

void *pw_burst_append(pw_burst_pool *pool, uint32_t peer, uint32_t num_bytes)
{
    return pw_burst_append_part(pool, peer, num_bytes, num_bytes);
}

void *pw_burst_append_part(pw_burst_pool *pool, uint32_t peer, uint32_t num_bytes,
                           uint32_t full_bytes)
{
    make_way(pool, peer, full_bytes);
    pw_buffer *buffer = open_of(pool, peer);
    if (!buffer && !open_buffer(pool, peer)) return NULL;
    if (!buffer) buffer = pool->opened_last;
    if (pool->is_part && !has_room(buffer, num_bytes)) return NULL;
    void *frame = buffer->data + buffer->num_bytes;
    buffer->num_bytes += num_bytes;
    buffer->full_bytes += full_bytes;
    return frame;
}

void pw_burst_take_back(pw_burst_pool *pool, uint32_t peer, uint32_t num_bytes)
{
    pw_buffer *buffer = open_of(pool, peer);
    buffer->num_bytes -= num_bytes;
    buffer->full_bytes -= num_bytes;
    if (buffer->num_bytes) return;
    close_buffer(pool, buffer);
    pw_link_push(&pool->free_list, buffer);
}

int pw_burst_take(pw_burst_pool *pool, pw_burst *out)
{
    if (!pool->ready.first && !pool->opened_first) return 0;
    if (!pool->ready.first)
        for (pw_buffer *each; (each = pool->opened_first);) {
            close_buffer(pool, each);
            pw_queue_append(&pool->ready, each);
        }
    pw_buffer *buffer = pw_queue_take(&pool->ready);
    pw_link_push(&pool->lent, buffer);
    out->peer = buffer->receiver->peer.peer;
    out->num_bytes = buffer->num_bytes;
    out->full_bytes = buffer->full_bytes;
    out->data = buffer->data;
    return 1;
}

bool pw_burst_is_full(const pw_burst_pool *pool) { return pool->ready.first != NULL; }

bool pw_burst_waits(const pw_burst_pool *pool, uint32_t peer)
{
    return pw_burst_is_full(pool) || open_of(pool, peer);
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
