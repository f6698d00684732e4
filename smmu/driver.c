#include "smmu/driver.h"
#include <string.h>

#define CHUNK_PAGES 1024u

int pw_driver_init(pw_driver *driver, const pw_costs *costs, const pw_settings *settings, pw_counters *counters,
                   pw_trace *trace, pw_memory *memory, pw_smmu *smmu)
{
    if (settings->ni_fifo_depth < 1 || settings->ni_fifo_depth > PW_NI_FIFO_DEPTH) return PW_ERR_INVALID;
    memset(driver, 0, sizeof *driver);
    driver->costs = costs;
    driver->settings = settings;
    driver->counters = counters;
    driver->trace = trace;
    driver->memory = memory;
    driver->smmu = smmu;
    driver->tasklet_since_ns = driver->tasklet_free_ns = driver->last_handler_end_ns = INT64_MIN;
    pw_calendar_init(&driver->handler_cpu);
    pw_calendar_init(&driver->library_cpu);
    pw_ni_fifo_init(&driver->fifo, (uint32_t)settings->ni_fifo_depth);
    pw_page_in_init(&driver->page_in);
    pw_time_histogram_init(&driver->interrupt_times);
    return PW_OK;
}

void pw_driver_destroy(pw_driver *driver) { pw_page_in_destroy(&driver->page_in); }

/* The SMMU's interrupt: the handler reads FSR, FAR and FSYNR, clears FSR, schedules the tasklet. */
static void raise_interrupt(pw_driver *driver, pw_context_bank *bank, pw_time at_ns)
{
    pw_time start_ns = pw_calendar_book(&driver->handler_cpu, at_ns, driver->costs->handler_ns);
    pw_time end_ns = start_ns + driver->costs->handler_ns;
    driver->handlers[driver->next_handler].start_ns = start_ns;
    driver->handlers[driver->next_handler].end_ns = end_ns;
    driver->next_handler = (driver->next_handler + 1) % PW_HANDLERS_KEPT;
    driver->last_handler_end_ns = pw_later(driver->last_handler_end_ns, end_ns);
    pw_smmu_clear_fault(driver->smmu, bank, end_ns);
    driver->counters->fault_interrupts++;
    pw_time_histogram_add(&driver->interrupt_times, start_ns);
    driver->counters->page_in_ns += driver->costs->handler_ns;
    if (start_ns >= driver->tasklet_since_ns && start_ns < driver->tasklet_free_ns) driver->counters->interrupts_in_tasklet++;
    uint64_t address = (uint64_t)bank->far_high << 32 | bank->far;
    pw_trace_add(driver->trace, start_ns, PW_TRACE_HANDLER, address >> PW_PAGE_SHIFT, bank->fsr);
}

/* Does a planned fault hit this page of the block? */
static bool is_injected(pw_driver *driver, enum pw_fault_site_id site, const pw_fault *fault, uint64_t page, pw_time at_ns)
{
    uint64_t key = pw_fault_key(fault->source_node, fault->identity, fault->sequence, (uint32_t)(fault->block_end_page - page));
    if (!pw_fault_draw(driver->faults, site, key)) return false;
    pw_trace_add(driver->trace, at_ns, PW_TRACE_INJECTED, (uint64_t)site, fault->transaction_id);
    return true;
}

