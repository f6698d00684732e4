/* Stall mode: an access that faults waits for the driver's RESUME, as often as it must. */
#include "ni/stall.h"
#include "ni/state.h"

pw_time pw_stall_access(pw_ni *ni, pw_residency *walk, const pw_fault *fault, uint64_t page,
                        pw_time at_ns, int *code)
{
    pw_smmu *smmu = &ni->smmu;
    pw_context_bank *bank = pw_smmu_bank(smmu, fault->pdid);
    pw_fault own = *fault;
    pw_time since_ns = at_ns;
    for (;;) {
        pw_access_result result;
        pw_access access = {.page = page,
                            .end_page = fault->transfer_end_page,
                            .at_ns = at_ns,
                            .pdid = fault->pdid,
                            .is_translated = true};
        pw_translate(ni->translation, walk, &access, &result);
        if (result.outcome == PW_ACCESS_REFUSED &&
            (ni->settings.ideal || result.code == PW_ERR_HOST)) {
            *code = result.code;
            return at_ns;
        } /* what is not mapped the driver finds out */
        if (result.outcome == PW_ACCESS_PRESENT) break;
        own.is_permission = result.is_permission;
        if (result.fault_until_ns != INT64_MIN) { /* behind the active fault */
            if (result.outcome == PW_ACCESS_BLOCKED) ni->counters.accesses_blocked++;
            else
                pw_smmu_record_fault(smmu, bank, at_ns, page << PW_PAGE_SHIFT, own.at_destination,
                                     own.is_permission);
            at_ns = result.fault_until_ns;
            continue;
        }
        pw_ni_count_fault(ni, &own, page, at_ns);
        at_ns = pw_driver_stall(&ni->driver, bank, &own, page, at_ns, code);
        pw_residency_forget(walk);
        if (*code < 0) return at_ns;
    }
    if (at_ns == since_ns) return at_ns;
    pw_access_result again;
    pw_access access = {
        .page = page, .end_page = fault->transfer_end_page, .at_ns = at_ns, .pdid = fault->pdid};
    pw_translate(ni->translation, walk, &access, &again);
    at_ns += again.delay_ns;
    ni->counters.accesses_stalled++;
    ni->counters.stalled_ns += at_ns - since_ns;
    return at_ns;
}
