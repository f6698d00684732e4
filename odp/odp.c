#include "odp/np.h"

/* --- faults -------------------------------------------------------------------------------------
 */

/* What bringing pages in was. */
typedef struct {
    uint64_t num_pages, num_absent, num_major;
    uint8_t effect[PW_ODP_FAULT_PAGES_MAX], state[PW_ODP_FAULT_PAGES_MAX]; /* state: afterwards */
    bool is_writable;
} filling;

static void count_page(pw_counters *counters, uint8_t effect, filling *filled)
{
    if (effect == PW_EFFECT_NONE || effect == PW_EFFECT_UNMAPPED) return;
    counters->pages_paged_in++;
    counters->pages_copied += effect == PW_EFFECT_COPIED;
    counters->major_faults += effect == PW_EFFECT_SWAPPED;
    counters->pages_along += effect == PW_EFFECT_ALONG;
    filled->num_absent += effect != PW_EFFECT_ALONG;
    filled->num_major += effect == PW_EFFECT_SWAPPED;
}

/* The driver asks for writable pages wherever the mapping allows them, whatever the access [Linux
 * mlx5]. */
static int page_in(pw_odp *odp, uint64_t first_page, uint64_t num_pages, bool for_write,
                   filling *filled)
{
    filled->is_writable = true;
    int code = pw_memory_page_in(odp->base.memory, first_page, num_pages, true, filled->effect);
    if (code == PW_ERR_PROTECTION && !for_write) {
        filled->is_writable = false;
        code = pw_memory_page_in(odp->base.memory, first_page, num_pages, false, filled->effect);
    }
    for (uint64_t i = 0; i < num_pages; i++) count_page(odp->counters, filled->effect[i], filled);
    return code;
}

/* Bring pages in, as far as the process has them. Only a block's, then one alone, where that is
 * more than can be in at a time, or not allowed for another. PW_OK, or why the first one can never
 * be used. */
static int bring_in(pw_odp *odp, uint64_t first_page, uint64_t num_pages, bool for_write,
                    filling *filled)
{
    filled->num_absent = filled->num_major = 0;
    for (;; num_pages = num_pages > PW_BLOCK_PAGES ? PW_BLOCK_PAGES : 1) {
        int code = page_in(odp, first_page, num_pages, for_write, filled);
        if (code == PW_ERR_HOST || code == PW_ERR_FRAMES) return code;
        int walked = pw_memory_walk(odp->base.memory, first_page, num_pages, filled->is_writable,
                                    filled->state);
        filled->num_pages = num_pages;
        if (walked < 0) return walked;
        if (filled->state[0] == PW_PAGE_PRESENT) return PW_OK;
        if (num_pages == 1) return code < 0 ? code : PW_ERR_FRAMES;
    }
}

static int enter(pw_odp *odp, uint16_t pdid, uint64_t first_page, const filling *filled,
                 pw_time ready_ns)
{
    for (uint64_t i = 0; i < filled->num_pages; i++) {
        const pw_odp_entry *known = pw_odp_table_find(&odp->table, pdid, first_page + i);
        bool has_gone = known && filled->effect[i] != PW_EFFECT_NONE; /* and came in again now */
        odp->counters->odp_invalidations += has_gone;
        bool is_better = known && !has_gone && known->ready_ns <= ready_ns && known->is_writable;
        if (filled->state[i] != PW_PAGE_PRESENT || is_better) continue;
        const pw_odp_entry entry = {ready_ns, filled->is_writable};
        int code = pw_odp_table_enter(&odp->table, pdid, first_page + i, entry);
        if (code < 0) return code;
        odp->counters->odp_pages_filled++;
    }
    odp->counters->odp_table_peak = odp->table.peak_entries;
    return PW_OK;
}

/* The NIC faults: firmware, driver, firmware. The page's range is in the table from
 * paged_in_ns on.
 */
