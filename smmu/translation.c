#include "smmu/translation.h"

/* What the access ends with when no page-in will be tried, or PW_OK. */
static int error_of(const pw_translation_unit *unit, pw_residency *residency, int state,
                    uint64_t page)
{
    if (state < 0) return state;
    if (state == PW_PAGE_UNMAPPED) return PW_ERR_ADDRESS;
    if (!unit->ideal || state == PW_PAGE_PRESENT) return PW_OK;
    return state == PW_PAGE_FORBIDDEN ? PW_ERR_PROTECTION
                                      : pw_residency_check_mapping(residency, unit->memory, page);
}

static bool lets_through(const pw_translation_unit *unit, int state)
{
    return state == PW_PAGE_PRESENT ||
           (unit->ideal && (state == PW_PAGE_ABSENT || state == PW_PAGE_WRITE_PROTECTED));
}

/* A page in page-in is not what its state says yet. */
static bool is_permission(const pw_translation_unit *unit, int state, uint64_t page)
{
    if (state == PW_PAGE_PRESENT) return pw_presence_is_permission(unit->presence, page);
    return state == PW_PAGE_WRITE_PROTECTED || state == PW_PAGE_FORBIDDEN;
}

static void access_smmu(pw_translation_unit *unit, pw_residency *residency, const pw_access *access,
                        pw_access_result *result)
{
    uint64_t page = access->page;
    if (unit->smmu->prefetch) residency->window_pages = 0; /* a window's edge would end it */
    int state =
        pw_residency_state_now(residency, unit->memory, page, access->end_page, access->is_further);
    *result = (pw_access_result){.code = error_of(unit, residency, state, page),
                                 .fault_until_ns = INT64_MIN};
    bool is_present = result->code == PW_OK && lets_through(unit, state) &&
                      pw_presence_present_ns(unit->presence, page) <= access->at_ns;
    if (!access->is_translated)
        result->delay_ns = pw_smmu_translate(unit->smmu, access->pdid, page, is_present,
                                             pw_residency_is_present(residency, page + 1),
                                             access->at_ns, &result->how);
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

void pw_translation_init(pw_translation_unit *unit, pw_smmu *smmu, pw_memory *memory,
                         const pw_presence *presence, bool ideal)
{
    static const pw_translation_ops smmu_ops = {.access = access_smmu};
    *unit = (pw_translation_unit){
        .ops = &smmu_ops, .memory = memory, .presence = presence, .ideal = ideal, .smmu = smmu};
}
