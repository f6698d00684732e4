/* The fault driver alone: a page that is unmapped between its fault and its turn in the tasklet. */
#include <assert.h>

#include "smmu/driver.h"

enum { PAGE = 100, NODE = 3, PDID = 7 };

static const pw_costs costs = {
    .core_register_read_ns = 100, .handler_ns = 1000, .tasklet_other_ns = 4000, .page_in_fixed_ns = 6000, .page_in_page_ns = 3000,
    .netlink_ns = 7000, .user_wakeup_ns = 7000, .err_send_ns = 1000, .touch_absent_page_ns = 3000, .touch_resident_page_ns = 100, .walk_accesses = 3,
};

typedef struct {
    pw_settings settings;
    pw_counters counters;
    pw_trace trace;
    pw_memory *memory;
    pw_smmu smmu;
    pw_faults faults;
    pw_driver driver;
    pw_service service;
} machine;

/* Faults on `num_pages` pages of one block, one a page; then `gone` is unmapped; then the tasklet runs. */
static void run(machine *m, int64_t page_in, bool at_destination, int64_t policy, uint64_t num_pages, uint64_t gone)
{
    const pw_memory_model_options options = {.fault_millionths = 1000000};
    *m = (machine){.settings = {.page_in = page_in, .policy = policy, .err_enabled = 1, .touch_ahead_pages = 4, .hupcf = 1,
                                .ni_fifo_depth = 512, .tasklet_entries = 16, .num_context_banks = 1, .l1_sets = 1, .l1_ways = 1,
                                .l2_sets = 1, .l2_ways = 1, .tlb_line_pages = 1,
                                .parallel_walks = 16, .outstanding_accesses = 256}};
    assert(pw_memory_create(PW_MEMORY_MODEL, &options, &m->memory) == PW_OK);
    assert(pw_smmu_init(&m->smmu, &costs, &m->settings, &m->counters) == PW_OK);
    assert(pw_driver_init(&m->driver, &costs, &m->settings, &m->counters, &m->trace, m->memory, &m->smmu, &m->faults) == PW_OK);
    pw_context_bank *bank = &m->smmu.banks[pw_smmu_bind(&m->smmu, PDID)];
    pw_fault fault = {.source_node = NODE, .transaction_id = 5, .sequence = 1, .pdid = PDID, .at_destination = at_destination,
                      .block_end_page = PAGE + 4, .transfer_end_page = PAGE + 8};
    for (uint64_t i = 0; i < num_pages; i++)
        pw_driver_packet_fault(&m->driver, bank, &fault, PAGE + i, (pw_time)(i * 2000));
    if (gone) assert(pw_memory_set(m->memory, gone, 1, PW_PAGE_UNMAPPED) == PW_OK);
    pw_driver_service(&m->driver, &m->service);
}

static void end(machine *m)
{
    pw_driver_destroy(&m->driver);
    pw_smmu_destroy(&m->smmu);
    pw_memory_destroy(m->memory);
}

static void touch_ahead(void)
{
    machine m;
    run(&m, PW_PAGE_IN_TOUCH_AHEAD, true, PW_POLICY_PAGE, 1, PAGE);
    assert(m.service.code == PW_ERR_ADDRESS && m.service.num_errs == 0 && m.counters.page_ins_failed == 1);
    end(&m);
    run(&m, PW_PAGE_IN_TOUCH_AHEAD, true, PW_POLICY_ALL, 1, PAGE + 2);     /* fewer */
    assert(m.service.code == PW_OK && m.service.num_errs == 1 && m.counters.pages_paged_in == 2 && m.counters.touch_segfaults == 0);
    assert(pw_page_in_present_ns(&m.driver.page_in, PAGE + 3) == INT64_MIN);
    end(&m);
}

static void touch_a_page(void)
{
    machine m;
    for (int at_destination = 0; at_destination < 2; at_destination++) {
        /* nothing is left to touch: no ERR, and nobody fails the transfer here */
        run(&m, PW_PAGE_IN_TOUCH_A_PAGE, at_destination, PW_POLICY_PAGE, 1, PAGE);
        assert(m.service.code == PW_OK && m.service.num_errs == 0);
        assert(m.counters.touch_segfaults == 1 && m.counters.netlink_messages == 1 && m.counters.pages_touched == 0);
        end(&m);
    }
    /* the thread goes on with the next message; the ERR is the third entry's */
    run(&m, PW_PAGE_IN_TOUCH_A_PAGE, true, PW_POLICY_PAGE, 3, PAGE + 1);
    pw_time sent_ns[3], at_ns = costs.handler_ns;
    for (int i = 0; i < 3; i++) {
        at_ns += 2 * costs.core_register_read_ns + costs.tasklet_other_ns + costs.netlink_ns;
        if (i == 0) at_ns += 2 * costs.handler_ns;      /* for the second and the third fault */
        sent_ns[i] = at_ns;
    }
    pw_time touch_ns = costs.user_wakeup_ns + costs.touch_absent_page_ns;
    assert(m.counters.touch_segfaults == 1 && m.counters.pages_touched == 2);
    assert(pw_page_in_present_ns(&m.driver.page_in, PAGE) == sent_ns[0] + touch_ns);
    assert(pw_page_in_present_ns(&m.driver.page_in, PAGE + 1) == INT64_MIN);
    assert(pw_page_in_present_ns(&m.driver.page_in, PAGE + 2) == sent_ns[2] + touch_ns);
    assert(m.service.num_errs == 1 && m.service.errs[0].at_ns == sent_ns[0] + touch_ns + costs.err_send_ns);
    end(&m);
    run(&m, PW_PAGE_IN_TOUCH_A_PAGE, true, PW_POLICY_PAGE, 3, PAGE);    /* the first entry's is not sent, but the second's */
    assert(m.service.num_errs == 1 && m.service.errs[0].at_ns == sent_ns[1] + touch_ns + costs.err_send_ns);
    end(&m);
    /* a page that nobody faulted on is gone: the block has its ERR all the same, when the last is touched */
    run(&m, PW_PAGE_IN_TOUCH_A_PAGE, true, PW_POLICY_ALL, 1, PAGE + 5);
    assert(m.counters.netlink_messages == 8 && m.counters.pages_touched == 7 && m.counters.touch_segfaults == 1);
    at_ns = costs.handler_ns + 2 * costs.core_register_read_ns + costs.tasklet_other_ns + 8 * costs.netlink_ns;
    assert(m.service.num_errs == 1 && m.service.errs[0].at_ns == at_ns + touch_ns + costs.err_send_ns);
    assert(m.driver.tasklet_free_ns == at_ns);
    end(&m);
}

int main(void)
{
    touch_ahead();
    touch_a_page();
    return 0;
}
