/* Memory strategy `pretouch`: the first byte of each page is read and written before each transfer
 * [PART 5]. A mapping that is read-only is only read. */
#include "node/strategies/strategy_pages.h"
#include <stdlib.h>

static int acquire(void *self, pw_span span, int access, pw_lease *out)
{
    (void)access;
    pw_strategy_context *context = self;
    uint64_t num_absent;
    int code = pw_strategy_touch(context, span, &num_absent);
    if (code != PW_OK) return code;
    *out = (pw_lease){.span = span,
                      .cost.touch_ns =
                          pw_strategy_touch_ns(context, pw_span_num_pages(span), num_absent)};
    return PW_OK;
}

const pw_strategy_ops pw_strategy_pretouch = {
    .name = "pretouch",
    .summary = "touch each page of a buffer before each transfer",
    .acquire = acquire,
};

/* Memory strategy `hybrid`: a buffer below a size is touched, any other is left to the NI and PART,
 * which overlaps page-in with the transfer [PART 5.1, 5.4]. */
static int acquire_short(void *self, pw_span span, int access, pw_lease *out)
{
    const pw_strategy_context *context = self;
    if (span.num_bytes < (uint64_t)context->settings->touch_below_bytes)
        return acquire(self, span, access, out);
    *out = (pw_lease){.span = span};
    return PW_OK;
}

const pw_strategy_ops pw_strategy_hybrid = {
    .name = "hybrid",
    .summary = "touch a short buffer before each transfer, let the pages of a long one fault",
    .acquire = acquire_short,
};

/* Memory strategy `pretouch-once`: a buffer is touched the first time that it is seen, and again
 * when its mapping changed since. Then some page of it is absent: a new mapping has none, and what
 * the OS takes away it tells those who keep translations. Without that check
 * (strategy.check_mappings = false) such pages fault at the NI, where the driver brings them in. */

typedef struct {
    pw_strategy_context *context;
    pw_page_counts seen;
} once;

static int create(pw_strategy_context *context, void **self)
{
    return pw_strategy_object(context, sizeof(once), self);
}

static void destroy(void *self)
{
    once *once = self;
    pw_page_counts_finish(&once->seen);
    free(once);
}

/* Is every page there for the access, so that the NI meets no fault? 0 or 1. PW_ERR_HOST. */
static int is_present(pw_strategy_context *context, uint64_t first_page, uint64_t num_pages,
                      int access)
{
    uint8_t state[512];
    for (uint64_t done = 0; done < num_pages; done += sizeof state) {
        uint64_t num_now = num_pages - done < sizeof state ? num_pages - done : sizeof state;
        int code = pw_memory_walk(context->memory, first_page + done, num_now,
                                  access & PW_ACCESS_WRITE, state);
        if (code != PW_OK) return code;
        for (uint64_t i = 0; i < num_now; i++)
            if (state[i] != PW_PAGE_PRESENT) return 0;
    }
    return 1;
}

/* Each page is held once, and neighbours are one interval. */
static int note_seen(once *once, uint64_t first_page, uint64_t num_pages)
{
    uint64_t hold;
    int code = pw_page_counts_forget(&once->seen, first_page, num_pages);
    if (code == PW_OK) code = pw_page_counts_hold(&once->seen, first_page, num_pages, &hold);
    if (code == PW_OK) pw_page_counts_merge(&once->seen, first_page, first_page + num_pages);
    return code;
}

static int acquire_once(void *self, pw_span span, int access, pw_lease *out)
{
    once *once = self;
    pw_strategy_context *context = once->context;
    uint64_t first_page = pw_span_first_page(span), num_pages = pw_span_num_pages(span), num_absent;
    pw_lease lease = {.span = span, .cost.touch_ns = context->costs->lookup_ns};
    uint64_t page = first_page;
    bool is_known = pw_page_counts_next(&once->seen, &page, first_page + num_pages) == num_pages;
    int is_ready = is_known;
    if (is_known && context->settings->strategy_checks_mappings)
        is_ready = is_present(context, first_page, num_pages, access);
    if (is_ready < 0) return pw_strategy_failed(context, is_ready, "look-up", span);
    if (is_ready) {
        context->counters.strategy_hits++;
        *out = lease;
        return PW_OK;
    }
    int code = pw_strategy_touch(context, span, &num_absent);
    if (code != PW_OK) return code;
    code = note_seen(once, first_page, num_pages);
    if (code != PW_OK) return pw_strategy_failed(context, code, "touch", span);
    if (is_known) context->counters.strategy_invalidations++;
    context->counters.strategy_misses++;
    lease.cost.touch_ns += pw_strategy_touch_ns(context, num_pages, num_absent);
    *out = lease;
    return PW_OK;
}

static int invalidated(void *self, uint64_t first_page, uint64_t num_pages)
{
    once *once = self;
    return pw_page_counts_forget(&once->seen, first_page, num_pages);
}

const pw_strategy_ops pw_strategy_pretouch_once = {
    .name = "pretouch-once",
    .summary = "touch a buffer when it is first seen, and when its mapping changed",
    .create = create,
    .destroy = destroy,
    .acquire = acquire_once,
    .invalidated = invalidated,
};
