/* What nodes ask of links, by arithmetic: windows, spans of several, and where ways meet. */
#include "network/demand.h"

#include <assert.h>
#include <stdio.h>

#include "native/status.h"

#define MS INT64_C(1000000)

static const pw_costs costs = {
    .link_mbps = 16000, .link_between_mbps = 10000, .link_coding_permille = 1000};

static pw_topology *made(const char *text, uint32_t num_nodes)
{
    char reason[PW_TOPOLOGY_REASON_BYTES];
    pw_topology *topology;
    assert(pw_topology_create(text, "packed", num_nodes, 4, &topology, reason) == PW_OK);
    return topology;
}

static void windows_are_cut_at_whole_ms(void)
{
    pw_demand demand = {0};
    pw_demand_add(&demand, 0, 1000);
    pw_demand_add(&demand, MS - 1, 2000);
    pw_demand_add(&demand, MS, 500);
    pw_demand_add(&demand, MS - 1, 10); /* late: in the window of what left before */
    assert(demand.most_bytes[0] == 3000 && demand.most_bytes[1] == 510);
    assert(demand.num_blocks == 4 && demand.num_bytes == 3510 && demand.shift == 0);
}

static void a_longer_run_keeps_the_busiest_window_of_each_span(void)
{
    pw_demand demand = {0};
    for (int64_t window = 0; window < PW_DEMAND_SPANS; window++)
        pw_demand_add(&demand, window * MS, 1000 + (uint64_t)window);
    assert(demand.shift == 0 && demand.most_bytes[63] == 1063);
    pw_demand_add(&demand, 64 * MS, 7);
    pw_demand_add(&demand, 65 * MS, 8);
    pw_demand_add(&demand, 65 * MS, 9);
    assert(demand.shift == 1 && demand.most_bytes[0] == 1001 && demand.most_bytes[31] == 1063);
    assert(demand.most_bytes[32] == 17 && demand.most_bytes[33] == 0);
    pw_demand_add(&demand, 1000 * MS, 5);
    assert(demand.shift == 4 && demand.most_bytes[0] == 1015 && demand.most_bytes[62] == 5);
    assert(demand.most_bytes[4] == 17 && demand.num_blocks == 68);
}

/* 0.8 ns a byte between nodes of a mesh. */
static void expect(const pw_load *load, uint32_t link, uint32_t num_pairs, uint64_t num_bytes,
                   uint64_t busiest_bytes, int64_t busiest_at_ns)
{
    pw_link_use use;
    assert(pw_load_read(load, link, &use) == num_pairs);
    assert(use.num_bytes == num_bytes && use.busy_ns == (int64_t)num_bytes * 8 / 10);
    assert(use.busiest_ns == (int64_t)busiest_bytes * 8 / 10);
    assert(use.busiest_at_ns == busiest_at_ns && use.waited_ns == 0);
}

static uint32_t link_between(const pw_topology *topology, uint32_t source, uint32_t target)
{
    pw_topology_link link;
    for (uint32_t i = 0; i < pw_topology_num_links(topology); i++) {
        pw_topology_link_at(topology, i, &link);
        if (link.source == source && link.target == target) return i;
    }
    assert(false);
    return 0;
}

static void pairs_meet_where_their_ways_do(void)
{
    pw_topology *topology = made("mesh:3", 3);
    pw_load *load;
    pw_demand near = {.peer = {2}}, far = {.peer = {2}}, late = {.peer = {2}};
    pw_demand_add(&near, 0, 100000);
    pw_demand_add(&near, 5 * MS, 300000);
    pw_demand_add(&far, 5 * MS, 200000);
    pw_demand_add(&late, 100 * MS, 1);
    assert(pw_load_create(topology, &costs, 0, 1, 1, &load) == PW_OK);
    assert(pw_load_add(load, 1, &near) == PW_OK && pw_load_add(load, 0, &far) == PW_OK);
    assert(pw_load_add(load, 0, &late) == PW_ERR_INVALID);
    expect(load, link_between(topology, 0, 1), 1, 200000, 200000, 5 * MS);
    expect(load, link_between(topology, 1, 2), 2, 600000, 500000, 5 * MS);
    expect(load, link_between(topology, 2, 1), 0, 0, 0, 0);
    pw_load_destroy(load);
    pw_topology_destroy(topology);
}

/* Spans of four windows: 1.2 MB in window 1 and 1 MB in window 2 may have been together. */
static void of_spans_the_busiest_windows_count_together(void)
{
    pw_topology *topology = made("mesh:3", 3);
    pw_load *load;
    pw_demand one = {.peer = {2}}, other = {.peer = {2}};
    pw_demand_add(&one, MS, 1200000);
    pw_demand_add(&one, 2 * MS, 800000);
    pw_demand_add(&other, 2 * MS, 1000000);
    pw_demand_add(&other, 64 * MS, 10);
    assert(other.shift == 1 && one.shift == 0);
    assert(pw_load_create(topology, &costs, 2, 1, 1, &load) == PW_OK);
    assert(pw_load_add(load, 0, &one) == PW_OK && pw_load_add(load, 1, &other) == PW_OK);
    expect(load, link_between(topology, 1, 2), 2, 3000010, 2200000, 0);
    pw_load_destroy(load);
    pw_topology_destroy(topology);
}

/* Two ways from a corner of a square to the other: each half, and none of the bytes gets lost. */
static void ways_share_the_bytes(void)
{
    pw_topology *topology = made("mesh:2x2", 4);
    pw_load *load;
    pw_demand demand = {.peer = {3}};
    pw_demand_add(&demand, 0, 1001);
    assert(pw_load_create(topology, &costs, 0, 2, 2, &load) == PW_OK);
    assert(pw_load_add(load, 0, &demand) == PW_OK);
    pw_link_use first, second;
    assert(pw_load_read(load, link_between(topology, 0, 1), &first) == 1);
    assert(pw_load_read(load, link_between(topology, 0, 2), &second) == 1);
    assert(first.num_bytes + second.num_bytes == 1001);
    assert(first.num_blocks + second.num_blocks == 1);
    assert(first.num_bytes == 500 || first.num_bytes == 501);
    pw_load_destroy(load);
    pw_topology_destroy(topology);
}

int main(void)
{
    windows_are_cut_at_whole_ms();
    a_longer_run_keeps_the_busiest_window_of_each_span();
    pairs_meet_where_their_ways_do();
    of_spans_the_busiest_windows_count_together();
    ways_share_the_bytes();
    puts("demand: ok");
    return 0;
}
