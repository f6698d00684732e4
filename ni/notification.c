/* Completion notification at the destination: two words that the last arrival of a transfer writes
 * into the receiver's memory, through its SMMU like data [R5 2.3.3]. Their page is checked when the
 * last block is here, which names it: absent, it is a fault of that block (NACK 1, page-in,
 * retransmission; with stall the access waits); unmapped or read-only, it ends the transfer with an
 * error. Assumed: the sources do not say what happens to a notification that faults. */
#include "native/safe_copy.h"
#include "ni/state.h"

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
    return pw_safe_copy_out((void *)(uintptr_t)notification->address, notification->data,
                            sizeof notification->data);
}
