/* Ranges of pages: how many hold each. One thread at a time. */
#ifndef PW_NODE_STRATEGIES_PAGE_COUNTS_H
#define PW_NODE_STRATEGIES_PAGE_COUNTS_H
#include "native/types.h"

/* cdef begin */
/* Pages [first_page, end_page) with the same holders. Indices are those of pw_page_counts. */
typedef struct {
    uint64_t first_page, end_page;
    uint64_t since;       /* the hold that found these pages held by nobody */
    uint64_t num_holders; /* 0: the interval is free */
    uint32_t priority;    /* the tree is a heap by it, which balances it */
    uint32_t left, right; /* 0: none */
} pw_page_interval;

/* Zero is an empty one. Read by the functions below alone. */
typedef struct {
    pw_page_interval *intervals; /* index 0 is none */
    uint32_t root, free;         /* free ones are linked by left */
    uint32_t num_intervals, num_made, capacity;
    uint32_t num_priorities;
    uint64_t last_hold;
    uint64_t num_held_pages; /* with any holder */
} pw_page_counts;
/* cdef end */

/* Called for each run of pages that nobody holds any more. A negative code does not stop what
 * reports it, but is what that returns. */
typedef int (*pw_page_run)(void *context, uint64_t first_page, uint64_t num_pages);
typedef bool (*pw_page_test)(const void *context, const pw_page_interval *each);

void pw_page_counts_finish(pw_page_counts *counts);
/* One holder more for each page; *hold names it when it lets go. PW_ERR_NOMEM: nothing has
 * changed. */
int pw_page_counts_hold(pw_page_counts *counts, uint64_t first_page, uint64_t num_pages,
                        uint64_t *hold);
/* The holder lets the whole of its range go, once. Pages that were forgotten since then stay as
 * they are, held anew or not. unheld NULL: nobody is told. PW_ERR_NOMEM: nothing has changed;
 * never directly after the hold. */
int pw_page_counts_drop(pw_page_counts *counts, uint64_t first_page, uint64_t num_pages,
                        uint64_t hold, pw_page_run unheld, void *context);
/* Nobody holds these pages any more, and nobody is told. Any range. PW_ERR_NOMEM: nothing has
 * changed. */
int pw_page_counts_forget(pw_page_counts *counts, uint64_t first_page, uint64_t num_pages);
/* The first interval that ends behind the page, NULL when there is none; good until the next call
 * that changes anything. */
const pw_page_interval *pw_page_counts_from(const pw_page_counts *counts, uint64_t page);

/* The next pages of [*page, end_page) that are in one interval: how many, from *page on, which
 * moves there; 0: no more. */
uint64_t pw_page_counts_next(const pw_page_counts *counts, uint64_t *page, uint64_t end_page);

/* For who holds no page twice and keeps as few intervals as there can be, by the order of use. */

/* These pages, which are all held, become one interval with those that they touch; its hold is the
 * newest. */
void pw_page_counts_merge(pw_page_counts *counts, uint64_t first_page, uint64_t end_page);
/* Of the intervals that suit the one with the oldest hold, the first of several; NULL: none does.
 * Good as that of pw_page_counts_from. */
const pw_page_interval *pw_page_counts_oldest(const pw_page_counts *counts, pw_page_test suits,
                                              const void *context);
#endif
