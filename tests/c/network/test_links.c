/* When links were busy, by arithmetic. */
#include "network/links.h"

#include <assert.h>
#include <stdio.h>

#include "native/status.h"

#define US INT64_C(1000)

static const pw_costs costs = {
    .link_mbps = 16000, .link_between_mbps = 10000, .link_coding_permille = 1000};

/* From node 0 to 1, as many bytes as take so long. */
static pw_passing pass(pw_links *links, int64_t at_ns, int64_t busy_ns)
{
    pw_passing out;
    pw_links_pass(links, 0, 1, 0, 0, (uint64_t)busy_ns * 10 / 8, at_ns, &out);
    return out;
}

static void a_block_in_pieces_counts_where_they_are(void)
{
    char reason[PW_TOPOLOGY_REASON_BYTES];
    pw_topology *topology;
    pw_links *links;
    const uint32_t *way;
    pw_link_use use;
    assert(pw_topology_create("mesh:2", "packed", 2, 4, &topology, reason) == PW_OK);
    assert(pw_links_create(topology, &costs, 0, &links) == PW_OK);
    assert(pass(links, 500 * US, 400 * US).tail_ns == 900 * US);
    assert(pass(links, 200 * US, 600 * US).tail_ns == 1200 * US); /* 300 us before that block */
    assert(pass(links, 0, 300 * US).tail_ns == 1300 * US);        /* 200 us before both */
    assert(pass(links, 7100 * US, 100 * US).tail_ns == 7200 * US);
    assert(pass(links, 1000 * US, 50 * US).tail_ns == 1350 * US); /* in a window that is over */
    assert(pw_links_latest_way(links, &way) == 1);
    pw_links_read(links, way[0], &use);
    assert(use.num_blocks == 5 && use.busy_ns == 1450 * US);
    assert(use.busiest_ns == 1000 * US && use.busiest_at_ns == 0); /* all of the first window */
    assert(use.waited_ns == 400 * US + 1000 * US + 300 * US);
    pw_links_destroy(links);
    pw_topology_destroy(topology);
}

int main(void)
{
    a_block_in_pieces_counts_where_they_are();
    puts("links: ok");
    return 0;
}
