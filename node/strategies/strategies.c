/* The memory strategies that come with pagewire, by name, and what they do with pages: see
 * strategy.h, strategy_pages.h. */
#include "node/strategies/strategy.h"
#include "node/strategies/strategy_pages.h"
#include <string.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* A new one is a line here and a file that defines pw_strategy_<name>; its name for the user has a
 * dash for each underscore. */
#define BUILT_IN(strategy)                                                                  \
    strategy(part) strategy(part_prefetch) strategy(pretouch) strategy(pretouch_once)       \
        strategy(hybrid) strategy(ideal) strategy(pin) strategy(kernel) strategy(pin_cache) \
            strategy(pin_all) strategy(pin_rendezvous) strategy(bounce) strategy(odp)       \
                strategy(np_rdma) strategy(utlb) strategy(firehose) strategy(ats)           \
                    strategy(backup_ring)

#define DECLARE(name) extern const pw_strategy_ops pw_strategy_##name;
#define ADDRESS(name) &pw_strategy_##name,

BUILT_IN(DECLARE)

static const pw_strategy_ops *const built_in[] = {BUILT_IN(ADDRESS)};

#define NUM_BUILT_IN (sizeof(built_in) / sizeof(built_in[0]))

const pw_strategy_ops *pw_strategy_at(uint32_t idx)
{
    return idx < NUM_BUILT_IN ? built_in[idx] : NULL;
}

void pw_strategy_choose_unit(const pw_strategy_ops *strategy, pw_settings *settings)
{
    if (strategy->unit) settings->translation = strategy->unit;
}

const pw_strategy_ops *pw_strategy_find(const char *name)
{
    for (uint32_t i = 0; i < NUM_BUILT_IN; i++)
        if (strcmp(built_in[i]->name, name) == 0) return built_in[i];
    return NULL;
}

/* What memory strategies do with pages: see strategy_pages.h. */

int pw_strategy_touch(pw_strategy_context *context, pw_span span, uint64_t *num_absent)
{
    uint64_t first_page = pw_span_first_page(span), num_pages = pw_span_num_pages(span);
    pw_memory_at(context->memory, context->now_ns);
    int code = pw_memory_populate(context->memory, first_page, num_pages, 1, num_absent);
    if (code == PW_ERR_PROTECTION)
        code = pw_memory_populate(context->memory, first_page, num_pages, 0, num_absent);
    return code == PW_OK ? PW_OK : pw_strategy_failed(context, code, "touch", span);
}

static const char *explain(int code)
{
    switch (code) {
    case PW_ERR_NOMEM: return "the host has no memory for a table; use fewer ranks";
    case PW_ERR_INVALID: return "it reaches the end of the address space; give a smaller range";
    case PW_ERR_FULL:
        return "every frame of the model is pinned; raise memory_backend.frame_limit_pages";
    case PW_ERR_ADDRESS: return "part of it is not mapped; keep buffers mapped until transfers end";
    case PW_ERR_PROTECTION: return "its mapping forbids the access; give memory that can be read";
    default: return "an error of the engine";
    }
}

int pw_strategy_failed(pw_strategy_context *context, int code, const char *tried, pw_span span)
{
    char *reason = context->reason;
    size_t capacity = sizeof(context->reason);
    int error = errno;
    bool is_pin = strcmp(tried, "pin") == 0;
    int64_t num_frames = context->settings->memory_backend == PW_MEMORY_MODEL
                             ? context->settings->model_frame_limit_pages
                             : 0;
    if (code == PW_ERR_FULL && is_pin && num_frames)
        snprintf(reason, capacity,
                 "%" PRIu64 " bytes cannot be pinned, memory_backend.frame_limit_pages gives the "
                 "model %" PRId64 " frames; raise it or take another memory strategy (run.memory)",
                 span.num_bytes, num_frames);
    else if (code == PW_ERR_FULL && is_pin)
        snprintf(reason, capacity,
                 "%" PRIu64 " bytes cannot be pinned, the limit of locked memory is reached; "
                 "raise it (ulimit -l) or take another memory strategy (run.memory)",
                 span.num_bytes);
    else if (code == PW_ERR_HOST && is_pin)
        snprintf(reason, capacity,
                 "%" PRIu64 " bytes cannot be pinned, mlock is refused (%s); allow it in the "
                 "container's seccomp profile or take another memory strategy (run.memory)",
                 span.num_bytes, strerror(error));
    else if (code == PW_ERR_HOST)
        snprintf(reason, capacity,
                 "%s of %" PRIu64 " bytes at %#" PRIx64 ": a system call of the host failed: %s",
                 tried, span.num_bytes, span.address, strerror(error));
    else
        snprintf(reason, capacity, "%s of %" PRIu64 " bytes at %#" PRIx64 ": %s (%d)", tried,
                 span.num_bytes, span.address, explain(code), code);
    return code;
}

