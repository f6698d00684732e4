/* Completion notification at the destination: two words that the last arrival of a transfer writes into
 * the receiver's memory, through its SMMU like data [R5 2.3.3]. Their page is checked when the last block
 * is here, which names it: absent, it is a fault of that block (NACK 1, page-in, retransmission; with stall
 * the access waits); unmapped or read-only, it ends the transfer with an error. Assumed: the sources do
 * not say what happens to a notification that faults. */
#include "native/engine_state.h"
#include <string.h>

int pw_notification_check(pw_ni *ni, const pw_landing *landing, pw_time at_ns, bool *present)
{
    uint64_t page = pw_page_of(landing->notification.address);
    pw_walk walk = {.for_write = true};
    int state = pw_walk_state_now(&walk, ni->memory, page, page + 1);
    if (state < 0) return state;
    if (state == PW_PAGE_UNMAPPED) return PW_ERR_ADDRESS;
    if (state == PW_PAGE_FORBIDDEN) return PW_ERR_PROTECTION;
    *present = (state == PW_PAGE_PRESENT || ni->settings.ideal) && pw_page_in_present_ns(&ni->driver.page_in, page) <= at_ns;
    return PW_OK;
}

int pw_notification_write(pw_ni *ni, const pw_landing *landing, pw_time *at_ns)
{
    const pw_notification *notification = &landing->notification;
    pw_walk walk = {.for_write = true};     /* the OS may have changed the mapping since the last block came */
    int code = pw_walk_check_mapping(&walk, ni->memory, pw_page_of(notification->address));
    if (code < 0) return code;
    uint32_t how;
    *at_ns = pw_later(*at_ns, landing->notification_ns);
    *at_ns += pw_smmu_translate(&ni->smmu, landing->pdid, pw_page_of(notification->address), true, false, *at_ns, &how);
    memcpy((void *)(uintptr_t)notification->address, notification->data, sizeof notification->data);
    return PW_OK;
}
