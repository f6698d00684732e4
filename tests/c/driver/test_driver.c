/* The fault driver alone: who does what when, and a page that is unmapped between its fault and its
 * turn in the tasklet. */
#include <assert.h>

#include "driver/driver.h"

enum { PAGE = 100, NODE = 3, PDID = 7 };

static const pw_costs costs = {
    .core_register_read_ns = 100,
    .handler_ns = 1000,
    .tasklet_other_ns = 4000,
    .page_in_fixed_ns = 6000,
    .page_in_page_ns = 3000,
    .netlink_ns = 7000,
    .netlink_queued_ns = 3000,
    .transaction_lookup_ns = 50,
    .tasklet_schedule_ns = 400,
    .user_wakeup_ns = 7000,
    .err_send_ns = 1000,
    .touch_absent_page_ns = 3000,
    .touch_resident_page_ns = 100,
    .walk_accesses = 3,
};

typedef struct {
    pw_settings settings;
    pw_counters counters;
    pw_trace trace;
    pw_memory *memory;
    pw_smmu smmu;
    pw_impairments impairments;
    pw_driver driver;
    pw_service service;
    pw_context_bank *bank;
    pw_fault fault;
    pw_time bound_ns;
} machine;

static void begin(machine *m, pw_settings settings)
{
    const pw_memory_model_options options = {.detached = 1, .fault_millionths = 1000000};
    settings.err_enabled = settings.hupcf = settings.num_context_banks = 1;
    settings.l1_sets = settings.l1_ways = settings.l2_sets = settings.l2_ways = 1;
    settings.tlb_line_pages = 1;
    settings.touch_ahead_pages = 4;
    settings.ni_fifo_depth = 512;
    settings.tasklet_entries = settings.parallel_walks = 16;
    settings.outstanding_accesses = 256;
    *m = (machine){.settings = settings};
    assert(pw_memory_create(PW_MEMORY_MODEL, &options, &m->memory) == PW_OK);
    assert(pw_smmu_init(&m->smmu, &costs, &m->settings, &m->counters) == PW_OK);
    pw_driver_init(&m->driver, &costs, &m->settings, &m->counters, &m->trace, m->memory, &m->smmu,
                   &m->impairments);
    m->bank = &m->smmu.banks[pw_smmu_bind(&m->smmu, PDID)];
    m->fault = (pw_fault){.source_node = NODE,
                          .transaction_id = 5,
                          .sequence = 1,
                          .pdid = PDID,
                          .at_destination = true,
                          .block_end_page = PAGE + 4,
                          .transfer_first_page = PAGE,
                          .transfer_end_page = PAGE + 8,
                          .bound_ns = &m->bound_ns};
}

static void fault_at(machine *m, uint64_t page, pw_time at_ns)
{
    assert(pw_driver_packet_fault(&m->driver, m->bank, &m->fault, page, at_ns) == PW_OK);
}

static void serve(machine *m) { assert(pw_driver_service(&m->driver, &m->service)); }

/* Faults on `num_pages` pages of one block, 2 us apart; then `gone` is unmapped; then the tasklet
 * runs. */
static void run(machine *m, int64_t page_in, bool at_destination, int64_t policy,
                uint64_t num_pages, uint64_t gone)
{
    begin(m, (pw_settings){.page_in = page_in, .policy = policy});
    m->fault.at_destination = at_destination;
    for (uint64_t i = 0; i < num_pages; i++) fault_at(m, PAGE + i, (pw_time)(i * 2000));
    if (gone) assert(pw_memory_set(m->memory, gone, 1, PW_PAGE_UNMAPPED) == PW_OK);
    serve(m);
}

static pw_time err_ns(machine *m) { return pw_driver_err_ns(&m->driver, &m->fault); }

static pw_time present_ns(machine *m, uint64_t page)
{
    pw_library_thread_catch_up(&m->driver.core->thread, PW_NEVER);
    return pw_presence_present_ns(&m->driver.presence, page);
}

/* Another block of the same transfer. */
static void next_block(machine *m)
{
    m->fault.transaction_id++;
    m->fault.block_first_page = PAGE + 4;
    m->fault.block_end_page = PAGE + 8;
}

