#include "translation/utlb_cache.h"

int pw_utlb_cache_init(pw_utlb_cache *cache, const pw_costs *costs, const pw_settings *settings,
                       pw_counters *counters)
{
    uint32_t num_ways = (uint32_t)settings->utlb_cache_ways;
    pw_tcache_geometry geometry = {(uint32_t)settings->utlb_cache_entries / num_ways, num_ways, 1};
    *cache = (pw_utlb_cache){.counters = counters,
                             .hit_ns = costs->utlb_hit_ns,
                             .miss_ns = costs->utlb_hit_ns + costs->utlb_miss_ns,
                             .fetch_entries = (uint64_t)settings->utlb_fetch_entries};
    return pw_tcache_create(&geometry, &cache->entries);
}

void pw_utlb_cache_destroy(pw_utlb_cache *cache)
{
    pw_tcache_destroy(cache->entries);
    cache->entries = NULL;
}

static void fetch(pw_utlb_cache *cache, uint16_t pdid, uint64_t page, uint64_t num_behind)
{
    uint64_t frame;
    pw_tcache_fill(cache->entries, pdid, page, page);
    for (uint64_t i = 1; i <= num_behind && i < cache->fetch_entries; i++) {
        if (pw_tcache_lookup(cache->entries, pdid, page + i, &frame)) continue;
        pw_tcache_fill(cache->entries, pdid, page + i, page + i);
        cache->counters->utlb_prefetched++;
    }
}

pw_time pw_utlb_cache_translate(pw_utlb_cache *cache, uint16_t pdid, uint64_t page, bool present,
                                uint64_t num_behind, uint32_t *how)
{
    uint64_t frame;
    bool is_hit = pw_tcache_lookup(cache->entries, pdid, page, &frame);
    cache->counters->utlb_hits += is_hit;
    cache->counters->utlb_misses += !is_hit;
    if (is_hit && !present) { /* the entry's page was taken away without a word */
        cache->counters->stale_translations++;
        pw_utlb_cache_invalidate(cache, pdid, page, 1);
    } else if (present && !is_hit) fetch(cache, pdid, page, num_behind);
    *how = is_hit ? PW_UTLB_HIT : PW_UTLB_MISS;
    return pw_utlb_cache_latency_ns(cache, *how);
}

pw_time pw_utlb_cache_latency_ns(const pw_utlb_cache *cache, uint32_t how)
{
    return how == PW_UTLB_HIT ? cache->hit_ns : cache->miss_ns;
}

void pw_utlb_cache_invalidate(pw_utlb_cache *cache, uint16_t pdid, uint64_t first_page,
                              uint64_t num_pages)
{
    cache->counters->shootdowns_address++;
    cache->counters->translations_dropped +=
        pw_tcache_invalidate_range(cache->entries, pdid, first_page, num_pages);
}

void pw_utlb_cache_invalidate_context(pw_utlb_cache *cache, uint16_t pdid)
{
    cache->counters->shootdowns_context++;
    cache->counters->translations_dropped += pw_tcache_invalidate_pdid(cache->entries, pdid);
}

void pw_utlb_cache_invalidate_all(pw_utlb_cache *cache)
{
    cache->counters->shootdowns_all++;
    cache->counters->translations_dropped += pw_tcache_invalidate_all(cache->entries);
}
