/* Memory strategies `part`, `part-prefetch` and `ideal`, which do nothing themselves: with the
 * first pages fault at the NI and are brought in (PART), with the second the driver is told of a
 * message's destination too when it is matched, with the third the engine never lets a mapped page
 * fault. */
#include "transport/node/strategy_pages.h"

static int acquire(void *self, pw_span span, int access, pw_lease *out)
{
    (void)self, (void)access;
    *out = (pw_lease){.span = span};
    return PW_OK;
}

const pw_strategy_ops pw_strategy_part = {
    .name = "part",
    .summary = "let pages fault; the driver pages in and the ERR resumes the block (PART)",
    .create = pw_strategy_use_context,
    .destroy = pw_strategy_leave_context,
    .acquire = acquire,
    .release = pw_strategy_nothing_to_undo,
    .invalidated = pw_strategy_nothing_known,
};

const pw_strategy_ops pw_strategy_part_prefetch = {
    .name = "part-prefetch",
    .summary = "PART, and the receiver's driver pages in while the request travels",
    .create = pw_strategy_use_context,
    .destroy = pw_strategy_leave_context,
    .acquire = acquire,
    .release = pw_strategy_nothing_to_undo,
    .invalidated = pw_strategy_nothing_known,
    .advises = true,
};

const pw_strategy_ops pw_strategy_ideal = {
    .name = "ideal",
    .summary = "accesses never fault, at no extra cost",
    .create = pw_strategy_use_context,
    .destroy = pw_strategy_leave_context,
    .acquire = acquire,
    .release = pw_strategy_nothing_to_undo,
    .invalidated = pw_strategy_nothing_known,
};
