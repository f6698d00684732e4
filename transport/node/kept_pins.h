/* Pages that stay pinned behind their use, page by page, until room is needed: those that nobody
 * uses go, who came to the queue first at first. What strategies keep whose unit is the page, not
 * the buffer (utlb, firehose). A mapping that goes takes its pins along, and nobody tells: who
 * checks asks whether the very pages are pinned still, and pins anew. One thread at a time. */
#ifndef PW_NODE_KEPT_PINS_H
#define PW_NODE_KEPT_PINS_H
#include "transport/node/kept_pages.h"
#include "transport/node/strategy.h"

typedef struct {
    pw_strategy_context *context;
    pw_kept_pages pages;
    uint64_t max_pages, max_idle_pages; /* as far as what is in use allows */
} pw_kept_pins;

/* Unpins all. */
void pw_kept_pins_finish(pw_kept_pins *pins);
/* One user more for each page of the range, which is pinned then; *cost grows. *num_new: pages that
 * were not pinned before. With an error nothing has changed but what had to go. */
int pw_kept_pins_hold(pw_kept_pins *pins, uint64_t first_page, uint64_t num_pages, bool checks,
                      pw_strategy_cost *cost, uint64_t *num_new);
/* One user less, after a hold. */
int pw_kept_pins_drop(pw_kept_pins *pins, uint64_t first_page, uint64_t num_pages,
                      pw_strategy_cost *cost);
/* Pin anew what is kept of the range and was unpinned by the OS. */
int pw_kept_pins_renew(pw_kept_pins *pins, uint64_t first_page, uint64_t num_pages,
                       pw_strategy_cost *cost);
/* The mappings of the range went or changed. */
int pw_kept_pins_invalidated(pw_kept_pins *pins, uint64_t first_page, uint64_t num_pages);
#endif
