/* The driver's VMH table: which pages of which process are pinned, so that the NIC may use them
 * [MINI 3]. Two levels, a process each: a first level that finds the second-level tables, which
 * have an entry for each of 512 pages. The first level is a hash: a flat one of the thesis's 32-bit
 * hosts has no counterpart with 48 bits. Entries stand for pinned pages only. At the high water
 * mark pages are unpinned down to the low one, table by table in the order in which their tables
 * were made (assumed: the thesis leaves the order open), never a page that the NIC's cache holds.
 * Not thread-safe. */
#ifndef PW_MINI_VMH_TABLE_H
#define PW_MINI_VMH_TABLE_H
#include "mini/line_cache.h"
#include "native/counters.h"
#include "native/memory.h"
#include "native/pinned.h"

#define PW_VMH_LEAF_SHIFT 9
#define PW_VMH_LEAF_PAGES (1u << PW_VMH_LEAF_SHIFT)
#define PW_VMH_LEAF_WORDS (PW_VMH_LEAF_PAGES / 64)
#define PW_VMH_BUCKETS 1024

/* A second-level table. */
typedef struct pw_vmh_leaf {
    struct pw_vmh_leaf *next_in_bucket, *next;
    uint64_t leaf; /* page number >> PW_VMH_LEAF_SHIFT */
    uint16_t pdid;
    uint64_t pinned[PW_VMH_LEAF_WORDS]; /* bit a page */
    uint64_t seen[PW_VMH_LEAF_WORDS];   /* pages that were in the NIC's cache once: no cold miss */
} pw_vmh_leaf;

typedef struct {
    pw_memory *memory;
    pw_counters *counters;
    const pw_line_cache *cache; /* of the NIC; its lines are not evicted */
    uint32_t line_shift;        /* pages of a line of it, as a power of two */
    pw_vmh_leaf *buckets[PW_VMH_BUCKETS];
    pw_vmh_leaf *first, *last, *hand; /* in the order made; hand: where eviction goes on */
    pw_pinned pinned;
    pw_time now_ns; /* of the call under way; of a shootdown: of the latest access */
} pw_vmh_table;

void pw_vmh_table_init(pw_vmh_table *table, pw_memory *memory, pw_counters *counters,
                       const pw_line_cache *cache, uint32_t line_shift);
/* Unpins every page. */
void pw_vmh_table_destroy(pw_vmh_table *table);
/* The second-level table of a page, made when there is none; NULL: the host has no memory. */
pw_vmh_leaf *pw_vmh_table_leaf(pw_vmh_table *table, uint16_t pdid, uint64_t page);
bool pw_vmh_table_is_pinned(const pw_vmh_table *table, uint16_t pdid, uint64_t page);
/* Pin those of the pages, all in one second-level table, that are not pinned. How many that were,
 * or PW_ERR_* of the memory; a page that cannot be pinned ends it, those before stay. */
int pw_vmh_table_pin(pw_vmh_table *table, uint16_t pdid, uint64_t first_page, uint64_t num_pages);
/* Unpin pages that the NIC's cache does not hold until at most low_pages are pinned. */
void pw_vmh_table_evict(pw_vmh_table *table, uint64_t low_pages);
/* The mapping of the pages changed: their entries go. */
void pw_vmh_table_forget(pw_vmh_table *table, uint16_t pdid, uint64_t first_page,
                         uint64_t num_pages);
/* Of a process, or of all of them: pdid 0. */
void pw_vmh_table_forget_process(pw_vmh_table *table, uint16_t pdid);

static inline bool pw_vmh_leaf_bit(const uint64_t *bits, uint64_t page)
{
    return bits[page % PW_VMH_LEAF_PAGES / 64] >> (page % 64) & 1;
}
static inline void pw_vmh_leaf_set(uint64_t *bits, uint64_t page)
{
    bits[page % PW_VMH_LEAF_PAGES / 64] |= UINT64_C(1) << (page % 64);
}
#endif
