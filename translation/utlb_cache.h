/* UTLB: the NIC's cache of the process's translation table in host memory [UTLB]. The library sees
 * to it that each page of a transfer is pinned and has its entry there before the NIC is told of
 * the transfer (transport/node/strategy_utlb.c), so that a miss costs a read of host memory and no
 * interrupt. A miss reads the entries of the next pages of the transfer along. One cache for all
 * processes, least recently used out. Cannot: faults; a page without an entry is the owner's to
 * judge. No allocation after init. Not thread-safe. */
#ifndef PW_TRANSLATION_UTLB_CACHE_H
#define PW_TRANSLATION_UTLB_CACHE_H
#include "native/costs.h"
#include "native/counters.h"
#include "native/settings.h"
#include "native/tcache.h"

#define PW_UTLB_ENTRIES_MAX (1 << 20)
#define PW_UTLB_FETCH_MAX 64

enum pw_utlb_lookup { PW_UTLB_HIT, PW_UTLB_MISS };

typedef struct {
    pw_tcache *entries; /* NULL: not made */
    pw_counters *counters;
    pw_time hit_ns, miss_ns; /* the miss with its look-up */
    uint64_t fetch_entries;
} pw_utlb_cache;

int pw_utlb_cache_init(pw_utlb_cache *cache, const pw_costs *costs, const pw_settings *settings,
                       pw_counters *counters);
void pw_utlb_cache_destroy(pw_utlb_cache *cache);
/* What the translation takes, and how it was found. present: the page has an entry; num_behind: so
 * have so many pages behind it, which the transfer will need. */
pw_time pw_utlb_cache_translate(pw_utlb_cache *cache, uint16_t pdid, uint64_t page, bool present,
                                uint64_t num_behind, uint32_t *how);
pw_time pw_utlb_cache_latency_ns(const pw_utlb_cache *cache, uint32_t how);
/* Entries go; the host's table has changed. */
void pw_utlb_cache_invalidate(pw_utlb_cache *cache, uint16_t pdid, uint64_t first_page,
                              uint64_t num_pages);
void pw_utlb_cache_invalidate_context(pw_utlb_cache *cache, uint16_t pdid);
void pw_utlb_cache_invalidate_all(pw_utlb_cache *cache);
#endif
