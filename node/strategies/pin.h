/* Pins of whole spans: with counts, and as memory strategy `pin` has them. One thread at a time. */
#ifndef PW_NODE_STRATEGIES_PIN_H
#define PW_NODE_STRATEGIES_PIN_H
#include "native/memory.h"
#include "node/strategies/strategy.h"

/* Pinned pages with counts: pins of ranges that may overlap nest, which mlock's do not. A page is
 * unpinned when the last that pinned it releases it. Costs O(log n) for each interval that a range
 * meets, and what the kernel takes for the pages. One thread at a time. */

typedef struct pw_pins pw_pins;

/* memory lives longer. */
int pw_pins_create(pw_memory *memory, pw_pins **out);
/* Unpins what is pinned yet. */
void pw_pins_destroy(pw_pins *pins);
/* Make every page present and keep it so until `release` with *pin. *num_absent: pages that were
 * absent before. With an error nobody's pins have changed: those of pw_memory_pin, PW_ERR_NOMEM. */
int pw_pins_acquire(pw_pins *pins, uint64_t first_page, uint64_t num_pages, uint64_t *num_absent,
                    uint64_t *pin);
/* Give one range back, once and as it was acquired; unpins the pages that nobody else has pinned.
 * Pages that were invalidated since then stay as they are, pages that are not mapped any more have
 * lost their pins already. With PW_ERR_HOST the range is given back all the same. */
int pw_pins_release(pw_pins *pins, uint64_t first_page, uint64_t num_pages, uint64_t pin);
/* Pages that anybody has pinned. */
uint64_t pw_pins_num_pages(const pw_pins *pins);

/* Memory strategy `pin`, for those that pin some spans as a whole as it does. */

/* Its leases have a token above 0. */
extern const pw_strategy_ops pw_strategy_pin;
/* Pages pinned besides those that it knows of, for limit and report. */
void pw_strategy_pin_add_pages(void *self, uint64_t num_pages);

#endif
