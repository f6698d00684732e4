/* Pinned pages with counts; and memory strategies `pin` and `pin-rendezvous`, which pin with them.
 */
#include "node/strategies/pin.h"
#include "node/strategies/page_counts.h"
#include "node/strategies/strategy_pages.h"
#include "node/strategies/message_way.h"
#include <errno.h>
#include <stdlib.h>

struct pw_pins {
    pw_memory *memory;
    pw_page_counts counts;
};

int pw_pins_create(pw_memory *memory, pw_pins **out)
{
    pw_pins *pins = calloc(1, sizeof(*pins));
    if (!pins) return PW_ERR_NOMEM;
    pins->memory = memory;
    *out = pins;
    return PW_OK;
}

static int unpin(void *memory, uint64_t first_page, uint64_t num_pages)
{
    return pw_memory_unpin_mapped(memory, first_page, num_pages);
}

void pw_pins_destroy(pw_pins *pins)
{
    if (!pins) return;
    const pw_page_interval *held = pw_page_counts_from(&pins->counts, 0);
    for (; held; held = pw_page_counts_from(&pins->counts, held->end_page))
        unpin(pins->memory, held->first_page, held->end_page - held->first_page);
    pw_page_counts_finish(&pins->counts);
    free(pins);
}

/* A pin that failed may have undone what others had pinned in its range: do that again. */
static void restore(pw_pins *pins, uint64_t first_page, uint64_t num_pages)
{
    uint64_t end_page = first_page + num_pages;
    for (uint64_t page = first_page; page < end_page;) {
        const pw_page_interval *held = pw_page_counts_from(&pins->counts, page);
        if (!held || held->first_page >= end_page) return;
        if (held->first_page > page) page = held->first_page;
        uint64_t held_end = held->end_page < end_page ? held->end_page : end_page;
        pw_memory_pin(pins->memory, page, held_end - page, NULL);
        page = held_end;
    }
}

int pw_pins_acquire(pw_pins *pins, uint64_t first_page, uint64_t num_pages, uint64_t *num_absent,
                    uint64_t *pin)
{
    uint64_t hold, absent;
    if (pw_range_wraps(first_page, num_pages)) return PW_ERR_INVALID;
    int code = pw_page_counts_hold(&pins->counts, first_page, num_pages, &hold);
    if (code != PW_OK) return code;
    code = pw_memory_pin(pins->memory, first_page, num_pages, &absent);
    if (code != PW_OK) {
        int error = errno;
        pw_page_counts_drop(&pins->counts, first_page, num_pages, hold, pw_strategy_leave_pages,
                            NULL);
        restore(pins, first_page, num_pages);
        errno = error;
        return code;
    }
    *num_absent = absent;
    *pin = hold;
    return PW_OK;
}

int pw_pins_release(pw_pins *pins, uint64_t first_page, uint64_t num_pages, uint64_t pin)
{
    return pw_page_counts_drop(&pins->counts, first_page, num_pages, pin, unpin, pins->memory);
}

uint64_t pw_pins_num_pages(const pw_pins *pins) { return pins->counts.num_held_pages; }

/* Memory strategy `pin`: the buffer is pinned (mlock) before each transfer and unpinned after it.
 * Each call costs what the whole span costs, also where it overlaps others under way; pages that
 * these still need stay pinned. */

struct pin {
    pw_strategy_context *context;
    pw_pins *pins;
    uint64_t num_others; /* pages that somebody else keeps pinned */
};

void pw_strategy_pin_add_pages(void *self, uint64_t num_pages)
{
    ((struct pin *)self)->num_others += num_pages;
}

static uint64_t num_pinned(const struct pin *pin)
{
    return pin->num_others + pw_pins_num_pages(pin->pins);
}

static int create(pw_strategy_context *context, void **self)
{
    struct pin *pin = calloc(1, sizeof(*pin));
    if (!pin) goto no_memory;
    pin->context = context;
    if (pw_pins_create(context->memory, &pin->pins) != PW_OK) goto free_pin;
    *self = pin;
    return PW_OK;
free_pin:
    free(pin);
no_memory:
    return pw_strategy_failed(context, PW_ERR_NOMEM, "pin", (pw_span){0});
}

