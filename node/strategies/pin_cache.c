/* Memory strategy `pin-cache`: pin-down cache with lazy de-registration. What was pinned for a
 * transfer stays so, in regions that join their neighbours; a transfer whose pages are all pinned
 * costs a look-up. Regions that no transfer uses go, the least recently used first, when the limits
 * of bytes or regions are reached.
 *
 * A mapping that goes takes its pins along, and nobody tells (munmap, mremap, brk, a mapping over
 * it): each hit asks whether the pages are pinned still. Without that check
 * (strategy.check_mappings = false) the NI would read and write frames that are the program's no
 * more: the transfer then goes to pages of nobody, and is counted. */
#include <stdlib.h>

#include "node/strategies/page_counts.h"
#include "node/strategies/strategy_pages.h"

typedef struct {
    /* What is pinned there is the cache: an interval a region, the oldest hold is that of the least
     * recently used. */
    pw_strategy_context *context;
    pw_page_counts users; /* pages of transfers under way: not to be given up */
} cache;

static int create(pw_strategy_context *context, void **self)
{
    return pw_strategy_object(context, sizeof(cache), self);
}

static void destroy(void *self)
{
    cache *cache = self;
    pw_strategy_unpin_all(cache->context);
    pw_page_counts_finish(&cache->users);
    free(cache);
}

static bool is_unused(const void *self, const pw_page_interval *region)
{
    uint64_t page = region->first_page;
    return !pw_page_counts_next(&((const cache *)self)->users, &page, region->end_page);
}

/* Unpin pages and forget them; *cost grows. */
static int give_up(pw_strategy_context *context, uint64_t first_page, uint64_t num_pages,
                   pw_strategy_cost *cost)
{
    cost->pin_ns += pw_cost_ns(context->tables, PW_COST_UNPIN, num_pages);
    return pw_strategy_unpin_pages(context, first_page, num_pages);
}

/* Give up the region that nobody has used for longest. 1; 0 when all are in use. */
static int evict(cache *cache, pw_strategy_cost *cost)
{
    pw_strategy_context *context = cache->context;
    const pw_page_interval *oldest =
        pw_page_counts_oldest(&context->pinned_pages, is_unused, cache);
    if (!oldest) return 0;
    context->counters.strategy_evictions++;
    int code = give_up(context, oldest->first_page, oldest->end_page - oldest->first_page, cost);
    return code == PW_OK ? 1 : code;
}

/* Until num_pages and num_regions more are within the limits, as far as anything can go. */
static int make_room(cache *cache, uint64_t num_pages, uint32_t num_regions, pw_strategy_cost *cost)
{
    const pw_page_counts *pinned = &cache->context->pinned_pages;
    const pw_settings *settings = cache->context->settings;
    int64_t limit_bytes = settings->pin_cache_limit_bytes;
    uint64_t limit_pages = limit_bytes < 0 ? UINT64_MAX : (uint64_t)limit_bytes >> PW_PAGE_SHIFT;
    int evicted = 1;
    while (evicted > 0 &&
           (num_pages + pinned->num_held_pages > limit_pages ||
            pinned->num_intervals + num_regions > (uint64_t)settings->pin_cache_limit_regions))
        evicted = evict(cache, cost);
    return evicted < 0 ? evicted : PW_OK;
}

/* Will these pages be one region with others? */
static bool touches(const cache *cache, uint64_t first_page, uint64_t end_page)
{
    uint64_t page = first_page ? first_page - 1 : 0;
    return pw_page_counts_next(&cache->context->pinned_pages, &page, end_page + 1) > 0;
}

/* Pin pages of which none is in the cache; the locked-memory limit may need some to go. */
static int pin_gap(cache *cache, uint64_t first_page, uint64_t end_page, pw_strategy_cost *cost)
{
    pw_strategy_context *context = cache->context;
    uint64_t num_pages = end_page - first_page, num_absent;
    int code = make_room(cache, num_pages, touches(cache, first_page, end_page) ? 0 : 1, cost);
    int evicted = 1;
    if (code != PW_OK) return code;
    while ((code = pw_strategy_pin_pages(context, first_page, num_pages, &num_absent)) ==
               PW_ERR_FULL &&
           evicted > 0) {
        evicted = evict(cache, cost);
        if (evicted < 0) return evicted;
    }
    if (code != PW_OK) return code;
    pw_page_counts_merge(&context->pinned_pages, first_page, end_page);
    cost->pin_ns += pw_strategy_pin_ns(context, num_pages, num_absent);
    return PW_OK;
}

