#include "smmu/utlb/utlb.h"
#include "native/tcache.h"
#include "smmu/smmu_unit.h"
#include <stdlib.h>

enum lookup { HIT, MISS };

typedef struct {
    pw_smmu_unit unit;
    pw_tcache *entries;
    pw_counters *counters;
    pw_time hit_ns, miss_ns; /* the miss with its look-up */
    uint64_t fetch_entries;
} pw_utlb;

static pw_utlb *of(pw_translation_unit *base) { return (pw_utlb *)(void *)base; }

static pw_time latency_ns(const pw_translation_unit *base, uint32_t how)
{
    const pw_utlb *utlb = (const pw_utlb *)(const void *)base;
    return how == HIT ? utlb->hit_ns : utlb->miss_ns;
}

/* Pages behind this one that the transfer needs and that are there. */
static uint64_t num_behind(const pw_utlb *utlb, const pw_residency *residency,
                           const pw_access *access)
{
    uint64_t count = 0, end_page = access->page + utlb->fetch_entries;
    if (access->end_page < end_page) end_page = access->end_page;
    while (access->page + count + 1 < end_page &&
           pw_residency_is_present(residency, access->page + count + 1))
        count++;
    return count;
}

static void fetch(pw_utlb *utlb, uint16_t pdid, uint64_t page, uint64_t num_further)
{
    uint64_t frame;
    pw_tcache_fill(utlb->entries, pdid, page, page);
    for (uint64_t i = 1; i <= num_further && i < utlb->fetch_entries; i++) {
        if (pw_tcache_lookup(utlb->entries, pdid, page + i, &frame)) continue;
        pw_tcache_fill(utlb->entries, pdid, page + i, page + i);
        utlb->counters->utlb_prefetched++;
    }
}

static pw_time invalidate(pw_translation_unit *base, uint16_t pdid, uint64_t first_page,
                          uint64_t num_pages)
{
    pw_shootdown_count(of(base)->counters, pdid, num_pages);
    of(base)->counters->translations_dropped +=
        pdid == 0 ? pw_tcache_invalidate_all(of(base)->entries)
                  : pw_tcache_invalidate_range(of(base)->entries, pdid, first_page, num_pages);
    return base->smmu->costs->tlb_invalidate_ns;
}

/* What the translation takes, and how it was found. is_present: the page has an entry; num_further:
 * so have so many pages behind it, which the transfer will need. */
static pw_time translate(pw_utlb *utlb, uint16_t pdid, uint64_t page, bool is_present,
                         uint64_t num_further, uint32_t *how)
{
    uint64_t frame;
    bool is_hit = pw_tcache_lookup(utlb->entries, pdid, page, &frame);
    utlb->counters->utlb_hits += is_hit;
    utlb->counters->utlb_misses += !is_hit;
    if (is_hit && !is_present) { /* the entry's page was taken away without a word */
        utlb->counters->stale_translations++;
        invalidate(&utlb->unit.base, pdid, page, 1);
    } else if (is_present && !is_hit) fetch(utlb, pdid, page, num_further);
    *how = is_hit ? HIT : MISS;
    return latency_ns(&utlb->unit.base, *how);
}

static void access_page(pw_translation_unit *base, pw_residency *residency, const pw_access *access,
                        pw_access_result *result)
{
    pw_utlb *utlb = of(base);
    pw_walked_page walked = pw_smmu_unit_walk(&utlb->unit, residency, access, result);
    if (!access->is_translated)
        result->delay_ns = translate(utlb, access->pdid, access->page, walked.is_present,
                                     num_behind(utlb, residency, access), &result->how);
    pw_smmu_unit_judge(&utlb->unit, access, &walked, result);
}

static pw_time word(pw_translation_unit *base, uint16_t pdid, uint64_t page, pw_time at_ns)
{
    (void)at_ns;
    uint32_t how;
    return translate(of(base), pdid, page, true, 0, &how);
}

static void destroy(pw_translation_unit *base)
{
    pw_tcache_destroy(of(base)->entries);
    free(of(base));
}

int pw_utlb_create(const pw_unit_parts *parts, pw_translation_unit **out)
{
    static const pw_translation_ops ops = {
        .access = access_page,
        .word = word,
        .latency_ns = latency_ns,
        .open = pw_smmu_unit_open,
        .is_open = pw_smmu_unit_is_open,
        .invalidate = invalidate,
        .destroy = destroy,
        .is_certain = true,
    };
    const pw_settings *settings = parts->settings;
    /* Direct-mapped, so that a program on the NIC compares one tag. */
    pw_tcache_geometry geometry = {(uint32_t)settings->utlb_cache_entries, 1, 1};
    pw_utlb *utlb = malloc(sizeof *utlb);
    if (!utlb) return PW_ERR_NOMEM;
    *utlb = (pw_utlb){.counters = parts->counters,
                      .hit_ns = parts->costs->utlb_hit_ns,
                      .miss_ns = parts->costs->utlb_hit_ns + parts->costs->utlb_miss_ns,
                      .fetch_entries = (uint64_t)settings->utlb_fetch_entries};
    pw_smmu_unit_init(&utlb->unit, parts, &ops);
    int code = pw_tcache_create(&geometry, &utlb->entries);
    if (code < 0) free(utlb);
    else *out = &utlb->unit.base;
    return code;
}
