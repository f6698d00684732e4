/* Memory strategy `pretouch`: the first byte of each page is read and written before each transfer
 * [PART 5]. A mapping that is read-only is only read. */
#include "transport/node/strategy_pages.h"

static int acquire(void *self, pw_span span, int access, pw_lease *out)
{
    (void)access;
    pw_strategy_context *context = self;
    uint64_t num_absent;
    int code = pw_strategy_touch(context, span, &num_absent);
    if (code != PW_OK) return code;
    uint64_t num_resident = pw_span_num_pages(span) - num_absent;
    int64_t touch_ns = pw_cost_ns(context->tables, PW_COST_TOUCH_RESIDENT, num_resident) +
                       pw_cost_ns(context->tables, PW_COST_TOUCH_ABSENT, num_absent);
    *out = (pw_lease){.span = span, .cost.touch_ns = touch_ns};
    return PW_OK;
}

const pw_strategy_ops pw_strategy_pretouch = {
    .name = "pretouch",
    .summary = "touch each page of a buffer before each transfer",
    .create = pw_strategy_use_context,
    .destroy = pw_strategy_leave_context,
    .acquire = acquire,
    .release = pw_strategy_nothing_to_undo,
    .invalidated = pw_strategy_nothing_known,
};
