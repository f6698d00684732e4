/* Handler and tasklet of the driver: what a fault leaves, the tasklet's runs, page-in. */
#include "driver/driver.h"
#include "driver/err_parts.h"
#include "native/array.h"
#include <stdlib.h>

/* --- trace --- */

void pw_driver_mark(pw_driver *driver, pw_cpu_instant instant, enum pw_trace_kind kind, uint64_t a,
                    uint64_t b)
{
    pw_trace *trace = driver->trace;
    pw_driver_core *core = driver->core;
    if (!trace->records) return;
    pw_time time_ns = pw_cpu_time(&core->cpu, instant);
    uint64_t lost = trace->lost;
    pw_trace_add(trace, time_ns, kind, a, b);
    if (lost != trace->lost) return;
    uint64_t record = pw_trace_next(trace) - 1;
    if (PW_ARRAY_MAKE_ROOM(core->marks, core->num_marks, core->marks_capacity, 256) < 0)
        return; /* the record keeps the time that it has */
    core->marks[core->num_marks++] = (pw_trace_mark){trace, record, time_ns, instant};
}

/* An interrupt that begins at since_ns has preempted a run. */
static void move_marks(pw_driver_core *core, pw_time since_ns)
{
    for (uint32_t i = 0; i < core->num_marks; i++) {
        pw_trace_mark *each = &core->marks[i];
        if (each->time_ns < since_ns) continue; /* what was done before stays where it is */
        pw_trace_move(each->trace, each->record, &each->time_ns,
                      pw_cpu_time(&core->cpu, each->instant));
    }
}

/* Those of the run, and those of the trace, move no more. */
static void forget_marks(pw_driver_core *core, uint32_t span, const pw_trace *trace)
{
    uint32_t num_kept = 0;
    for (uint32_t i = 0; i < core->num_marks; i++)
        if (core->marks[i].instant.span != span && core->marks[i].trace != trace)
            core->marks[num_kept++] = core->marks[i];
    core->num_marks = num_kept;
}

void pw_driver_forget_records(pw_driver *driver)
{
    forget_marks(driver->core, 0, driver->trace);
    pw_library_thread_forget_records(&driver->user);
}

/* Does an impairment hit this page of the block? */
static bool is_impaired(pw_driver *driver, enum pw_impairment_id site, const pw_fault *fault,
                        uint64_t page, pw_time at_ns)
{
    uint64_t key = pw_impairment_key(fault->source_node, fault->identity, fault->sequence,
                                     (uint32_t)(fault->block_end_page - page));
    if (!pw_impairment_draw(driver->impairments, site, key)) return false;
    pw_trace_add(driver->trace, at_ns, PW_TRACE_INJECTED, (uint64_t)site, fault->transaction_id);
    return true;
}

/* --- runs --- */

#define KEPT_PAGES 32u /* of a run that is closed: else each grows to what the longest had */

/* Nothing moves the run's times any more. */
static void close_first_run(pw_driver_core *core)
{
    pw_tasklet_run *run = core->first_run;
    for (uint32_t i = 0; i < run->num_pages; i++)
        pw_presence_settle(run->pages[i].presence, run->pages[i].page, run->span);
    forget_marks(core, run->span, NULL);
    pw_cpu_close(&core->cpu, run->span);
    core->first_run = run->next;
    if (!core->first_run) core->last_run = NULL;
    if (run->capacity > KEPT_PAGES) {
        free(run->pages);
        run->pages = NULL;
        run->capacity = 0;
    }
    run->next = core->free_runs;
    core->free_runs = run;
}

/* A run is opened for a fault at since_ns. */
static void close_runs(pw_driver_core *core, pw_time since_ns)
{
    uint32_t last_span = core->last_run ? core->last_run->span : 0;
    uint32_t first_span = pw_library_thread_first_span(&core->thread, since_ns, last_span);
    while (core->first_run && core->first_run != core->last_run &&
           (!first_span || core->first_run->span < first_span))
        close_first_run(core);
}

