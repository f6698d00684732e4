/* Translation cache: set-associative, any ways/sets/line length, LRU, tagged with the PDID.
 * It serves as L1 TLB, L2 TLB and as the NIC caches of miNI. Not thread-safe: one handle, one
 * thread at a time. No allocation after create. */
#ifndef PW_NATIVE_TCACHE_H
#define PW_NATIVE_TCACHE_H
#include "native/types.h"

#define PW_TCACHE_SETS_MAX (1 << 20)
#define PW_TCACHE_WAYS_MAX 1024
#define PW_TCACHE_LINE_PAGES_MAX 128
#define PW_TCACHE_TRANSLATIONS_MAX (1 << 24)

/* cdef begin */
typedef struct pw_tcache pw_tcache;

typedef struct {
    uint32_t num_sets;   /* power of two up to 2^20; 1 = fully associative */
    uint32_t num_ways;   /* 1..1024 */
    uint32_t line_pages; /* translations in a line, power of two, 1..128; lines are aligned */
} pw_tcache_geometry;

typedef struct {
    uint64_t lookups, hits, misses;
    uint64_t fills;         /* translations entered, renewed ones too */
    uint64_t evictions;     /* lines replaced while they held translations */
    uint64_t fills_refused; /* every way of the set was locked */
    uint64_t invalidated_address, invalidated_pdid, invalidated_all; /* translations dropped */
} pw_tcache_counters;

#define PW_TCACHE_LOCK_SEND 1
#define PW_TCACHE_LOCK_RECEIVE 2

/* PW_ERR_INVALID when the geometry is out of range or has more than 2^24 translations. */
int pw_tcache_create(const pw_tcache_geometry *geometry, pw_tcache **out);
void pw_tcache_destroy(pw_tcache *cache);
/* 1 and *frame on a hit (the line becomes most recently used), 0 on a miss. */
int pw_tcache_lookup(pw_tcache *cache, uint16_t pdid, uint64_t page, uint64_t *frame);
/* Enter one translation; takes the line of that page, or the least recently used unlocked one.
 * Either becomes the most recently used. PW_OK, PW_ERR_FULL when every way of the set is locked, or
 * PW_ERR_INVALID when the page number has more than 47 bits. */
int pw_tcache_fill(pw_tcache *cache, uint16_t pdid, uint64_t page, uint64_t frame);
/* Set/clear lock bits of the line that holds the page: 1 done, 0 the page is not cached. Unlock
 * asks for the line only: the page itself may have been invalidated under the lock. Bits, not
 * counts. A line that loses its last translation loses its lock bits. Neither changes the LRU
 * order. */
int pw_tcache_lock(pw_tcache *cache, uint16_t pdid, uint64_t page, uint32_t lock_bits);
int pw_tcache_unlock(pw_tcache *cache, uint16_t pdid, uint64_t page, uint32_t lock_bits);
/* Drop translations; each returns how many it dropped. Invalidation ignores lock bits. */
uint64_t pw_tcache_invalidate_range(pw_tcache *cache, uint16_t pdid, uint64_t first_page,
                                    uint64_t num_pages);
uint64_t pw_tcache_invalidate_pdid(pw_tcache *cache, uint16_t pdid);
uint64_t pw_tcache_invalidate_all(pw_tcache *cache);
void pw_tcache_read_counters(const pw_tcache *cache, pw_tcache_counters *out);
/* cdef end */
#endif
