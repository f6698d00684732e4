#include "smmu/smmu.h"
#include <string.h>

int pw_smmu_init(pw_smmu *smmu, const pw_costs *costs, const pw_settings *settings, pw_counters *counters)
{
    memset(smmu, 0, sizeof *smmu);
    if (settings->num_context_banks < 1 || settings->num_context_banks > PW_CONTEXT_BANKS_MAX) return PW_ERR_INVALID;
    smmu->costs = costs;
    smmu->counters = counters;
    smmu->num_banks = (uint32_t)settings->num_context_banks;
    smmu->sctlr = PW_SCTLR_M | PW_SCTLR_CFRE | PW_SCTLR_CFIE | (settings->hupcf ? PW_SCTLR_HUPCF : 0);
    smmu->l1_hit_ns = (costs->tlb_l1_hit_clocks * costs->smmu_clock_ps + 999) / 1000;
    smmu->l2_hit_ns = (costs->tlb_l2_hit_clocks * costs->smmu_clock_ps + 999) / 1000;
    pw_tcache_geometry l1 = {(uint32_t)settings->l1_sets, (uint32_t)settings->l1_ways, (uint32_t)settings->tlb_line_pages};
    pw_tcache_geometry l2 = {(uint32_t)settings->l2_sets, (uint32_t)settings->l2_ways, (uint32_t)settings->tlb_line_pages};
    int code = pw_tcache_create(&l1, &smmu->l1);
    if (code == PW_OK) code = pw_tcache_create(&l2, &smmu->l2);
    if (code < 0) pw_smmu_destroy(smmu);
    return code;
}

void pw_smmu_destroy(pw_smmu *smmu)
{
    pw_tcache_destroy(smmu->l1);
    pw_tcache_destroy(smmu->l2);
    smmu->l1 = smmu->l2 = NULL;
}

int pw_smmu_bind(pw_smmu *smmu, uint16_t pdid)
{
    for (uint32_t i = 0; i < smmu->num_banks; i++)
        if (smmu->banks[i].pdid == 0) {
            smmu->banks[i] = (pw_context_bank){
                .pdid = pdid, .sctlr = smmu->sctlr, .fault_ns = INT64_MIN, .clear_ns = INT64_MIN};
            return (int)i;
        }
    return PW_ERR_FULL;
}

pw_context_bank *pw_smmu_bank(pw_smmu *smmu, uint16_t pdid)
{
    for (uint32_t i = 0; pdid != 0 && i < smmu->num_banks; i++)
        if (smmu->banks[i].pdid == pdid) return &smmu->banks[i];
    return NULL;
}

pw_time pw_smmu_translate(pw_smmu *smmu, uint16_t pdid, uint64_t page, bool present)
{
    uint64_t frame;
    pw_counters *counters = smmu->counters;
    if (pw_tcache_lookup(smmu->l1, pdid, page, &frame)) {
        counters->l1_hits++;
        if (present) return smmu->l1_hit_ns;
        counters->stale_translations++;
        pw_smmu_invalidate(smmu, pdid, page, 1);
    } else {
        counters->l1_misses++;
        if (pw_tcache_lookup(smmu->l2, pdid, page, &frame)) {
            counters->l2_hits++;
            if (present) {
                pw_tcache_fill(smmu->l1, pdid, page, frame);
                return smmu->l2_hit_ns;
            }
            counters->stale_translations++;
            pw_smmu_invalidate(smmu, pdid, page, 1);
        } else counters->l2_misses++;
    }
    counters->walks++;
    if (present) {
        pw_tcache_fill(smmu->l2, pdid, page, page);
        pw_tcache_fill(smmu->l1, pdid, page, page);
    }
    return smmu->costs->walk_ns;
}

bool pw_smmu_record_fault(pw_smmu *smmu, pw_context_bank *bank, pw_time at_ns, uint64_t address, bool is_write)
{
    bool active = at_ns >= bank->fault_ns && at_ns < bank->clear_ns;
    if (active || pw_smmu_is_blocked(smmu, bank, at_ns)) {      /* frames may be here before earlier ones */
        bank->fsr |= PW_FSR_MULTI;
        smmu->counters->faults_multi++;
        return false;
    }
    bank->fsr = PW_FSR_TF;
    bank->far = (uint32_t)address;
    bank->far_high = (uint32_t)(address >> 32);
    bank->fsynr0 = is_write ? PW_FSYNR0_WNR : 0;
    bank->fault_ns = at_ns;
    bank->clear_ns = PW_NEVER;  /* until the driver says when its handler writes FSR back */
    uint32_t idx = (uint32_t)(bank - smmu->banks), slot = smmu->num_faults[idx]++ % PW_FAULTS_KEPT;
    smmu->active[idx][slot].fault_ns = at_ns;
    smmu->active[idx][slot].clear_ns = PW_NEVER;
    return true;
}

void pw_smmu_clear_fault(pw_smmu *smmu, pw_context_bank *bank, pw_time at_ns)
{
    uint32_t idx = (uint32_t)(bank - smmu->banks);
    bank->clear_ns = at_ns;
    smmu->active[idx][(smmu->num_faults[idx] - 1) % PW_FAULTS_KEPT].clear_ns = at_ns;
}

pw_time pw_smmu_blocked_until(const pw_smmu *smmu, const pw_context_bank *bank, pw_time at_ns)
{
    if (bank->sctlr & PW_SCTLR_HUPCF) return INT64_MIN;
    uint32_t idx = (uint32_t)(bank - smmu->banks);
    for (uint32_t i = 0; i < PW_FAULTS_KEPT && i < smmu->num_faults[idx]; i++)
        if (at_ns >= smmu->active[idx][i].fault_ns && at_ns < smmu->active[idx][i].clear_ns) return smmu->active[idx][i].clear_ns;
    return INT64_MIN;
}

void pw_smmu_invalidate(pw_smmu *smmu, uint16_t pdid, uint64_t first_page, uint64_t num_pages)
{
    pw_tcache_invalidate_range(smmu->l1, pdid, first_page, num_pages);
    pw_tcache_invalidate_range(smmu->l2, pdid, first_page, num_pages);
}