static int fault(pw_odp *odp, const pw_access *access, bool for_write, pw_access_result *result)
{
    filling filled;
    uint64_t rest = access->end_page > access->page ? access->end_page - access->page : 1;
    uint64_t most = (uint64_t)odp->settings->odp_fault_pages;
    int code = bring_in(odp, access->page, rest < most ? rest : most, for_write, &filled);
    if (code < 0) return code;
    pw_time work_ns = odp->costs->odp_fault_ns +
                      (pw_time)(filled.num_pages - 1) * odp->costs->odp_fault_page_ns +
                      (pw_time)filled.num_major * odp->costs->major_fault_ns;
    result->page_in_ns = pw_calendar_book(&odp->worker, access->at_ns, work_ns);
    result->paged_in_ns = result->page_in_ns + work_ns;
    result->num_paged_in = (uint32_t)filled.num_pages;
    pw_counters *counters = odp->counters;
    counters->odp_faults++;
    counters->odp_fault_ns += work_ns;
    if (for_write) counters->translation_faults_destination++;
    else counters->translation_faults_source++;
    return enter(odp, access->pdid, access->page, &filled, result->paged_in_ns);
}

/* --- access -------------------------------------------------------------------------------------
 */

int pw_odp_allows(int state)
{
    if (state < 0) return state;
    if (state == PW_PAGE_UNMAPPED) return PW_ERR_ADDRESS;
    return state == PW_PAGE_FORBIDDEN ? PW_ERR_PROTECTION : PW_OK;
}

/* The page's entry for the access; NULL when there is none, or the OS has taken its page. */
static const pw_odp_entry *entry_for(pw_odp *odp, const pw_access *access, bool for_write,
                                     int state)
{
    const pw_odp_entry *entry = pw_odp_table_find(&odp->table, access->pdid, access->page);
    if (entry && state != PW_PAGE_PRESENT) {
        odp->counters->odp_invalidations +=
            pw_odp_table_drop(&odp->table, access->pdid, access->page, 1);
        return NULL;
    }
    return entry && for_write && !entry->is_writable ? NULL : entry;
}

static void access_page(pw_translation_unit *base, pw_residency *residency, const pw_access *access,
                        pw_access_result *result)
{
    pw_odp *odp = pw_odp_of(base);
    bool for_write = residency->for_write;
    int state = pw_residency_state_now(residency, base->memory, access->page, access->end_page,
                                       access->is_further);
    *result = (pw_access_result){
        .outcome = PW_ACCESS_REFUSED, .code = pw_odp_allows(state), .fault_until_ns = INT64_MIN};
    if (result->code < 0) return;
    const pw_odp_entry *entry = entry_for(odp, access, for_write, state);
    bool is_ready = entry && entry->ready_ns <= access->at_ns;
    if (access->is_translated) {
        result->outcome = is_ready ? PW_ACCESS_PRESENT : PW_ACCESS_DROPPED;
        return;
    }
    pw_time ready_ns = entry ? entry->ready_ns : access->at_ns;
    odp->counters->odp_pending += entry && !is_ready;
    if (!entry) {
        result->code = fault(odp, access, for_write, result);
        if (result->code < 0) return;
        ready_ns = result->paged_in_ns;
        pw_residency_forget(residency);
    }
    result->delay_ns = pw_smmu_translate(odp->smmu, access->pdid, access->page, is_ready, false,
                                         access->at_ns, &result->how);
    result->outcome = for_write && !is_ready ? PW_ACCESS_DROPPED : PW_ACCESS_PRESENT;
    result->block_waits = true;
    if (!for_write) result->delay_ns += pw_later(ready_ns - access->at_ns, 0);
}

static pw_time word(pw_translation_unit *base, uint16_t pdid, uint64_t page, pw_time at_ns)
{
    uint32_t how;
    return pw_smmu_translate(pw_odp_of(base)->smmu, pdid, page, true, false, at_ns, &how);
}

static pw_time latency_ns(const pw_translation_unit *base, uint32_t how)
{
    return pw_smmu_latency_ns(((const pw_odp *)(const void *)base)->smmu, how);
}

/* --- processes -------------------------------------------------------------------------
 */

