/* Memory strategy `pin-all`: what the program can write is pinned from the start, every private
 * anonymous mapping (heap, stacks, big allocations), and each new one too. A new mapping is found
 * when a transfer meets pages that are not pinned; its cost counts from there, and all new ones are
 * pinned then. Other mappings, as of files, are pinned when a transfer uses them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "node/strategies/strategy_pages.h"

/* So that a mapping of terabytes, of which nothing is there, is refused instead of brought in. */
static int check_frames(pw_strategy_context *context, uint64_t num_pages)
{
    long available = context->has_no_bytes ? -1 : sysconf(_SC_AVPHYS_PAGES);
    if (available < 0 || num_pages <= (uint64_t)available) return PW_OK;
    snprintf(context->reason, sizeof context->reason,
             "pin of a mapping of %" PRIu64 " pages: the host has %ld free; take another "
             "run.memory",
             num_pages, available);
    return PW_ERR_FULL;
}

/* Pin what of the range is not pinned yet, mapping by mapping. */
static int pin_missing(pw_strategy_context *context, uint64_t first_page, uint64_t num_pages,
                       pw_strategy_cost *cost)
{
    int code = pw_memory_is_pinned(context->memory, first_page, num_pages);
    if (code < 0)
        return pw_strategy_failed(context, code, "look-up",
                                  pw_span_of_pages(first_page, num_pages));
    if (code == 1) return PW_OK;
    uint64_t num_absent;
    code = check_frames(context, num_pages);
    if (code == PW_OK) code = pw_strategy_pin_pages(context, first_page, num_pages, &num_absent);
    if (code != PW_OK) return code;
    cost->pin_ns += pw_strategy_pin_ns(context, num_pages, num_absent);
    return PW_OK;
}

/* Every private anonymous mapping; what is counted of mappings that went is forgotten. */
static int pin_everything(pw_strategy_context *context, pw_strategy_cost *cost)
{
    uint64_t page = 0, first_page, num_pages;
    if (context->has_no_bytes) return PW_OK; /* of no process, which would have mappings */
    for (;; page = first_page + num_pages) {
        int code = pw_memory_next_private(context->memory, page, &first_page, &num_pages);
        if (code == PW_OK && first_page < page) { /* the pin joined it with the one before */
            num_pages -= page - first_page;
            first_page = page;
        }
        uint64_t gone_pages = (code == PW_OK ? first_page : UINT64_MAX) - page;
        if (code != PW_OK && code != PW_ERR_ADDRESS)
            return pw_strategy_failed(context, code, "look-up", (pw_span){0});
        (void)pw_page_counts_forget(&context->pinned_pages, page, gone_pages);
        pw_pinned_set(&context->pinned, context->pinned_pages.num_held_pages, context->now_ns);
        if (code == PW_ERR_ADDRESS) return PW_OK;
        code = pin_missing(context, first_page, num_pages, cost);
        /* One that went meanwhile, or that is a guard of the C library's: no transfer uses it. */
        if (code != PW_OK && code != PW_ERR_ADDRESS && code != PW_ERR_PROTECTION) return code;
    }
}

static int create(pw_strategy_context *context, void **self)
{
    (void)self;
    return pin_everything(context, &context->start_cost);
}

static int acquire(void *self, pw_span span, int access, pw_lease *out)
{
    (void)access;
    pw_strategy_context *context = self;
    pw_lease lease = {.span = span};
    uint64_t first_page = pw_span_first_page(span), num_pages = pw_span_num_pages(span);
    int is_pinned = pw_memory_is_pinned(context->memory, first_page, num_pages);
    if (is_pinned < 0) return pw_strategy_failed(context, is_pinned, "look-up", span);
    if (is_pinned) {
        context->counters.strategy_hits++;
    } else {
        context->counters.strategy_misses++;
        int code = pin_everything(context, &lease.cost);
        if (code == PW_OK) code = pin_missing(context, first_page, num_pages, &lease.cost);
        if (code != PW_OK) return code;
    }
    *out = lease;
    return PW_OK;
}

const pw_strategy_ops pw_strategy_pin_all = {
    .name = "pin-all",
    .summary = "pin all of the program's memory at its start, and each new mapping",
    .create = create,
    .destroy = pw_strategy_unpin_all,
    .acquire = acquire,
};