void pw_driver_packet_fault(pw_driver *driver, pw_context_bank *bank, const pw_fault *fault, uint64_t page, pw_time at_ns)
{
    bool first = pw_smmu_record_fault(driver->smmu, bank, at_ns, page << PW_PAGE_SHIFT, fault->at_destination);
    if (first) raise_interrupt(driver, bank, at_ns);
    pw_pending_fault pending = {.fault = *fault, .page = page, .logged_ns = at_ns, .handler_end_ns = bank->clear_ns};
    pw_time blocked_until_ns = pw_smmu_blocked_until(driver->smmu, bank, at_ns);
    if (blocked_until_ns != INT64_MIN) pending.handler_end_ns = blocked_until_ns;
    if (fault->at_destination) {
        pw_fifo_fields fields = {.source_node = fault->source_node, .transaction_id = fault->transaction_id,
                                 .sequence = fault->sequence, .pdid = fault->pdid, .page = page, .code = 1};
        enum pw_fifo_outcome outcome = PW_FIFO_LOST;
        if (!is_injected(driver, PW_FAULT_FIFO_FULL, fault, page, at_ns))
            outcome = pw_ni_fifo_push(&driver->fifo, at_ns, pw_fifo_pack(&fields), &pending.slot);
        driver->counters->fifo_pushed += outcome == PW_FIFO_PUSHED;
        driver->counters->fifo_filtered += outcome == PW_FIFO_FILTERED;
        driver->counters->fifo_lost += outcome == PW_FIFO_LOST;
        if (outcome != PW_FIFO_PUSHED) return;
    } else if (!first) return;          /* the source has no FIFO: only what FAR holds is known */
    else if (pw_page_in_present_ns(&driver->page_in, page) > at_ns) return;     /* the tasklet has it already */
    else if (driver->num_pending && driver->pending[driver->num_pending - 1].page == page) return;
    driver->pending[driver->num_pending++] = pending;
}

/* CPU time of the tasklet from at_ns on, with the handler invocations that interrupt it. */
static pw_time work(pw_driver *driver, pw_time at_ns, pw_time cost_ns)
{
    pw_time end_ns = at_ns + cost_ns;
    driver->counters->page_in_ns += cost_ns;
    if (driver->last_handler_end_ns <= at_ns) return end_ns;
    for (uint32_t i = 0; i < PW_HANDLERS_KEPT; i++) {
        uint32_t oldest_first = (driver->next_handler + i) % PW_HANDLERS_KEPT;
        pw_time start_ns = driver->handlers[oldest_first].start_ns;
        pw_time finish_ns = driver->handlers[oldest_first].end_ns;
        if (finish_ns <= at_ns || start_ns >= end_ns) continue;
        end_ns += finish_ns - pw_later(start_ns, at_ns);
        driver->counters->interrupts_in_tasklet += start_ns >= at_ns;   /* else counted with the work before */
    }
    return end_ns;
}

/* First page behind the range that the policy asks for. */
static uint64_t end_of_range(const pw_driver *driver, const pw_pending_fault *pending)
{
    uint64_t end_page = pending->page + 1;
    if (driver->settings->policy == PW_POLICY_BLOCK) end_page = pending->fault.block_end_page;
    if (driver->settings->policy == PW_POLICY_ALL) end_page = pending->fault.transfer_end_page;
    if (!pending->fault.at_destination && end_page > pending->page + PW_SOURCE_PAGES) end_page = pending->page + PW_SOURCE_PAGES;
    return end_page;
}

/* get_user_pages: fixed cost, then each absent page in turn. Each is present when its turn is over. */
static pw_time page_in(pw_driver *driver, const pw_pending_fault *pending, pw_time at_ns, int *code)
{
    uint64_t page = pending->page, end_page = end_of_range(driver, pending), num_absent_total = 0;
    uint8_t state[CHUNK_PAGES];
    at_ns = work(driver, at_ns, driver->costs->page_in_fixed_ns);
    *code = PW_OK;
    while (page < end_page && *code == PW_OK) {
        uint64_t num_pages = end_page - page < CHUNK_PAGES ? end_page - page : CHUNK_PAGES, num_absent;
        *code = pw_memory_probe(driver->memory, page, num_pages, state);
        if (*code < 0) break;
        uint64_t num_mapped = 0;
        while (num_mapped < num_pages && state[num_mapped] != PW_PAGE_UNMAPPED) num_mapped++;
        if (num_mapped < num_pages) end_page = page + num_mapped;   /* fewer when the next ones are not mapped */
        if (num_mapped == 0) break;
        *code = pw_memory_populate(driver->memory, page, num_mapped, pending->fault.at_destination, &num_absent);
        if (*code < 0) break;
        for (uint64_t i = 0; i < num_mapped; i++) {
            if (state[i] != PW_PAGE_ABSENT) continue;
            at_ns = work(driver, at_ns, driver->costs->page_in_page_ns);
            int added = pw_page_in_add(&driver->page_in, page + i, at_ns);
            if (added < 0) *code = added;
            num_absent_total++;
        }
        page += num_mapped;
    }
    if (*code == PW_OK && end_page <= pending->page) *code = PW_ERR_ADDRESS;
    driver->counters->pages_paged_in += num_absent_total;
    driver->counters->page_ins_present += *code == PW_OK && num_absent_total == 0;
    driver->counters->page_ins_failed += *code < 0;
    pw_trace_add(driver->trace, at_ns, PW_TRACE_PAGE_IN_DONE, pending->page, num_absent_total);
    return at_ns;
}

