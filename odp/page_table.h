/* The page table of a NIC with on-demand paging, apart from the OS's: which pages of which process
 * the NIC may use, from when on, and whether it may write them. Tables of 512 pages, found by a
 * hash. Not thread-safe. */
#ifndef PW_ODP_PAGE_TABLE_H
#define PW_ODP_PAGE_TABLE_H
#include "native/types.h"

#define PW_ODP_LEAF_SHIFT 9
#define PW_ODP_LEAF_PAGES (1u << PW_ODP_LEAF_SHIFT)
#define PW_ODP_BUCKETS 1024

typedef struct {
    pw_time ready_ns; /* it can be used from then on; PW_NEVER: there is no entry */
    bool is_writable;
} pw_odp_entry;

typedef struct pw_odp_leaf {
    struct pw_odp_leaf *next; /* in its bucket */
    uint64_t leaf;            /* page number >> PW_ODP_LEAF_SHIFT */
    uint16_t pdid;
    pw_odp_entry entries[PW_ODP_LEAF_PAGES];
} pw_odp_leaf;

typedef struct {
    pw_odp_leaf *buckets[PW_ODP_BUCKETS];
    uint64_t num_entries, peak_entries;
} pw_odp_table;

void pw_odp_table_destroy(pw_odp_table *table);
/* The entry of a page, or NULL. */
const pw_odp_entry *pw_odp_table_find(const pw_odp_table *table, uint16_t pdid, uint64_t page);
/* Enter a page, or replace its entry. PW_ERR_NOMEM. */
int pw_odp_table_enter(pw_odp_table *table, uint16_t pdid, uint64_t page, pw_odp_entry entry);
/* Entries of a range go; how many there were. */
uint64_t pw_odp_table_drop(pw_odp_table *table, uint16_t pdid, uint64_t first_page,
                           uint64_t num_pages);
/* Of a process, or of all of them: pdid 0. */
uint64_t pw_odp_table_drop_process(pw_odp_table *table, uint16_t pdid);
#endif
