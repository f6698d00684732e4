/* What memory strategies do with pages: the span's pages, touch, pin, and the sentence for an
 * error. */
#ifndef PW_NODE_STRATEGIES_STRATEGY_PAGES_H
#define PW_NODE_STRATEGIES_STRATEGY_PAGES_H
#include "node/strategies/strategy.h"

static inline uint64_t pw_span_first_page(pw_span span) { return pw_page_of(span.address); }

/* Pages that the span touches, whole or in part; no sum of it can overflow. */
static inline uint64_t pw_span_num_pages(pw_span span)
{
    uint64_t in_page = PW_PAGE_BYTES - 1;
    uint64_t rest = (span.address & in_page) + (span.num_bytes & in_page) + in_page;
    return (span.num_bytes >> PW_PAGE_SHIFT) + (rest >> PW_PAGE_SHIFT);
}

static inline pw_span pw_span_of_pages(uint64_t first_page, uint64_t num_pages)
{
    return (pw_span){first_page << PW_PAGE_SHIFT, num_pages << PW_PAGE_SHIFT};
}

/* Make every page present for writing, or for reading where the mapping allows no more.
 * *num_absent: pages that were absent before; a write-protected one counts. */
int pw_strategy_touch(pw_strategy_context *context, pw_span span, uint64_t *num_absent);
/* The code, for which context->reason says what was tried ("pin") and what to do. PW_ERR_HOST:
 * called directly after the call that failed, whose errno it reads. */
int pw_strategy_failed(pw_strategy_context *context, int code, const char *tried, pw_span span);
/* A transfer through what is kept and was not checked. When its mapping had gone, the NI sees
 * frames that are the program's no more: counted; *out then names pages of nobody, unless peers
 * name the address. */
int pw_strategy_use_unchecked(pw_strategy_context *context, pw_span span, int access,
                              pw_lease *out);
/* Give such pages back, if the lease names any. */
void pw_strategy_end_astray(const pw_lease *lease);
/* For `create`: a zeroed object, which begins with a pointer to the context. PW_ERR_NOMEM. */
int pw_strategy_object(pw_strategy_context *context, size_t num_bytes, void **self);
/* What touching or pinning pages costs of which so many were absent. */
int64_t pw_strategy_touch_ns(const pw_strategy_context *context, uint64_t num_pages,
                             uint64_t num_absent);
int64_t pw_strategy_pin_ns(const pw_strategy_context *context, uint64_t num_pages,
                           uint64_t num_absent);

/* -- pins, counted in context->pinned_pages and context->pinned */
/* As pw_strategy_pin_pages; these nest: the span's pages are unpinned when *hold and all others are
 * dropped. */
int pw_strategy_hold_pages(pw_strategy_context *context, pw_span span, uint64_t *num_absent,
                           uint64_t *hold);
/* Whatever is pinned yet; for `destroy` of strategies whose object is the context. */
void pw_strategy_unpin_all(void *context);
/* `pin`, for those that pin some spans as it does; its object is the context. */
extern const pw_strategy_ops pw_strategy_pin;
/* cdef begin */
/* Make every page present and keep it so. *num_absent: pages that were absent before; may be NULL.
 * PW_ERR_FULL: the host's limit of locked memory, or strategy.locked_limit; context->reason tells.
 * With an error nothing has changed. */
int pw_strategy_pin_pages(pw_strategy_context *context, uint64_t first_page, uint64_t num_pages,
                          uint64_t *num_absent);
/* Undo every pin of these pages; those that are not mapped any more have lost theirs. */
int pw_strategy_unpin_pages(pw_strategy_context *context, uint64_t first_page, uint64_t num_pages);
/* cdef end */
/* What the kernel has of pins there goes, page by page where it must. A pw_page_run. */
int pw_memory_unpin_mapped(void *memory, uint64_t first_page, uint64_t num_pages);
#endif