static bool is_known_duplicate(pw_driver *driver, pw_fifo_entry entry)
{
    for (int i = 0; i < 2; i++)
        if (driver->recent[i].low == entry.low && driver->recent[i].high == entry.high) return true;
    driver->recent[1] = driver->recent[0];
    driver->recent[0] = entry;
    return false;
}

/* The library got the Netlink message at at_ns: one ERR for a block resolved. */
static void send_err(pw_driver *driver, const pw_fault *fault, pw_time at_ns, pw_service *out)
{
    const pw_err_order *last = &driver->last_err;
    if (driver->any_err && last->source_node == fault->source_node &&
        last->transaction_id == fault->transaction_id && last->sequence == fault->sequence) return;
    pw_time end_ns = pw_calendar_book(&driver->library_cpu, at_ns, driver->costs->err_send_ns) + driver->costs->err_send_ns;
    pw_err_order order = {.at_ns = end_ns, .source_node = fault->source_node, .transaction_id = fault->transaction_id,
                          .sequence = fault->sequence, .pdid = fault->pdid};
    driver->last_err = order;
    driver->any_err = true;
    driver->counters->errs_sent++;
    out->errs[out->num_errs++] = order;
    pw_trace_add(driver->trace, end_ns, PW_TRACE_ERR_SENT, fault->transaction_id, fault->sequence);
}

static void handle_entry(pw_driver *driver, const pw_pending_fault *pending, pw_service *out)
{
    const pw_costs *costs = driver->costs;
    bool running = pending->logged_ns >= driver->tasklet_since_ns && pending->logged_ns < driver->tasklet_free_ns;
    pw_time at_ns = running ? driver->tasklet_free_ns : pending->handler_end_ns;
    if (!running || driver->run_entries >= (uint32_t)driver->settings->tasklet_entries) {
        driver->counters->tasklet_runs++;
        driver->run_entries = 0;
    }
    if (!running) driver->tasklet_since_ns = pending->logged_ns;
    if (!running && is_injected(driver, PW_FAULT_LATE_TASKLET, &pending->fault, pending->page, at_ns))
        at_ns += driver->faults->sites[PW_FAULT_LATE_TASKLET].amount_ns;
    driver->run_entries++;
    driver->counters->tasklet_entries++;
    pw_trace_add(driver->trace, at_ns, PW_TRACE_TASKLET_ENTRY, pending->page, end_of_range(driver, pending) - pending->page);
    if (pending->fault.at_destination) {
        at_ns = work(driver, at_ns, 2 * costs->core_register_read_ns);
        pw_ni_fifo_set_read(&driver->fifo, pending->slot, at_ns);
        if (is_known_duplicate(driver, driver->fifo.entries[pending->slot])) {
            driver->counters->fifo_duplicates++;
            driver->tasklet_free_ns = at_ns;
            return;
        }
    }
    at_ns = work(driver, at_ns, costs->tasklet_other_ns);
    int code;
    at_ns = page_in(driver, pending, at_ns, &code);
    driver->tasklet_free_ns = at_ns;
    if (code < 0) {
        out->code = code;
        return;
    }
    if (!pending->fault.at_destination || !driver->settings->err_enabled) return;
    at_ns = work(driver, at_ns, costs->netlink_ns);
    driver->tasklet_free_ns = at_ns;
    pw_trace_add(driver->trace, at_ns, PW_TRACE_NETLINK_SENT, pending->page, pending->fault.transaction_id);
    send_err(driver, &pending->fault, at_ns + costs->user_wakeup_ns, out);
}

void pw_driver_service(pw_driver *driver, pw_service *out)
{
    out->num_errs = 0;
    out->code = PW_OK;
    for (uint32_t i = 0; i < driver->num_pending; i++) handle_entry(driver, &driver->pending[i], out);
    driver->num_pending = 0;
}
