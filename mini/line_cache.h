/* The NIC's cache of a host table, set-associative, tagged with the process: miNI's VMH and CBH
 * look-up caches [MINI 3]. It holds the tags and when each line can be used; what stands in a line
 * is the owner's. The NIC replaces the least recently used line, but never one that a DMA uses (a
 * lock bit each for send and receive) nor one that is reserved from its miss until the driver has
 * filled it. Blocks are worked off in the order in which they are physically here, so both are kept
 * as the virtual time until which they hold. No allocation after init. Not thread-safe. */
#ifndef PW_MINI_LINE_CACHE_H
#define PW_MINI_LINE_CACHE_H
#include "native/types.h"

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
/* Drop a line of every process; lines from first to last of one; all of a process; all. */
void pw_line_cache_drop_line(pw_line_cache *cache, uint64_t line);
void pw_line_cache_drop_range(pw_line_cache *cache, uint16_t pdid, uint64_t first, uint64_t last);
void pw_line_cache_drop_process(pw_line_cache *cache, uint16_t pdid);
void pw_line_cache_drop_all(pw_line_cache *cache);

static inline bool pw_cache_line_has(const pw_cache_line *line, uint32_t entry)
{
    return line->valid[entry / 64] >> (entry % 64) & 1;
}
#endif
