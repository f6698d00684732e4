/* Pages in page-in: the virtual time from which each is present. The host's memory has the page at
 * once; an access that arrives earlier in virtual time must still fault. Entries go when the transfer
 * that brought them in is over. Open addressing; grows by doubling. Not thread-safe. */
#ifndef PW_SMMU_PAGE_IN_H
#define PW_SMMU_PAGE_IN_H
#include "native/types.h"

typedef struct {
    uint64_t *pages;            /* 0 = empty slot (page 0 is never mapped) */
    pw_time *present_ns;
    bool *is_permission;        /* until then the page's protection stops the access, not its absence */
    uint32_t capacity, num_entries; /* capacity a power of two, or 0 before the first */
} pw_page_in;

void pw_page_in_init(pw_page_in *table);
void pw_page_in_destroy(pw_page_in *table);
/* The page is present from present_ns on; an earlier entry of the page is replaced. */
int pw_page_in_add(pw_page_in *table, uint64_t page, pw_time present_ns, bool is_permission);
/* Present from when: a time, or INT64_MIN when the page is not in page-in. */
pw_time pw_page_in_present_ns(const pw_page_in *table, uint64_t page);
bool pw_page_in_is_permission(const pw_page_in *table, uint64_t page);
void pw_page_in_forget(pw_page_in *table, uint64_t first_page, uint64_t num_pages);
#endif
