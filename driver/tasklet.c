/* The tasklet: one run reads what is in the NI FIFO, entry by entry, and resolves each. */
#include "driver/driver_parts.h"
#include <stdlib.h>

/* --- runs ---------------------------------------------------------------------------------------
 */

#define KEPT_PAGES 64u /* of a run that is closed: else each grows to what the longest had */

/* Nothing moves the run's times any more. */
static void close_first_run(pw_driver *driver)
{
    pw_tasklet_run *run = driver->first_run;
    for (uint32_t i = 0; i < run->num_pages; i++)
        pw_presence_settle(&driver->presence, run->pages[i], run->span);
    uint32_t num_kept = 0;
    for (uint32_t i = 0; i < driver->num_marks; i++)
        if (driver->marks[i].instant.span != run->span)
            driver->marks[num_kept++] = driver->marks[i];
    driver->num_marks = num_kept;
    pw_cpu_close(&driver->cpu, run->span);
    driver->first_run = run->next;
    if (!driver->first_run) driver->last_run = NULL;
    if (run->capacity > KEPT_PAGES) {
        free(run->pages);
        run->pages = NULL;
        run->capacity = 0;
    }
    run->next = driver->free_runs;
    driver->free_runs = run;
}

/* A run is opened for a fault at since_ns. */
static void close_runs(pw_driver *driver, pw_time since_ns)
{
    uint32_t last_span = driver->last_run ? driver->last_run->span : 0;
    uint32_t first_span = pw_library_thread_first_span(&driver->thread, since_ns, last_span);
    while (driver->first_run && driver->first_run != driver->last_run &&
           (!first_span || driver->first_run->span < first_span))
        close_first_run(driver);
}

static pw_tasklet_run *open_run(pw_driver *driver, pw_time since_ns, pw_time start_ns)
{
    close_runs(driver, since_ns);
    pw_tasklet_run *run = driver->free_runs;
    if (run) driver->free_runs = run->next;
    else if (!(run = calloc(1, sizeof *run))) return NULL;
    uint32_t span = pw_cpu_open(&driver->cpu, since_ns, start_ns);
    uint64_t *pages = run->pages;
    *run = (pw_tasklet_run){.span = span, .pages = pages, .capacity = run->capacity};
    if (!span) {
        run->next = driver->free_runs;
        driver->free_runs = run;
        return NULL;
    }
    if (driver->last_run) driver->last_run->next = run;
    else driver->first_run = run;
    driver->last_run = run;
    return run;
}

/* When the handler is over that finds a fault logged at at_ns. */
static pw_time scheduled_ns(const pw_driver *driver, const pw_tasklet_job *job)
{
    const pw_context_bank *bank = pw_smmu_bank(driver->smmu, job->fault.pdid);
    pw_time until_ns = pw_smmu_active_until(driver->smmu, bank, job->logged_ns);
    return until_ns == INT64_MIN ? job->logged_ns + driver->costs->handler_ns : until_ns;
}

int pw_tasklet_begin(pw_driver *driver, pw_tasklet_job *job)
{
    uint32_t span = pw_cpu_find(&driver->cpu, job->logged_ns);
    if (span) {
        job->run = driver->first_run;
        while (job->run->span != span) job->run = job->run->next;
    } else {
        pw_time start_ns = scheduled_ns(driver, job);
        if (pw_driver_is_impaired(driver, PW_IMPAIRMENT_LATE_TASKLET, &job->fault, job->page,
                                  start_ns))
            start_ns += driver->impairments->sites[PW_IMPAIRMENT_LATE_TASKLET].amount_ns;
        job->run = open_run(driver, job->logged_ns, start_ns);
        if (!job->run) return PW_ERR_NOMEM;
    }
    bool is_again = job->run->num_entries >= (uint32_t)driver->settings->tasklet_entries;
    if (!span || is_again) {
        driver->counters->tasklet_runs++;
        job->run->num_entries = 0;
    }
    job->run->num_entries++;
    driver->counters->tasklet_entries++;
    job->began = pw_cpu_end(&driver->cpu, job->run->span);
    return PW_OK;
}

pw_cpu_instant pw_tasklet_work(pw_driver *driver, const pw_tasklet_job *job, pw_time work_ns)
{
    driver->counters->page_in_ns += work_ns;
    return pw_cpu_extend(&driver->cpu, job->run->span, work_ns);
}

int pw_tasklet_note_page(pw_tasklet_run *run, uint64_t page)
{
    if (run->num_pages == run->capacity) {
        uint32_t capacity = run->capacity ? 2 * run->capacity : 64;
        uint64_t *bigger = realloc(run->pages, capacity * sizeof *bigger);
        if (!bigger) return PW_ERR_NOMEM;
        run->pages = bigger;
        run->capacity = capacity;
    }
    run->pages[run->num_pages++] = page;
    return PW_OK;
}

/* --- entries ------------------------------------------------------------------------------------
 */

