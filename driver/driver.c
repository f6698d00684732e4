/* Page-in, and what leads to it: the handler, advice of the library, a stalled access. */
#include "driver/driver.h"
#include "driver/driver_parts.h"
#include <stdlib.h>
#include <string.h>

/* The receiver's library advises the driver of a transfer's destination (get_user_pages for the
 * whole range, on a core that does nothing else), so that pages come in while the request travels.
 */

#define ADVISED_PAGES 1024u

static int note_advised(pw_driver *driver, uint16_t pdid, uint64_t page, uint8_t effect,
                        pw_time *at_ns)
{
    bool is_permission = effect == PW_EFFECT_COPIED;
    pw_memory_count_effect(driver->counters, effect);
    if (effect != PW_EFFECT_ALONG) *at_ns += driver->costs->page_in_page_ns;
    if (effect == PW_EFFECT_SWAPPED) *at_ns += driver->costs->major_fault_ns;
    if (is_permission) pw_smmu_invalidate(driver->smmu, pdid, page, 1); /* new frame */
    return pw_presence_add(&driver->presence, page, (pw_cpu_instant){.ns = *at_ns}, is_permission);
}

int pw_driver_advise(pw_driver *driver, uint16_t pdid, uint64_t first_page, uint64_t num_pages,
                     pw_time at_ns)
{
    uint8_t effects[ADVISED_PAGES];
    at_ns += driver->costs->page_in_fixed_ns;
    for (uint64_t done = 0; done < num_pages; done += ADVISED_PAGES) {
        uint64_t num_now = num_pages - done < ADVISED_PAGES ? num_pages - done : ADVISED_PAGES;
        int code = pw_memory_page_in(driver->memory, first_page + done, num_now, true, effects);
        for (uint64_t i = 0; i < num_now; i++) {
            if (effects[i] == PW_EFFECT_UNMAPPED) return PW_OK; /* the transfer will tell */
            if (effects[i] == PW_EFFECT_NONE) continue;
            int noted = note_advised(driver, pdid, first_page + done + i, effects[i], &at_ns);
            if (noted < 0) return noted;
        }
        if (code < 0) return code == PW_ERR_HOST ? code : PW_OK;
    }
    return PW_OK;
}

/* get_user_pages of the tasklet, and what it means for virtual time: from when each page is there.
 */

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
    bool is_permission = effect == PW_EFFECT_COPIED;
    pw_memory_count_effect(driver->counters, effect);
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

int pw_driver_init(pw_driver *driver, const pw_costs *costs, const pw_settings *settings,
                   pw_counters *counters, pw_trace *trace, pw_memory *memory, pw_smmu *smmu,
                   pw_impairments *impairments)
{
    if (settings->ni_fifo_depth < 1 || settings->ni_fifo_depth > PW_NI_FIFO_DEPTH ||
        settings->touch_ahead_pages < 1 || settings->touch_ahead_pages > PW_TOUCH_AHEAD_PAGES_MAX)
        return PW_ERR_INVALID;
    bool nobody_resumes = settings->stall && settings->page_in == PW_PAGE_IN_TOUCH_A_PAGE;
    if (nobody_resumes) return PW_ERR_INVALID;
    memset(driver, 0, sizeof *driver);
    driver->costs = costs;
    driver->settings = settings;
    driver->policy = pw_page_in_policy_of(settings->policy);
    driver->counters = counters;
    driver->trace = trace;
    driver->memory = memory;
    driver->smmu = smmu;
    driver->impairments = impairments;
    pw_cpu_init(&driver->cpu, costs->handler_ns);
    pw_presence_init(&driver->presence, &driver->cpu);
    pw_faulting_blocks_init(&driver->blocks);
    pw_ni_fifo_init(&driver->fifo, (uint32_t)settings->ni_fifo_depth);
    pw_time_histogram_init(&driver->interrupt_times);
    driver->thread = (pw_library_thread){.costs = costs,
                                         .settings = settings,
                                         .counters = counters,
                                         .trace = trace,
                                         .memory = memory,
                                         .presence = &driver->presence,
                                         .blocks = &driver->blocks,
                                         .cpu = &driver->cpu};
    return PW_OK;
}