static void end(machine *m)
{
    pw_driver_destroy(&m->driver);
    pw_smmu_destroy(&m->smmu);
    pw_memory_destroy(m->memory);
}

enum {
    READS = 200,                      /* two words of the FIFO: within the 4 us of other work */
    ENTRY = 4000 + 6000 + 3000 + 7000 /* of PART's driver, with one absent page */
};

static void touch_ahead(void)
{
    machine m;
    run(&m, PW_PAGE_IN_TOUCH_AHEAD, true, PW_POLICY_PAGE, 1, PAGE);
    assert(m.service.code == PW_ERR_ADDRESS && err_ns(&m) == PW_NEVER &&
           m.counters.page_ins_failed == 1);
    end(&m);
    run(&m, PW_PAGE_IN_TOUCH_AHEAD, true, PW_POLICY_ALL, 1, PAGE + 2); /* fewer */
    assert(m.service.code == PW_OK && err_ns(&m) != PW_NEVER && m.counters.pages_paged_in == 2 &&
           m.counters.touch_segfaults == 0);
    assert(present_ns(&m, PAGE + 3) == INT64_MIN);
    end(&m);
}

static void touch_a_page(void)
{
    machine m;
    for (int at_destination = 0; at_destination < 2; at_destination++) {
        /* nothing is left to touch: no ERR, and nobody fails the transfer here */
        run(&m, PW_PAGE_IN_TOUCH_A_PAGE, at_destination, PW_POLICY_PAGE, 1, PAGE);
        assert(m.service.code == PW_OK && err_ns(&m) == PW_NEVER);
        assert(m.counters.touch_segfaults == 1 && m.counters.netlink_messages == 1 &&
               m.counters.pages_touched == 0);
        end(&m);
    }
    /* the tasklet runs to its end, with two interrupts in it; then the thread wakes up, goes on
     * behind a segmentation fault, and sends one ERR when all is touched */
    run(&m, PW_PAGE_IN_TOUCH_A_PAGE, true, PW_POLICY_PAGE, 3, PAGE + 1);
    pw_time tasklet_end_ns = 1000 + 3 * (4000 + 7000) + 2 * 1000;
    pw_time awake_ns = tasklet_end_ns + 7000;
    assert(m.counters.touch_segfaults == 1 && m.counters.pages_touched == 2);
    assert(present_ns(&m, PAGE) == awake_ns + 3000);
    assert(present_ns(&m, PAGE + 1) == INT64_MIN);
    assert(present_ns(&m, PAGE + 2) == awake_ns + 3 * 3000);
    assert(err_ns(&m) == awake_ns + 3 * 3000 + 1000);
    end(&m);
    run(&m, PW_PAGE_IN_TOUCH_A_PAGE, true, PW_POLICY_PAGE, 3,
        PAGE); /* the first page's message earns no ERR, but the second's does */
    assert(err_ns(&m) == awake_ns + 3 * 3000 + 1000);
    end(&m);
    /* a page that nobody faulted on is gone: the block has its ERR all the same */
    run(&m, PW_PAGE_IN_TOUCH_A_PAGE, true, PW_POLICY_ALL, 1, PAGE + 5);
    assert(m.counters.netlink_messages == 8 && m.counters.pages_touched == 7 &&
           m.counters.touch_segfaults == 1);
    assert(err_ns(&m) == 1000 + 4000 + 8 * 7000 + 7000 + 8 * 3000 + 1000);
    end(&m);
}

/* A fault of a later time is known first: the earlier one's page is there when it was touched. */
static void touches_out_of_order(void)
{
    machine m;
    begin(&m, (pw_settings){.page_in = PW_PAGE_IN_TOUCH_A_PAGE, .policy = PW_POLICY_PAGE});
    fault_at(&m, PAGE, 1000000);
    serve(&m);
    next_block(&m);
    fault_at(&m, PAGE + 4, 0);
    serve(&m);
    pw_time touched_ns = 1000 + 4000 + 7000 + 7000 + 3000;
    pw_library_thread_catch_up(&m.driver.core->thread, 500000);
    assert(pw_presence_present_ns(&m.driver.presence, PAGE + 4) == touched_ns);
    assert(present_ns(&m, PAGE) == 1000000 + touched_ns);
    end(&m);
}

