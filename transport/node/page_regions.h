/* A set of pages kept as few regions as there can be: what is added joins its neighbours. Each
 * region knows when it was used last, for an LRU order. A sorted array: a look-up takes O(log n), a
 * change O(n), and only growth allocates. Knows no memory. One thread at a time. */
#ifndef PW_NODE_PAGE_REGIONS_H
#define PW_NODE_PAGE_REGIONS_H
#include "native/types.h"

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
