#include "smmu/driver.h"
#include <string.h>

#define CHUNK_PAGES 1024u

int pw_driver_init(pw_driver *driver, const pw_costs *costs, const pw_settings *settings, pw_counters *counters,
                   pw_trace *trace, pw_memory *memory, pw_smmu *smmu, pw_faults *faults)
{
    if (settings->ni_fifo_depth < 1 || settings->ni_fifo_depth > PW_NI_FIFO_DEPTH || settings->touch_ahead_pages < 1 ||
        settings->touch_ahead_pages > PW_TOUCH_AHEAD_PAGES_MAX) return PW_ERR_INVALID;
    bool nobody_resumes = settings->stall && settings->page_in == PW_PAGE_IN_TOUCH_A_PAGE;
    if (nobody_resumes) return PW_ERR_INVALID;
    memset(driver, 0, sizeof *driver);
    driver->costs = costs;
    driver->settings = settings;
    driver->counters = counters;
    driver->trace = trace;
    driver->memory = memory;
    driver->smmu = smmu;
    driver->faults = faults;
    driver->tasklet_since_ns = driver->tasklet_free_ns = driver->last_handler_end_ns = INT64_MIN;
    pw_calendar_init(&driver->handler_cpu);
    pw_ni_fifo_init(&driver->fifo, (uint32_t)settings->ni_fifo_depth);
    pw_page_in_init(&driver->page_in);
    pw_user_thread_init(&driver->thread, costs, counters, trace, memory, &driver->page_in);
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
    bool first = pw_smmu_record_fault(driver->smmu, bank, at_ns, page << PW_PAGE_SHIFT, fault->at_destination,
                                     fault->is_permission);
    if (first) raise_interrupt(driver, bank, at_ns);
    pw_pending_fault pending = {.fault = *fault, .page = page, .logged_ns = at_ns, .handler_end_ns = bank->clear_ns};
    pw_time blocked_until_ns = pw_smmu_blocked_until(driver->smmu, bank, at_ns);
    if (blocked_until_ns != INT64_MIN) pending.handler_end_ns = blocked_until_ns;
    if (fault->at_destination) {
        pw_fifo_fields fields = {.source_node = fault->source_node, .transaction_id = fault->transaction_id,
                                 .sequence = fault->sequence, .pdid = fault->pdid, .page = page, .code = 1};
        enum pw_fifo_outcome outcome = PW_FIFO_LOST;
        if (!is_injected(driver, PW_FAULT_FIFO_FULL, fault, page, at_ns))
            outcome = pw_ni_fifo_push(&driver->fifo, at_ns, pw_fifo_pack(&fields));
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

/* First page behind the range that the built-in policy asks for. */
static uint64_t end_of_range(const pw_driver *driver, const pw_pending_fault *pending)
{
    uint64_t end_page = pending->page + 1;
    if (driver->settings->policy == PW_POLICY_BLOCK) end_page = pending->fault.block_end_page;
    if (driver->settings->policy == PW_POLICY_ALL) end_page = pending->fault.transfer_end_page;
    if (pending->fault.at_destination) return end_page;
    bool touch_a_page = driver->settings->page_in == PW_PAGE_IN_TOUCH_A_PAGE;   /* one page by Netlink touch */
    uint64_t limit = pending->page + (touch_a_page ? 1 : (uint64_t)driver->settings->touch_ahead_pages);
    return end_page < limit ? end_page : limit;
}

/* Pages of the transfer that came in with this one, but were not asked for: parts of its huge page. */
static int note_neighbours(pw_driver *driver, const pw_pending_fault *pending, uint64_t page, bool is_permission, pw_time at_ns)
{
    uint64_t first_page, num_pages;
    pw_memory_extent(driver->memory, page, &first_page, &num_pages);
    uint64_t end_page = first_page + num_pages;
    if (first_page < pending->fault.transfer_first_page) first_page = pending->fault.transfer_first_page;
    if (end_page > pending->fault.transfer_end_page) end_page = pending->fault.transfer_end_page;
    int code = PW_OK;
    for (; num_pages > 1 && code == PW_OK && first_page < end_page; first_page++)
        if (first_page != page) code = pw_page_in_add(&driver->page_in, first_page, at_ns, is_permission);
    return code;
}

/* A page is in from at_ns on. */
static int note_page(pw_driver *driver, const pw_pending_fault *pending, uint64_t page, uint8_t effect, pw_time at_ns)
{
    pw_counters *counters = driver->counters;
    bool is_permission = effect == PW_EFFECT_COPIED;
    counters->pages_paged_in++;
    counters->pages_copied += is_permission;
    counters->major_faults += effect == PW_EFFECT_SWAPPED;
    counters->pages_along += effect == PW_EFFECT_ALONG;
    if (effect == PW_EFFECT_ALONG) return PW_OK;        /* noted with the page it came with */
    if (is_permission) pw_smmu_invalidate(driver->smmu, pending->fault.pdid, page, 1);  /* another frame now */
    int code = note_neighbours(driver, pending, page, is_permission, at_ns);
    return code == PW_OK ? pw_page_in_add(&driver->page_in, page, at_ns, is_permission) : code;
}

/* The tasklet brings one page in. */
static pw_time book_page(pw_driver *driver, const pw_pending_fault *pending, uint64_t page, uint8_t effect, pw_time at_ns, int *code)
{
    if (effect != PW_EFFECT_ALONG) at_ns = work(driver, at_ns, driver->costs->page_in_page_ns);
    if (effect == PW_EFFECT_SWAPPED) {     /* the tasklet waits for the device */
        at_ns += driver->costs->major_fault_ns;
        driver->counters->page_in_ns += driver->costs->major_fault_ns;
    }
    *code = note_page(driver, pending, page, effect, at_ns);
    return at_ns;
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

/* Bringing in [page, end_page) failed. Only the host's policy asks for pages outside of the transfer, and they
 * must not fail it: leave out those on one side. False when there are none. */
static bool leave_out(const pw_fault *fault, uint64_t *page, uint64_t *end_page)
{
    if (*page < fault->transfer_first_page) *page = fault->transfer_first_page;
    else if (*end_page > fault->transfer_end_page) *end_page = *page < fault->transfer_end_page ? fault->transfer_end_page : *page;
    else return false;
    return true;
}

/* Touch-Ahead, get_user_pages: fixed cost, then each absent page in turn. Each is present when its turn is over. */
static pw_time page_in(pw_driver *driver, const pw_pending_fault *pending, uint64_t page, uint64_t end_page,
                       pw_time at_ns, int *code)
{
    uint64_t num_absent = 0;
    uint8_t effects[CHUNK_PAGES];
    at_ns = work(driver, at_ns, driver->costs->page_in_fixed_ns);
    *code = PW_OK;
    while (page < end_page && *code == PW_OK) {
        uint64_t num_pages = end_page - page < CHUNK_PAGES ? end_page - page : CHUNK_PAGES, next_page = page + num_pages;
        *code = pw_memory_page_in(driver->memory, page, num_pages, pending->fault.at_destination, effects);
        uint64_t num_mapped = 0;
        while (num_mapped < num_pages && effects[num_mapped] != PW_EFFECT_UNMAPPED) num_mapped++;
        if (num_mapped < num_pages) {       /* fewer when the next ones are not mapped */
            next_page = end_page = page + num_mapped;
            *code = PW_OK;
        } else if (*code < 0) {
            next_page = page;
            if (!leave_out(&pending->fault, &next_page, &end_page)) break;
            *code = PW_OK;
        }
        for (uint64_t i = 0; i < num_mapped && *code == PW_OK; i++) {
            if (effects[i] == PW_EFFECT_NONE) continue;
            at_ns = book_page(driver, pending, page + i, effects[i], at_ns, code);
            num_absent++;
        }
        page = next_page;
    }
    if (*code == PW_OK && end_page <= pending->page) *code = PW_ERR_ADDRESS;
    driver->counters->page_ins_present += *code == PW_OK && num_absent == 0;
    driver->counters->page_ins_failed += *code < 0;
    pw_trace_add(driver->trace, at_ns, PW_TRACE_PAGE_IN_DONE, pending->page, num_absent);
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

/* Pack and send one message about the page: when the tasklet is done with it. */
static pw_time send_message(pw_driver *driver, const pw_pending_fault *pending, uint64_t page, pw_time at_ns,
                            pw_netlink_message *message, int *code)
{
    const pw_fault *fault = &pending->fault;
    pw_netlink_fields fields = {.source_node = fault->source_node, .transaction_id = fault->transaction_id,
                                .sequence = fault->sequence, .pdid = fault->pdid, .page = page,
                                .is_write = fault->at_destination};
    *code = pw_netlink_pack(&fields, message);
    if (*code < 0) return at_ns;
    at_ns = work(driver, at_ns, driver->costs->netlink_ns);
    driver->counters->netlink_messages++;
    pw_trace_add(driver->trace, at_ns, PW_TRACE_NETLINK_SENT, page, fault->transaction_id);
    return at_ns;
}

static void send_err(pw_driver *driver, const pw_netlink_message *message, pw_time at_ns, pw_service *out)
{
    out->num_errs += pw_user_thread_err(&driver->thread, message, at_ns, &out->errs[out->num_errs]);
}

/* Touch-A-Page: a message for each page; the thread touches them, and after the last one sends the ERR,
 * unless the page that faulted was gone. (The message has no field for "last": the sources leave open how
 * the thread knows.) Returns when the tasklet is free. */
static pw_time touch_pages(pw_driver *driver, const pw_pending_fault *pending, uint64_t first_page, uint64_t end_page,
                           pw_time at_ns, pw_service *out)
{
    uint64_t num_absent = 0;
    pw_netlink_message message;
    pw_time touched_ns = at_ns;
    bool resolved = true;
    int code = PW_OK;
    for (uint64_t page = first_page; page < end_page && code == PW_OK; page++) {
        pw_touch touch;
        at_ns = send_message(driver, pending, page, at_ns, &message, &code);
        if (code < 0) break;
        pw_user_thread_touch(&driver->thread, &message, at_ns, &touch);
        if (page == pending->page) {    /* of the others their own faults will tell */
            resolved = touch.touched;
            code = touch.code;
        }
        touched_ns = pw_later(touched_ns, touch.end_ns);
        if (touch.effect == PW_EFFECT_NONE) continue;
        num_absent++;
        int noted = note_page(driver, pending, page, touch.effect, touch.end_ns);
        if (noted < 0) code = noted;
    }
    driver->counters->page_ins_present += code == PW_OK && resolved && num_absent == 0;
    driver->counters->page_ins_failed += code < 0;
    if (code < 0) out->code = code;
    bool wants_err = pending->fault.at_destination && driver->settings->err_enabled;
    if (wants_err && resolved && code == PW_OK) send_err(driver, &message, touched_ns, out);
    return at_ns;
}

/* Two 64-bit reads of the NI FIFO's register. */
static pw_time read_entry(pw_driver *driver, pw_time at_ns, pw_fifo_entry *entry)
{
    at_ns = work(driver, at_ns, driver->costs->core_register_read_ns);
    entry->low = pw_ni_fifo_read_word(&driver->fifo, at_ns);
    at_ns = work(driver, at_ns, driver->costs->core_register_read_ns);
    entry->high = pw_ni_fifo_read_word(&driver->fifo, at_ns);
    return at_ns;
}

/* The tasklet comes to a fault: when. */
static pw_time begin_entry(pw_driver *driver, const pw_pending_fault *pending)
{
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
    driver->entry_ns = at_ns;
    return at_ns;
}

/* The tasklet takes an entry. False when it is a known duplicate, which costs no more than that. */
static bool take_entry(pw_driver *driver, const pw_pending_fault *pending)
{
    pw_time at_ns = begin_entry(driver, pending);
    if (pending->fault.at_destination) {
        pw_fifo_entry entry;
        at_ns = read_entry(driver, at_ns, &entry);
        if (is_known_duplicate(driver, entry)) {
            driver->counters->fifo_duplicates++;
            driver->tasklet_free_ns = at_ns;
            pw_trace_add(driver->trace, driver->entry_ns, PW_TRACE_TASKLET_ENTRY, pending->page, 0);
            return false;
        }
    }
    driver->page_in_ns = work(driver, at_ns, driver->costs->tasklet_other_ns);
    return true;
}

/* Bring the pages in and send the ERR for the block. */
static void serve_entry(pw_driver *driver, const pw_pending_fault *pending, uint64_t first_page, uint64_t end_page, pw_service *out)
{
    pw_trace_add(driver->trace, driver->entry_ns, PW_TRACE_TASKLET_ENTRY, pending->page, end_page - first_page);
    if (driver->settings->page_in == PW_PAGE_IN_TOUCH_A_PAGE) {
        driver->tasklet_free_ns = touch_pages(driver, pending, first_page, end_page, driver->page_in_ns, out);
        return;
    }
    int code;
    pw_time at_ns = page_in(driver, pending, first_page, end_page, driver->page_in_ns, &code);
    driver->tasklet_free_ns = at_ns;
    if (code < 0) {
        out->code = code;
        return;
    }
    if (!pending->fault.at_destination || !driver->settings->err_enabled) return;
    pw_netlink_message message;
    at_ns = send_message(driver, pending, pending->page, at_ns, &message, &code);
    driver->tasklet_free_ns = at_ns;
    if (code < 0) out->code = code;
    else send_err(driver, &message, at_ns + driver->costs->user_wakeup_ns, out);
}

pw_time pw_driver_stall(pw_driver *driver, pw_context_bank *bank, const pw_fault *fault, uint64_t page, pw_time at_ns, int *code)
{
    pw_smmu_record_fault(driver->smmu, bank, at_ns, page << PW_PAGE_SHIFT, fault->at_destination,
                         fault->is_permission);
    raise_interrupt(driver, bank, at_ns);
    pw_pending_fault pending = {.fault = *fault, .page = page, .logged_ns = at_ns, .handler_end_ns = bank->clear_ns};
    pw_time work_ns = work(driver, begin_entry(driver, &pending), driver->costs->tasklet_other_ns);
    uint64_t end_page = end_of_range(driver, &pending);
    pw_trace_add(driver->trace, driver->entry_ns, PW_TRACE_TASKLET_ENTRY, page, end_page - page);
    work_ns = page_in(driver, &pending, page, end_page, work_ns, code);
    work_ns = work(driver, work_ns, driver->costs->core_register_write_ns);
    driver->tasklet_free_ns = work_ns;
    uint32_t value = (uint32_t)(*code < 0 ? PW_RESUME_TERMINATE : PW_RESUME_RETRY);
    pw_smmu_resume(driver->smmu, bank, work_ns, value);
    pw_trace_add(driver->trace, work_ns, PW_TRACE_RESUME, page, value);
    return work_ns;
}

static bool run_tasklet(pw_driver *driver, pw_service *out)
{
    for (; driver->next_pending < driver->num_pending; driver->next_pending++) {
        const pw_pending_fault *pending = &driver->pending[driver->next_pending];
        if (!take_entry(driver, pending)) continue;
        if (driver->settings->policy == PW_POLICY_HOST) return false;
        serve_entry(driver, pending, pending->page, end_of_range(driver, pending), out);
    }
    driver->num_pending = driver->next_pending = 0;
    return true;
}

bool pw_driver_service(pw_driver *driver, pw_service *out)
{
    out->num_errs = 0;
    out->code = PW_OK;
    return run_tasklet(driver, out);
}

bool pw_driver_decide(pw_driver *driver, uint64_t first_page, uint64_t end_page, pw_service *out)
{
    const pw_pending_fault *pending = pw_driver_undecided(driver);
    first_page = first_mapped(driver, first_page, pending->page);
    end_page = end_mapped(driver, pending->page + 1, end_page);
    serve_entry(driver, pending, first_page, end_page, out);
    driver->next_pending++;
    return run_tasklet(driver, out);
}
