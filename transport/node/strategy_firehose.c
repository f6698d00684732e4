/* Memory strategy `firehose` [Bell and Bonachea 2003]: who reads a peer's memory holds pages of it
 * pinned, so many for each peer, and reads as often as it likes while it does; to read others it
 * moves a firehose, which takes a round trip (firehoses.c). This is what the owner of the pages
 * does. Pages that a peer holds, and those that transfers of its own use, are pinned; when nobody
 * holds them any more they stand in a queue of victims, pinned still, of which the first goes when
 * the queue is full. Memory that peers know by its address, and what is read and written one-sided,
 * is pinned here as long as it is registered. */
#include <stdlib.h>

#include "transport/node/kept_pins.h"
#include "transport/node/strategy_pages.h"

static int create(pw_strategy_context *context, void **self)
{
    pw_kept_pins *made = calloc(1, sizeof *made);
    if (!made) return pw_strategy_failed(context, PW_ERR_NOMEM, "pin", (pw_span){0});
    made->context = context;
    made->max_pages = UINT64_MAX; /* what peers hold is theirs to limit */
    made->max_idle_pages = (uint64_t)context->settings->firehose_victims_bytes >> PW_PAGE_SHIFT;
    *self = made;
    return PW_OK;
}

static void destroy(void *self)
{
    pw_kept_pins_finish(self);
    free(self);
}

/* A message to be sent is read through firehoses: nothing is done here, but that pages that peers
 * hold and the OS has unpinned with their mapping are pinned anew. */
static int acquire(void *self, pw_span span, int access, pw_lease *out)
{
    pw_kept_pins *pins = self;
    pw_strategy_context *context = pins->context;
    uint64_t first_page = pw_span_first_page(span), num_pages = pw_span_num_pages(span), num_new;
    pw_lease lease = {.span = span};
    int code;
    if (access == (PW_ACCESS_READ | PW_ACCESS_MESSAGE)) {
        code = pw_kept_pins_renew(pins, first_page, num_pages, &lease.cost);
    } else {
        lease.token = 1;
        lease.cost.pin_ns = context->costs->lookup_ns;
        code = pw_kept_pins_hold(pins, first_page, num_pages, true, &lease.cost, &num_new);
        if (code == PW_OK && num_new) context->counters.strategy_misses++;
        else if (code == PW_OK) context->counters.strategy_hits++;
    }
    if (code == PW_OK) *out = lease;
    return code;
}

static int release(void *self, const pw_lease *lease, pw_strategy_cost *cost)
{
    pw_strategy_cost passed = {0};
    int code = PW_OK;
    if (lease->token)
        code = pw_kept_pins_drop(self, pw_span_first_page(lease->span),
                                 pw_span_num_pages(lease->span), &passed);
    if (code == PW_OK) *cost = passed;
    return code;
}

static int invalidated(void *self, uint64_t first_page, uint64_t num_pages)
{
    return pw_kept_pins_invalidated(self, first_page, num_pages);
}

static int hold(void *self, uint64_t first_page, uint64_t num_pages, pw_strategy_cost *cost)
{
    uint64_t num_new;
    int code = pw_kept_pins_hold(self, first_page, num_pages, true, cost, &num_new);
    return code == PW_ERR_ADDRESS || code == PW_ERR_PROTECTION ? PW_OK : code;
}

static int let_go(void *self, uint64_t first_page, uint64_t num_pages, pw_strategy_cost *cost)
{
    return pw_kept_pins_drop(self, first_page, num_pages, cost);
}

static const pw_firehose_ops firehoses = {.hold = hold, .let_go = let_go};

const pw_strategy_ops pw_strategy_firehose = {
    .name = "firehose",
    .summary =
        "a reader holds pages of each peer pinned, and moves them by a round trip (Firehose)",
    .create = create,
    .destroy = destroy,
    .acquire = acquire,
    .release = release,
    .invalidated = invalidated,
    .firehoses = &firehoses,
};
