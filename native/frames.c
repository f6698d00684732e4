/* Seals of frames, and the buffers that frames leave in. */
#include "native/frames.h"
#include "native/crc32c.h"
#include "native/parts.h"
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
    uint32_t num_filled;    /* bursts that were full, since all was sent and none was */
    bool has_filled;        /* one, since all was sent */
} pw_burst_peer;

/* In a pool of parts it stands before its data, and both are a part. */
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
    pw_burst_peer *latest;                 /* that a frame was appended for; NULL: none was */
    pw_link *lent;                         /* handed to the host */
    pw_buffer *opened_first, *opened_last; /* open ones, in the order in which they were opened */
    pw_link *chunks;
    pw_parts *parts; /* NULL: see pw_burst_pool_set_parts */
    pw_parts own_parts;
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

void pw_burst_pool_set_parts(pw_burst_pool *pool, pw_parts *shared)
{
    pool->parts = shared ? shared : &pool->own_parts;
}

void pw_burst_pool_destroy(pw_burst_pool *pool)
{
    if (!pool) return;
    for (pw_chunk *chunk; (chunk = pw_link_pop(&pool->chunks));) {
        free(chunk->own);
        free(chunk);
    }
    pw_parts_finish(&pool->own_parts);
    pw_peers_clear(&pool->peers);
    free(pool);
}

