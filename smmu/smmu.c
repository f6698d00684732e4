#include "smmu/smmu.h"
#include <stdlib.h>
#include <string.h>

#define TABLE_SHIFT 9  /* a table holds 512 entries */
#define LEVEL_SHIFT 44 /* above every page number that is shifted by a level or more */

static int create_cache(uint32_t num_sets, uint32_t num_ways, uint32_t line_pages, pw_tcache **out)
{
    pw_tcache_geometry geometry = {num_sets, num_ways, line_pages};
    return num_ways ? pw_tcache_create(&geometry, out) : PW_OK;
}

int pw_smmu_init(pw_smmu *smmu, const pw_costs *costs, const pw_settings *settings,
                 pw_counters *counters)
{
    memset(smmu, 0, sizeof *smmu);
    smmu->tlbs = &smmu->own_tlbs;
    smmu->costs = costs;
    smmu->counters = counters;
    smmu->num_banks = (uint32_t)settings->num_context_banks;
    smmu->num_walkers = (uint32_t)settings->parallel_walks;
    smmu->max_outstanding = (uint32_t)settings->outstanding_accesses;
    smmu->invalidate = settings->invalidate;
    smmu->sctlr = PW_SCTLR_M | PW_SCTLR_CFRE | PW_SCTLR_CFIE |
                  (settings->hupcf ? PW_SCTLR_HUPCF : 0) | (settings->stall ? PW_SCTLR_CFCFG : 0);
    smmu->l1_hit_ns = (costs->tlb_l1_hit_clocks * costs->smmu_clock_ps + 999) / 1000;
    smmu->l2_hit_ns = (costs->tlb_l2_hit_clocks * costs->smmu_clock_ps + 999) / 1000;
    uint32_t line_pages = (uint32_t)settings->tlb_line_pages;
    smmu->banks = calloc(smmu->num_banks, sizeof *smmu->banks);
    smmu->faults = calloc(smmu->num_banks, sizeof *smmu->faults);
    int code = smmu->banks && smmu->faults ? PW_OK : PW_ERR_NOMEM;
    if (code == PW_OK)
        code = create_cache((uint32_t)settings->l1_sets, (uint32_t)settings->l1_ways, line_pages,
                            &smmu->tlbs->l1);
    if (code == PW_OK)
        code = create_cache((uint32_t)settings->l2_sets, (uint32_t)settings->l2_ways, line_pages,
                            &smmu->tlbs->l2);
    if (code == PW_OK)
        code = create_cache(1, (uint32_t)settings->walk_cache_entries, 1, &smmu->tlbs->walk_cache);
    if (code == PW_OK)
        code = create_cache(1, (uint32_t)settings->prefetch_entries, 1, &smmu->tlbs->prefetch);
    if (code < 0) pw_smmu_destroy(smmu);
    return code;
}

void pw_smmu_destroy(pw_smmu *smmu)
{
    pw_tlbs *own = &smmu->own_tlbs;
    pw_tcache_destroy(own->l1);
    pw_tcache_destroy(own->l2);
    pw_tcache_destroy(own->walk_cache);
    pw_tcache_destroy(own->prefetch);
    for (int i = 0; i < PW_WALKERS_MAX; i++) pw_calendar_finish(&own->walkers[i]);
    pw_occupancy_finish(&smmu->outstanding);
    for (uint32_t i = 0; smmu->faults && i < smmu->num_banks; i++) free(smmu->faults[i]);
    free(smmu->faults);
    free(smmu->banks);
    smmu->faults = NULL;
    smmu->banks = NULL;
    *own = (pw_tlbs){0};
}

static int take_asid(pw_smmu *smmu, pw_context_bank *bank)
{
    if (smmu->tlbs->num_asids == UINT16_MAX) return PW_ERR_FULL;
    bank->asid = ++smmu->tlbs->num_asids;
    return PW_OK;
}

/* From now on its banks are told from others' in the TLBs. */
static int be_shared(pw_smmu *smmu)
{
    int code = PW_OK;
    for (uint32_t i = 0; !smmu->is_shared && i < smmu->num_banks && code == PW_OK; i++)
        if (smmu->banks[i].pdid) code = take_asid(smmu, &smmu->banks[i]);
    smmu->is_shared = true;
    return code;
}

