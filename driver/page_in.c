/* get_user_pages of the tasklet, and what it means for virtual time: from when each page is there.
 */
#include "driver/driver_parts.h"

#define CHUNK_PAGES 1024u

/* Pages of the transfer that came in with this one, but were not asked for: parts of its huge page.
 */
static int note_neighbours(pw_driver *driver, const pw_tasklet_job *job, uint64_t page,
                           bool is_permission, pw_cpu_instant present)
{
    uint64_t first_page, num_pages;
    pw_memory_extent(driver->memory, page, &first_page, &num_pages);
    uint64_t end_page = first_page + num_pages;
    const pw_fault *fault = &job->fault;
    if (first_page < fault->transfer_first_page) first_page = fault->transfer_first_page;
    if (end_page > fault->transfer_end_page) end_page = fault->transfer_end_page;
    int code = PW_OK;
    for (; num_pages > 1 && code == PW_OK && first_page < end_page; first_page++) {
        if (first_page == page) continue;
        code = pw_presence_add(&driver->presence, first_page, present, is_permission);
        if (code == PW_OK) code = pw_tasklet_note_page(job->run, first_page);
    }
    return code;
}

int pw_page_in_note(pw_driver *driver, const pw_tasklet_job *job, uint64_t page, uint8_t effect,
                    pw_cpu_instant present, bool by_touch)
{
    pw_counters *counters = driver->counters;
    bool is_permission = effect == PW_EFFECT_COPIED;
    counters->pages_paged_in++;
    counters->pages_copied += is_permission;
    counters->major_faults += effect == PW_EFFECT_SWAPPED;
    counters->pages_along += effect == PW_EFFECT_ALONG;
    if (effect == PW_EFFECT_ALONG) return PW_OK; /* noted with the page it came with */
    if (is_permission) pw_smmu_invalidate(driver->smmu, job->fault.pdid, page, 1); /* new frame */
    int code = note_neighbours(driver, job, page, is_permission, present);
    if (code < 0 || by_touch) return code; /* the thread notes when it touches */
    code = pw_presence_add(&driver->presence, page, present, is_permission);
    return code < 0 ? code : pw_tasklet_note_page(job->run, page);
}

static int bring_in(pw_driver *driver, const pw_tasklet_job *job, uint64_t page, uint8_t effect)
{
    pw_time cost_ns = effect == PW_EFFECT_ALONG ? 0 : driver->costs->page_in_page_ns;
    if (effect == PW_EFFECT_SWAPPED) /* the tasklet waits for the device */
        cost_ns += driver->costs->major_fault_ns;
    return pw_page_in_note(driver, job, page, effect, pw_tasklet_work(driver, job, cost_ns), false);
}

/* Bringing in [page, end_page) failed. Only the host's policy asks for pages outside of the
 * transfer, and they must not fail it: leave out those on one side. False when there are none. */
static bool leave_out(const pw_fault *fault, uint64_t *page, uint64_t *end_page)
{
    if (*page < fault->transfer_first_page) *page = fault->transfer_first_page;
    else if (*end_page > fault->transfer_end_page)
        *end_page = *page < fault->transfer_end_page ? fault->transfer_end_page : *page;
    else return false;
    return true;
}

/* The first page from here on that this run has not asked for, with no change of mappings since. */
static uint64_t not_brought(const pw_driver *driver, const pw_tasklet_job *job, uint64_t page)
{
    bool holds = driver->brought.span == job->run->span &&
                 driver->brought.generation == pw_memory_generation(driver->memory) &&
                 page >= driver->brought.range.first_page && page < driver->brought.range.end_page;
    return holds ? driver->brought.range.end_page : page;
}

static void note_brought(pw_driver *driver, const pw_tasklet_job *job, uint64_t first_page,
                         uint64_t end_page)
{
    bool continues = driver->brought.span == job->run->span &&
                     driver->brought.generation == pw_memory_generation(driver->memory) &&
                     driver->brought.range.end_page == first_page;
    if (!continues) driver->brought.range.first_page = first_page;
    driver->brought.range.end_page = end_page;
    driver->brought.span = job->run->span;
    driver->brought.generation = pw_memory_generation(driver->memory);
}

