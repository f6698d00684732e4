/* What memory strategies do with pages: see strategy_pages.h. */
#include "transport/node/strategy_pages.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int pw_strategy_touch(pw_strategy_context *context, pw_span span, uint64_t *num_absent)
{
    uint64_t first_page = pw_span_first_page(span), num_pages = pw_span_num_pages(span);
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
    if (code == PW_ERR_FULL && is_pin)
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

int pw_strategy_nothing_known(void *self, uint64_t first_page, uint64_t num_pages)
{
    (void)self, (void)first_page, (void)num_pages;
    return PW_OK;
}

int pw_strategy_nothing_to_undo(void *self, const pw_lease *lease, pw_strategy_cost *cost)
{
    (void)self, (void)lease;
    *cost = (pw_strategy_cost){0};
    return PW_OK;
}

int pw_strategy_use_context(pw_strategy_context *context, void **self)
{
    *self = context;
    return PW_OK;
}

void pw_strategy_leave_context(void *self) { (void)self; }
