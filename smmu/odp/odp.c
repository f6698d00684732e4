/* The NIC's page table; NP-RDMA's accesses; ODP's faults, accesses, invalidation and prefetch. */
#include "smmu/odp/odp.h"
#include "native/calendar.h"
#include "smmu/smmu_unit.h"
#include <stdlib.h>

typedef struct {
    pw_leaf leaf;
    pw_odp_entry entries[PW_LEAF_PAGES];
} odp_leaf;

static odp_leaf *leaf_of(pw_leaf *leaf) { return (odp_leaf *)(void *)leaf; }

void pw_odp_table_destroy(pw_odp_table *table) { pw_page_leaves_clear(&table->leaves); }

const pw_odp_entry *pw_odp_table_find(const pw_odp_table *table, uint16_t pdid, uint64_t page)
{
    const odp_leaf *leaf = leaf_of(pw_page_leaves_find(&table->leaves, pdid, page));
    const pw_odp_entry *entry = leaf ? &leaf->entries[page % PW_LEAF_PAGES] : NULL;
    return entry && entry->is_in ? entry : NULL;
}

int pw_odp_table_enter(pw_odp_table *table, uint16_t pdid, uint64_t page, pw_odp_entry entry)
{
    odp_leaf *leaf = leaf_of(pw_page_leaves_make(&table->leaves, pdid, page, sizeof(odp_leaf)));
    if (!leaf) return PW_ERR_NOMEM;
    pw_odp_entry *place = &leaf->entries[page % PW_LEAF_PAGES];
    table->num_entries += !place->is_in;
    if (table->num_entries > table->peak_entries) table->peak_entries = table->num_entries;
    *place = entry;
    place->is_in = true;
    return PW_OK;
}

static uint64_t drop_of_leaf(pw_odp_table *table, pw_leaf *leaf, uint64_t first_page,
                             uint64_t end_page)
{
    pw_odp_entry *entries = leaf_of(leaf)->entries;
    uint64_t base = pw_leaf_first_page(leaf), num_dropped = 0;
    for (uint32_t i = 0; i < PW_LEAF_PAGES; i++) {
        if (base + i < first_page || base + i >= end_page) continue;
        num_dropped += entries[i].is_in;
        entries[i].is_in = false;
    }
    table->num_entries -= num_dropped;
    return num_dropped;
}

/* Tables of the process that are in the range: a range can be longer than all tables together. */
static uint64_t drop(pw_odp_table *table, uint16_t pdid, uint64_t first_page, uint64_t end_page)
{
    uint64_t num_dropped = 0;
    for (pw_leaf *leaf = table->leaves.first; table->num_entries && leaf; leaf = leaf->next) {
        uint64_t base = pw_leaf_first_page(leaf);
        bool is_outside = base >= end_page || base + PW_LEAF_PAGES <= first_page;
        if (is_outside || (pdid && leaf->pdid != pdid)) continue;
        num_dropped += drop_of_leaf(table, leaf, first_page, end_page);
    }
    return num_dropped;
}

uint64_t pw_odp_table_drop(pw_odp_table *table, uint16_t pdid, uint64_t first_page,
                           uint64_t num_pages)
{
    uint64_t end_page = num_pages > UINT64_MAX - first_page ? UINT64_MAX : first_page + num_pages;
    if (num_pages > PW_LEAF_PAGES) return drop(table, pdid, first_page, end_page);
    uint64_t num_dropped = 0;
    for (uint64_t page = first_page; page < end_page; page = (page | (PW_LEAF_PAGES - 1)) + 1) {
        pw_leaf *leaf = pw_page_leaves_find(&table->leaves, pdid, page);
        if (leaf) num_dropped += drop_of_leaf(table, leaf, first_page, end_page);
    }
    return num_dropped;
}

typedef struct {
    pw_translation_unit base;
    const pw_costs *costs;
    const pw_settings *settings;
    pw_counters *counters;
    pw_odp_table table;
    pw_calendar worker; /* firmware, or software: handles one fault after the other */
} pw_odp;

static pw_odp *of(pw_translation_unit *base) { return (pw_odp *)(void *)base; }

/* From the access on until the other end's software is asked: the answer goes to the initiator,
 * which compares versions and sends a message. Nodes of one QFDB are assumed. */