int pw_smmu_share(pw_smmu *smmu, pw_smmu *with)
{
    smmu->tlbs = with->tlbs;
    const int code = be_shared(with);
    return code < 0 ? code : be_shared(smmu);
}

int pw_smmu_bind(pw_smmu *smmu, uint16_t pdid)
{
    for (uint32_t i = 0; i < smmu->num_banks; i++)
        if (smmu->banks[i].pdid == 0) {
            if (!smmu->faults[i]) smmu->faults[i] = calloc(1, sizeof *smmu->faults[i]);
            if (!smmu->faults[i]) return PW_ERR_NOMEM;
            smmu->banks[i] = (pw_context_bank){
                .pdid = pdid, .sctlr = smmu->sctlr, .fault_ns = INT64_MIN, .clear_ns = INT64_MIN};
            int code = smmu->is_shared ? take_asid(smmu, &smmu->banks[i]) : PW_OK;
            if (code < 0) smmu->banks[i].pdid = 0;
            return code < 0 ? code : (int)i;
        }
    return PW_ERR_FULL;
}

pw_context_bank *pw_smmu_bank(pw_smmu *smmu, uint16_t pdid)
{
    for (uint32_t i = 0; pdid != 0 && i < smmu->num_banks; i++)
        if (smmu->banks[i].pdid == pdid) return &smmu->banks[i];
    return NULL;
}

uint16_t pw_smmu_tag(pw_smmu *smmu, uint16_t pdid)
{
    if (!smmu->is_shared || pdid == 0) return pdid;
    const pw_context_bank *bank = pw_smmu_bank(smmu, pdid);
    return bank ? (uint16_t)bank->asid : 0;
}

uint16_t pw_smmu_of_tag(const pw_smmu *smmu, uint16_t tag)
{
    if (!smmu->is_shared) return tag;
    for (uint32_t i = 0; i < smmu->num_banks; i++)
        if (smmu->banks[i].pdid && smmu->banks[i].asid == tag) return (uint16_t)smmu->banks[i].pdid;
    return 0;
}

/* The walk cache's name of the pointer to the table that is `level` accesses above the page. */
static uint64_t table_of(uint64_t page, uint32_t level)
{
    return (uint64_t)level << LEVEL_SHIFT | page >> TABLE_SHIFT * level;
}

void pw_shootdown_count(pw_counters *counters, uint16_t pdid, uint64_t num_pages)
{
    if (pdid == 0) counters->shootdowns_all++;
    else if (num_pages == PW_ALL_PAGES) counters->shootdowns_context++;
    else counters->shootdowns_address++;
}

static uint64_t drop(pw_tcache *cache, uint16_t tag, uint64_t first_page, uint64_t num_pages)
{
    if (!cache) return 0;
    return tag == 0 ? pw_tcache_invalidate_all(cache)
                    : pw_tcache_invalidate_range(cache, tag, first_page, num_pages);
}

/* tag 0: of all. */
static void shoot_down(pw_smmu *smmu, uint16_t tag, uint64_t first_page, uint64_t num_pages)
{
    if (num_pages == 0) return;
    if (smmu->invalidate != PW_INVALIDATE_ADDRESS) {
        first_page = 0;
        num_pages = PW_ALL_PAGES;
    }
    if (smmu->invalidate == PW_INVALIDATE_ALL) tag = 0;
    pw_shootdown_count(smmu->counters, tag, num_pages);
    smmu->counters->translations_dropped += drop(smmu->tlbs->l1, tag, first_page, num_pages) +
                                            drop(smmu->tlbs->l2, tag, first_page, num_pages);
    drop(smmu->tlbs->prefetch, tag, first_page, num_pages);
    if (num_pages == PW_ALL_PAGES) {
        drop(smmu->tlbs->walk_cache, tag, 0, PW_ALL_PAGES);
        return;
    }
    for (uint32_t level = 1; level < (uint32_t)smmu->costs->walk_accesses; level++) {
        uint64_t first = table_of(first_page, level),
                 last = table_of(first_page + num_pages - 1, level);
        drop(smmu->tlbs->walk_cache, tag, first, last - first + 1);
    }
}