/* Two 64-bit reads of the NI FIFO's register. */
static pw_fifo_entry read_entry(pw_driver *driver, const pw_tasklet_job *job)
{
    pw_fifo_entry entry;
    pw_time cost_ns = driver->costs->core_register_read_ns;
    pw_cpu_instant done = pw_tasklet_work(driver, job, cost_ns);
    entry.low = pw_ni_fifo_read_word(&driver->fifo, pw_cpu_time(&driver->cpu, done));
    done = pw_tasklet_work(driver, job, cost_ns);
    entry.high = pw_ni_fifo_read_word(&driver->fifo, pw_cpu_time(&driver->cpu, done));
    return entry;
}

/* PART: an entry equal to one of the last two. */
static bool is_known_entry(pw_driver *driver, pw_fifo_entry entry)
{
    for (int i = 0; i < 2; i++)
        if (driver->recent[i].low == entry.low && driver->recent[i].high == entry.high) return true;
    driver->recent[1] = driver->recent[0];
    driver->recent[0] = entry;
    return false;
}

static bool is_of(const pw_recent_transaction *transaction, const pw_fault *fault)
{
    return transaction->num_ranges && transaction->source_node == fault->source_node &&
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
    if (driver->transactions_generation != pw_memory_generation(driver->memory) ||
        pw_presence_present_ns(&driver->presence, job->page) == INT64_MIN ||
        is_absent(driver, job->page))
        return false;
    for (int i = 0; i < 2; i++) {
        const pw_recent_transaction *transaction = &driver->transactions[i];
        for (uint32_t range = 0; range < transaction->num_ranges; range++)
            if (job->page >= transaction->ranges[range].first_page &&
                job->page < transaction->ranges[range].end_page)
                return true;
    }
    return false;
}

static void note_transaction(pw_driver *driver, const pw_tasklet_job *job, uint64_t first_page,
                             uint64_t end_page)
{
    pw_recent_transaction *latest = &driver->transactions[0];
    uint64_t generation = pw_memory_generation(driver->memory);
    if (driver->transactions_generation != generation) /* what they brought in may be gone */
        latest[0].num_ranges = latest[1].num_ranges = 0;
    driver->transactions_generation = generation;
    if (!is_of(latest, &job->fault)) {
        pw_recent_transaction before = *latest;
        *latest = driver->transactions[1];
        driver->transactions[1] = before;
        if (!is_of(latest, &job->fault))
            *latest = (pw_recent_transaction){.source_node = job->fault.source_node,
                                              .pdid = job->fault.pdid,
                                              .transaction_id = job->fault.transaction_id};
    }
    latest->ranges[latest->num_ranges % PW_RECENT_RANGES] = (pw_page_range){first_page, end_page};
    if (latest->num_ranges < PW_RECENT_RANGES) latest->num_ranges++;
}

/* --- resolving one ------------------------------------------------------------------------------
 */

uint64_t pw_tasklet_end_page(const pw_driver *driver, const pw_tasklet_job *job)
{
    const pw_settings *settings = driver->settings;
    const pw_fault *fault = &job->fault;
    if (fault->at_destination) return driver->policy->end_page(fault, job->page);
    /* at the source FAR is all that the driver knows: a touch is of one page, get_user_pages of a
     * few */
    bool one = settings->page_in == PW_PAGE_IN_TOUCH_A_PAGE;
    uint64_t end_page = job->page + (one ? 1 : (uint64_t)settings->touch_ahead_pages);
    return end_page < fault->transfer_end_page ? end_page : fault->transfer_end_page;
}

/* Pack and send one message about the page. Negative: PW_ERR_*. */
static int send_message(pw_driver *driver, const pw_tasklet_job *job, uint64_t page, bool touch,
                        bool wants_err, pw_touch *out)
{
    const pw_fault *fault = &job->fault;
    pw_netlink_fields fields = {.source_node = fault->source_node,
                                .transaction_id = fault->transaction_id,
                                .sequence = fault->sequence,
                                .pdid = fault->pdid,
                                .page = page,
                                .is_write = fault->at_destination};
    pw_netlink_message message;
    int code = pw_netlink_pack(&fields, &message);
    if (code < 0) return code;
    pw_cpu_instant sent = pw_tasklet_work(driver, job, driver->costs->netlink_ns);
    driver->counters->netlink_messages++;
    pw_driver_mark(driver, sent, PW_TRACE_NETLINK_SENT, page, fault->transaction_id);
    if (job->block) job->block->message_span = job->run->span;
    return pw_library_thread_take(&driver->thread, &message, sent, job->logged_ns, job->block,
                                  touch, wants_err && driver->settings->err_enabled, out);
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
        code = send_message(driver, job, page, true, page == job->page, &touch);
        if (code < 0) break;
        if (page == job->page) {
            resolved = touch.touched;
            code = touch.code;
        }
        if (touch.effect == PW_EFFECT_NONE) continue;
        num_absent++;
        pw_cpu_instant now = pw_cpu_end(&driver->cpu, job->run->span);
        int noted = pw_page_in_note(driver, job, page, touch.effect, now, true);
        if (noted < 0) code = noted;
    }
    driver->counters->page_ins_present += code == PW_OK && resolved && num_absent == 0;
    driver->counters->page_ins_failed += code < 0;
    return code;
}

