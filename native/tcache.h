/* Translation cache: set-associative, any ways/sets/line length, LRU, tagged with the PDID. It
 * serves as L1 TLB, L2 TLB, walk cache and prefetch buffer of the SMMU, and as the NIC's cache of
 * UTLB. Not thread-safe. Allocates where a part of it is filled for the first time. */
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

/* PW_ERR_INVALID when the geometry is out of range or has more than 2^24 translations. */
int pw_tcache_create(const pw_tcache_geometry *geometry, pw_tcache **out);
void pw_tcache_destroy(pw_tcache *cache);
/* 1 and *frame on a hit (the line becomes most recently used), 0 on a miss. */
int pw_tcache_lookup(pw_tcache *cache, uint16_t pdid, uint64_t page, uint64_t *frame);
/* The same, without being a look-up: the line stays as old as it is. */
int pw_tcache_has(const pw_tcache *cache, uint16_t pdid, uint64_t page);
/* Enter one translation; takes the line of that page, or the least recently used one. Either
 * becomes the most recently used. PW_ERR_INVALID when the page number has more than 47 bits. */
int pw_tcache_fill(pw_tcache *cache, uint16_t pdid, uint64_t page, uint64_t frame);
/* Drop translations of a process, or all; each returns how many it dropped. */
uint64_t pw_tcache_invalidate_range(pw_tcache *cache, uint16_t pdid, uint64_t first_page,
                                    uint64_t num_pages);
uint64_t pw_tcache_invalidate_all(pw_tcache *cache);
/* cdef end */
#endif
