#include "native/impairments.h"

int pw_impairments_plan(pw_impairments *impairments, uint32_t node, uint32_t site,
                        const pw_impairment_site *plan)
{
    if (site >= PW_IMPAIRMENT_SITES || plan->denom < 1 || plan->denom > PW_IMPAIRMENT_DENOM_MAX ||
        plan->num > plan->denom || plan->amount_ns < 0 ||
        plan->amount_ns > PW_IMPAIRMENT_AMOUNT_MAX_NS)
        return PW_ERR_INVALID;
    impairments->sites[site] = *plan;
    impairments->sites[site].eligible = impairments->sites[site].injected =
        impairments->sites[site].late_after_end = 0;
    impairments->mixed_seeds[site] =
        pw_impairment_mix(pw_impairment_mix(plan->seed) + ((uint64_t)node << 8 | site));
    impairments->any = false;
    for (uint32_t i = 0; i < PW_IMPAIRMENT_SITES; i++)
        impairments->any |= impairments->sites[i].num != 0;
    return PW_OK;
}
