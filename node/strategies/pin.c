/* Memory strategies `pin`, `kernel` and `pin-rendezvous`. With `pin` the buffer is pinned (mlock)
 * before each transfer and unpinned after it. Each call costs what the whole span costs, also where
 * it overlaps others under way; pages that these still need stay pinned. */
#include "node/strategies/message_way.h"
#include "node/strategies/strategy_pages.h"

static int acquire(void *self, pw_span span, int access, pw_lease *out)
{
    (void)access;
    pw_strategy_context *context = self;
    uint64_t num_absent, hold;
    int code = pw_strategy_hold_pages(context, span, &num_absent, &hold);
    if (code != PW_OK) return code;
    *out =
        (pw_lease){.span = span,
                   .cost.pin_ns = pw_strategy_pin_ns(context, pw_span_num_pages(span), num_absent),
                   .token = hold};
    return PW_OK;
}

static int release(void *self, const pw_lease *lease, pw_strategy_cost *cost)
{
    pw_strategy_context *context = self;
    uint64_t num_pages = pw_span_num_pages(lease->span);
    int code =
        pw_page_counts_drop(&context->pinned_pages, pw_span_first_page(lease->span), num_pages,
                            lease->token, pw_memory_unpin_mapped, context->memory);
    if (code != PW_OK) return pw_strategy_failed(context, code, "unpin", lease->span);
    pw_pinned_set(&context->pinned, context->pinned_pages.num_held_pages, context->now_ns);
    *cost = (pw_strategy_cost){.pin_ns = pw_cost_ns(context->tables, PW_COST_UNPIN, num_pages)};
    return PW_OK;
}

/* Nothing is known of a span before its transfer: each one pins anew. Pins under way stay counted,
 * because a fork, which invalidates every page, takes no pin away. */
const pw_strategy_ops pw_strategy_pin = {
    .name = "pin",
    .summary = "pin buffers for each transfer",
    .destroy = pw_strategy_unpin_all,
    .acquire = acquire,
    .release = release,
};

/* Memory strategy `kernel`: RDMA that the kernel initiates [R5 5.7, 5.8]. Each end asks it by a
 * system call, in which it pins the buffer (get_user_pages [PART 5.2]) and writes the descriptor;
 * the process sleeps until the interrupt of the end, and the pages are given back. Assumed:
 * get_user_pages costs nothing more for a page that is there. */
static int acquire_in_kernel(void *self, pw_span span, int access, pw_lease *out)
{
    (void)access;
    pw_strategy_context *context = self;
    const pw_costs *costs = context->costs;
    uint64_t num_absent, hold;
    int code = pw_strategy_hold_pages(context, span, &num_absent, &hold);
    if (code != PW_OK) return code;
    *out = (pw_lease){.span = span,
                      .cost.pin_ns = costs->system_call_ns + costs->page_in_fixed_ns +
                                     (int64_t)num_absent * costs->page_in_page_ns,
                      .token = hold};
    return PW_OK;
}

static int release_in_kernel(void *self, const pw_lease *lease, pw_strategy_cost *cost)
{
    const pw_costs *costs = ((pw_strategy_context *)self)->costs;
    int code = release(self, lease, cost);
    if (code == PW_OK) cost->pin_ns += costs->handler_ns + costs->user_wakeup_ns;
    return code;
}

const pw_strategy_ops pw_strategy_kernel = {
    .name = "kernel",
    .summary = "ask the kernel for each transfer, which pins, and sleep until its interrupt",
    .destroy = pw_strategy_unpin_all,
    .acquire = acquire_in_kernel,
    .release = release_in_kernel,
};

/* Memory strategy `pin-rendezvous`: each end pins a message piece by piece while the handshake and
 * the pieces before are on their way, and unpins a piece when it has gone through. Memory that
 * peers know by its address, and what is read and written one-sided, is pinned as a whole. */

static const pw_piece_ops pieces = {
    .acquire = acquire,
    .release = release,
    .is_ahead = true,
};

const pw_strategy_ops pw_strategy_pin_rendezvous = {
    .name = "pin-rendezvous",
    .summary = "pin each message in pieces, while its handshake and its first pieces travel",
    .destroy = pw_strategy_unpin_all,
    .acquire = acquire,
    .release = release,
    .way = &pw_way_in_pieces,
    .pieces = &pieces,
};