/* Memory accesses of a walk, which starts at the lowest table whose pointer is cached. */
static uint32_t walk_tables(pw_smmu *smmu, uint16_t tag, uint64_t page)
{
    uint32_t num_levels = (uint32_t)smmu->costs->walk_accesses, level = 1;
    uint64_t frame;
    if (!smmu->tlbs->walk_cache) return num_levels;
    while (level < num_levels &&
           !pw_tcache_lookup(smmu->tlbs->walk_cache, tag, table_of(page, level), &frame))
        level++;
    for (uint32_t read = level; read-- > 1;)
        pw_tcache_fill(smmu->tlbs->walk_cache, tag, table_of(page, read), table_of(page, read));
    return level;
}

/* Time of a walk from at_ns on, with its wait for a walker. */
static pw_time book_walk(pw_smmu *smmu, pw_time at_ns, pw_time walk_ns)
{
    if (at_ns == PW_NEVER) return walk_ns;
    pw_time earliest_ns = PW_NEVER;
    uint32_t best = 0;
    for (uint32_t i = 0; i < smmu->num_walkers && earliest_ns > at_ns; i++) {
        pw_time free_ns = pw_calendar_peek(&smmu->tlbs->walkers[i], at_ns, walk_ns);
        if (free_ns < earliest_ns) {
            earliest_ns = free_ns;
            best = i;
        }
    }
    smmu->counters->walks_delayed += earliest_ns > at_ns;
    return pw_calendar_book(&smmu->tlbs->walkers[best], at_ns, walk_ns) + walk_ns - at_ns;
}

pw_time pw_smmu_latency_ns(const pw_smmu *smmu, uint32_t how)
{
    if (how == PW_TRANSLATION_L1) return smmu->l1_hit_ns;
    if (how == PW_TRANSLATION_L2) return smmu->l2_hit_ns;
    int64_t accesses = smmu->costs->walk_accesses;
    return ((int64_t)(how - PW_TRANSLATION_WALK) * smmu->costs->walk_ns + accesses - 1) / accesses;
}

static void enter(pw_smmu *smmu, uint16_t tag, uint64_t page)
{
    pw_tcache_fill(smmu->tlbs->l2, tag, page, page);
    pw_tcache_fill(smmu->tlbs->l1, tag, page, page);
}

/* Fetch the next page's translation from from_ns on: its entry is beside this one's, one access
 * away. */
static void prefetch(pw_smmu *smmu, uint16_t tag, uint64_t page, pw_time from_ns)
{
    uint64_t next = page + 1, ready_ns;
    bool same_table = next >> TABLE_SHIFT == page >> TABLE_SHIFT;
    if (!same_table || pw_tcache_lookup(smmu->tlbs->prefetch, tag, next, &ready_ns)) return;
    smmu->counters->prefetches++;
    smmu->counters->walk_accesses++;
    pw_time walk_ns = pw_smmu_latency_ns(smmu, PW_TRANSLATION_WALK + 1);
    ready_ns = from_ns == PW_NEVER ? 0 : (uint64_t)(from_ns + book_walk(smmu, from_ns, walk_ns));
    pw_tcache_fill(smmu->tlbs->prefetch, tag, next, ready_ns);
}

/* A further time from at_ns on; ahead of time stays so. */
static pw_time behind(pw_time at_ns, pw_time delay_ns)
{
    return at_ns == PW_NEVER ? PW_NEVER : at_ns + delay_ns;
}

/* Ask both TLBs. A cached translation of an absent page is stale: dropped, and no hit. */
static bool look_up(pw_smmu *smmu, uint16_t tag, uint64_t page, bool present, uint32_t *how)
{
    uint64_t frame;
    pw_counters *counters = smmu->counters;
    bool in_l1 = pw_tcache_lookup(smmu->tlbs->l1, tag, page, &frame);
    bool in_l2 = !in_l1 && pw_tcache_lookup(smmu->tlbs->l2, tag, page, &frame);
    counters->l1_hits += in_l1;
    counters->l1_misses += !in_l1;
    counters->l2_hits += in_l2;
    counters->l2_misses += !in_l1 && !in_l2;
    if (!in_l1 && !in_l2) return false;
    *how = in_l1 ? PW_TRANSLATION_L1 : PW_TRANSLATION_L2;
    if (!present) {
        counters->stale_translations++;
        shoot_down(smmu, tag, page, 1);
    } else if (in_l2) pw_tcache_fill(smmu->tlbs->l1, tag, page, frame);
    return present;
}

