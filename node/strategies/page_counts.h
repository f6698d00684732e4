/* Ranges of pages: how many hold each, and which there are. One thread at a time. */
#ifndef PW_NODE_STRATEGIES_PAGE_COUNTS_H
#define PW_NODE_STRATEGIES_PAGE_COUNTS_H
#include "native/types.h"

/* cdef begin */
/* Pages [first_page, end_page) with the same holders. Indices are those of pw_page_counts. */
typedef struct {
    uint64_t first_page, end_page;
    uint64_t since; /* the hold that found these pages held by nobody */
    uint64_t num_holders;
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

void pw_page_counts_finish(pw_page_counts *counts);
/* One holder more for each page; *hold names it when it lets go. PW_ERR_NOMEM: nothing has
 * changed. */
int pw_page_counts_hold(pw_page_counts *counts, uint64_t first_page, uint64_t num_pages,
                        uint64_t *hold);
/* The holder lets the whole of its range go, once. Pages that were forgotten since then stay as
 * they are, held anew or not. PW_ERR_NOMEM: nothing has changed; never directly after the hold. */
int pw_page_counts_drop(pw_page_counts *counts, uint64_t first_page, uint64_t num_pages,
                        uint64_t hold, pw_page_run unheld, void *context);
/* Nobody holds these pages any more, and nobody is told. Any range. PW_ERR_NOMEM: nothing has
 * changed. */
int pw_page_counts_forget(pw_page_counts *counts, uint64_t first_page, uint64_t num_pages);
/* The first interval that ends behind the page, NULL when there is none; good until the next call
 * that changes anything. */
const pw_page_interval *pw_page_counts_from(const pw_page_counts *counts, uint64_t page);

/* A set of pages kept as few regions as there can be: what is added joins its neighbours. Each
 * region knows when it was used last, for an LRU order. A sorted array: a look-up takes O(log n), a
 * change O(n), and only growth allocates. Knows no memory. One thread at a time. */

typedef struct {
    uint64_t first_page, end_page;
    uint64_t last_use;
} pw_page_region;

/* Zero is an empty one. */
typedef struct {
    pw_page_region *regions; /* by page, with gaps between them */
    uint32_t num_regions, capacity;
    uint64_t num_uses;
} pw_page_regions;

void pw_page_regions_finish(pw_page_regions *all);
/* Index of the first region that ends behind the page; num_regions when there is none. */
uint32_t pw_page_regions_from(const pw_page_regions *all, uint64_t page);
/* The region that holds the whole range, NULL when none does; good until the next change. */
pw_page_region *pw_page_regions_holding(pw_page_regions *all, uint64_t first_page,
                                        uint64_t end_page);
/* It was used just now. */
void pw_page_regions_use(pw_page_regions *all, pw_page_region *region);
/* Put pages in, one region with all that they meet or touch; used just now. PW_ERR_NOMEM. */
int pw_page_regions_add(pw_page_regions *all, uint64_t first_page, uint64_t end_page);
/* Take pages out; cuts a region in two where it must. PW_ERR_NOMEM: nothing has changed. */
int pw_page_regions_remove(pw_page_regions *all, uint64_t first_page, uint64_t end_page);

#endif
