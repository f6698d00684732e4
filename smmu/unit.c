#include "smmu/unit.h"

static pw_smmu_unit *of(pw_translation_unit *base) { return (pw_smmu_unit *)(void *)base; }

/* What the access ends with when no page-in will be tried, or PW_OK. */
static int error_of(const pw_smmu_unit *unit, pw_residency *residency, int state, uint64_t page)
{
    if (state < 0) return state;
    if (state == PW_PAGE_UNMAPPED) return PW_ERR_ADDRESS;
    if (!unit->ideal || state == PW_PAGE_PRESENT) return PW_OK;
    return state == PW_PAGE_FORBIDDEN
               ? PW_ERR_PROTECTION
               : pw_residency_check_mapping(residency, unit->base.memory, page);
}

static bool lets_through(const pw_smmu_unit *unit, int state)
{
    return state == PW_PAGE_PRESENT ||
           (unit->ideal && (state == PW_PAGE_ABSENT || state == PW_PAGE_WRITE_PROTECTED));
}

/* A page in page-in is not what its state says yet. */
static bool is_permission(const pw_smmu_unit *unit, int state, uint64_t page)
{
    if (state == PW_PAGE_PRESENT) return pw_presence_is_permission(unit->presence, page);
    return state == PW_PAGE_WRITE_PROTECTED || state == PW_PAGE_FORBIDDEN;
}

/* Pages behind this one that the transfer needs and that are there. */
static uint64_t num_behind(const pw_smmu_unit *unit, const pw_residency *residency,
                           const pw_access *access)
{
    uint64_t count = 0, end_page = access->page + unit->utlb->fetch_entries;
    if (access->end_page < end_page) end_page = access->end_page;
    while (access->page + count + 1 < end_page &&
           pw_residency_is_present(residency, access->page + count + 1))
        count++;
    return count;
}

static pw_time translate(const pw_smmu_unit *unit, const pw_residency *residency,
                         const pw_access *access, bool is_present, uint32_t *how)
{
    if (unit->utlb)
        return pw_utlb_cache_translate(unit->utlb, access->pdid, access->page, is_present,
                                       num_behind(unit, residency, access), how);
    return pw_smmu_translate(unit->smmu, access->pdid, access->page, is_present,
                             pw_residency_is_present(residency, access->page + 1), access->at_ns,
                             how);
}

static void access_page(pw_translation_unit *base, pw_residency *residency, const pw_access *access,
                        pw_access_result *result)
{
    const pw_smmu_unit *unit = of(base);
    uint64_t page = access->page;
    if (unit->smmu->prefetch) residency->window_pages = 0; /* a window's edge would end it */
    int state =
        pw_residency_state_now(residency, base->memory, page, access->end_page, access->is_further);
    *result = (pw_access_result){.code = error_of(unit, residency, state, page),
                                 .fault_until_ns = INT64_MIN};
    bool is_present = result->code == PW_OK && lets_through(unit, state) &&
                      pw_presence_present_ns(unit->presence, page) <= access->at_ns;
    if (!access->is_translated)
        result->delay_ns = translate(unit, residency, access, is_present, &result->how);
    const pw_context_bank *bank = pw_smmu_bank(unit->smmu, access->pdid);
    if (bank) result->fault_until_ns = pw_smmu_active_until(unit->smmu, bank, access->at_ns);
    if (result->code < 0) {
        result->outcome = PW_ACCESS_REFUSED;
    } else if (!is_present) {
        result->outcome = PW_ACCESS_FAULT;
        result->is_permission = is_permission(unit, state, page);
    } else if (result->fault_until_ns != INT64_MIN && !(bank->sctlr & PW_SCTLR_HUPCF)) {
        result->outcome = PW_ACCESS_BLOCKED;
    } else {
        result->outcome = PW_ACCESS_PRESENT;
    }
}

static pw_time word(pw_translation_unit *base, uint16_t pdid, uint64_t page, pw_time at_ns)
{
    uint32_t how;
    if (of(base)->utlb) return pw_utlb_cache_translate(of(base)->utlb, pdid, page, true, 0, &how);
    return pw_smmu_translate(of(base)->smmu, pdid, page, true, false, at_ns, &how);
}

static pw_time latency_ns(const pw_translation_unit *base, uint32_t how)
{
    const pw_smmu_unit *unit = (const pw_smmu_unit *)(const void *)base;
    return unit->utlb ? pw_utlb_cache_latency_ns(unit->utlb, how)
                      : pw_smmu_latency_ns(unit->smmu, how);
}

static int open_context(pw_translation_unit *base, uint16_t pdid)
{
    return pw_smmu_bind(of(base)->smmu, pdid) < 0 ? PW_ERR_CONTEXT : PW_OK;
}

static bool is_open(pw_translation_unit *base, uint16_t pdid)
{
    return pw_smmu_bank(of(base)->smmu, pdid) != NULL;
}

static void invalidate(pw_translation_unit *base, uint16_t pdid, uint64_t first_page,
                       uint64_t num_pages)
{
    if (of(base)->utlb) pw_utlb_cache_invalidate(of(base)->utlb, pdid, first_page, num_pages);
    else pw_smmu_invalidate(of(base)->smmu, pdid, first_page, num_pages);
}

static void invalidate_context(pw_translation_unit *base, uint16_t pdid)
{
    if (of(base)->utlb) pw_utlb_cache_invalidate_context(of(base)->utlb, pdid);
    else pw_smmu_invalidate_context(of(base)->smmu, pdid);
}

static void invalidate_all(pw_translation_unit *base)
{
    if (of(base)->utlb) pw_utlb_cache_invalidate_all(of(base)->utlb);
    else pw_smmu_invalidate_all(of(base)->smmu);
}

void pw_smmu_unit_init(pw_smmu_unit *unit, pw_smmu *smmu, pw_memory *memory,
                       const pw_presence *presence, bool ideal, pw_utlb_cache *utlb)
{
    static const pw_translation_ops ops = {
        .access = access_page,
        .word = word,
        .latency_ns = latency_ns,
        .open = open_context,
        .is_open = is_open,
        .invalidate = invalidate,
        .invalidate_context = invalidate_context,
        .invalidate_all = invalidate_all,
        .is_certain = true,
    };
    *unit = (pw_smmu_unit){.base = {.ops = &ops, .memory = memory},
                           .presence = presence,
                           .ideal = ideal,
                           .smmu = smmu,
                           .utlb = utlb};
}