static pw_tasklet_run *open_run(pw_driver_core *core, pw_time since_ns, pw_time start_ns)
{
    close_runs(core, since_ns);
    pw_tasklet_run *run = core->free_runs;
    if (run) core->free_runs = run->next;
    else if (!(run = calloc(1, sizeof *run))) return NULL;
    uint32_t span = pw_cpu_open(&core->cpu, since_ns, start_ns);
    pw_run_page *pages = run->pages;
    *run = (pw_tasklet_run){.span = span, .pages = pages, .capacity = run->capacity};
    if (!span) {
        run->next = core->free_runs;
        core->free_runs = run;
        return NULL;
    }
    if (core->last_run) core->last_run->next = run;
    else core->first_run = run;
    core->last_run = run;
    return run;
}

/* When the handler is over that finds a fault logged at at_ns. */
static pw_time scheduled_ns(const pw_driver *driver, const pw_tasklet_job *job)
{
    if (driver->settings->fsr_cleared_by == PW_FSR_CLEARED_BY_TASKLET)
        return pw_later(driver->core->handled_ns, job->logged_ns);
    const pw_context_bank *bank = pw_smmu_bank(driver->smmu, job->fault.pdid);
    pw_time until_ns = pw_smmu_active_until(driver->smmu, bank, job->logged_ns);
    return until_ns == INT64_MIN ? job->logged_ns + driver->costs->handler_ns : until_ns;
}

/* The run that a fault logged at at_ns joins; 0: none. In stall mode a block's faults are all
 * served as soon as it is here, and their times stand: the next block's come behind them. */
static uint32_t span_at(const pw_driver *driver, pw_time at_ns)
{
    const pw_driver_core *core = driver->core;
    const pw_tasklet_run *last = core->last_run;
    const bool is_behind = driver->settings->stall && last &&
                           at_ns < pw_cpu_time(&core->cpu, pw_cpu_end(&core->cpu, last->span));
    return is_behind ? last->span : pw_cpu_find(&core->cpu, at_ns);
}

/* The tasklet comes to a fault logged at job->logged_ns: the job's run, opened if it must be.
 * PW_ERR_NOMEM. */
static int begin(pw_driver *driver, pw_tasklet_job *job)
{
    uint32_t span = span_at(driver, job->logged_ns);
    pw_time start_ns = span ? 0 : scheduled_ns(driver, job);
    if (!span) span = pw_cpu_find(&driver->core->cpu, start_ns); /* of a fault after this one */
    if (span) {
        job->run = driver->core->first_run;
        while (job->run->span != span) job->run = job->run->next;
    } else {
        if (is_impaired(driver, PW_IMPAIRMENT_LATE_TASKLET, &job->fault, job->page, start_ns))
            start_ns += driver->impairments->sites[PW_IMPAIRMENT_LATE_TASKLET].amount_ns;
        job->run = open_run(driver->core, job->logged_ns, start_ns);
        if (!job->run) return PW_ERR_NOMEM;
    }
    bool is_again = job->run->num_entries >= (uint32_t)driver->settings->tasklet_entries;
    if (!span || is_again) {
        driver->counters->tasklet_runs++;
        job->run->num_entries = 0;
    }
    job->run->num_entries++;
    driver->counters->tasklet_entries++;
    if (span && is_again && driver->settings->driver_variant == PW_DRIVER_PSI)
        pw_driver_work(driver, job, driver->costs->tasklet_schedule_ns);
    job->began = pw_cpu_end(&driver->core->cpu, job->run->span);
    return PW_OK;
}

pw_cpu_instant pw_driver_work(pw_driver *driver, const pw_tasklet_job *job, pw_time work_ns)
{
    driver->counters->page_in_ns += work_ns;
    return pw_cpu_extend(&driver->core->cpu, job->run->span, work_ns);
}

/* The run has brought the page in. PW_ERR_NOMEM. */
static int note_page(pw_driver *driver, pw_tasklet_run *run, uint64_t page)
{
    if (PW_ARRAY_MAKE_ROOM(run->pages, run->num_pages, run->capacity, 8) < 0) return PW_ERR_NOMEM;
    run->pages[run->num_pages++] = (pw_run_page){&driver->presence, page};
    return PW_OK;
}

/* --- page-in --- */

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
        if (code == PW_OK) code = note_page(driver, job->run, first_page);
    }
    return code;
}