/* Four pages of a block: one run, one ERR behind it; what arrives during the run is read in it. */
static void one_run(void)
{
    machine m;
    run(&m, PW_PAGE_IN_TOUCH_AHEAD, true, PW_POLICY_PAGE, 4, 0);
    pw_time start_ns = 1000, end_ns = start_ns + 4 * ENTRY + 3 * 1000;
    assert(m.counters.tasklet_runs == 1 && m.counters.fault_interrupts == 4 &&
           m.counters.interrupts_in_tasklet == 3 && m.counters.errs_sent == 1);
    assert(present_ns(&m, PAGE) == start_ns + 4000 + 9000 + 3 * 1000);
    assert(err_ns(&m) == end_ns + 7000 + 1000);

    /* the second block comes during the run: its entries are read behind the first's, its interrupt
     * moves what is not done, and both ERRs follow the run */
    pw_fault first = m.fault;
    pw_time late_ns = 40000;
    assert(present_ns(&m, PAGE + 3) > late_ns && present_ns(&m, PAGE) < late_ns);
    pw_time before_ns = present_ns(&m, PAGE), after_ns = present_ns(&m, PAGE + 3);
    next_block(&m);
    fault_at(&m, PAGE + 4, late_ns);
    serve(&m);
    end_ns += ENTRY + 1000;
    assert(present_ns(&m, PAGE) == before_ns && present_ns(&m, PAGE + 3) == after_ns + 1000);
    assert(m.counters.tasklet_runs == 1 && m.counters.interrupts_in_tasklet == 4);
    assert(pw_driver_err_ns(&m.driver, &first) == end_ns + 7000 + 1000);
    assert(err_ns(&m) == end_ns + 7000 + 2000);

    /* an ERR is final when no block of its transfer can come before it */
    pw_err_order order;
    m.bound_ns = end_ns + 7000 + 1000 - 1;
    assert(!pw_library_thread_next_err(&m.driver.user, m.bound_ns, &order));
    m.bound_ns++;
    assert(pw_library_thread_next_err(&m.driver.user, m.bound_ns, &order));
    assert(order.transaction_id == first.transaction_id && order.at_ns == m.bound_ns);
    assert(!pw_library_thread_next_err(&m.driver.user, m.bound_ns, &order));
    pw_library_thread_release(&m.driver.core->thread, &m.bound_ns); /* its transfer is over */
    assert(pw_library_thread_next_err(&m.driver.user, PW_NEVER, &order) &&
           order.transaction_id == m.fault.transaction_id && order.at_ns == end_ns + 9000);
    end(&m);
}

/* A fault while the thread is awake: handler and tasklet preempt it, and it needs no second
 * wake-up. */
/* What came in for a read (the shared zero page) comes in once more for a write, in the same run of
 * the tasklet; and so does what the program gave back meanwhile. */
static void brings_in_again(void)
{
    machine m;
    run(&m, PW_PAGE_IN_TOUCH_AHEAD, false, PW_POLICY_PAGE, 1, 0);
    const uint64_t num_read = m.counters.pages_paged_in;
    assert(num_read > 0 && pw_memory_set(m.memory, PAGE, 1, PW_PAGE_WRITE_PROTECTED) == PW_OK);
    m.fault.at_destination = m.fault.is_permission = true;
    fault_at(&m, PAGE, 100);
    serve(&m);
    assert(m.counters.pages_copied == 1 && m.counters.page_ins_present == 0);
    assert(pw_memory_set(m.memory, PAGE, 1, PW_PAGE_ABSENT) == PW_OK);
    pw_memory_enter(m.memory);
    m.fault.is_permission = false;
    next_block(&m);
    fault_at(&m, PAGE, 200);
    serve(&m);
    assert(m.counters.pages_paged_in == num_read + 2 && m.counters.page_ins_present == 0);
    assert(m.counters.tasklet_runs == 1);
    end(&m);
}

