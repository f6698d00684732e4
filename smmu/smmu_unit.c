#include "smmu/smmu_unit.h"
#include <stdlib.h>

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

pw_walked_page pw_smmu_unit_walk(const pw_smmu_unit *unit, pw_residency *residency,
                                 const pw_access *access, pw_access_result *result)
{
    uint64_t page = access->page;
    if (unit->base.smmu->tlbs->prefetch)
        residency->window_pages = 0; /* a window's edge would end it */
    pw_memory_at(unit->base.memory, access->at_ns);
    int state = pw_residency_state_now(residency, unit->base.memory, page, access->end_page,
                                       access->is_further);
    *result = (pw_access_result){.code = error_of(unit, residency, state, page),
                                 .fault_until_ns = INT64_MIN};
    return (pw_walked_page){.state = state,
                            .is_present =
                                result->code == PW_OK && lets_through(unit, state) &&
                                pw_presence_present_ns(unit->presence, page) <= access->at_ns};
}

void pw_smmu_unit_judge(const pw_smmu_unit *unit, const pw_access *access,
                        const pw_walked_page *walked, pw_access_result *result)
{
    pw_smmu *smmu = unit->base.smmu;
    const pw_context_bank *bank = pw_smmu_bank(smmu, access->pdid);
    if (bank) result->fault_until_ns = pw_smmu_active_until(smmu, bank, access->at_ns);
    if (result->code < 0) {
        result->outcome = PW_ACCESS_REFUSED;
    } else if (!walked->is_present) {
        result->outcome = PW_ACCESS_FAULT;
        result->is_permission = is_permission(unit, walked->state, access->page);
    } else if (result->fault_until_ns != INT64_MIN && !(bank->sctlr & PW_SCTLR_HUPCF)) {
        result->outcome = PW_ACCESS_BLOCKED;
    } else {
        result->outcome = PW_ACCESS_PRESENT;
    }
}

static void access_page(pw_translation_unit *base, pw_residency *residency, const pw_access *access,
                        pw_access_result *result)
{
    pw_walked_page walked = pw_smmu_unit_walk(of(base), residency, access, result);
    if (!access->is_translated)
        result->delay_ns = pw_smmu_translate(
            base->smmu, access->pdid, access->page, walked.is_present,
            pw_residency_is_present(residency, access->page + 1), access->at_ns, &result->how);
    pw_smmu_unit_judge(of(base), access, &walked, result);
}

pw_time pw_smmu_unit_word(pw_translation_unit *unit, uint16_t pdid, uint64_t page, pw_time at_ns)
{
    uint32_t how;
    return pw_smmu_translate(unit->smmu, pdid, page, true, false, at_ns, &how);
}

pw_time pw_smmu_unit_latency_ns(const pw_translation_unit *unit, uint32_t how)
{
    return pw_smmu_latency_ns(unit->smmu, how);
}

int pw_smmu_unit_open(pw_translation_unit *unit, uint16_t pdid)
{
    return pw_smmu_bind(unit->smmu, pdid) < 0 ? PW_ERR_CONTEXT : PW_OK;
}

bool pw_smmu_unit_is_open(pw_translation_unit *unit, uint16_t pdid)
{
    return pw_smmu_bank(unit->smmu, pdid) != NULL;
}

static bool would_hit(const pw_translation_unit *unit, uint16_t pdid, uint64_t page, uint32_t *how)
{
    return pw_smmu_would_hit(unit->smmu, pdid, page, how);
}

static pw_time invalidate(pw_translation_unit *base, uint16_t pdid, uint64_t first_page,
                          uint64_t num_pages)
{
    pw_smmu_invalidate(base->smmu, pdid, first_page, num_pages);
    return base->smmu->costs->tlb_invalidate_ns;
}

static void destroy(pw_translation_unit *base) { free(base); }

void pw_smmu_unit_init(pw_smmu_unit *unit, const pw_unit_parts *parts,
                       const pw_translation_ops *ops)
{
    *unit = (pw_smmu_unit){.base = {.ops = ops, .memory = parts->memory, .smmu = parts->smmu},
                           .presence = parts->presence,
                           .ideal = parts->settings->ideal};
}

int pw_smmu_unit_create(const pw_unit_parts *parts, pw_translation_unit **out)
{
    static const pw_translation_ops ops = {
        .access = access_page,
        .word = pw_smmu_unit_word,
        .latency_ns = pw_smmu_unit_latency_ns,
        .would_hit = would_hit,
        .open = pw_smmu_unit_open,
        .is_open = pw_smmu_unit_is_open,
        .invalidate = invalidate,
        .destroy = destroy,
        .is_certain = true,
    };
    pw_smmu_unit *unit = malloc(sizeof *unit);
    if (!unit) return PW_ERR_NOMEM;
    pw_smmu_unit_init(unit, parts, &ops);
    *out = &unit->base;
    return PW_OK;
}
