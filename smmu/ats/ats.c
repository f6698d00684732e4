#include "smmu/ats/ats.h"
#include "native/calendar.h"
#include "native/tcache.h"
#include "smmu/odp/odp.h"
#include "smmu/smmu_unit.h"
#include <stdlib.h>

typedef struct {
    pw_translation_unit base;
    const pw_costs *costs;
    const pw_settings *settings;
    pw_counters *counters;
    pw_tcache *cache;         /* the device's */
    pw_odp_table requested;   /* pages that it asked for: from when on it has their translation */
    pw_occupancy outstanding; /* its page requests */
    pw_occupancy queue;       /* the IOMMU's */
    pw_calendar reader, handlers[PW_ATS_HANDLERS_MAX]; /* threads of the OS */
} pw_ats;

enum lookup { HIT, MISS };

static pw_ats *of(pw_translation_unit *base) { return (pw_ats *)(void *)base; }

/* A thread does the work at at_ns, or when it is done with what it has; one that sleeps is woken up
 * first. When it is done. */
static pw_time run(const pw_ats *ats, pw_calendar *thread, pw_time at_ns, pw_time work_ns)
{
    if (pw_calendar_peek(thread, at_ns, 1) == at_ns) work_ns += ats->costs->ats_wakeup_ns;
    return pw_calendar_book(thread, at_ns, work_ns) + work_ns;
}

static pw_calendar *next_handler(pw_ats *ats, pw_time at_ns)
{
    pw_calendar *best = &ats->handlers[0];
    for (int64_t i = 1; i < ats->settings->ats_handlers; i++)
        if (pw_calendar_peek(&ats->handlers[i], at_ns, 1) < pw_calendar_peek(best, at_ns, 1))
            best = &ats->handlers[i];
    return best;
}

/* What a translation request takes: to the IOMMU, there, and back. */
static pw_time request_ns(pw_ats *ats, uint16_t pdid, uint64_t page, bool is_present, pw_time at_ns)
{
    uint32_t how;
    pw_time way_ns = ats->costs->ats_message_ns;
    ats->counters->ats_requests++;
    return 2 * way_ns +
           pw_smmu_translate(ats->base.smmu, pdid, page, is_present, false, at_ns + way_ns, &how);
}

/* --- page requests --- */

/* Pages from this one on that the transfer needs and that are absent: a group, as far as the device
 * may ask, and the queue could ever take. */
static uint64_t num_in_group(const pw_ats *ats, const pw_residency *residency,
                             const pw_access *access)
{
    const pw_settings *settings = ats->settings;
    int64_t most = settings->ats_group_pages, count = 1;
    if (most > settings->ats_outstanding) most = settings->ats_outstanding;
    if (most > settings->ats_queue_entries) most = settings->ats_queue_entries;
    while (count < most && access->page + (uint64_t)count < access->end_page &&
           pw_residency_is_absent(residency, access->page + (uint64_t)count))
        count++;
    return (uint64_t)count;
}

static pw_time page_in_ns(const pw_costs *costs, uint8_t effect)
{
    switch (effect) {
    case PW_EFFECT_NONE:
    case PW_EFFECT_UNMAPPED:
    case PW_EFFECT_ALONG: return 0; /* with another page */
    case PW_EFFECT_SWAPPED: return costs->page_in_page_ns + costs->major_fault_ns;
    default: return costs->page_in_page_ns;
    }
}

/* Bring the group in; the first alone where the others cannot be. What that takes, or why the first
 * can never be used. */
static pw_time bring_in(pw_ats *ats, uint64_t first_page, uint64_t *num_pages, bool for_write)
{
    uint8_t effect[PW_ATS_GROUP_PAGES_MAX], state;
    pw_time took_ns = ats->costs->page_in_fixed_ns;
    for (;; *num_pages = 1) {
        int code = pw_memory_page_in(ats->base.memory, first_page, *num_pages, for_write, effect);
        if (code == PW_ERR_HOST || code == PW_ERR_FRAMES) return code;
        for (uint64_t i = 0; i < *num_pages; i++) {
            pw_memory_count_effect(ats->counters, effect[i]);
            took_ns += page_in_ns(ats->costs, effect[i]);
        }
        int walked = pw_memory_walk(ats->base.memory, first_page, 1, for_write, &state);
        if (walked < 0) return walked;
        if (code >= 0 && state == PW_PAGE_PRESENT) return took_ns;
        if (*num_pages == 1) return code < 0 ? code : PW_ERR_FRAMES;
    }
}

/* The group's requests go out at at_ns, as soon as the device may have so many, until the queue has
 * room for them. When the last is in it; *sent_ns: when they went out. */