static int open_process(pw_translation_unit *base, uint16_t pdid)
{
    return pw_smmu_bind(pw_odp_of(base)->smmu, pdid) < 0 ? PW_ERR_CONTEXT : PW_OK;
}

static bool is_open(pw_translation_unit *base, uint16_t pdid)
{
    return pw_smmu_bank(pw_odp_of(base)->smmu, pdid) != NULL;
}

/* --- invalidation, prefetch ---------------------------------------------------------------------
 */

static void invalidate(pw_translation_unit *base, uint16_t pdid, uint64_t first_page,
                       uint64_t num_pages)
{
    pw_odp *odp = pw_odp_of(base);
    odp->counters->odp_invalidations += pw_odp_table_drop(&odp->table, pdid, first_page, num_pages);
    pw_smmu_invalidate(odp->smmu, pdid, first_page, num_pages);
}

static void invalidate_context(pw_translation_unit *base, uint16_t pdid)
{
    pw_odp_of(base)->counters->odp_invalidations +=
        pw_odp_table_drop_process(&pw_odp_of(base)->table, pdid);
    pw_smmu_invalidate_context(pw_odp_of(base)->smmu, pdid);
}

static void invalidate_all(pw_translation_unit *base)
{
    pw_odp_of(base)->counters->odp_invalidations +=
        pw_odp_table_drop_process(&pw_odp_of(base)->table, 0);
    pw_smmu_invalidate_all(pw_odp_of(base)->smmu);
}

/* The driver brings the range in and writes the NIC's table; no fault, so no firmware. */
static int advise(pw_translation_unit *base, uint16_t pdid, uint64_t first_page, uint64_t num_pages,
                  pw_time at_ns)
{
    pw_odp *odp = pw_odp_of(base);
    odp->counters->odp_prefetches++;
    at_ns += odp->costs->page_in_fixed_ns;
    for (uint64_t done = 0; done < num_pages;) {
        uint64_t rest = num_pages - done;
        filling filled;
        int code =
            bring_in(odp, first_page + done,
                     rest < PW_ODP_FAULT_PAGES_MAX ? rest : PW_ODP_FAULT_PAGES_MAX, true, &filled);
        if (code < 0) return code == PW_ERR_HOST ? code : PW_OK; /* the transfer will tell */
        at_ns += (pw_time)filled.num_absent * odp->costs->page_in_page_ns +
                 (pw_time)filled.num_major * odp->costs->major_fault_ns +
                 (pw_time)filled.num_pages * odp->costs->odp_fault_page_ns;
        code = enter(odp, pdid, first_page + done, &filled, at_ns);
        if (code < 0) return code;
        done += filled.num_pages;
    }
    return PW_OK;
}

void pw_odp_init(pw_odp *odp, pw_smmu *smmu, const pw_costs *costs, const pw_settings *settings,
                 pw_counters *counters, pw_memory *memory)
{
    static const pw_translation_ops of_odp = {
        .access = access_page,
        .word = word,
        .latency_ns = latency_ns,
        .open = open_process,
        .is_open = is_open,
        .invalidate = invalidate,
        .invalidate_context = invalidate_context,
        .invalidate_all = invalidate_all,
        .advise = advise,
        .goes_back = true,
    };
    static const pw_translation_ops of_np = {
        .access = pw_np_access,
        .word = word,
        .latency_ns = latency_ns,
        .open = open_process,
        .is_open = is_open,
        .invalidate = invalidate,
        .invalidate_context = invalidate_context,
        .invalidate_all = invalidate_all,
        .retries_two_sided = true,
    };
    bool is_np = settings->translation == PW_TRANSLATION_NP;
    *odp = (pw_odp){.base = {.ops = is_np ? &of_np : &of_odp, .memory = memory},
                    .costs = costs,
                    .settings = settings,
                    .counters = counters,
                    .smmu = smmu};
    pw_calendar_init(&odp->worker);
}

void pw_odp_destroy(pw_odp *odp) { pw_odp_table_destroy(&odp->table); }
