/* Memory strategy `odp`: on-demand paging of an InfiniBand NIC. It does nothing itself: the NIC has
 * a page table of its own and faults (odp/). */
#include "transport/node/strategy_pages.h"

static int acquire(void *self, pw_span span, int access, pw_lease *out)
{
    (void)self, (void)access;
    *out = (pw_lease){.span = span};
    return PW_OK;
}

const pw_strategy_ops pw_strategy_odp = {
    .name = "odp",
    .summary = "on-demand paging: the NIC's own page table, receiver not ready, go-back-N",
    .create = pw_strategy_use_context,
    .destroy = pw_strategy_leave_context,
    .acquire = acquire,
    .release = pw_strategy_nothing_to_undo,
    .invalidated = pw_strategy_nothing_known,
    .unit = PW_TRANSLATION_ODP,
};
