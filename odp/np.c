#include "odp/np.h"

/* From the access on until the other end's software is asked: the answer goes to the initiator,
 * which compares versions and sends a message. Nodes of one QFDB are assumed. */
static pw_time notice_ns(const pw_costs *costs)
{
    pw_time way_ns = costs->ni_send_ns + costs->hop_ns + costs->ni_receive_ns;
    return 2 * way_ns + costs->np_check_ns +
           costs->packetizer_writes * costs->core_register_write_ns + costs->mailbox_read_ns;
}

/* Software brings the page in, one after the other. PW_OK, or why it cannot. */
static int bring_in(pw_odp *np, const pw_access *access, bool for_write, pw_access_result *result)
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
    np->counters->pages_paged_in += effect != PW_EFFECT_NONE;
    np->counters->pages_copied += effect == PW_EFFECT_COPIED;
    np->counters->major_faults += is_major;
    np->counters->signature_writes += for_write;
    np->counters->signature_reads += !for_write;
    return pw_odp_table_enter(&np->table, access->pdid, access->page,
                              (pw_odp_entry){result->paged_in_ns, for_write});
}

void pw_np_access(pw_translation_unit *base, pw_residency *residency, const pw_access *access,
                  pw_access_result *result)
{
    pw_odp *np = pw_odp_of(base);
    bool for_write = residency->for_write;
    int state = pw_residency_state_now(residency, base->memory, access->page, access->end_page,
                                       access->is_further);
    *result = (pw_access_result){
        .outcome = PW_ACCESS_REFUSED, .code = pw_odp_allows(state), .fault_until_ns = INT64_MIN};
    if (result->code < 0) return;
    const pw_odp_entry *entry = pw_odp_table_find(&np->table, access->pdid, access->page);
    bool is_in = state == PW_PAGE_PRESENT;
    bool is_ready = is_in && (!entry || entry->ready_ns <= access->at_ns);
    pw_time ready_ns = is_in && entry ? entry->ready_ns : access->at_ns;
    if (access->is_translated) {
        result->outcome = is_ready ? PW_ACCESS_PRESENT : PW_ACCESS_DROPPED;
        return;
    }
    if (!is_in) {
        result->code = bring_in(np, access, for_write, result);
        if (result->code < 0) return;
        ready_ns = result->paged_in_ns;
        pw_residency_forget(residency);
    }
    result->delay_ns = pw_smmu_translate(np->smmu, access->pdid, access->page, is_ready, false,
                                         access->at_ns, &result->how);
    result->block_waits = true;
    result->ready_ns = ready_ns;
    result->outcome = for_write && !is_ready ? PW_ACCESS_DROPPED : PW_ACCESS_PRESENT;
    if (!for_write && !is_ready) result->delay_ns += ready_ns - access->at_ns;
}