/* Bring the pages in and tell the library. */
static int resolve(pw_driver *driver, const pw_tasklet_job *job, uint64_t first_page,
                   uint64_t end_page)
{
    pw_driver_mark(driver, job->began, PW_TRACE_TASKLET_ENTRY, job->page, end_page - first_page);
    if (driver->settings->driver_variant == PW_DRIVER_PSI && job->block)
        note_transaction(driver, job, first_page, end_page);
    if (driver->settings->page_in == PW_PAGE_IN_TOUCH_A_PAGE)
        return touch_pages(driver, job, first_page, end_page);
    int code = pw_page_in(driver, job, first_page, end_page);
    if (code < 0 || !job->fault.at_destination || !driver->settings->err_enabled) return code;
    pw_touch none;
    return send_message(driver, job, job->page, false, true, &none);
}

/* The entry needs no page-in. PSI tells the library of a block that it has not heard of in this
 * run. */
static int skip_entry(pw_driver *driver, const pw_tasklet_job *job)
{
    driver->counters->fifo_duplicates++;
    pw_driver_mark(driver, job->began, PW_TRACE_TASKLET_ENTRY, job->page, 0);
    bool is_told = driver->settings->driver_variant == PW_DRIVER_PART ||
                   job->block->message_span == job->run->span || !driver->settings->err_enabled;
    pw_touch none;
    return is_told ? PW_OK : send_message(driver, job, job->page, false, true, &none);
}

/* Take the next entry out of the FIFO into driver->job. 1: it wants a page-in; 0: it does not, or
 * is lost with its block. */
static int take_entry(pw_driver *driver)
{
    pw_tasklet_job *job = &driver->job;
    *job = (pw_tasklet_job){.logged_ns = pw_ni_fifo_next_ns(&driver->fifo)};
    pw_fifo_fields fields = pw_fifo_unpack(pw_ni_fifo_peek(&driver->fifo));
    job->block = pw_faulting_blocks_of_entry(&driver->blocks, fields.source_node, fields.pdid,
                                             fields.transaction_id, fields.sequence);
    job->fault = job->block->fault;
    job->page = fields.page;
    int code = pw_tasklet_begin(driver, job);
    if (code < 0) return code;
    pw_fifo_entry entry = read_entry(driver, job);
    job->block->num_entries--;
    bool is_known = driver->settings->driver_variant == PW_DRIVER_PSI
                        ? is_known_page(driver, job)
                        : is_known_entry(driver, entry);
    if (!is_known) return 1;
    return skip_entry(driver, job);
}

/* --- the run ------------------------------------------------------------------------------------
 */

/* The next fault that wants a page-in. 0: none; negative: PW_ERR_*. */
static int next_job(pw_driver *driver)
{
    if (driver->job_waits) {
        driver->job_waits = false;
        int code = pw_tasklet_begin(driver, &driver->job);
        return code < 0 ? code : 1;
    }
    int taken = 0;
    while (taken == 0 && pw_ni_fifo_next_ns(&driver->fifo) != PW_NEVER) {
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
    for (pw_tasklet_run *run = driver->first_run; run; run = run->next) {
        uint32_t num_interrupts = pw_cpu_num_preemptions(&driver->cpu, run->span);
        driver->counters->interrupts_in_tasklet += num_interrupts - run->num_interrupts;
        run->num_interrupts = num_interrupts;
    }
}

static bool run_tasklet(pw_driver *driver, pw_service *out)
{
    int found;
    while ((found = next_job(driver)) > 0) {
        pw_tasklet_job *job = &driver->job;
        pw_cpu_instant asks = pw_tasklet_work(driver, job, driver->costs->tasklet_other_ns);
        out->page_in_ns = pw_cpu_time(&driver->cpu, asks);
        if (!driver->policy) return false;
        finish_job(driver, job->page, pw_tasklet_end_page(driver, job), out);
    }
    if (found < 0) out->code = found;
    count_interrupts(driver);
    pw_library_thread_update(&driver->thread);
    return true;
}

bool pw_driver_service(pw_driver *driver, pw_service *out)
{
    out->code = PW_OK;
    return run_tasklet(driver, out);
}

bool pw_driver_decide(pw_driver *driver, uint64_t first_page, uint64_t end_page, pw_service *out)
{
    pw_page_in_cut_to_mapped(driver, driver->job.page, &first_page, &end_page);
    finish_job(driver, first_page, end_page, out);
    return run_tasklet(driver, out);
}