static pw_time notice_ns(const pw_costs *costs)
{
    pw_time way_ns = costs->ni_send_ns + costs->hop_ns + costs->ni_receive_ns;
    return 2 * way_ns + costs->np_check_ns +
           costs->packetizer_writes * costs->core_register_write_ns + costs->mailbox_read_ns;
}

/* Software brings the page in, one after the other. PW_OK, or why it cannot. */
static int ask_software(pw_odp *np, const pw_access *access, bool for_write,
                        pw_access_result *result)
{
    uint8_t effect = PW_EFFECT_NONE;
    int code = pw_memory_page_in(np->base.memory, access->page, 1, for_write, &effect);
    if (code < 0) return code;
    bool is_major = effect == PW_EFFECT_SWAPPED;
    pw_time work_ns = np->costs->touch_absent_page_ns + (is_major ? np->costs->major_fault_ns : 0);
    result->page_in_ns =
        pw_calendar_book(&np->worker, access->at_ns + notice_ns(np->costs), work_ns);
    result->paged_in_ns = result->page_in_ns + work_ns;
    result->num_paged_in = 1;
    pw_memory_count_effect(np->counters, effect);
    np->counters->signature_writes += for_write;
    np->counters->signature_reads += !for_write;
    return pw_odp_table_enter(
        &np->table, access->pdid, access->page,
        (pw_odp_entry){.ready_ns = result->paged_in_ns, .is_writable = for_write});
}

static void np_access(pw_translation_unit *base, pw_residency *residency, const pw_access *access,
                      pw_access_result *result)
{
    pw_odp *np = of(base);
    bool for_write = residency->for_write;
    int state = pw_translation_begin(base, residency, access, result);
    if (state < 0) return;
    const pw_odp_entry *entry = pw_odp_table_find(&np->table, access->pdid, access->page);
    bool is_in = state == PW_PAGE_PRESENT;
    bool is_ready = is_in && (!entry || entry->ready_ns <= access->at_ns);
    pw_time ready_ns = is_in && entry ? entry->ready_ns : access->at_ns;
    if (access->is_translated) {
        result->outcome = is_ready ? PW_ACCESS_PRESENT : PW_ACCESS_DROPPED;
        return;
    }
    if (!is_in) {
        result->code = ask_software(np, access, for_write, result);
        if (result->code < 0) return;
        ready_ns = result->paged_in_ns;
        pw_residency_forget(residency);
    }
    result->delay_ns = pw_smmu_translate(base->smmu, access->pdid, access->page, is_ready, false,
                                         access->at_ns, &result->how);
    result->block_waits = true;
    result->ready_ns = ready_ns;
    result->outcome = for_write && !is_ready ? PW_ACCESS_DROPPED : PW_ACCESS_PRESENT;
    if (!for_write && !is_ready) result->delay_ns += ready_ns - access->at_ns;
}

/* --- faults --- */

/* What bringing pages in was. */
typedef struct {
    uint64_t num_pages, num_absent, num_major;
    uint8_t effect[PW_ODP_FAULT_PAGES_MAX], state[PW_ODP_FAULT_PAGES_MAX]; /* state: afterwards */
    bool is_writable;
} filling;

static void count_page(pw_counters *counters, uint8_t effect, filling *filled)
{
    pw_memory_count_effect(counters, effect);
    if (effect == PW_EFFECT_NONE || effect == PW_EFFECT_UNMAPPED) return;
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
        const pw_odp_entry entry = {.ready_ns = ready_ns, .is_writable = filled->is_writable};
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

/* --- access --- */

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
    pw_odp *odp = of(base);
    bool for_write = residency->for_write;
    int state = pw_translation_begin(base, residency, access, result);
    if (state < 0) return;
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
    result->delay_ns = pw_smmu_translate(odp->base.smmu, access->pdid, access->page, is_ready,
                                         false, access->at_ns, &result->how);
    result->outcome = for_write && !is_ready ? PW_ACCESS_DROPPED : PW_ACCESS_PRESENT;
    result->block_waits = true;
    result->ready_ns = ready_ns;
    if (!for_write) result->delay_ns += pw_later(ready_ns - access->at_ns, 0);
}

/* --- invalidation, prefetch --- */

