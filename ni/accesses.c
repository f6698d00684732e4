/* The NI's own accesses to the program's memory: copies of blocks, the words of a notification, and
 * accesses that wait. */
#include "ni/state.h"
#include "native/crc32c.h"
#include "native/safe_copy.h"
#include <string.h>

static int copy_run(const pw_residency *walk, uint8_t *payload, const uint8_t *source,
                    uint32_t num_bytes, uint32_t *crcs)
{
    if (!walk->may_vanish) {
        if (crcs) pw_crc32c_packets(payload, source, num_bytes, crcs);
        else memcpy(payload, source, num_bytes);
        return PW_OK;
    }
    int code = pw_safe_copy_in(payload, source, num_bytes);
    if (code == PW_OK && crcs) pw_crc32c_packets(NULL, payload, num_bytes, crcs);
    return code;
}

int pw_copy_packets_in(const pw_residency *walk, uint8_t *payload, uint64_t address,
                       uint32_t num_bytes, uint64_t mask, uint32_t *crcs)
{
    const uint8_t *source = (const uint8_t *)(uintptr_t)address;
    uint32_t num_packets = (num_bytes + PW_PACKET_BYTES - 1) / PW_PACKET_BYTES;
    if (mask == ~UINT64_C(0) >> (PW_BLOCK_PACKETS - num_packets))
        return copy_run(walk, payload, source, num_bytes, crcs);
    int code = PW_OK;
    for (uint32_t packet = 0; packet < num_packets && code == PW_OK; packet++) {
        uint32_t from = packet * PW_PACKET_BYTES;
        uint32_t part = num_bytes - from < PW_PACKET_BYTES ? num_bytes - from : PW_PACKET_BYTES;
        if (mask >> packet & 1)
            code = copy_run(walk, payload + from, source + from, part, crcs ? &crcs[packet] : NULL);
        else {
            memset(payload + from, 0, part);
            if (crcs) crcs[packet] = 0;
        }
    }
    return code;
}

int pw_copy_block_out(const pw_residency *walk, uint64_t address, const uint8_t *payload,
                      uint32_t num_bytes)
{
    void *destination = (void *)(uintptr_t)address;
    if (walk->may_vanish) return pw_safe_copy_out(destination, payload, num_bytes);
    memcpy(destination, payload, num_bytes);
    return PW_OK;
}

/* Completion notification at the destination: two words that the last arrival of a transfer writes
 * into the receiver's memory, through its SMMU like data [R5 2.3.3]. Their page is checked when the
 * last block is here, which names it: absent, it is a fault of that block (NACK 1, page-in,
 * retransmission; with stall the access waits); unmapped or read-only, it ends the transfer with an
 * error. Assumed: the sources do not say what happens to a notification that faults. */

int pw_notification_write(pw_ni *ni, const pw_inbound *inbound, pw_time *at_ns)
{
    const pw_notification *notification = &inbound->notification;
    uint64_t page = pw_page_of(notification->address);
    pw_residency walk = {
        .for_write = true}; /* the OS may have changed the mapping since the last block came */
    int code = pw_residency_check_mapping(&walk, ni->memory, page);
    if (code < 0) return code;
    *at_ns = pw_later(*at_ns, inbound->notification_ns);
    *at_ns += ni->translation->ops->word(ni->translation, inbound->pdid, page, *at_ns);
    if (ni->has_no_bytes) return PW_OK;
    return pw_safe_copy_out((void *)(uintptr_t)notification->address, notification->data,
                            sizeof notification->data);
}

/* Stall mode: an access that faults waits for the driver's RESUME, as often as it must. */

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
            (ni->settings->ideal || result.code == PW_ERR_HOST)) {
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
