#include "native/impairments.h"

const char *pw_impairment_refused(uint32_t site, const pw_impairment_site *plan)
{
    if (site >= PW_IMPAIRMENT_SITES)
        return "there is no such site: allowed is one of enum pw_impairment_id";
    if (plan->denom < 1 || plan->denom > PW_IMPAIRMENT_DENOM_MAX)
        return "denom: allowed is a whole number from 1 to 1000000000";
    if (plan->num > plan->denom) return "num is more than denom: that many of denom events fail";
    if (plan->amount_ns < 0 || plan->amount_ns > PW_IMPAIRMENT_AMOUNT_MAX_NS)
        return "amount_ns: allowed is a time from 0 to an hour (3600000000000)";
    return NULL;
}

const char *pw_impairment_hopeless(uint32_t site, const pw_impairment_site *plan)
{
    const bool stops_blocks =
        site == PW_IMPAIRMENT_PACKET_LOSS || site == PW_IMPAIRMENT_LINK_LOSS ||
        site == PW_IMPAIRMENT_PACKET_CORRUPTION || site == PW_IMPAIRMENT_LOST_ACK;
    return stops_blocks && plan->num == plan->denom && !plan->limit
               ? "no block would ever get through; take num below denom, or give a limit"
               : NULL;
}

int pw_impairments_plan(pw_impairments *impairments, uint32_t node, uint32_t site,
                        const pw_impairment_site *plan)
{
    if (pw_impairment_refused(site, plan)) return PW_ERR_INVALID;
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