static void destroy(void *self)
{
    struct pin *pin = self;
    pw_pins_destroy(pin->pins);
    free(pin);
}

static int acquire(void *self, pw_span span, int access, pw_lease *out)
{
    (void)access;
    struct pin *pin = self;
    uint64_t num_pages = pw_span_num_pages(span), num_absent, token;
    int code = pw_pins_acquire(pin->pins, pw_span_first_page(span), num_pages, &num_absent, &token);
    if (code != PW_OK) return pw_strategy_failed(pin->context, code, "pin", span);
    pw_pinned *pinned = &pin->context->pinned;
    if (num_pinned(pin) > pinned->num_pages) {
        code = pw_strategy_check_limit(pin->context, num_pinned(pin), span);
        if (code != PW_OK) {
            (void)pw_pins_release(pin->pins, pw_span_first_page(span), num_pages, token);
            return code;
        }
    }
    pw_pinned_set(pinned, num_pinned(pin), pin->context->now_ns);
    *out = (pw_lease){.span = span,
                      .cost.pin_ns = pw_strategy_pin_ns(pin->context, num_pages, num_absent),
                      .token = token};
    return PW_OK;
}

static int release(void *self, const pw_lease *lease, pw_strategy_cost *cost)
{
    struct pin *pin = self;
    uint64_t num_pages = pw_span_num_pages(lease->span);
    int code = pw_pins_release(pin->pins, pw_span_first_page(lease->span), num_pages, lease->token);
    if (code != PW_OK) return pw_strategy_failed(pin->context, code, "unpin", lease->span);
    pw_pinned_set(&pin->context->pinned, num_pinned(pin), pin->context->now_ns);
    *cost =
        (pw_strategy_cost){.pin_ns = pw_cost_ns(pin->context->tables, PW_COST_UNPIN, num_pages)};
    return PW_OK;
}

/* Nothing is known of a span before its transfer: each one pins anew. Pins under way stay counted,
 * because a fork, which invalidates every page, takes no pin away. */
const pw_strategy_ops pw_strategy_pin = {
    .name = "pin",
    .summary = "pin buffers for each transfer",
    .create = create,
    .destroy = destroy,
    .acquire = acquire,
    .release = release,
    .invalidated = pw_strategy_nothing_known,
};

/* Memory strategy `pin-rendezvous`: each end pins a message piece by piece while the handshake and
 * the pieces before are on their way, and unpins a piece when it has gone through. Memory that
 * peers know by its address, and what is read and written one-sided, is pinned as a whole. */

static int acquire_but_messages(void *self, pw_span span, int access, pw_lease *out)
{
    if (!(access & PW_ACCESS_MESSAGE)) return acquire(self, span, access, out);
    *out = (pw_lease){.span = span}; /* its pieces will be */
    return PW_OK;
}

static int release_but_messages(void *self, const pw_lease *lease, pw_strategy_cost *cost)
{
    if (lease->token) return release(self, lease, cost);
    *cost = (pw_strategy_cost){0};
    return PW_OK;
}

static uint64_t piece_bytes(void *self)
{
    return (uint64_t)((struct pin *)self)->context->settings->piece_bytes;
}

static void freed(void *self, const pw_lease *lease, int64_t free_ns)
{
    (void)self, (void)lease, (void)free_ns;
}

static const pw_piece_ops pieces = {
    .piece_bytes = piece_bytes,
    .acquire = acquire,
    .release = release,
    .freed = freed,
    .is_ahead = true,
};

const pw_strategy_ops pw_strategy_pin_rendezvous = {
    .name = "pin-rendezvous",
    .summary = "pin each message in pieces, while its handshake and its first pieces travel",
    .create = create,
    .destroy = destroy,
    .acquire = acquire_but_messages,
    .release = release_but_messages,
    .invalidated = pw_strategy_nothing_known,
    .way = &pw_way_in_pieces,
    .pieces = &pieces,
};