/* Give up what the cache has of the range and the OS has unpinned. */
static int drop_stale(pw_strategy_context *context, uint64_t first_page, uint64_t end_page,
                      pw_strategy_cost *cost)
{
    const pw_page_counts *pinned = &context->pinned_pages;
    for (uint64_t page = first_page, run; (run = pw_page_counts_next(pinned, &page, end_page)) > 0;
         page += run) {
        int code = pw_memory_is_pinned(context->memory, page, run);
        if (code == 1) continue;
        if (code < 0)
            return pw_strategy_failed(context, code, "look-up", pw_span_of_pages(page, run));
        context->counters.strategy_invalidations++;
        code = give_up(context, page, run, cost);
        if (code != PW_OK) return code;
    }
    return PW_OK;
}

static int pin_gaps(cache *cache, uint64_t first_page, uint64_t end_page, pw_strategy_cost *cost)
{
    for (uint64_t page = first_page; page < end_page;) {
        uint64_t gap_end = page;
        uint64_t run = pw_page_counts_next(&cache->context->pinned_pages, &gap_end, end_page);
        if (!run) gap_end = end_page;
        int code = gap_end > page ? pin_gap(cache, page, gap_end, cost) : PW_OK;
        if (code != PW_OK) return code;
        page = gap_end + run;
    }
    return PW_OK;
}

/* Is the range in the cache? */
static int look_up(pw_strategy_context *context, uint64_t first_page, uint64_t end_page,
                   bool *is_hit, pw_strategy_cost *cost)
{
    bool checks = context->settings->strategy_checks_mappings;
    uint64_t page = first_page;
    cost->pin_ns += context->costs->lookup_ns;
    int code = checks ? drop_stale(context, first_page, end_page, cost) : PW_OK;
    if (code != PW_OK) return code;
    uint64_t run = pw_page_counts_next(&context->pinned_pages, &page, end_page);
    *is_hit = run == end_page - first_page;
    if (*is_hit) pw_page_counts_merge(&context->pinned_pages, first_page, end_page); /* used now */
    return PW_OK;
}

static int acquire(void *self, pw_span span, int access, pw_lease *out)
{
    cache *cache = self;
    pw_strategy_context *context = cache->context;
    uint64_t first_page = pw_span_first_page(span), num_pages = pw_span_num_pages(span);
    uint64_t end_page = first_page + num_pages;
    pw_lease lease = {.span = span};
    bool is_hit;
    int code = pw_page_counts_hold(&cache->users, first_page, num_pages, &lease.token);
    if (code != PW_OK) return pw_strategy_failed(context, code, "pin", span);
    code = look_up(context, first_page, end_page, &is_hit, &lease.cost);
    if (code == PW_OK && !is_hit) code = pin_gaps(cache, first_page, end_page, &lease.cost);
    else if (code == PW_OK && !context->settings->strategy_checks_mappings)
        code = pw_strategy_use_unchecked(context, span, access, &lease);
    if (code != PW_OK) {
        (void)pw_page_counts_drop(&cache->users, first_page, num_pages, lease.token, NULL, NULL);
        return code;
    }
    if (is_hit) context->counters.strategy_hits++;
    else context->counters.strategy_misses++;
    *out = lease;
    return PW_OK;
}

static int release(void *self, const pw_lease *lease, pw_strategy_cost *cost)
{
    cache *cache = self;
    pw_strategy_cost passed = {0};
    uint64_t num_pages = pw_span_num_pages(lease->span);
    pw_strategy_end_astray(lease);
    int code = pw_page_counts_drop(&cache->users, pw_span_first_page(lease->span), num_pages,
                                   lease->token, NULL, NULL);
    if (code != PW_OK) return pw_strategy_failed(cache->context, code, "unpin", lease->span);
    code = make_room(cache, 0, 0, &passed); /* a span above the limit was let in for its transfer */
    if (code == PW_OK) *cost = passed;
    return code;
}

static int invalidated(void *self, uint64_t first_page, uint64_t num_pages)
{
    pw_strategy_context *context = ((cache *)self)->context;
    uint64_t end_page = first_page + num_pages;
    pw_strategy_cost in_the_os = {0}; /* munmap's and fork's own */
    for (uint64_t run;
         (run = pw_page_counts_next(&context->pinned_pages, &first_page, end_page)) > 0;
         first_page += run) {
        context->counters.strategy_invalidations++;
        int code = give_up(context, first_page, run, &in_the_os);
        if (code != PW_OK) return code;
    }
    return PW_OK;
}

const pw_strategy_ops pw_strategy_pin_cache = {
    .name = "pin-cache",
    .summary = "keep what was pinned, the least recently used goes (pin-down cache)",
    .create = create,
    .destroy = destroy,
    .acquire = acquire,
    .release = release,
    .invalidated = invalidated,
};