/* Bring in the next pages of [*page, *end_page), cut where they are not mapped. How many were
 * absent, or PW_ERR_*. */
static int64_t next_chunk(pw_driver *driver, const pw_tasklet_job *job, uint64_t *page,
                          uint64_t *end_page)
{
    uint8_t effects[CHUNK_PAGES];
    uint64_t num_pages = *end_page - *page < CHUNK_PAGES ? *end_page - *page : CHUNK_PAGES;
    uint64_t first_page = *page, num_mapped = 0;
    int64_t num_absent = 0;
    bool is_whole = true;
    int code = pw_memory_page_in(driver->memory, first_page, num_pages, job->fault.at_destination,
                                 effects);
    while (num_mapped < num_pages && effects[num_mapped] != PW_EFFECT_UNMAPPED) num_mapped++;
    if (num_mapped < num_pages) { /* fewer when the next ones are not mapped */
        *page = *end_page = first_page + num_mapped;
    } else if (code < 0) { /* what came in before stays, and is paid for */
        if (!leave_out(&job->fault, page, end_page)) return code;
        is_whole = false;
    } else *page = first_page + num_pages;
    for (uint64_t i = 0; i < num_mapped; i++) {
        if (effects[i] == PW_EFFECT_NONE) continue;
        code = bring_in(driver, job, first_page + i, effects[i]);
        if (code < 0) return code;
        num_absent++;
    }
    if (is_whole) note_brought(driver, job, first_page, *page);
    return num_absent;
}

int pw_page_in(pw_driver *driver, const pw_tasklet_job *job, uint64_t page, uint64_t end_page)
{
    int64_t num_absent = 0, more = 0;
    pw_tasklet_work(driver, job, driver->costs->page_in_fixed_ns);
    while (more >= 0 && (page = not_brought(driver, job, page)) < end_page) {
        more = next_chunk(driver, job, &page, &end_page);
        if (more > 0) num_absent += more;
    }
    int code = more < 0 ? (int)more : PW_OK;
    if (code == PW_OK && end_page <= job->page) code = PW_ERR_ADDRESS;
    driver->counters->page_ins_present += code == PW_OK && num_absent == 0;
    driver->counters->page_ins_failed += code < 0;
    pw_cpu_instant done = pw_cpu_end(&driver->cpu, job->run->span);
    pw_driver_mark(driver, done, PW_TRACE_PAGE_IN_DONE, job->page, (uint64_t)num_absent);
    return code;
}

/* First page of the mapped run that ends with the page before end_page, not below first_page. */
static uint64_t first_mapped(pw_driver *driver, uint64_t first_page, uint64_t end_page)
{
    uint8_t state[CHUNK_PAGES];
    for (uint64_t end = end_page; end > first_page;) {
        uint64_t num_pages = end - first_page < CHUNK_PAGES ? end - first_page : CHUNK_PAGES;
        if (pw_memory_probe(driver->memory, end - num_pages, num_pages, state) < 0) return end;
        for (uint64_t i = num_pages; i-- > 0;)
            if (state[i] == PW_PAGE_UNMAPPED) return end - num_pages + i + 1;
        end -= num_pages;
    }
    return first_page;
}

/* First page behind the mapped run that begins with first_page, not behind end_page. */
static uint64_t end_mapped(pw_driver *driver, uint64_t first_page, uint64_t end_page)
{
    uint8_t state[CHUNK_PAGES];
    for (uint64_t page = first_page; page < end_page;) {
        uint64_t num_pages = end_page - page < CHUNK_PAGES ? end_page - page : CHUNK_PAGES;
        if (pw_memory_probe(driver->memory, page, num_pages, state) < 0) return page;
        for (uint64_t i = 0; i < num_pages; i++)
            if (state[i] == PW_PAGE_UNMAPPED) return page + i;
        page += num_pages;
    }
    return end_page;
}

void pw_page_in_cut_to_mapped(pw_driver *driver, uint64_t page, uint64_t *first_page,
                              uint64_t *end_page)
{
    *first_page = first_mapped(driver, *first_page, page);
    *end_page = end_mapped(driver, page + 1, *end_page);
}