static void preempts_the_thread(void)
{
    machine m;
    run(&m, PW_PAGE_IN_TOUCH_AHEAD, true, PW_POLICY_PAGE, 1, 0);
    pw_time first_end_ns = 1000 + ENTRY;
    assert(err_ns(&m) == first_end_ns + 8000);
    pw_fault first = m.fault;
    next_block(&m);
    fault_at(&m, PAGE + 4, first_end_ns + 2000); /* 2 of the 7 us of its wake-up are over */
    serve(&m);
    pw_time second_end_ns = first_end_ns + 2000 + 1000 + ENTRY;
    assert(m.counters.tasklet_runs == 2 && m.counters.interrupts_in_tasklet == 0);
    assert(pw_driver_err_ns(&m.driver, &first) == second_end_ns + 5000 + 1000);
    assert(err_ns(&m) == second_end_ns + 5000 + 2000);
    end(&m);
}

/* On a core of its own the thread wakes up with the first message and sends at once. */
static void library_on_another_core(void)
{
    machine m;
    begin(&m, (pw_settings){.library_core = PW_LIBRARY_CORE_OTHER});
    fault_at(&m, PAGE, 0);
    fault_at(&m, PAGE + 1, 2000);
    pw_fault first = m.fault;
    next_block(&m);
    fault_at(&m, PAGE + 4, 4000);
    serve(&m);
    pw_time sent_ns = 1000 + ENTRY + 2 * 1000;
    assert(pw_driver_err_ns(&m.driver, &first) == sent_ns + 7000 + 1000);
    assert(err_ns(&m) == sent_ns + 2 * ENTRY + 7000 + 1000); /* it slept meanwhile */
    end(&m);
}

/* One page again and again, as interleaved blocks log it. PART's driver pays for what is not one of
 * the last two entries; PSI's does not for pages of the last two transactions. */
static void variants(void)
{
    for (int64_t variant = PW_DRIVER_PART; variant <= PW_DRIVER_PSI; variant++) {
        machine m;
        begin(&m, (pw_settings){.driver_variant = variant, .policy = PW_POLICY_BLOCK});
        for (int i = 0; i < 3;
             i++) { /* pages 0, 1 and 2 of a block; two blocks' packets by turns */
            m.fault.transaction_id = 5;
            m.fault.block_end_page = PAGE + 4;
            fault_at(&m, PAGE + (uint64_t)i, i * 100);
            next_block(&m);
            fault_at(&m, PAGE + 4 + (uint64_t)i, i * 100 + 50);
        }
        serve(&m);
        assert(m.counters.fault_interrupts == 1 && m.counters.tasklet_entries == 6);
        assert(m.counters.fifo_duplicates == (variant == PW_DRIVER_PSI ? 4 : 0));
        assert(m.counters.netlink_messages == (variant == PW_DRIVER_PSI ? 2 : 6));
        assert(m.counters.errs_sent == 2 && m.counters.pages_paged_in == 8);
        const bool is_psi = variant == PW_DRIVER_PSI;
        pw_time first_ns = 4000 + 6000 + 4 * 3000 + 7000; /* the block comes in whole */
        pw_time further_ns = is_psi ? READS : 4000 + 6000 + 7000;
        pw_time own_ns = is_psi ? 6 * 50 - (7000 - 3000) : 0; /* looks, wakes the thread once */
        assert(err_ns(&m) == 1000 + 2 * first_ns + 4 * further_ns + own_ns + 7000 + 2000);
        end(&m);
    }
}

