/* UTLB on nodes of one process: the library's table, and the NIC's cache of it in place of TLBs. */
#include "tests/c/node/node_pair.h"

#define NUM_PAGES 64

typedef struct {
    joined all;
    uint8_t *source, *destination;
} pair;

static void begin_utlb(pair *p, int64_t num_entries, int64_t fetch_entries, int64_t limit_pages)
{
    prepare(&p->all, 2);
    p->all.config.settings.utlb_cache_entries = num_entries;
    p->all.config.settings.utlb_fetch_entries = fetch_entries;
    p->all.config.settings.utlb_limit_bytes = limit_pages * PW_PAGE_BYTES;
    p->all.opening.strategy = pw_strategy_find("utlb");
    create(&p->all);
    /* direct-mapped: pages of one buffer do not meet each other in the cache */
    p->source = make_pattern(NUM_PAGES * PW_PAGE_BYTES);
    p->destination = make_buffer(NUM_PAGES * PW_PAGE_BYTES);
}

/* Pages from node 0 to the same of node 1; how long it took from the match on. */
static int64_t send_pages(pair *p, uint64_t first, uint64_t num_pages)
{
    pw_node *source = p->all.nodes[0], *destination = p->all.nodes[1];
    uint64_t start = first * PW_PAGE_BYTES, num_bytes = num_pages * PW_PAGE_BYTES;
    pw_handle *exposed, *fetched;
    pw_lease lease;
    memset(p->destination + start, 0, num_bytes);
    assert(pw_node_expose(source, 1, address_of(p->source) + start, num_bytes, &exposed) == PW_OK);
    assert(pw_node_acquire(destination, (pw_span){address_of(p->destination) + start, num_bytes},
                           PW_ACCESS_WRITE, &lease) == PW_OK);
    int64_t at_ns = pw_later(pw_node_clock(source)->now_ns, pw_node_clock(destination)->now_ns);
    assert(pw_node_fetch(destination, 0, exposed->address, exposed->key,
                         address_of(p->destination) + start, num_bytes, at_ns, &lease,
                         &fetched) == PW_OK);
    finish(&p->all, exposed);
    finish(&p->all, fetched);
    assert(memcmp(p->source + start, p->destination + start, num_bytes) == 0);
    int64_t end_ns = fetched->complete_ns;
    for (int i = 0; i < 2; i++)
        pw_node_clock(p->all.nodes[i])->now_ns = pw_later(end_ns, exposed->complete_ns);
    pw_node_free_handle(source, exposed);
    pw_node_free_handle(destination, fetched);
    return end_ns - at_ns;
}

static pw_counters counters_of(const pair *p, uint32_t node)
{
    pw_counters counters;
    pw_ni_read_counters(pw_node_ni(p->all.nodes[node]), &counters);
    return counters;
}

static void test_nic_reads_the_table_once_while_its_cache_has_room(void)
{
    pair p;
    begin_utlb(&p, 8192, 4, 1024);
    int64_t cold_ns = send_pages(&p, 0, NUM_PAGES), warm_ns = send_pages(&p, 0, NUM_PAGES);
    for (uint32_t i = 0; i < 2; i++) {
        pw_counters ni = counters_of(&p, i);
        assert(ni.utlb_misses == NUM_PAGES / 4 && ni.utlb_prefetched == 3 * ni.utlb_misses);
        assert(ni.utlb_hits >= 2 * NUM_PAGES - ni.utlb_misses);
        assert(!ni.walks && !ni.l1_misses && !ni.l2_misses && !ni.fault_interrupts);
        assert(pw_node_strategy_context(p.all.nodes[i])->counters.strategy_hits == 1);
    }
    assert(warm_ns < cold_ns);
    end(&p.all);
    begin_utlb(&p, 32, 4, 1024);
    for (int i = 0; i < 3; i++) send_pages(&p, 0, NUM_PAGES);
    assert(counters_of(&p, 0).utlb_misses == 3 * NUM_PAGES / 4);
    end(&p.all);
}

static void test_a_miss_takes_a_read_of_host_memory(void)
{
    pair p;
    int64_t times_ns[2][2];
    for (int misses = 0; misses < 2; misses++) { /* by page 8, which takes the place of page 0 */
        begin_utlb(&p, 8, 1, 1024);
        send_pages(&p, 0, 1);
        times_ns[misses][0] = send_pages(&p, 0, 1);
        send_pages(&p, misses ? 8 : 9, 1);
        times_ns[misses][1] = send_pages(&p, 0, 1);
        end(&p.all);
    }
    assert(times_ns[0][0] == times_ns[0][1] && times_ns[1][0] == times_ns[0][0]);
    /* one at each end */
    assert(times_ns[1][1] - times_ns[1][0] == 2 * platform_costs.utlb_miss_ns);
}

static void test_pages_that_are_unpinned_leave_the_cache(void)
{
    pair p;
    begin_utlb(&p, 8192, 1, 8);
    send_pages(&p, 0, 8);
    send_pages(&p, 8, 2); /* pages 0 and 1, which were used least recently, must go */
    uint64_t misses = counters_of(&p, 0).utlb_misses;
    assert(misses == 10 && counters_of(&p, 0).translations_dropped == 2);
    assert(pw_node_strategy_context(p.all.nodes[0])->counters.strategy_evictions == 1);
    send_pages(&p, 2, 6);
    assert(counters_of(&p, 0).utlb_misses == misses);
    send_pages(&p, 0, 1);
    assert(counters_of(&p, 0).utlb_misses == misses + 1);
    assert(pw_node_strategy_context(p.all.nodes[0])->pinned.num_pages == 8);
    end(&p.all);
}

static void test_a_page_that_nobody_prepared_faults_as_ever(void)
{
    pair p;
    begin_utlb(&p, 8192, 8, 1024);
    pw_handle *exposed, *fetched;
    assert(pw_node_expose(p.all.nodes[0], 1, address_of(p.source), PW_PAGE_BYTES, &exposed) ==
           PW_OK);
    assert(pw_node_fetch(p.all.nodes[1], 0, exposed->address, exposed->key,
                         address_of(p.destination), PW_PAGE_BYTES, 0, NULL, &fetched) == PW_OK);
    finish(&p.all, fetched);
    assert(memcmp(p.source, p.destination, PW_PAGE_BYTES) == 0);
    assert(counters_of(&p, 1).translation_faults_destination == 1);
    end(&p.all);
}

int main(void)
{
    test_nic_reads_the_table_once_while_its_cache_has_room();
    test_a_miss_takes_a_read_of_host_memory();
    test_pages_that_are_unpinned_leave_the_cache();
    test_a_page_that_nobody_prepared_faults_as_ever();
    return 0;
}