void pw_driver_destroy(pw_driver *driver)
{
    pw_tasklet_run *lists[] = {driver->first_run, driver->free_runs};
    for (int i = 0; i < 2; i++)
        while (lists[i]) {
            pw_tasklet_run *run = lists[i];
            lists[i] = run->next;
            free(run->pages);
            free(run);
        }
    if (driver->costs) pw_library_thread_destroy(&driver->thread);
    pw_faulting_blocks_destroy(&driver->blocks);
    pw_presence_destroy(&driver->presence);
    pw_cpu_destroy(&driver->cpu);
    free(driver->marks);
}

/* --- trace --------------------------------------------------------------------------------------
 */

void pw_driver_mark(pw_driver *driver, pw_cpu_instant instant, enum pw_trace_kind kind, uint64_t a,
                    uint64_t b)
{
    pw_trace *trace = driver->trace;
    if (!trace->records) return;
    pw_time time_ns = pw_cpu_time(&driver->cpu, instant);
    uint64_t lost = trace->lost;
    pw_trace_add(trace, time_ns, kind, a, b);
    if (lost != trace->lost) return;
    uint64_t record = pw_trace_next(trace) - 1;
    if (driver->num_marks == driver->marks_capacity) {
        uint32_t capacity = driver->marks_capacity ? 2 * driver->marks_capacity : 256;
        pw_trace_mark *bigger = realloc(driver->marks, capacity * sizeof *bigger);
        if (!bigger) return; /* the record keeps the time that it has */
        driver->marks = bigger;
        driver->marks_capacity = capacity;
    }
    driver->marks[driver->num_marks++] = (pw_trace_mark){record, time_ns, instant};
}

static void move_marks(pw_driver *driver)
{
    for (uint32_t i = 0; i < driver->num_marks; i++) {
        pw_trace_mark *mark = &driver->marks[i];
        pw_trace_move(driver->trace, mark->record, &mark->time_ns,
                      pw_cpu_time(&driver->cpu, mark->instant));
    }
}

/* --- hardware to handler ------------------------------------------------------------------------
 */

/* The SMMU's interrupt: the handler reads FSR, FAR and FSYNR, clears FSR, schedules the tasklet. */
static int raise_interrupt(pw_driver *driver, pw_context_bank *bank, pw_time at_ns)
{
    bool preempts;
    pw_time cost_ns = driver->costs->handler_ns;
    pw_time start_ns = pw_cpu_interrupt(&driver->cpu, at_ns, &preempts);
    if (start_ns < 0) return PW_ERR_NOMEM;
    pw_smmu_clear_fault(driver->smmu, bank, start_ns + cost_ns);
    driver->counters->fault_interrupts++;
    driver->counters->page_in_ns += cost_ns;
    pw_time_histogram_add(&driver->interrupt_times, start_ns);
    uint64_t address = (uint64_t)bank->far_high << 32 | bank->far;
    pw_trace_add(driver->trace, start_ns, PW_TRACE_HANDLER, address >> PW_PAGE_SHIFT, bank->fsr);
    if (preempts) {
        pw_ni_fifo_delay(&driver->fifo, start_ns, cost_ns);
        move_marks(driver);
    }
    pw_library_thread_update(&driver->thread);
    return PW_OK;
}

bool pw_driver_is_impaired(pw_driver *driver, enum pw_impairment_id site, const pw_fault *fault,
                           uint64_t page, pw_time at_ns)
{
    uint64_t key = pw_impairment_key(fault->source_node, fault->identity, fault->sequence,
                                     (uint32_t)(fault->block_end_page - page));
    if (!pw_impairment_draw(driver->impairments, site, key)) return false;
    pw_trace_add(driver->trace, at_ns, PW_TRACE_INJECTED, (uint64_t)site, fault->transaction_id);
    return true;
}

static int log_entry(pw_driver *driver, const pw_fault *fault, uint64_t page, pw_time at_ns)
{
    pw_fifo_fields fields = {.source_node = fault->source_node,
                             .transaction_id = fault->transaction_id,
                             .sequence = fault->sequence,
                             .pdid = fault->pdid,
                             .page = page,
                             .code = 1};
    enum pw_fifo_outcome outcome = PW_FIFO_LOST;
    if (!pw_driver_is_impaired(driver, PW_IMPAIRMENT_FIFO_FULL, fault, page, at_ns))
        outcome = pw_ni_fifo_push(&driver->fifo, at_ns, pw_fifo_pack(&fields));
    driver->counters->fifo_pushed += outcome == PW_FIFO_PUSHED;
    driver->counters->fifo_filtered += outcome == PW_FIFO_FILTERED;
    driver->counters->fifo_lost += outcome == PW_FIFO_LOST;
    if (outcome != PW_FIFO_PUSHED) return PW_OK;
    pw_faulting_block *block = pw_faulting_blocks_note(&driver->blocks, fault);
    if (!block) return PW_ERR_NOMEM;
    block->num_entries++;
    return PW_OK;
}