/* The prefetch buffer has the page's translation, or will have at *ready_ns. */
static bool take_prefetched(pw_smmu *smmu, uint16_t tag, uint64_t page, uint64_t *ready_ns)
{
    if (!smmu->tlbs->prefetch || !pw_tcache_lookup(smmu->tlbs->prefetch, tag, page, ready_ns))
        return false;
    pw_tcache_invalidate_range(smmu->tlbs->prefetch, tag, page, 1);
    smmu->counters->prefetch_hits++;
    enter(smmu, tag, page);
    return true;
}

static pw_time walk(pw_smmu *smmu, uint16_t tag, uint64_t page, pw_time at_ns, uint32_t *how)
{
    uint32_t accesses = walk_tables(smmu, tag, page);
    smmu->counters->walks++;
    smmu->counters->walk_accesses += accesses;
    *how = PW_TRANSLATION_WALK + accesses;
    pw_time delay_ns = book_walk(smmu, at_ns, pw_smmu_latency_ns(smmu, *how));
    if (smmu->trace && at_ns != PW_NEVER)
        pw_trace_detail(smmu->trace, at_ns, PW_TRACE_WALK, smmu->trace->node, (uint64_t)delay_ns,
                        page);
    return delay_ns;
}

pw_time pw_smmu_translate(pw_smmu *smmu, uint16_t pdid, uint64_t page, bool present,
                          bool next_present, pw_time at_ns, uint32_t *how)
{
    const uint16_t tag = pw_smmu_tag(smmu, pdid);
    uint64_t ready_ns;
    pw_time delay_ns;
    if (look_up(smmu, tag, page, present, how)) return pw_smmu_latency_ns(smmu, *how);
    if (present && take_prefetched(smmu, tag, page, &ready_ns)) {
        *how = PW_TRANSLATION_L2;
        delay_ns = smmu->l2_hit_ns;
        if (at_ns != PW_NEVER) delay_ns = pw_later(delay_ns, (pw_time)ready_ns - at_ns);
    } else {
        delay_ns = walk(smmu, tag, page, at_ns, how);
        if (present) enter(smmu, tag, page);
    }
    if (smmu->tlbs->prefetch && next_present) prefetch(smmu, tag, page, behind(at_ns, delay_ns));
    return delay_ns;
}

bool pw_smmu_would_hit(pw_smmu *smmu, uint16_t pdid, uint64_t page, uint32_t *how)
{
    const uint16_t tag = pw_smmu_tag(smmu, pdid);
    const bool is_in_l1 = pw_tcache_has(smmu->tlbs->l1, tag, page);
    *how = is_in_l1 ? PW_TRANSLATION_L1 : PW_TRANSLATION_L2;
    return is_in_l1 || pw_tcache_has(smmu->tlbs->l2, tag, page);
}

static pw_bank_faults *faults_of(const pw_smmu *smmu, const pw_context_bank *bank)
{
    return smmu->faults[bank - smmu->banks];
}

/* The latest one, and those before it: i < PW_FAULTS_KEPT and num_faults. */
static const pw_smmu_fault *before_last(const pw_bank_faults *faults, uint32_t i)
{
    return &faults->active[(faults->num_faults - 1 - i) % PW_FAULTS_KEPT];
}

static bool holds(const pw_smmu_fault *fault, pw_time at_ns)
{
    return at_ns >= fault->fault_ns && at_ns < fault->clear_ns;
}

/* Is FSR not zero for this access? A fault of the other side hides none where accesses are
 * processed on their own (smmu.h). */
static bool is_hidden(const pw_smmu *smmu, const pw_context_bank *bank, pw_time at_ns,
                      bool is_write)
{
    pw_bank_faults *faults = faults_of(smmu, bank);
    bool on_its_own = (bank->sctlr & (PW_SCTLR_HUPCF | PW_SCTLR_CFCFG)) == PW_SCTLR_HUPCF;
    for (uint32_t i = 0; i < PW_FAULTS_KEPT && i < faults->num_faults; i++) {
        const pw_smmu_fault *fault = before_last(faults, i);
        if (holds(fault, at_ns) && !(on_its_own && fault->is_write != is_write)) return true;
    }
    return false;
}