static bool grow(pw_burst_pool *pool)
{
    const size_t num_bytes = CHUNK_BUFFERS * (size_t)PW_BURST_BYTES;
    pw_chunk *chunk = calloc(1, sizeof *chunk);
    if (!chunk) return false;
    uint8_t *data = NULL;
    if (pool->allocate) data = pool->allocate(pool->context, num_bytes);
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

#define RESERVED_BYTES 320u /* of parts: two blocks' frames fit in */

/* With room for so many bytes; NULL: no memory. */
static pw_buffer *take_part(pw_burst_pool *pool, uint32_t num_bytes)
{
    const size_t size = pw_parts_size(sizeof(pw_buffer) + num_bytes);
    pw_buffer *buffer = pw_parts_take(pool->parts, size);
    if (!buffer) return NULL;
    buffer->data = (uint8_t *)(buffer + 1);
    buffer->capacity = (uint32_t)(size - sizeof *buffer);
    return buffer;
}

static void give_part(pw_burst_pool *pool, pw_buffer *buffer)
{
    pw_parts_give(pool->parts, buffer, sizeof *buffer + buffer->capacity);
}

/* The open buffer, of parts, with room for num_bytes more: itself, or a longer one in its place.
 * NULL: no memory. */
static pw_buffer *make_room(pw_burst_pool *pool, pw_buffer *buffer, uint32_t num_bytes)
{
    const uint32_t wanted = buffer->num_bytes + num_bytes;
    if (wanted <= buffer->capacity) return buffer;
    pw_buffer *longer = take_part(pool, wanted);
    if (!longer) return NULL;
    memcpy(longer->data, buffer->data, buffer->num_bytes);
    longer->receiver = buffer->receiver;
    longer->receiver->open = longer;
    longer->num_bytes = buffer->num_bytes;
    longer->full_bytes = buffer->full_bytes;
    longer->opened_before = buffer->opened_before;
    longer->opened_behind = buffer->opened_behind;
    if (longer->opened_before) longer->opened_before->opened_behind = longer;
    else pool->opened_first = longer;
    if (longer->opened_behind) longer->opened_behind->opened_before = longer;
    else pool->opened_last = longer;
    give_part(pool, buffer);
    return longer;
}

static pw_buffer *open_of(const pw_burst_pool *pool, uint32_t peer)
{
    const pw_burst_peer *known = pw_peers_find(&pool->peers, peer);
    return known ? known->open : NULL;
}

/* For a frame of num_bytes. */
static pw_buffer *take_buffer(pw_burst_pool *pool, uint32_t num_bytes)
{
    if (pool->parts) return take_part(pool, num_bytes);
    return pool->free_list || grow(pool) ? pw_link_pop(&pool->free_list) : NULL;
}

/* An empty one for the peer; NULL: no memory. */
static pw_buffer *make_buffer(pw_burst_pool *pool, uint32_t peer, uint32_t num_bytes)
{
    pw_burst_peer *known = pw_peers_find(&pool->peers, peer);
    if (!known) known = pw_peers_make(&pool->peers, peer, sizeof *known);
    pw_buffer *buffer = known ? take_buffer(pool, num_bytes) : NULL;
    if (!buffer) return NULL;
    buffer->receiver = known;
    buffer->num_bytes = buffer->full_bytes = 0;
    return buffer;
}

static bool open_buffer(pw_burst_pool *pool, uint32_t peer, uint32_t num_bytes)
{
    pw_buffer *buffer = make_buffer(pool, peer, num_bytes);
    if (!buffer) return false;
    buffer->receiver->open = buffer;
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

/* A peer that has had nothing for a while gets two blocks first, which may be a pair, then four,
 * and so on: it copies them while the next ones are still copied here. */
static uint32_t full_at(const pw_burst_peer *peer)
{
    const uint64_t bytes = UINT64_C(2) * PW_BLOCK_FRAME_MAX
                           << (peer->num_filled < 2 ? peer->num_filled : 2);
    return bytes < PW_BURST_BYTES ? (uint32_t)bytes : PW_BURST_BYTES;
}

/* Where the open burst, NULL: none, is full for so many bytes, it is ready. */
static void close_full(pw_burst_pool *pool, pw_buffer *buffer, uint32_t full_bytes)
{
    if (!buffer || buffer->full_bytes + full_bytes <= full_at(buffer->receiver)) return;
    close_buffer(pool, buffer);
    buffer->receiver->num_filled++;
    buffer->receiver->has_filled = true;
    pw_queue_append(&pool->ready, buffer);
}

static void make_way(pw_burst_pool *pool, uint32_t peer, uint32_t full_bytes)
{
    close_full(pool, open_of(pool, peer), full_bytes);
}

void pw_burst_reserve(pw_burst_pool *pool, uint32_t peer, uint32_t num_bytes)
{
    make_way(pool, peer, num_bytes);
    pw_buffer *buffer = open_of(pool, peer);
    if (buffer && pool->parts) /* without memory a frame will tell; the first one has that room */
        (void)make_room(pool, buffer, RESERVED_BYTES);
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
    const uint32_t first_bytes = full_bytes > num_bytes ? RESERVED_BYTES : num_bytes;
    if (!buffer && !open_buffer(pool, peer, first_bytes)) return NULL;
    if (!buffer) buffer = pool->opened_last;
    if (pool->parts && !(buffer = make_room(pool, buffer, num_bytes))) return NULL;
    void *frame = buffer->data + buffer->num_bytes;
    buffer->num_bytes += num_bytes;
    buffer->full_bytes += full_bytes;
    pool->latest = buffer->receiver;
    return frame;
}

const void *pw_burst_only(const pw_burst_pool *pool, uint32_t peer, uint32_t num_bytes)
{
    const pw_buffer *buffer = open_of(pool, peer);
    return buffer && buffer->num_bytes == num_bytes && !pool->ready.first ? buffer->data : NULL;
}

void pw_burst_take_back(pw_burst_pool *pool, uint32_t peer, uint32_t num_bytes)
{
    pw_buffer *buffer = open_of(pool, peer);
    buffer->num_bytes -= num_bytes;
    buffer->full_bytes -= num_bytes;
    if (buffer->num_bytes) return;
    close_buffer(pool, buffer);
    if (pool->parts) give_part(pool, buffer);
    else pw_link_push(&pool->free_list, buffer);
}

static void describe(const pw_buffer *buffer, pw_burst *out)
{
    *out = (pw_burst){.peer = buffer->receiver->peer.peer,
                      .num_bytes = buffer->num_bytes,
                      .data = buffer->data,
                      .full_bytes = buffer->full_bytes};
}

void *pw_burst_alone(pw_burst_pool *pool, uint32_t peer, uint32_t num_bytes, uint32_t full_bytes)
{
    pw_buffer *buffer = make_buffer(pool, peer, num_bytes);
    if (!buffer) return NULL;
    buffer->num_bytes = num_bytes;
    buffer->full_bytes = full_bytes;
    if (!pool->parts) pw_link_push(&pool->lent, buffer);
    return buffer->data;
}

void pw_burst_of_alone(const pw_burst_pool *pool, const uint8_t *data, pw_burst *out)
{
    const pw_buffer *buffer = (const pw_buffer *)(const void *)data - 1;
    if (!pool->parts) buffer = (const pw_buffer *)pool->lent;
    while (buffer->data != data) buffer = (const pw_buffer *)buffer->link.next;
    describe(buffer, out);
}

int pw_burst_take(pw_burst_pool *pool, pw_burst *out)
{
    if (!pool->ready.first && !pool->opened_first) return 0;
    if (!pool->ready.first)
        for (pw_buffer *each; (each = pool->opened_first);) {
            close_buffer(pool, each);
            if (!each->receiver->has_filled) each->receiver->num_filled = 0;
            each->receiver->has_filled = false;
            pw_queue_append(&pool->ready, each);
        }
    pw_buffer *buffer = pw_queue_take(&pool->ready);
    if (!pool->parts) pw_link_push(&pool->lent, buffer);
    describe(buffer, out);
    return 1;
}

bool pw_burst_close_full(pw_burst_pool *pool)
{
    if (pool->latest) close_full(pool, pool->latest->open, PW_BLOCK_FRAME_MAX);
    return pool->ready.first != NULL;
}

bool pw_burst_waits(const pw_burst_pool *pool, uint32_t peer)
{
    return pool->ready.first || open_of(pool, peer);
}

void pw_burst_release(pw_burst_pool *pool, uint8_t *data)
{
    if (pool->parts) {
        give_part(pool, (pw_buffer *)(void *)data - 1);
        return;
    }
    for (pw_link **link = &pool->lent; *link; link = &(*link)->next)
        if (((pw_buffer *)*link)->data == data) {
            pw_link_push(&pool->free_list, pw_link_pop(link));
            return;
        }
}

uint32_t pw_burst_pool_num_buffers(const pw_burst_pool *pool)
{
    uint32_t num_buffers = pool->own_parts.num_parts;
    for (const pw_link *chunk = pool->chunks; chunk; chunk = chunk->next)
        num_buffers += CHUNK_BUFFERS;
    return num_buffers;
}