int pw_strategy_object(pw_strategy_context *context, size_t num_bytes, void **self)
{
    pw_strategy_context **made = calloc(1, num_bytes);
    if (!made) return pw_strategy_failed(context, PW_ERR_NOMEM, "pin", (pw_span){0});
    *made = context;
    *self = made;
    return PW_OK;
}

static int64_t both_ns(const pw_strategy_context *context, int resident, int absent,
                       uint64_t num_pages, uint64_t num_absent)
{
    return pw_cost_ns(context->tables, resident, num_pages - num_absent) +
           pw_cost_ns(context->tables, absent, num_absent);
}

int64_t pw_strategy_touch_ns(const pw_strategy_context *context, uint64_t num_pages,
                             uint64_t num_absent)
{
    return both_ns(context, PW_COST_TOUCH_RESIDENT, PW_COST_TOUCH_ABSENT, num_pages, num_absent);
}

int64_t pw_strategy_pin_ns(const pw_strategy_context *context, uint64_t num_pages,
                           uint64_t num_absent)
{
    return both_ns(context, PW_COST_PIN_RESIDENT, PW_COST_PIN_ABSENT, num_pages, num_absent);
}

/* A mapping that went took its pins along. The kernel stops at the first hole, and only single
 * pages tell where the holes are. */
int pw_memory_unpin_mapped(void *memory, uint64_t first_page, uint64_t num_pages)
{
    int code = pw_memory_unpin(memory, first_page, num_pages);
    if (code != PW_ERR_ADDRESS) return code;
    for (uint64_t page = first_page; page < first_page + num_pages; page++) {
        code = pw_memory_unpin(memory, page, 1);
        if (code != PW_OK && code != PW_ERR_ADDRESS) return code;
    }
    return PW_OK;
}

/* Would so many pages be above strategy.locked_limit? */
static int check_limit(pw_strategy_context *context, uint64_t num_pages, pw_span span)
{
    int64_t limit_bytes = context->settings->locked_limit_bytes;
    if (limit_bytes < 0 || num_pages <= (uint64_t)limit_bytes >> PW_PAGE_SHIFT) return PW_OK;
    snprintf(context->reason, sizeof context->reason,
             "pin of %" PRIu64 " bytes: %" PRIu64 " pages would be locked, and "
             "strategy.locked_limit allows %" PRIu64 "; raise it or take another run.memory",
             span.num_bytes, num_pages, (uint64_t)limit_bytes >> PW_PAGE_SHIFT);
    return PW_ERR_FULL;
}

/* A pin that failed may have undone what others had pinned in its range: do that again. */
static void restore(pw_strategy_context *context, uint64_t first_page, uint64_t end_page)
{
    const pw_page_counts *pinned = &context->pinned_pages;
    for (uint64_t run; (run = pw_page_counts_next(pinned, &first_page, end_page)) > 0;
         first_page += run)
        (void)pw_memory_pin(context->memory, first_page, run, NULL);
}