bool pw_smmu_record_fault(pw_smmu *smmu, pw_context_bank *bank, pw_time at_ns, uint64_t address,
                          bool is_write, bool is_permission)
{
    bool stalls = bank->sctlr & PW_SCTLR_CFCFG;
    if (is_hidden(smmu, bank, at_ns, is_write)) {
        bank->fsr |= PW_FSR_MULTI;
        smmu->counters->faults_multi++;
        return false;
    }
    bank->fsr = (is_permission ? PW_FSR_PF : PW_FSR_TF) | (stalls ? PW_FSR_SS : 0);
    bank->far = (uint32_t)address;
    bank->far_high = (uint32_t)(address >> 32);
    bank->fsynr0 = is_write ? PW_FSYNR0_WNR : 0;
    bank->fault_ns = at_ns;
    bank->clear_ns = PW_NEVER; /* until the driver says when its handler writes FSR back */
    pw_bank_faults *faults = faults_of(smmu, bank);
    faults->active[faults->num_faults++ % PW_FAULTS_KEPT] =
        (pw_smmu_fault){at_ns, PW_NEVER, is_write};
    faults->quiet_ns = PW_NEVER;
    return true;
}

void pw_smmu_clear_fault(pw_smmu *smmu, pw_context_bank *bank, pw_time at_ns)
{
    pw_bank_faults *faults = faults_of(smmu, bank);
    bank->clear_ns = at_ns;
    faults->active[(faults->num_faults - 1) % PW_FAULTS_KEPT].clear_ns = at_ns;
    faults->quiet_ns = at_ns;
    for (uint32_t i = 0; i < PW_FAULTS_KEPT; i++) {
        pw_time *clear_ns = &faults->active[i].clear_ns;
        if (*clear_ns == PW_NEVER) *clear_ns = at_ns;
        faults->quiet_ns = pw_later(faults->quiet_ns, *clear_ns);
    }
}

void pw_smmu_resume(pw_smmu *smmu, pw_context_bank *bank, pw_time at_ns, uint32_t value)
{
    pw_smmu_clear_fault(smmu, bank, at_ns);
    bank->resume = value;
    if (value == PW_RESUME_RETRY) smmu->counters->resumes_retry++;
    else smmu->counters->resumes_terminate++;
}

pw_time pw_smmu_active_until(const pw_smmu *smmu, const pw_context_bank *bank, pw_time at_ns)
{
    if (bank->fault_ns == INT64_MIN) return INT64_MIN; /* it has seen none */
    pw_bank_faults *faults = faults_of(smmu, bank);
    if (at_ns >= faults->quiet_ns) return INT64_MIN;
    for (uint32_t i = 0; i < PW_FAULTS_KEPT && i < faults->num_faults; i++)
        if (holds(before_last(faults, i), at_ns)) return before_last(faults, i)->clear_ns;
    return INT64_MIN;
}

bool pw_smmu_is_blocked(const pw_smmu *smmu, const pw_context_bank *bank, pw_time at_ns)
{
    return !(bank->sctlr & PW_SCTLR_HUPCF) && pw_smmu_active_until(smmu, bank, at_ns) != INT64_MIN;
}

pw_time pw_smmu_admit(pw_smmu *smmu, pw_time at_ns)
{
    pw_time admitted_ns = pw_occupancy_admit(&smmu->outstanding, 1, smmu->max_outstanding, at_ns);
    smmu->counters->outstanding_full += admitted_ns > at_ns;
    return admitted_ns;
}

void pw_smmu_hold(pw_smmu *smmu, pw_time since_ns, pw_time until_ns)
{
    pw_occupancy_take(&smmu->outstanding, 1, since_ns, until_ns);
}

void pw_smmu_invalidate(pw_smmu *smmu, uint16_t pdid, uint64_t first_page, uint64_t num_pages)
{
    const uint16_t tag = pw_smmu_tag(smmu, pdid);
    if (tag || pdid == 0) shoot_down(smmu, tag, first_page, num_pages);
}
