/* Memory strategy `pin`: the buffer is pinned (mlock) before each transfer and unpinned after it.
 * Each call costs what the whole span costs, also where it overlaps others under way; pages that
 * these still need stay pinned. */
#include <stdlib.h>

#include "transport/node/pins.h"
#include "transport/node/strategy_pages.h"
#include "transport/node/strategy_whole_pins.h"

struct pin {
    pw_strategy_context *context;
    pw_pins *pins;
    uint64_t num_others; /* pages that somebody else keeps pinned */
};

pw_strategy_context *pw_strategy_pin_context(void *self) { return ((struct pin *)self)->context; }

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
    const pw_cost_tables *tables = pin->context->tables;
    int64_t pin_ns = pw_cost_ns(tables, PW_COST_PIN_RESIDENT, num_pages - num_absent) +
                     pw_cost_ns(tables, PW_COST_PIN_ABSENT, num_absent);
    *out = (pw_lease){.span = span, .cost.pin_ns = pin_ns, .token = token};
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
