#include "native/fault_injection.h"

int pw_faults_plan(pw_faults *faults, uint32_t node, uint32_t site, const pw_fault_site *plan)
{
    if (site >= PW_FAULT_SITES || plan->denom < 1 || plan->denom > PW_FAULT_DENOM_MAX || plan->num > plan->denom ||
        plan->amount_ns < 0 || plan->amount_ns > PW_FAULT_AMOUNT_MAX_NS) return PW_ERR_INVALID;
    faults->sites[site] = *plan;
    faults->sites[site].eligible = faults->sites[site].injected = faults->sites[site].late_after_end = 0;
    faults->mixed_seeds[site] = pw_fault_mix(pw_fault_mix(plan->seed) + ((uint64_t)node << 8 | site));
    faults->any = false;
    for (uint32_t i = 0; i < PW_FAULT_SITES; i++) faults->any |= faults->sites[i].num != 0;
    return PW_OK;
}