static pw_time enqueue(pw_ats *ats, uint16_t pdid, uint64_t page, uint32_t num_pages, pw_time at_ns,
                       pw_time *sent_ns)
{
    const uint32_t max = (uint32_t)ats->settings->ats_queue_entries;
    pw_time way_ns = ats->costs->ats_message_ns, next_ns;
    *sent_ns = pw_occupancy_admit(&ats->outstanding, num_pages,
                                  (uint32_t)ats->settings->ats_outstanding, at_ns);
    ats->counters->ats_requests_held += *sent_ns > at_ns;
    at_ns = *sent_ns + way_ns;
    while (pw_occupancy_count(&ats->queue, at_ns, &next_ns) + num_pages > max) {
        ats->counters->ats_overflows++;
        at_ns += way_ns; /* answered by itself: ask again, and find it absent again */
        at_ns += request_ns(ats, pdid, page, false, at_ns) + way_ns;
    }
    return at_ns;
}

/* The page is absent: from the request that found it so until the device has the translation, which
 * is result->paged_in_ns. */
static int ask_for_pages(pw_ats *ats, const pw_residency *residency, const pw_access *access,
                         bool for_write, pw_access_result *result)
{
    const pw_costs *costs = ats->costs;
    uint64_t num_pages = num_in_group(ats, residency, access);
    pw_time work_ns = bring_in(ats, access->page, &num_pages, for_write), sent_ns;
    if (work_ns < 0) return (int)work_ns;
    pw_time absent_ns = access->at_ns + costs->ats_lookup_ns;
    absent_ns += request_ns(ats, access->pdid, access->page, false, absent_ns);
    pw_time queued_ns =
        enqueue(ats, access->pdid, access->page, (uint32_t)num_pages, absent_ns, &sent_ns);
    pw_time read_ns = run(ats, &ats->reader, queued_ns, (pw_time)num_pages * costs->ats_entry_ns);
    pw_time done_ns =
        run(ats, next_handler(ats, read_ns), read_ns, work_ns + costs->ats_response_ns);
    pw_time answered_ns = done_ns + costs->ats_message_ns;
    pw_occupancy_take(&ats->queue, (uint32_t)num_pages, queued_ns, read_ns);
    pw_occupancy_take(&ats->outstanding, (uint32_t)num_pages, sent_ns, answered_ns);
    result->page_in_ns = sent_ns;
    result->paged_in_ns =
        answered_ns + request_ns(ats, access->pdid, access->page, true, answered_ns);
    result->num_paged_in = (uint32_t)num_pages;
    ats->counters->ats_groups++;
    ats->counters->ats_page_requests += num_pages;
    ats->counters->ats_wait_ns += result->paged_in_ns - access->at_ns;
    if (for_write) ats->counters->translation_faults_destination++;
    else ats->counters->translation_faults_source++;
    for (uint64_t page = access->page; page < access->page + num_pages; page++) {
        pw_tcache_fill(ats->cache, access->pdid, page, page);
        int code = pw_odp_table_enter(&ats->requested, access->pdid, page,
                                      (pw_odp_entry){.ready_ns = result->paged_in_ns});
        if (code < 0) return code;
    }
    return PW_OK;
}

/* --- access --- */

/* What the translation of a page takes that is there. */
static pw_time translate(pw_ats *ats, uint16_t pdid, uint64_t page, pw_time at_ns, uint32_t *how)
{
    uint64_t frame;
    pw_time lookup_ns = ats->costs->ats_lookup_ns;
    *how = pw_tcache_lookup(ats->cache, pdid, page, &frame) ? HIT : MISS;
    ats->counters->ats_hits += *how == HIT;
    ats->counters->ats_misses += *how == MISS;
    if (*how == HIT) return lookup_ns;
    pw_tcache_fill(ats->cache, pdid, page, page);
    return lookup_ns + request_ns(ats, pdid, page, true, at_ns + lookup_ns);
}

/* When the device has what it asked for, INT64_MIN: it did not ask. A page that the OS took away
 * was invalidated. */
static pw_time requested_ns(pw_ats *ats, const pw_access *access, bool is_present)
{
    const pw_odp_entry *entry = pw_odp_table_find(&ats->requested, access->pdid, access->page);
    if (!is_present) {
        ats->counters->ats_invalidations +=
            pw_tcache_invalidate_range(ats->cache, access->pdid, access->page, 1);
        pw_odp_table_drop(&ats->requested, access->pdid, access->page, 1);
    }
    return entry && is_present ? entry->ready_ns : INT64_MIN;
}