/* Two blocks in one run, four pages at the first: ERRs of the tasklet's, at its end. */
static void kernel_sends_at_the_end(void)
{
    machine m;
    begin(&m, (pw_settings){.err_by = PW_ERRS_BY_KERNEL});
    for (int i = 0; i < 4; i++) fault_at(&m, PAGE + (uint64_t)i, i * 100);
    pw_fault first = m.fault;
    next_block(&m);
    fault_at(&m, PAGE + 4, 450);
    serve(&m);
    pw_time end_ns = 1000 + 5 * (ENTRY - 7000);
    assert(m.counters.netlink_messages == 0 && m.counters.errs_sent == 2);
    assert(pw_driver_err_ns(&m.driver, &first) == end_ns + 1000 && err_ns(&m) == end_ns + 2000);
    pw_err_order order;
    m.bound_ns = end_ns + 999;
    assert(!pw_library_thread_next_err(&m.driver.user, m.bound_ns, &order));
    m.bound_ns++;
    assert(pw_library_thread_next_err(&m.driver.user, m.bound_ns, &order) &&
           order.at_ns == end_ns + 1000);
    assert(pw_library_thread_earliest_err(&m.driver.core->thread, &m.bound_ns, &order) &&
           order.at_ns == end_ns + 2000);
    end(&m);
}

/* One block with four absent pages, behind each of which the next ones may come in: what leaves
 * when, by driver.err_after. */
