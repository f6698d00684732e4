/* Memory strategy `bounce`: messages go through buffers that were pinned at the start, copied in
 * before and out after the NI's work, piece by piece, so that the copies overlap the way of other
 * pieces. A message that finds no buffer waits for one; half of the buffers are for what is sent,
 * so that two nodes cannot wait for each other. Memory that peers know by its address, and what is
 * read and written one-sided, is pinned as a whole: there is nobody who would copy. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "node/strategies/message_way.h"
#include "node/strategies/strategy_pages.h"

typedef struct {
    int64_t free_ns; /* the progress thread was through with it then */
    bool is_taken;
} buffer;

typedef struct {
    pw_strategy_context *context;
    uint8_t *memory; /* of `mapped`, where blocks of 16 KB end alike in every run */
    void *mapped;    /* NULL: without bytes */
    uint64_t buffer_bytes;
    uint32_t num_buffers;
    buffer buffers[];
} pool;

#define ALIGNMENT_BYTES ((uint64_t)1 << 16)
/* Far from what programs map, so that a walk finds no table that a buffer of theirs has brought in:
 * the same with bytes, where it is free, and without. */
#define OWN_ADDRESS ((uint64_t)0x30 << 40)

static uint64_t pool_bytes(const pool *pool) { return pool->num_buffers * pool->buffer_bytes; }

static uint64_t mapped_bytes(const pool *pool) { return pool_bytes(pool) + ALIGNMENT_BYTES; }

static void destroy(void *self)
{
    pool *pool = self;
    pw_strategy_unpin_all(pool->context);
    if (pool->mapped) munmap(pool->mapped, mapped_bytes(pool));
    free(pool);
}

static bool find_memory(pool *pool)
{
    if (pool->context->has_no_bytes) {
        pool->memory = (uint8_t *)OWN_ADDRESS;
        return true;
    }
    void *mapped = mmap((void *)OWN_ADDRESS, mapped_bytes(pool), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return false;
    pool->mapped = mapped;
    pool->memory = (uint8_t *)mapped + (-(uintptr_t)mapped & (ALIGNMENT_BYTES - 1));
    return true;
}

static int create(pw_strategy_context *context, void **self)
{
    const pw_settings *settings = context->settings;
    uint32_t num_buffers = (uint32_t)settings->bounce_buffers;
    pool *made = calloc(1, sizeof *made + num_buffers * sizeof *made->buffers);
    if (!made) return pw_strategy_failed(context, PW_ERR_NOMEM, "pin", (pw_span){0});
    made->context = context;
    made->num_buffers = num_buffers;
    made->buffer_bytes = (uint64_t)settings->piece_bytes;
    if (!find_memory(made)) {
        free(made);
        return pw_strategy_failed(context, PW_ERR_NOMEM, "pin", (pw_span){0});
    }
    uint64_t num_pages = pool_bytes(made) >> PW_PAGE_SHIFT;
    int code = pw_strategy_pin_pages(context, pw_page_of((uintptr_t)made->memory), num_pages, NULL);
    if (code != PW_OK) {
        destroy(made);
        return code;
    }
    context->start_cost.pin_ns += pw_cost_ns(context->tables, PW_COST_PIN_ABSENT, num_pages);
    *self = made;
    return PW_OK;
}

static int acquire(void *self, pw_span span, int access, pw_lease *out)
{
    return pw_strategy_pin.acquire(((pool *)self)->context, span, access, out);
}

static int release(void *self, const pw_lease *lease, pw_strategy_cost *cost)
{
    return pw_strategy_pin.release(((pool *)self)->context, lease, cost);
}

/* The buffer of this half that is free first; num_buffers when none is. */
static uint32_t find_buffer(const pool *pool, bool is_sent)
{
    uint32_t half = pool->num_buffers / 2, found = pool->num_buffers;
    uint32_t end = is_sent ? half : pool->num_buffers;
    for (uint32_t i = is_sent ? 0 : half; i < end; i++) {
        const buffer *each = &pool->buffers[i];
        if (each->is_taken) continue;
        if (found == pool->num_buffers || each->free_ns < pool->buffers[found].free_ns) found = i;
    }
    return found;
}

/* The CPU copies: pages of the program that are absent fault on it first. */
static int copy(pool *pool, pw_span span, uint8_t *own, bool is_in, pw_strategy_cost *cost)
{
    pw_strategy_context *context = pool->context;
    void *program = (void *)(uintptr_t)span.address;
    uint64_t num_absent;
    int code = pw_strategy_touch(context, span, &num_absent);
    if (code != PW_OK) return code;
    if (is_in && !context->has_no_bytes) memcpy(own, program, span.num_bytes);
    else if (!context->has_no_bytes) memcpy(program, own, span.num_bytes);
    cost->touch_ns += pw_cost_ns(context->tables, PW_COST_TOUCH_ABSENT, num_absent);
    cost->copy_ns += pw_cost_bytes_ns(context->tables, PW_COST_COPY, span.num_bytes);
    context->counters.copies++;
    context->counters.copied_bytes += span.num_bytes;
    return PW_OK;
}

static int acquire_piece(void *self, pw_span span, int access, pw_lease *out)
{
    pool *pool = self;
    bool is_sent = access == PW_ACCESS_READ;
    uint32_t idx = find_buffer(pool, is_sent);
    if (idx == pool->num_buffers) return PW_ERR_FULL;
    uint8_t *own = pool->memory + idx * pool->buffer_bytes;
    pw_lease lease = {.span = span,
                      .token = idx,
                      .ni_address = (uintptr_t)own,
                      .from_ns = pool->buffers[idx].free_ns};
    int code = is_sent ? copy(pool, span, own, true, &lease.cost) : PW_OK;
    if (code != PW_OK) return code;
    pool->buffers[idx].is_taken = true;
    *out = lease;
    return PW_OK;
}

static int release_piece(void *self, const pw_lease *lease, pw_strategy_cost *cost)
{
    pool *pool = self;
    pw_span landed = {lease->span.address, lease->landed_bytes};
    pw_strategy_cost passed = {0};
    uint8_t *own = pool->memory + lease->token * pool->buffer_bytes;
    int code = landed.num_bytes ? copy(pool, landed, own, false, &passed) : PW_OK;
    if (code == PW_OK) *cost = passed;
    return code;
}

static void freed(void *self, const pw_lease *lease, int64_t free_ns)
{
    pool *pool = self;
    pool->buffers[lease->token] = (buffer){.free_ns = free_ns};
}

static const pw_piece_ops pieces = {
    .acquire = acquire_piece,
    .release = release_piece,
    .freed = freed,
    .waits = true,
};

const pw_strategy_ops pw_strategy_bounce = {
    .name = "bounce",
    .summary = "copy messages through buffers pinned at the start, piece by piece",
    .create = create,
    .destroy = destroy,
    .acquire = acquire,
    .release = release,
    .way = &pw_way_in_pieces,
    .pieces = &pieces,
};
