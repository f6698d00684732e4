/* Memory strategy `utlb`: the library's half of UTLB [UTLB]. A two-level table in the process tells
 * of each page whether it is pinned and has its translation in the host's table; the library looks
 * there before each transfer, one look-up a table of 512 pages, and has the OS pin what is not. The
 * pages stay pinned; those that were used least recently go at the limit, page by page. The NIC's
 * half, a cache of the host's table, is smmu/utlb/utlb_cache.c: pages that are unpinned leave it.
 */
#include "node/strategies/kept_pins.h"
#include "node/strategies/strategy_pages.h"

#define TABLE_SHIFT 9

static int create(pw_strategy_context *context, void **self)
{
    int64_t limit_bytes = context->settings->utlb_limit_bytes;
    return pw_kept_pins_create(
        context, limit_bytes < 0 ? UINT64_MAX : (uint64_t)limit_bytes >> PW_PAGE_SHIFT, UINT64_MAX,
        self);
}

static int acquire(void *self, pw_span span, int access, pw_lease *out)
{
    pw_kept_pins *pins = self;
    pw_strategy_context *context = pins->context;
    bool checks = context->settings->strategy_checks_mappings;
    uint64_t first_page = pw_span_first_page(span), num_pages = pw_span_num_pages(span), num_new;
    uint64_t num_tables =
        ((first_page + num_pages - 1) >> TABLE_SHIFT) - (first_page >> TABLE_SHIFT) + 1;
    pw_lease lease = {.span = span};
    int code = pw_kept_pins_hold(pins, first_page, num_pages, checks, &lease.cost, &num_new);
    if (code < 0) return code;
    if (!num_new && !checks) code = pw_strategy_use_unchecked(context, span, access, &lease);
    if (code < 0) {
        (void)pw_kept_pins_drop(pins, first_page, num_pages, &lease.cost);
        return code;
    }
    lease.cost.pin_ns += (int64_t)num_tables * context->costs->lookup_ns;
    if (num_new) context->counters.strategy_misses++;
    else context->counters.strategy_hits++;
    *out = lease;
    return PW_OK;
}

const pw_strategy_ops pw_strategy_utlb = {
    .name = "utlb",
    .summary = "the library's table says what is pinned, the NIC caches its translations (UTLB)",
    .create = create,
    .destroy = pw_kept_pins_destroy,
    .acquire = acquire,
    .release = pw_kept_pins_release,
    .invalidated = pw_kept_pins_invalidated,
    .unit = PW_TRANSLATION_UTLB,
};