int pw_strategy_hold_pages(pw_strategy_context *context, pw_span span, uint64_t *num_absent,
                           uint64_t *hold)
{
    uint64_t first_page = pw_span_first_page(span), num_pages = pw_span_num_pages(span);
    pw_page_counts *pinned = &context->pinned_pages;
    uint64_t num_before = pinned->num_held_pages;
    if (pw_range_wraps(first_page, num_pages))
        return pw_strategy_failed(context, PW_ERR_INVALID, "pin", span);
    int code = pw_page_counts_hold(pinned, first_page, num_pages, hold);
    if (code != PW_OK) return pw_strategy_failed(context, code, "pin", span);
    bool is_more = pinned->num_held_pages > num_before;
    code = is_more ? check_limit(context, pinned->num_held_pages, span) : PW_OK;
    if (code == PW_OK) {
        pw_memory_at(context->memory, context->now_ns);
        code = pw_memory_pin(context->memory, first_page, num_pages, num_absent);
        if (code != PW_OK) code = pw_strategy_failed(context, code, "pin", span);
    }
    if (code != PW_OK) {
        (void)pw_page_counts_drop(pinned, first_page, num_pages, *hold, NULL, NULL);
        restore(context, first_page, first_page + num_pages);
        return code;
    }
    pw_pinned_set(&context->pinned, pinned->num_held_pages, context->now_ns);
    return PW_OK;
}

int pw_strategy_pin_pages(pw_strategy_context *context, uint64_t first_page, uint64_t num_pages,
                          uint64_t *num_absent)
{
    uint64_t hold;
    pw_span span = pw_span_of_pages(first_page, num_pages);
    return pw_strategy_hold_pages(context, span, num_absent, &hold);
}

int pw_strategy_unpin_pages(pw_strategy_context *context, uint64_t first_page, uint64_t num_pages)
{
    pw_page_counts *pinned = &context->pinned_pages;
    int code = pw_page_counts_forget(pinned, first_page, num_pages);
    if (code == PW_OK) code = pw_memory_unpin_mapped(context->memory, first_page, num_pages);
    pw_pinned_set(&context->pinned, pinned->num_held_pages, context->now_ns);
    if (code == PW_OK) return PW_OK;
    return pw_strategy_failed(context, code, "unpin", pw_span_of_pages(first_page, num_pages));
}

void pw_strategy_unpin_all(void *self)
{
    pw_strategy_context *context = self;
    pw_page_counts *pinned = &context->pinned_pages;
    for (const pw_page_interval *held; (held = pw_page_counts_from(pinned, 0));)
        if (pw_strategy_unpin_pages(context, held->first_page, held->end_page - held->first_page) <
            0)
            break;
    pw_page_counts_finish(pinned);
}

int pw_strategy_use_unchecked(pw_strategy_context *context, pw_span span, int access, pw_lease *out)
{
    int code =
        pw_memory_is_pinned(context->memory, pw_span_first_page(span), pw_span_num_pages(span));
    if (code < 0) return pw_strategy_failed(context, code, "look-up", span);
    if (code == 1) return PW_OK;
    context->counters.stale_transfers++;
    if (access & PW_ACCESS_IN_PLACE) return PW_OK;
    uint64_t in_page = span.address % PW_PAGE_BYTES;
    void *frames = mmap(NULL, pw_span_num_pages(span) << PW_PAGE_SHIFT, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (frames == MAP_FAILED) return pw_strategy_failed(context, PW_ERR_NOMEM, "pin", span);
    out->ni_address = (uintptr_t)frames + in_page;
    if (!context->has_no_bytes) return PW_OK;
    return pw_memory_set(context->memory, pw_page_of(out->ni_address), pw_span_num_pages(span),
                         PW_PAGE_PRESENT);
}

void pw_strategy_end_astray(const pw_lease *lease)
{
    if (!lease->ni_address || lease->ni_address == lease->span.address) return;
    munmap((void *)(uintptr_t)(lease->ni_address & ~(uint64_t)(PW_PAGE_BYTES - 1)),
           pw_span_num_pages(lease->span) << PW_PAGE_SHIFT);
}