/* The source has no FIFO: only what FAR holds is known, and not to the tasklet twice at a time. */
static void note_far(pw_driver *driver, const pw_fault *fault, uint64_t page, pw_time at_ns)
{
    if (pw_presence_present_ns(&driver->presence, page) > at_ns) return;
    driver->job = (pw_tasklet_job){.fault = *fault, .page = page, .logged_ns = at_ns};
    driver->job_waits = true;
}

int pw_driver_packet_fault(pw_driver *driver, pw_context_bank *bank, const pw_fault *fault,
                           uint64_t page, pw_time at_ns)
{
    bool first = pw_smmu_record_fault(driver->smmu, bank, at_ns, page << PW_PAGE_SHIFT,
                                      fault->at_destination, fault->is_permission);
    int code = first ? raise_interrupt(driver, bank, at_ns) : PW_OK;
    if (code < 0) return code;
    if (fault->at_destination) return log_entry(driver, fault, page, at_ns);
    if (first) note_far(driver, fault, page, at_ns);
    return PW_OK;
}

pw_time pw_driver_stall(pw_driver *driver, pw_context_bank *bank, const pw_fault *fault,
                        uint64_t page, pw_time at_ns, int *code)
{
    pw_tasklet_job job = {.fault = *fault, .page = page, .logged_ns = at_ns};
    pw_smmu_record_fault(driver->smmu, bank, at_ns, page << PW_PAGE_SHIFT, fault->at_destination,
                         fault->is_permission);
    *code = raise_interrupt(driver, bank, at_ns);
    if (*code == PW_OK) *code = pw_tasklet_begin(driver, &job);
    if (*code < 0) return at_ns;
    pw_tasklet_work(driver, &job, driver->costs->tasklet_other_ns);
    uint64_t end_page = pw_tasklet_end_page(driver, &job);
    pw_driver_mark(driver, job.began, PW_TRACE_TASKLET_ENTRY, page, end_page - page);
    *code = pw_page_in(driver, &job, page, end_page);
    pw_cpu_instant written = pw_tasklet_work(driver, &job, driver->costs->core_register_write_ns);
    pw_time resumed_ns = pw_cpu_time(&driver->cpu, written);
    uint32_t value = (uint32_t)(*code < 0 ? PW_RESUME_TERMINATE : PW_RESUME_RETRY);
    pw_smmu_resume(driver->smmu, bank, resumed_ns, value);
    pw_trace_add(driver->trace, resumed_ns, PW_TRACE_RESUME, page, value);
    return resumed_ns;
}

/* --- ERRs ---------------------------------------------------------------------------------------
 */

pw_time pw_driver_err_ns(pw_driver *driver, const pw_fault *fault)
{
    const pw_faulting_block *block = pw_faulting_blocks_find(&driver->blocks, fault);
    if (!block || !block->err_pending || block->err_lost) return PW_NEVER;
    return pw_library_thread_err_ns(&driver->thread, block);
}

bool pw_driver_draws_loss(pw_driver *driver, const pw_fault *fault)
{
    pw_faulting_block *block = pw_faulting_blocks_find(&driver->blocks, fault);
    if (!block || !block->err_pending || block->err_drawn) return false;
    block->err_drawn = true;
    return true;
}

void pw_driver_lose_err(pw_driver *driver, const pw_fault *fault)
{
    pw_faulting_block *block = pw_faulting_blocks_find(&driver->blocks, fault);
    if (!block || !block->err_pending) return;
    block->err_lost = true;
    pw_library_thread_lose_err(block);
}

bool pw_driver_next_err(pw_driver *driver, pw_time known_ns, pw_err_order *out)
{
    return pw_library_thread_next_err(&driver->thread, known_ns, out);
}

void pw_driver_release(pw_driver *driver, const pw_time *bound_ns)
{
    pw_library_thread_release(&driver->thread, bound_ns);
}

bool pw_driver_earliest_err(const pw_driver *driver, const pw_time *bound_ns, pw_err_order *out)
{
    return pw_library_thread_earliest_err(&driver->thread, bound_ns, out);
}