static void err_leaves_early(void)
{
    enum { BARE = 4000 + 6000 }; /* an entry without page and message */
    const struct {
        int64_t by, after, policy;
        pw_time err_ns, run_ns; /* from the handler's end on; the run may go on behind the ERR */
        int num_messages;
    } cases[] = {
        /* page by page: the first is in, the last is in; further pages' messages order no ERR */
        {PW_ERRS_BY_KERNEL, PW_ERRS_AFTER_PAGE, PW_POLICY_PAGE, BARE + 3000 + 1000,
         4 * (BARE + 3000) + 1000, 0},
        {PW_ERRS_BY_KERNEL, PW_ERRS_AFTER_BLOCK, PW_POLICY_PAGE, 4 * (BARE + 3000) + 1000,
         4 * (BARE + 3000) + 1000, 0},
        {PW_ERRS_BY_LIBRARY, PW_ERRS_AFTER_BLOCK, PW_POLICY_PAGE, 4 * (BARE + 3000) + 7000 + 8000,
         4 * (BARE + 3000) + 7000, 1},
        {PW_ERRS_BY_LIBRARY, PW_ERRS_AFTER_PAGE, PW_POLICY_PAGE, 4 * ENTRY + 8000, 4 * ENTRY, 4},
        /* all eight pages at the first entry, the rest by a get_user_pages of its own behind the
         * ERR; the other three entries find theirs present */
        {PW_ERRS_BY_KERNEL, PW_ERRS_AFTER_PAGE, PW_POLICY_ALL, BARE + 3000 + 1000,
         BARE + 3000 + 1000 + 6000 + 7 * 3000 + 3 * BARE, 0},
        {PW_ERRS_BY_KERNEL, PW_ERRS_AFTER_BLOCK, PW_POLICY_ALL, BARE + 4 * 3000 + 1000,
         BARE + 4 * 3000 + 1000 + 6000 + 4 * 3000 + 3 * BARE, 0},
        {PW_ERRS_BY_LIBRARY, PW_ERRS_AFTER_BLOCK, PW_POLICY_ALL,
         BARE + 4 * 3000 + 7000 + 6000 + 4 * 3000 + 3 * BARE + 8000,
         BARE + 4 * 3000 + 7000 + 6000 + 4 * 3000 + 3 * BARE, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        machine m;
        begin(&m, (pw_settings){.err_by = cases[i].by,
                                .err_after = cases[i].after,
                                .policy = cases[i].policy});
        for (int page = 0; page < 4; page++) fault_at(&m, PAGE + (uint64_t)page, page * 100);
        serve(&m);
        pw_cpu *cpu = &m.driver.core->cpu;
        pw_time end_ns = pw_cpu_time(cpu, pw_cpu_end(cpu, m.driver.core->first_run->span));
        assert(end_ns == 1000 + cases[i].run_ns && err_ns(&m) == 1000 + cases[i].err_ns);
        assert(m.counters.errs_sent == 1 &&
               m.counters.netlink_messages == (uint64_t)cases[i].num_messages);
        pw_err_order order;
        m.bound_ns = err_ns(&m) - 1;
        assert(!pw_library_thread_next_err(&m.driver.user, m.bound_ns, &order));
        m.bound_ns++;
        assert(pw_library_thread_next_err(&m.driver.user, m.bound_ns, &order) &&
               order.at_ns == m.bound_ns);
        end(&m);
    }
}

/* Six entries of PSI's driver, two a run: scheduled again twice, without a gap. */
static void psi_is_scheduled_again(void)
{
    pw_time err[2];
    for (int is_short = 0; is_short < 2; is_short++) {
        machine m;
        begin(&m, (pw_settings){.driver_variant = PW_DRIVER_PSI, .page_in = 1});
        if (is_short) m.settings.tasklet_entries = 2;
        m.fault.block_end_page = PAGE + 6;
        for (int i = 0; i < 6; i++) fault_at(&m, PAGE + (uint64_t)i, i * 100);
        serve(&m);
        assert(m.counters.tasklet_runs == (is_short ? 3 : 1) && m.counters.netlink_messages == 6);
        err[is_short] = err_ns(&m);
        end(&m);
    }
    assert(err[0] == 1000 + 6 * (4000 + 50) + 7000 + 5 * 3000 + 7000 + 6 * 3000 + 1000);
    assert(err[1] == err[0] + 2 * 400);
}

/* Every time of the last wake-up is what it would be if none had been kept. */
static void check_kept_times(machine *m)
{
    pw_library_thread *thread = &m->driver.core->thread;
    pw_wakeup *wakeup = thread->last;
    for (uint32_t i = wakeup->first_unsent; i != PW_NO_MESSAGE;
         i = wakeup->messages[i].next_unsent) {
        const pw_faulting_block *block = wakeup->messages[i].block;
        const pw_time at_ns = pw_library_thread_err_ns(thread, block);
        wakeup->num_handled = 0;
        assert(pw_library_thread_err_ns(thread, block) == at_ns);
    }
    wakeup->num_handled = 0;
}

/* A fault on a page, by a block of its own, in both machines. When the last ERR of those that are
 * final leaves. */
static pw_time storm_goes_on(machine *m, uint32_t idx, pw_time at_ns)
{
    pw_err_order order = {.at_ns = 0};
    m->fault.transaction_id = (uint16_t)idx;
    fault_at(m, PAGE + idx % 8, at_ns);
    serve(m);
    m->bound_ns = at_ns - 20000;
    while (pw_library_thread_next_err(&m->driver.user, m->bound_ns, &order)) continue;
    return order.at_ns;
}

/* Faults without end keep the thread from its core, and it has ever more ERRs to send. How many of
 * a wake-up's messages were not worked out again, at most. */
static uint32_t storm(int64_t page_in, int64_t core)
{
    enum { NUM_FAULTS = 400 };
    machine m, checked;
    begin(&m, (pw_settings){.page_in = page_in, .library_core = core});
    begin(&checked, m.settings);
    pw_time at_ns = 0;
    uint32_t num_kept = 0;
    for (uint32_t i = 0; i < NUM_FAULTS; i++) {
        at_ns += i % 7 * 6000 + i % 3 * 900;
        assert(storm_goes_on(&m, i, at_ns) == storm_goes_on(&checked, i, at_ns));
        assert(err_ns(&m) == err_ns(&checked));
        const pw_wakeup *wakeup = m.driver.core->thread.last;
        if (wakeup->num_handled > num_kept) num_kept = wakeup->num_handled;
        check_kept_times(&checked);
    }
    end(&m);
    end(&checked);
    return num_kept;
}

int main(void)
{
    touch_ahead();
    touch_a_page();
    touches_out_of_order();
    one_run();
    brings_in_again();
    preempts_the_thread();
    library_on_another_core();
    variants();
    psi_is_scheduled_again();
    kernel_sends_at_the_end();
    err_leaves_early();
    assert(storm(PW_PAGE_IN_TOUCH_AHEAD, PW_LIBRARY_CORE_SAME) > 300);
    storm(PW_PAGE_IN_TOUCH_AHEAD, PW_LIBRARY_CORE_OTHER);
    storm(PW_PAGE_IN_TOUCH_A_PAGE, PW_LIBRARY_CORE_SAME);
    return 0;
}
