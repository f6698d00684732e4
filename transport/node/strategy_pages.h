/* What memory strategies do with pages: the span's pages, touch, and the sentence for an error. */
#ifndef PW_NODE_STRATEGY_PAGES_H
#define PW_NODE_STRATEGY_PAGES_H
#include "transport/node/strategy.h"

static inline uint64_t pw_span_first_page(pw_span span) { return pw_page_of(span.address); }

/* Pages that the span touches, whole or in part; no sum of it can overflow. */
static inline uint64_t pw_span_num_pages(pw_span span)
{
    uint64_t in_page = PW_PAGE_BYTES - 1;
    uint64_t rest = (span.address & in_page) + (span.num_bytes & in_page) + in_page;
    return (span.num_bytes >> PW_PAGE_SHIFT) + (rest >> PW_PAGE_SHIFT);
}

/* Make every page present for writing, or for reading where the mapping allows no more.
 * *num_absent: pages that were absent before; a write-protected one counts. */
int pw_strategy_touch(pw_strategy_context *context, pw_span span, uint64_t *num_absent);
/* The code, for which context->reason says what was tried ("pin") and what to do. PW_ERR_HOST:
 * called directly after the call that failed, whose errno it reads. */
int pw_strategy_failed(pw_strategy_context *context, int code, const char *tried, pw_span span);
/* For `invalidated` and `release` of strategies that keep nothing. */
int pw_strategy_nothing_known(void *self, uint64_t first_page, uint64_t num_pages);
int pw_strategy_nothing_to_undo(void *self, const pw_lease *lease, pw_strategy_cost *cost);
/* For `create` and `destroy` of strategies whose object is the context. */
int pw_strategy_use_context(pw_strategy_context *context, void **self);
void pw_strategy_leave_context(void *self);
#endif