/* Entries of the range go from the table; how many there were. */
static uint64_t take_out(pw_odp *odp, uint16_t pdid, uint64_t first_page, uint64_t num_pages)
{
    uint64_t num_entries = pw_odp_table_drop(&odp->table, pdid, first_page, num_pages);
    pw_smmu_invalidate(odp->base.smmu, pdid, first_page, num_pages);
    odp->counters->odp_invalidations += num_entries;
    return num_entries;
}

/* The IOMMU's alone: the NIC has no table. */
static pw_time np_invalidate(pw_translation_unit *base, uint16_t pdid, uint64_t first_page,
                             uint64_t num_pages)
{
    take_out(of(base), pdid, first_page, num_pages);
    return of(base)->costs->tlb_invalidate_ns;
}

/* The driver is told before the page goes. Without an entry in the range the NIC need not know of
 * it. Else the driver asks the NIC to take the entries out, and waits until it says that it has,
 * and uses them no more [PSI 2.1.1, figure 2.1b]. */
static pw_time invalidate(pw_translation_unit *base, uint16_t pdid, uint64_t first_page,
                          uint64_t num_pages)
{
    pw_odp *odp = of(base);
    uint64_t num_entries = take_out(odp, pdid, first_page, num_pages);
    if (!num_entries) return odp->costs->tlb_invalidate_ns;
    odp->counters->odp_invalidation_requests++;
    return odp->costs->tlb_invalidate_ns + odp->costs->odp_invalidate_ns +
           (pw_time)num_entries * odp->costs->odp_fault_page_ns;
}

/* The driver brings the range in and writes the NIC's table; no fault, so no firmware. */
static int advise(pw_translation_unit *base, uint16_t pdid, uint64_t first_page, uint64_t num_pages,
                  pw_time at_ns)
{
    pw_odp *odp = of(base);
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

static void destroy(pw_translation_unit *base)
{
    pw_odp_table_destroy(&of(base)->table);
    pw_calendar_finish(&of(base)->worker);
    free(of(base));
}

static int create(const pw_unit_parts *parts, const pw_translation_ops *ops,
                  const pw_receiver_rules *receiver, pw_translation_unit **out)
{
    pw_odp *odp = malloc(sizeof *odp);
    if (!odp) return PW_ERR_NOMEM;
    *odp = (pw_odp){
        .base = {.ops = ops, .memory = parts->memory, .smmu = parts->smmu, .receiver = *receiver},
        .costs = parts->costs,
        .settings = parts->settings,
        .counters = parts->counters};
    *out = &odp->base;
    return PW_OK;
}

static const pw_translation_ops odp_ops = {
    .access = access_page,
    .word = pw_smmu_unit_word,
    .latency_ns = pw_smmu_unit_latency_ns,
    .open = pw_smmu_unit_open,
    .is_open = pw_smmu_unit_is_open,
    .invalidate = invalidate,
    .advise = advise,
    .destroy = destroy,
};

int pw_odp_create(const pw_unit_parts *parts, pw_translation_unit **out)
{
    const pw_receiver_rules receiver = {
        .goes_back = true,
        .pause_ns = parts->settings->odp_rnr_ns,
        .own_nacks = 1u << PW_NACK_NOT_READY | 1u << PW_NACK_SEQUENCE,
    };
    return create(parts, &odp_ops, &receiver, out);
}

int pw_backup_ring_create(const pw_unit_parts *parts, pw_translation_unit **out)
{
    const pw_receiver_rules receiver = {
        .keeps = true,
        .buffer_blocks = (uint32_t)parts->settings->odp_backup_blocks,
        .copy_page_ns = parts->costs->backup_copy_page_ns,
    };
    return create(parts, &odp_ops, &receiver, out);
}

int pw_np_create(const pw_unit_parts *parts, pw_translation_unit **out)
{
    static const pw_translation_ops ops = {
        .access = np_access,
        .word = pw_smmu_unit_word,
        .latency_ns = pw_smmu_unit_latency_ns,
        .open = pw_smmu_unit_open,
        .is_open = pw_smmu_unit_is_open,
        .invalidate = np_invalidate,
        .destroy = destroy,
    };
    const pw_receiver_rules receiver = {.retries_two_sided = true,
                                        .own_nacks = 1u << PW_NACK_MISSED};
    return create(parts, &ops, &receiver, out);
}
