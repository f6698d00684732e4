/* The receiver's library advises the driver of a transfer's destination (get_user_pages for the
 * whole range, on a core that does nothing else), so that pages come in while the request travels.
 */
#include "driver/driver.h"

#define CHUNK_PAGES 1024u

static int note(pw_driver *driver, uint16_t pdid, uint64_t page, uint8_t effect, pw_time *at_ns)
{
    bool is_permission = effect == PW_EFFECT_COPIED;
    driver->counters->pages_paged_in++;
    driver->counters->pages_copied += is_permission;
    driver->counters->major_faults += effect == PW_EFFECT_SWAPPED;
    driver->counters->pages_along += effect == PW_EFFECT_ALONG;
    if (effect != PW_EFFECT_ALONG) *at_ns += driver->costs->page_in_page_ns;
    if (effect == PW_EFFECT_SWAPPED) *at_ns += driver->costs->major_fault_ns;
    if (is_permission) pw_smmu_invalidate(driver->smmu, pdid, page, 1); /* new frame */
    return pw_presence_add(&driver->presence, page, (pw_cpu_instant){.ns = *at_ns}, is_permission);
}

int pw_driver_advise(pw_driver *driver, uint16_t pdid, uint64_t first_page, uint64_t num_pages,
                     pw_time at_ns)
{
    uint8_t effects[CHUNK_PAGES];
    at_ns += driver->costs->page_in_fixed_ns;
    for (uint64_t done = 0; done < num_pages; done += CHUNK_PAGES) {
        uint64_t num_now = num_pages - done < CHUNK_PAGES ? num_pages - done : CHUNK_PAGES;
        int code = pw_memory_page_in(driver->memory, first_page + done, num_now, true, effects);
        for (uint64_t i = 0; i < num_now; i++) {
            if (effects[i] == PW_EFFECT_UNMAPPED) return PW_OK; /* the transfer will tell */
            if (effects[i] == PW_EFFECT_NONE) continue;
            int noted = note(driver, pdid, first_page + done + i, effects[i], &at_ns);
            if (noted < 0) return noted;
        }
        if (code < 0) return code == PW_ERR_HOST ? code : PW_OK;
    }
    return PW_OK;
}
