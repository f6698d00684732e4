/* Memory strategy `np-rdma`: before a transfer's end is believed software compares the versions of
 * its pages; what went to the signature page is asked for again (odp/np.h). */
#include "transport/node/strategy_pages.h"

static int acquire(void *self, pw_span span, int access, pw_lease *out)
{
    const pw_strategy_context *context = self;
    (void)access;
    *out = (pw_lease){.span = span, .cost.touch_ns = context->costs->np_check_ns};
    return PW_OK;
}

const pw_strategy_ops pw_strategy_np_rdma = {
    .name = "np-rdma",
    .summary = "no faults: absent pages are a signature page, software notices and asks again",
    .create = pw_strategy_use_context,
    .destroy = pw_strategy_leave_context,
    .acquire = acquire,
    .release = pw_strategy_nothing_to_undo,
    .invalidated = pw_strategy_nothing_known,
    .unit = PW_TRANSLATION_NP,
};