static void access_page(pw_translation_unit *base, pw_residency *residency, const pw_access *access,
                        pw_access_result *result)
{
    pw_ats *ats = of(base);
    bool for_write = residency->for_write;
    int state = pw_translation_begin(base, residency, access, result);
    if (state < 0) return;
    bool is_present = state == PW_PAGE_PRESENT;
    pw_time ready_ns = requested_ns(ats, access, is_present);
    bool is_pending = ready_ns > access->at_ns;
    result->outcome = is_present && !is_pending ? PW_ACCESS_PRESENT : PW_ACCESS_DROPPED;
    result->ready_ns = ready_ns;
    if (access->is_translated) return;
    result->block_waits = true;
    if (result->outcome == PW_ACCESS_PRESENT) {
        result->delay_ns = translate(ats, access->pdid, access->page, access->at_ns, &result->how);
        return;
    }
    ats->counters->ats_pending += is_pending;
    if (!is_pending) {
        result->code = ask_for_pages(ats, residency, access, for_write, result);
        if (result->code < 0) {
            result->outcome = PW_ACCESS_REFUSED;
            return;
        }
        result->ready_ns = result->paged_in_ns;
        pw_residency_forget(residency);
    }
    if (for_write) return;
    result->outcome = PW_ACCESS_PRESENT;
    result->delay_ns = result->ready_ns - access->at_ns;
}

static pw_time word(pw_translation_unit *base, uint16_t pdid, uint64_t page, pw_time at_ns)
{
    uint32_t how;
    return translate(of(base), pdid, page, at_ns, &how);
}

static pw_time latency_ns(const pw_translation_unit *base, uint32_t how)
{
    const pw_ats *ats = (const pw_ats *)(const void *)base;
    pw_time request_ns = 2 * ats->costs->ats_message_ns + ats->costs->walk_ns;
    return ats->costs->ats_lookup_ns + (how == MISS ? request_ns : 0);
}

/* The OS waits for the IOMMU, then for the device, which answers when it uses what it had no more.
 */
static pw_time invalidate(pw_translation_unit *base, uint16_t pdid, uint64_t first_page,
                          uint64_t num_pages)
{
    pw_ats *ats = of(base);
    ats->counters->ats_invalidations +=
        pdid == 0 ? pw_tcache_invalidate_all(ats->cache)
                  : pw_tcache_invalidate_range(ats->cache, pdid, first_page, num_pages);
    pw_odp_table_drop(&ats->requested, pdid, first_page, num_pages);
    pw_smmu_invalidate(base->smmu, pdid, first_page, num_pages);
    return ats->costs->ats_invalidate_ns + 2 * ats->costs->ats_message_ns;
}

static void destroy(pw_translation_unit *base)
{
    pw_tcache_destroy(of(base)->cache);
    pw_odp_table_destroy(&of(base)->requested);
    pw_calendar_finish(&of(base)->reader);
    pw_occupancy_finish(&of(base)->outstanding);
    pw_occupancy_finish(&of(base)->queue);
    for (int i = 0; i < PW_ATS_HANDLERS_MAX; i++) pw_calendar_finish(&of(base)->handlers[i]);
    free(of(base));
}

int pw_ats_create(const pw_unit_parts *parts, pw_translation_unit **out)
{
    static const pw_translation_ops ops = {
        .access = access_page,
        .word = word,
        .latency_ns = latency_ns,
        .open = pw_smmu_unit_open,
        .is_open = pw_smmu_unit_is_open,
        .invalidate = invalidate,
        .destroy = destroy,
    };
    const pw_settings *settings = parts->settings;
    const int64_t num_entries = settings->ats_cache_entries;
    const bool is_small = num_entries < PW_ATS_CACHE_WAYS;
    pw_tcache_geometry geometry = {is_small ? 1 : (uint32_t)num_entries / PW_ATS_CACHE_WAYS,
                                   is_small ? (uint32_t)num_entries : PW_ATS_CACHE_WAYS, 1};
    pw_ats *ats = calloc(1, sizeof *ats);
    if (!ats) return PW_ERR_NOMEM;
    ats->base = (pw_translation_unit){
        .ops = &ops,
        .memory = parts->memory,
        .smmu = parts->smmu,
        .receiver = {.keeps = settings->ats_while_pending != PW_PENDING_DROP,
                     .pauses = settings->ats_while_pending == PW_PENDING_PAUSE,
                     .buffer_blocks = (uint32_t)settings->ats_buffer_blocks}};
    ats->costs = parts->costs;
    ats->settings = settings;
    ats->counters = parts->counters;
    int code = pw_tcache_create(&geometry, &ats->cache);
    if (code < 0) free(ats);
    else *out = &ats->base;
    return code;
}
