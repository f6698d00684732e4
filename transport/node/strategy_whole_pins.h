/* Memory strategy `pin`, for those that pin some spans as a whole as it does. */
#ifndef PW_NODE_STRATEGY_WHOLE_PINS_H
#define PW_NODE_STRATEGY_WHOLE_PINS_H
#include "transport/node/strategy.h"

/* Its leases have a token above 0. */
extern const pw_strategy_ops pw_strategy_pin;
/* What its object was made with. */
pw_strategy_context *pw_strategy_pin_context(void *self);
/* Pages pinned besides those that it knows of, for limit and report. */
void pw_strategy_pin_add_pages(void *self, uint64_t num_pages);
#endif