/* A page is in, as of that instant of the run; by a touch of the library's thread when by_touch. */
static int note_page_in(pw_driver *driver, const pw_tasklet_job *job, uint64_t page, uint8_t effect,
                        pw_cpu_instant present, bool by_touch)
{
    bool is_permission = effect == PW_EFFECT_COPIED;
    pw_memory_count_effect(driver->counters, effect);
    if (effect == PW_EFFECT_ALONG) return PW_OK; /* noted with the page it came with */
    if (is_permission) pw_smmu_invalidate(driver->smmu, job->fault.pdid, page, 1); /* new frame */
    int code = note_neighbours(driver, job, page, is_permission, present);
    if (code < 0 || by_touch) return code; /* the thread notes when it touches */
    code = pw_presence_add(&driver->presence, page, present, is_permission);
    return code < 0 ? code : note_page(driver, job->run, page);
}

/* What get_user_pages takes for a page; one that comes along with another takes nothing. */
static pw_time page_in_ns(const pw_driver *driver, uint8_t effect)
{
    if (effect == PW_EFFECT_ALONG) return 0;
    return driver->costs->page_in_page_ns + pw_effect_ns(driver->costs, effect);
}

static int bring_in(pw_driver *driver, const pw_tasklet_job *job, uint64_t page, uint8_t effect)
{
    pw_cpu_instant present = pw_driver_work(driver, job, page_in_ns(driver, effect));
    return note_page_in(driver, job, page, effect, present, false);
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

/* By this run, and for the same kind of access. */
static bool brought_by(const pw_driver *driver, const pw_tasklet_job *job)
{
    return driver->brought.span == job->run->span &&
           driver->brought.for_write == job->fault.at_destination;
}

/* The first page from here on that this run has not asked for. */
static uint64_t not_brought(const pw_driver *driver, const pw_tasklet_job *job, uint64_t page)
{
    const pw_known_pages *pages = &driver->brought.pages;
    bool is_in =
        brought_by(driver, job) && pw_known_pages_have(driver->memory, pages, page, page + 1);
    return is_in ? pages->end_page : page;
}

static void note_brought(pw_driver *driver, const pw_tasklet_job *job, uint64_t first_page,
                         uint64_t end_page)
{
    if (!brought_by(driver, job)) driver->brought.pages = (pw_known_pages){0};
    pw_known_pages_note(driver->memory, &driver->brought.pages, first_page, end_page);
    driver->brought.span = job->run->span;
    driver->brought.for_write = job->fault.at_destination;
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
    pw_memory_at(driver->memory,
                 pw_cpu_time(&driver->core->cpu, pw_cpu_end(&driver->core->cpu, job->run->span)));
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

/* Touch-Ahead, get_user_pages on [page, end_page). Negative: no page-in can help. */
static int page_in(pw_driver *driver, const pw_tasklet_job *job, uint64_t page, uint64_t end_page)
{
    int64_t num_absent = 0, more = 0;
    pw_driver_work(driver, job, driver->costs->page_in_fixed_ns);
    while (more >= 0 && (page = not_brought(driver, job, page)) < end_page) {
        more = next_chunk(driver, job, &page, &end_page);
        if (more > 0) num_absent += more;
    }
    int code = more < 0 ? (int)more : PW_OK;
    if (code == PW_OK && end_page <= job->page) code = PW_ERR_ADDRESS;
    driver->counters->page_ins_present += code == PW_OK && num_absent == 0;
    driver->counters->page_ins_failed += code < 0;
    pw_cpu_instant done = pw_cpu_end(&driver->core->cpu, job->run->span);
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

/* [*first_page, *end_page), cut to the mapped run around page. */
static void cut_to_mapped(pw_driver *driver, uint64_t page, uint64_t *first_page,
                          uint64_t *end_page)
{
    *first_page = first_mapped(driver, *first_page, page);
    *end_page = end_mapped(driver, page + 1, *end_page);
}

/* The receiver's library advises the driver of a transfer's destination (get_user_pages for the
 * whole range, on a core that does nothing else), so that pages come in while the request travels.
 */

#define ADVISED_PAGES 1024u

static int note_advised(pw_driver *driver, uint16_t pdid, uint64_t page, uint8_t effect,
                        pw_time *at_ns)
{
    bool is_permission = effect == PW_EFFECT_COPIED;
    pw_memory_count_effect(driver->counters, effect);
    *at_ns += page_in_ns(driver, effect);
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
        pw_memory_at(driver->memory, at_ns);
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

/* --- entries --- */

/* Two 64-bit reads of the NI FIFO's register. */
static pw_fifo_entry read_entry(pw_driver *driver, const pw_tasklet_job *job)
{
    pw_fifo_entry entry;
    pw_time cost_ns = driver->costs->core_register_read_ns;
    pw_cpu_instant done = pw_driver_work(driver, job, cost_ns);
    entry.low = pw_ni_fifo_read_word(&driver->core->fifo, pw_cpu_time(&driver->core->cpu, done));
    done = pw_driver_work(driver, job, cost_ns);
    entry.high = pw_ni_fifo_read_word(&driver->core->fifo, pw_cpu_time(&driver->core->cpu, done));
    return entry;
}

/* PART: an entry equal to one of the last two. */
static bool is_known_entry(pw_driver *driver, pw_fifo_entry entry)
{
    for (int i = 0; i < 2; i++)
        if (driver->core->recent[i].low == entry.low && driver->core->recent[i].high == entry.high)
            return true;
    driver->core->recent[1] = driver->core->recent[0];
    driver->core->recent[0] = entry;
    return false;
}

/* What it brought in is not gone since. */
static bool is_current(const pw_driver *driver, const pw_recent_transaction *transaction)
{
    return transaction->num_ranges && transaction->memory == driver->memory &&
           transaction->generation == pw_memory_generation(driver->memory);
}

static bool is_of(const pw_driver *driver, const pw_recent_transaction *transaction,
                  const pw_fault *fault)
{
    return is_current(driver, transaction) && transaction->source_node == fault->source_node &&
           transaction->pdid == fault->pdid && transaction->transaction_id == fault->transaction_id;
}

static bool is_absent(const pw_driver *driver, uint64_t page)
{
    uint8_t state;
    return pw_memory_probe(driver->memory, page, 1, &state) < 0 || state == PW_PAGE_ABSENT;
}

/* PSI: a page that an entry of one of the last two transactions has brought in, and that is still
 * being brought in or used: not when its transfer is over, nor when the OS has changed mappings or
 * taken the page away since. */
static bool is_known_page(const pw_driver *driver, const pw_tasklet_job *job)
{
    bool was_brought = false;
    for (int i = 0; i < 2; i++) {
        const pw_recent_transaction *transaction = &driver->core->transactions[i];
        const uint32_t num_ranges = is_current(driver, transaction) ? transaction->num_ranges : 0;
        for (uint32_t range = 0; range < num_ranges; range++)
            was_brought |= job->page >= transaction->ranges[range].first_page &&
                           job->page < transaction->ranges[range].end_page;
    }
    return was_brought && pw_presence_present_ns(&driver->presence, job->page) != INT64_MIN &&
           !is_absent(driver, job->page);
}

static void note_transaction(pw_driver *driver, const pw_tasklet_job *job, uint64_t first_page,
                             uint64_t end_page)
{
    pw_recent_transaction *const latest = &driver->core->transactions[0];
    pw_recent_transaction *const other = &driver->core->transactions[1];
    if (!is_of(driver, latest, &job->fault)) {
        const pw_recent_transaction before = *latest;
        *latest = *other;
        *other = before;
        if (!is_of(driver, latest, &job->fault))
            *latest = (pw_recent_transaction){.source_node = job->fault.source_node,
                                              .pdid = job->fault.pdid,
                                              .transaction_id = job->fault.transaction_id,
                                              .memory = driver->memory,
                                              .generation = pw_memory_generation(driver->memory)};
    }
    latest->ranges[latest->num_ranges % PW_RECENT_RANGES] = (pw_page_range){first_page, end_page};
    if (latest->num_ranges < PW_RECENT_RANGES) latest->num_ranges++;
}

/* --- resolving one --- */

/* How far a fault at the destination brings its transfer's pages in [PART 5.3]: the first page
 * behind them. A new policy is a case here, and its PW_POLICY_* (settings.h); PW_POLICY_HOST is
 * none of them: the host is asked. */
static uint64_t end_page_by(int64_t policy, const pw_fault *fault, uint64_t page)
{
    switch (policy) {
    case PW_POLICY_BLOCK: return fault->block_end_page;  /* PI4: the rest of the block */
    case PW_POLICY_ALL: return fault->transfer_end_page; /* PIA: the rest of the transfer */
    default: return page + 1;                            /* PIO */
    }
}

uint64_t pw_driver_end_page(const pw_driver *driver, const pw_tasklet_job *job)
{
    const pw_settings *settings = driver->settings;
    const pw_fault *fault = &job->fault;
    if (fault->at_destination) return end_page_by(settings->policy, fault, job->page);
    /* at the source FAR is all that the driver knows: a touch is of one page, get_user_pages of a
     * few */
    bool one = settings->page_in == PW_PAGE_IN_TOUCH_A_PAGE;
    uint64_t end_page = job->page + (one ? 1 : (uint64_t)settings->touch_ahead_pages);
    return end_page < fault->transfer_end_page ? end_page : fault->transfer_end_page;
}

/* Touch-A-Page: a message for each page, which the library's thread touches. Of the others than the
 * one that faulted their own faults will tell. */
static int touch_pages(pw_driver *driver, const pw_tasklet_job *job, uint64_t first_page,
                       uint64_t end_page)
{
    uint64_t num_absent = 0;
    bool resolved = true;
    int code = PW_OK;
    for (uint64_t page = first_page; page < end_page && code == PW_OK; page++) {
        pw_touch touch;
        code = pw_err_send_message(driver, job, page, true, page == job->page, &touch);
        if (code < 0) break;
        if (page == job->page) {
            resolved = touch.touched;
            code = touch.code;
        }
        if (touch.effect == PW_EFFECT_NONE) continue;
        num_absent++;
        pw_cpu_instant now = pw_cpu_end(&driver->core->cpu, job->run->span);
        int noted = note_page_in(driver, job, page, touch.effect, now, true);
        if (noted < 0) code = noted;
    }
    driver->counters->page_ins_present += code == PW_OK && resolved && num_absent == 0;
    driver->counters->page_ins_failed += code < 0;
    return code;
}

/* --- the ERR --- */

static const pw_err_ops *const err_ops[] = {[PW_ERRS_BY_LIBRARY] = &pw_err_by_library,
                                            [PW_ERRS_BY_KERNEL] = &pw_err_by_kernel};

/* First page behind those, of [page, end_page), that the ERR of the job's block waits for. What is
 * behind comes in after it by another get_user_pages. */
static uint64_t awaited_end(const pw_tasklet_job *job, uint64_t end_page)
{
    uint64_t awaited = end_page;
    if (job->block->err_ordered) return end_page;
    if (job->err.after == PW_ERRS_AFTER_PAGE) awaited = job->page + 1;
    if (job->err.after == PW_ERRS_AFTER_BLOCK) awaited = job->fault.block_end_page;
    return awaited < end_page ? awaited : end_page;
}

/* The pages before end_page are in. By block the ERR waits until all of the block's are, as far as
 * its entries in the FIFO tell (assumed), and one word about it is enough. */
static int tell(pw_driver *driver, const pw_tasklet_job *job, uint64_t end_page)
{
    pw_faulting_block *block = job->block;
    const bool by_block = job->err.after == PW_ERRS_AFTER_BLOCK;
    if (by_block && block->err_ordered) return PW_OK;
    block->err_plan = job->err;
    block->err_planned = true;
    block->err_waits = by_block && block->num_entries && end_page < job->fault.block_end_page;
    return block->err_waits ? PW_OK : err_ops[job->err.by]->pages_are_in(driver, job);
}

/* Bring the pages in; the block's ERR comes of it. */
static int resolve(pw_driver *driver, const pw_tasklet_job *job, uint64_t first_page,
                   uint64_t end_page)
{
    pw_driver_mark(driver, job->began, PW_TRACE_TASKLET_ENTRY, job->page, end_page - first_page);
    if (driver->settings->driver_variant == PW_DRIVER_PSI && job->block)
        note_transaction(driver, job, first_page, end_page);
    if (driver->settings->page_in == PW_PAGE_IN_TOUCH_A_PAGE)
        return touch_pages(driver, job, first_page, end_page);
    if (!job->fault.at_destination || !driver->settings->err_enabled)
        return page_in(driver, job, first_page, end_page);
    uint64_t awaited = awaited_end(job, end_page);
    int code = page_in(driver, job, first_page, awaited);
    if (code == PW_OK) code = tell(driver, job, awaited);
    if (code < 0 || awaited == end_page) return code;
    code = page_in(driver, job, awaited, end_page); /* what cannot come in faults by itself */
    return code == PW_ERR_NOMEM || code == PW_ERR_HOST ? code : PW_OK;
}

/* The entry needs no page-in. PSI tells of a block of which it has not told in this run. */
static int skip_entry(pw_driver *driver, pw_tasklet_job *job)
{
    const pw_faulting_block *block = job->block;
    driver->counters->fifo_duplicates++;
    pw_driver_mark(driver, job->began, PW_TRACE_TASKLET_ENTRY, job->page, 0);
    bool is_due =
        driver->settings->driver_variant == PW_DRIVER_PSI && block->message_span != job->run->span;
    if (!driver->settings->err_enabled || !(is_due || block->err_waits)) return PW_OK;
    if (block->err_planned) job->err = block->err_plan;
    return tell(driver, job, job->page + 1);
}

/* What the settings say of ERRs; with PW_ERRS_BY_HOST until the host has been asked. */
static pw_err_plan own_plan(const pw_settings *settings)
{
    if (settings->err_by == PW_ERRS_BY_HOST) return (pw_err_plan){.by = PW_ERRS_BY_LIBRARY};
    return (pw_err_plan){.by = (uint8_t)settings->err_by, .after = (uint8_t)settings->err_after};
}

/* Take the next entry out of the FIFO into driver->job. 1: it wants a page-in; 0: it does not, or
 * is lost with its block. */
static int take_entry(pw_driver *driver)
{
    pw_tasklet_job *job = &driver->job;
    *job = (pw_tasklet_job){.logged_ns = pw_ni_fifo_next_ns(&driver->core->fifo)};
    pw_fifo_fields fields = pw_fifo_unpack(pw_ni_fifo_peek(&driver->core->fifo));
    const pw_fault numbers = {.source_node = fields.source_node,
                              .pdid = pw_smmu_of_tag(driver->smmu, fields.pdid),
                              .transaction_id = fields.transaction_id,
                              .sequence = fields.sequence};
    job->block = pw_faulting_blocks_of_entry(&driver->blocks, &numbers);
    if (!job->block) return PW_ERR_NOMEM; /* of another NI of the node, which had none */
    job->fault = job->block->fault;
    job->page = fields.page;
    job->err = own_plan(driver->settings);
    int code = begin(driver, job);
    if (code < 0) return code;
    pw_fifo_entry entry = read_entry(driver, job);
    job->block->num_entries--;
    bool is_psi = driver->settings->driver_variant == PW_DRIVER_PSI;
    if (is_psi) pw_driver_work(driver, job, driver->costs->transaction_lookup_ns);
    bool is_known = is_psi ? is_known_page(driver, job) : is_known_entry(driver, entry);
    if (!is_known) return 1;
    return skip_entry(driver, job);
}

/* --- the run --- */

/* The next fault that wants a page-in. 0: none; negative: PW_ERR_*. */
static int next_job(pw_driver *driver)
{
    if (driver->job_waits) {
        driver->job_waits = false;
        int code = begin(driver, &driver->job);
        return code < 0 ? code : 1;
    }
    int taken = 0;
    while (taken == 0 && pw_ni_fifo_next_ns(&driver->core->fifo) != PW_NEVER) {
        taken = take_entry(driver);
        if (taken == 0) pw_faulting_blocks_release(&driver->blocks, driver->job.block);
    }
    return taken;
}

static void finish_job(pw_driver *driver, uint64_t first_page, uint64_t end_page, pw_service *out)
{
    int code = resolve(driver, &driver->job, first_page, end_page);
    if (code < 0) out->code = code;
    if (driver->job.block) pw_faulting_blocks_release(&driver->blocks, driver->job.block);
}

static void count_interrupts(pw_driver *driver)
{
    for (pw_tasklet_run *run = driver->core->first_run; run; run = run->next) {
        uint32_t num_interrupts = pw_cpu_num_preemptions(&driver->core->cpu, run->span);
        driver->counters->interrupts_in_tasklet += num_interrupts - run->num_interrupts;
        run->num_interrupts = num_interrupts;
    }
}

/* The tasklet writes FSR back at the end of its run: of banks whose fault it serves, and of those
 * about which it has found nothing to do. */
static void clear_faults(pw_driver *driver)
{
    const pw_driver_core *core = driver->core;
    const pw_tasklet_run *run = core->last_run;
    for (uint32_t i = 0; i < driver->smmu->num_banks; i++) {
        pw_context_bank *bank = &driver->smmu->banks[i];
        if (bank->pdid == 0 || bank->fault_ns == INT64_MIN) continue;
        if (run && pw_cpu_find(&core->cpu, bank->fault_ns) == run->span)
            pw_smmu_clear_fault(driver->smmu, bank,
                                pw_cpu_time(&core->cpu, pw_cpu_end(&core->cpu, run->span)));
        else if (bank->clear_ns == PW_NEVER)
            pw_smmu_clear_fault(driver->smmu, bank, core->handled_ns);
    }
}

/* PART 5.2: what an entry takes beside page-in and message; the reads of its two words are in it.
 */
static pw_time other_ns(const pw_driver *driver, const pw_tasklet_job *job)
{
    pw_time reads_ns = job->block ? 2 * driver->costs->core_register_read_ns : 0;
    return pw_later(driver->costs->tasklet_other_ns - reads_ns, 0);
}

static bool asks_host(const pw_driver *driver, const pw_tasklet_job *job)
{
    const pw_settings *settings = driver->settings;
    const bool has_err = settings->err_enabled && job->fault.at_destination;
    return settings->policy == PW_POLICY_HOST || (settings->err_by == PW_ERRS_BY_HOST && has_err);
}

static bool run_tasklet(pw_driver *driver, pw_service *out)
{
    int found;
    while ((found = next_job(driver)) > 0) {
        pw_tasklet_job *job = &driver->job;
        pw_cpu_instant asks = pw_driver_work(driver, job, other_ns(driver, job));
        out->page_in_ns = pw_cpu_time(&driver->core->cpu, asks);
        if (asks_host(driver, job)) return false;
        finish_job(driver, job->page, pw_driver_end_page(driver, job), out);
    }
    if (found < 0) out->code = found;
    count_interrupts(driver);
    if (driver->settings->fsr_cleared_by == PW_FSR_CLEARED_BY_TASKLET)
        for (pw_driver *each = driver->core->drivers; each; each = each->next_of_core)
            clear_faults(each);
    pw_library_thread_update(&driver->core->thread);
    return true;
}

bool pw_driver_service(pw_driver *driver, pw_service *out)
{
    out->code = PW_OK;
    return run_tasklet(driver, out);
}

bool pw_driver_decide(pw_driver *driver, uint64_t first_page, uint64_t end_page, pw_service *out)
{
    cut_to_mapped(driver, driver->job.page, &first_page, &end_page);
    finish_job(driver, first_page, end_page, out);
    return run_tasklet(driver, out);
}

/* --- hardware to handler --- */

/* The SMMU's interrupt: the handler reads FSR, FAR and FSYNR, clears FSR, schedules the tasklet. */
static int raise_interrupt(pw_driver *driver, pw_context_bank *bank, pw_time at_ns)
{
    bool preempts;
    pw_time cost_ns = driver->costs->handler_ns;
    pw_time start_ns = pw_cpu_interrupt(&driver->core->cpu, at_ns, &preempts);
    if (start_ns < 0) return PW_ERR_NOMEM;
    driver->core->handled_ns = start_ns + cost_ns;
    if (driver->settings->fsr_cleared_by == PW_FSR_CLEARED_BY_HANDLER)
        pw_smmu_clear_fault(driver->smmu, bank, driver->core->handled_ns);
    driver->counters->fault_interrupts++;
    driver->counters->page_in_ns += cost_ns;
    pw_time_histogram_note(&driver->interrupt_times, start_ns);
    uint64_t address = (uint64_t)bank->far_high << 32 | bank->far;
    pw_trace_add(driver->trace, start_ns, PW_TRACE_HANDLER, address >> PW_PAGE_SHIFT, bank->fsr);
    if (preempts) {
        pw_ni_fifo_delay(&driver->core->fifo, start_ns, cost_ns);
        move_marks(driver->core, start_ns);
    }
    pw_library_thread_update(&driver->core->thread);
    return PW_OK;
}

static int log_entry(pw_driver *driver, const pw_fault *fault, uint64_t page, pw_time at_ns)
{
    pw_fifo_fields fields = {.source_node = fault->source_node,
                             .transaction_id = fault->transaction_id,
                             .sequence = fault->sequence,
                             .pdid = pw_smmu_tag(driver->smmu, fault->pdid),
                             .page = page,
                             .code = 1};
    enum pw_fifo_outcome outcome = PW_FIFO_LOST;
    if (!is_impaired(driver, PW_IMPAIRMENT_FIFO_FULL, fault, page, at_ns))
        outcome = pw_ni_fifo_push(&driver->core->fifo, at_ns, pw_fifo_pack(&fields));
    driver->counters->fifo_pushed += outcome == PW_FIFO_PUSHED;
    driver->counters->fifo_filtered += outcome == PW_FIFO_FILTERED;
    driver->counters->fifo_lost += outcome == PW_FIFO_LOST;
    if (outcome == PW_FIFO_NO_MEMORY) return PW_ERR_NOMEM;
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
    if (*code == PW_OK) *code = begin(driver, &job);
    if (*code < 0) return at_ns;
    pw_driver_work(driver, &job, driver->costs->tasklet_other_ns);
    uint64_t end_page = pw_driver_end_page(driver, &job);
    pw_driver_mark(driver, job.began, PW_TRACE_TASKLET_ENTRY, page, end_page - page);
    *code = page_in(driver, &job, page, end_page);
    pw_cpu_instant written = pw_driver_work(driver, &job, driver->costs->core_register_write_ns);
    pw_time resumed_ns = pw_cpu_time(&driver->core->cpu, written);
    uint32_t value = (uint32_t)(*code < 0 ? PW_RESUME_TERMINATE : PW_RESUME_RETRY);
    pw_smmu_resume(driver->smmu, bank, resumed_ns, value);
    pw_trace_add(driver->trace, resumed_ns, PW_TRACE_RESUME, page, value);
    return resumed_ns;
}

/* --- ERRs --- */

pw_time pw_driver_err_ns(pw_driver *driver, const pw_fault *fault)
{
    const pw_faulting_block *block = pw_faulting_blocks_find(&driver->blocks, fault);
    if (!block || !block->err_pending || block->err_lost) return PW_NEVER;
    return pw_library_thread_err_ns(&driver->core->thread, block);
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

/* --- life --- */

static void join(pw_driver *driver, pw_driver_core *core)
{
    driver->core = core;
    driver->user.thread = &core->thread;
    pw_presence_init(&driver->presence, &core->cpu);
    driver->next_of_core = core->drivers;
    core->drivers = driver;
}

void pw_driver_init(pw_driver *driver, const pw_costs *costs, const pw_settings *settings,
                    pw_counters *counters, pw_trace *trace, pw_memory *memory, pw_smmu *smmu,
                    pw_impairments *impairments)
{
    *driver = (pw_driver){.costs = costs,
                          .settings = settings,
                          .counters = counters,
                          .trace = trace,
                          .memory = memory,
                          .smmu = smmu,
                          .impairments = impairments};
    pw_driver_core *core = &driver->own_core;
    pw_cpu_init(&core->cpu, costs->handler_ns);
    pw_ni_fifo_init(&core->fifo, (uint32_t)settings->ni_fifo_depth,
                    (uint32_t)settings->ni_fifo_remembers);
    core->thread = (pw_library_thread){.costs = costs, .settings = settings, .cpu = &core->cpu};
    driver->user = (pw_library_user){.counters = counters,
                                     .trace = trace,
                                     .memory = memory,
                                     .presence = &driver->presence,
                                     .blocks = &driver->blocks};
    join(driver, core);
}

void pw_driver_share(pw_driver *driver, pw_driver *with) { join(driver, with->core); }

static void destroy_core(pw_driver_core *core)
{
    pw_tasklet_run *lists[] = {core->first_run, core->free_runs};
    for (int i = 0; i < 2; i++)
        while (lists[i]) {
            pw_tasklet_run *run = lists[i];
            lists[i] = run->next;
            free(run->pages);
            free(run);
        }
    pw_library_thread_destroy(&core->thread);
    pw_cpu_destroy(&core->cpu);
    pw_ni_fifo_finish(&core->fifo);
    free(core->marks);
}

void pw_driver_destroy(pw_driver *driver)
{
    destroy_core(&driver->own_core);
    pw_faulting_blocks_destroy(&driver->blocks);
    pw_presence_destroy(&driver->presence);
    free(driver->interrupt_times);
}
