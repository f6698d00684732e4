#include "driver/driver.h"
#include "driver/driver_parts.h"
#include <stdlib.h>
#include <string.h>

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
