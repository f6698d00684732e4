/* miNI: the NIC's memory as a cache of host tables [MINI 3]. A translation unit with two caches on
 * the NIC, of virtual-memory handles (VMH: process and page) and of communication-buffer handles
 * (CBH: process and buffer), and their tables in host memory. A miss raises an interrupt; the
 * handler puts it in the miss queue and wakes a kernel thread, since pages cannot be pinned in an
 * interrupt; the thread finds or pins a line of pages and fills the slot, which is reserved until
 * then. A packet that misses on arrival is dropped without an answer and comes again by its
 * source's timer; a request that misses on sending waits.
 *
 * Can: lines of several pages, sets, ways, locks of lines in use, water marks, unknown buffers
 * filled as invalid, misses in the time of component costs or of measured distributions. Cannot:
 * page faults (all that the NIC knows is pinned), answers foreseen. One NI, one thread at a time.
 */
#ifndef PW_SMMU_MINI_MINI_H
#define PW_SMMU_MINI_MINI_H
#include "native/page_leaves.h"
#include "native/pinned.h"
#include "smmu/unit.h"

/* The NIC's cache of a host table, set-associative, tagged with the process: miNI's VMH and CBH
 * look-up caches [MINI 3]. It holds the tags and when each line can be used; what stands in a line
 * is the owner's. The NIC replaces the least recently used line, but never one that a DMA uses (a
 * lock bit each for send and receive) nor one that is reserved from its miss until the driver has
 * filled it. Blocks are worked off in the order in which they are physically here, so both are kept
 * as the virtual time until which they hold. No allocation after init. */
#define PW_LINE_PAGES_MAX 128
#define PW_LINE_WORDS (PW_LINE_PAGES_MAX / 64)

enum pw_lock { PW_LOCK_SEND, PW_LOCK_RECEIVE, PW_NUM_LOCKS };

typedef struct {
    uint64_t line; /* page number, or buffer id, without the bits inside of the line */
    uint16_t pdid;
    bool is_used;
    pw_time ready_ns; /* reserved until then, valid from then on */
    pw_time used_ns;  /* last: who was used longest ago is replaced */
    pw_time locked_until_ns[PW_NUM_LOCKS];
    uint64_t valid[PW_LINE_WORDS]; /* bit an entry */
} pw_cache_line;

typedef struct {
    uint32_t num_sets, num_ways; /* sets: a power of two; ways: at least 2 */
    pw_cache_line *lines;        /* sets one behind the other */
} pw_line_cache;

int pw_line_cache_init(pw_line_cache *cache, uint32_t num_sets, uint32_t num_ways);
void pw_line_cache_destroy(pw_line_cache *cache);
/* The line of the process, reserved or valid; NULL when the cache has none. */
pw_cache_line *pw_line_cache_find(const pw_line_cache *cache, uint16_t pdid, uint64_t line);
/* A slot for the line at at_ns, emptied: a free one, or the least recently used one that is neither
 * reserved nor locked then. NULL when there is none; *free_ns: when the first one will be. */
pw_cache_line *pw_line_cache_take(pw_line_cache *cache, uint16_t pdid, uint64_t line, pw_time at_ns,
                                  pw_time *free_ns, bool *evicted);
/* Look-up and use are one step: the line cannot be replaced before until_ns. */
void pw_cache_line_lock(pw_cache_line *line, enum pw_lock lock, pw_time at_ns, pw_time until_ns);
/* Drop a line of every process; lines from first to last of one process, or of all: pdid 0. */
void pw_line_cache_drop_line(pw_line_cache *cache, uint64_t line);
void pw_line_cache_drop_range(pw_line_cache *cache, uint16_t pdid, uint64_t first, uint64_t last);

static inline bool pw_cache_line_has(const pw_cache_line *line, uint32_t entry)
{
    return line->valid[entry / 64] >> (entry % 64) & 1;
}

/* The driver's VMH table: which pages of which process are pinned, so that the NIC may use them
 * [MINI 3]. Two levels, a process each: a first level that finds the second-level tables, which
 * have an entry for each of 512 pages. The first level is a hash: a flat one of the thesis's 32-bit
 * hosts has no counterpart with 48 bits. Entries stand for pinned pages only. At the high water
 * mark pages are unpinned down to the low one, table by table in the order in which their tables
 * were made (assumed: the thesis leaves the order open), never a page that the NIC's cache holds.
 */
#define PW_VMH_LEAF_WORDS (PW_LEAF_PAGES / 64)

/* A second-level table. */
typedef struct {
    pw_leaf leaf;
    uint64_t pinned[PW_VMH_LEAF_WORDS]; /* bit a page */
    uint64_t seen[PW_VMH_LEAF_WORDS];   /* pages that were in the NIC's cache once: no cold miss */
} pw_vmh_leaf;

typedef struct {
    pw_memory *memory;
    pw_counters *counters;
    const pw_line_cache *cache; /* of the NIC; its lines are not evicted */
    uint32_t line_shift;        /* pages of a line of it, as a power of two */
    pw_page_leaves leaves;
    pw_leaf *hand; /* where eviction goes on */
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
/* The mapping of the pages changed: their entries go, those of every process with pdid 0. */
void pw_vmh_table_forget(pw_vmh_table *table, uint16_t pdid, uint64_t first_page,
                         uint64_t num_pages);

static inline bool pw_vmh_leaf_bit(const uint64_t *bits, uint64_t page)
{
    return bits[page % PW_LEAF_PAGES / 64] >> (page % 64) & 1;
}
static inline void pw_vmh_leaf_set(uint64_t *bits, uint64_t page)
{
    bits[page % PW_LEAF_PAGES / 64] |= UINT64_C(1) << (page % 64);
}

#define PW_MINI_PROCESSES_MAX 128
#define PW_VMH_ENTRIES_MAX (1 << 20) /* of either cache */
#define PW_MINI_BUFFER_BITS 20       /* of its id, which a key holds among 64 bits */

int pw_mini_create(const pw_unit_parts *parts, pw_translation_unit **out);
/* Its base system (VMMC). */
int pw_static_tables_create(const pw_unit_parts *parts, pw_translation_unit **out);

#endif
