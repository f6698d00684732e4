/* Ways are ways: each link begins where the one before has ended, and they are as long as theory
 * says. */
#include "network/topology.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "native/status.h"

static pw_topology *made(const char *text, uint32_t num_nodes)
{
    char reason[PW_TOPOLOGY_REASON_BYTES];
    pw_topology *topology;
    const int code = pw_topology_create(text, "packed", num_nodes, 4, &topology, reason);
    if (code < 0) fprintf(stderr, "%s: %s\n", text, reason);
    assert(code == PW_OK);
    return topology;
}

/* The sum of all ways' links; `longest`: of one of them. */
static uint64_t check_ways(const char *text, uint32_t num_nodes, uint32_t variant,
                           uint32_t *longest)
{
    pw_topology *topology = made(text, num_nodes);
    uint32_t links[PW_ROUTE_MAX];
    uint64_t sum = 0;
    *longest = 0;
    for (uint32_t from = 0; from < num_nodes; from++)
        for (uint32_t to = 0; to < num_nodes; to++) {
            const uint32_t num_links =
                pw_topology_route(topology, from, to, variant, from * 7 + to, links);
            pw_topology_link before = {0}, link = {0};
            for (uint32_t i = 0; i < num_links; i++, before = link) {
                assert(links[i] < pw_topology_num_links(topology));
                pw_topology_link_at(topology, links[i], &link);
                assert(link.source != link.target);
                if (i && link.source != before.target)
                    fprintf(stderr, "%s: %u to %u: link %u of %u\n", text, from, to, i, num_links);
                assert(i == 0 || link.source == before.target);
                for (uint32_t j = 0; j < i; j++) assert(links[j] != links[i]);
            }
            assert((num_links == 0) == (from == to));
            sum += num_links;
            if (num_links > *longest) *longest = num_links;
        }
    pw_topology_destroy(topology);
    return sum;
}

static void check(const char *text, uint32_t num_nodes, uint32_t longest, uint64_t sum)
{
    uint32_t found;
    const uint64_t found_sum = check_ways(text, num_nodes, 0, &found);
    if (found != longest || (sum && found_sum != sum))
        fprintf(stderr, "%s: longest %u, sum %llu\n", text, found, (unsigned long long)found_sum);
    assert(found == longest && (!sum || found_sum == sum));
    for (uint32_t variant = 1; variant < 6; variant++) check_ways(text, num_nodes, variant, &found);
}

static void test_ways_are_as_long_as_theory_says(void)
{
    check("full", 9, 1, 9 * 8);
    /* a side of k has k * floor(k^2 / 4) steps between its pairs */
    check("torus:4x4x4", 64, 6, 3 * (4 * 4 * 16 * 16));
    check("torus:5", 5, 2, 5 * 6);
    check("mesh:4x3", 12, 5, 0);
    check("qfdb", 4, 1, 12);
    check("qfdb", 16, 4, 0);
    check("qfdb:4x2x2", 64, 6, 0);
    /* under one switch 2, under another 4 */
    check("fat-tree:2;4,4;1,2;1,2", 16, 4, 16 * (3 * 2 + 12 * 4));
    check("fat-tree:3;2,2,4;1,2,2;1,1,2", 16, 6, 0);
    check("dragonfly:4,2;2,1;4,1;2", 64, 7, 0);
    check("dragonfly:9,1;1,1;4,1;2;valiant", 72, 7, 0);
    check("dragonfly:9,1;1,1;4,1;2;ugal", 72, 5, 0);
}

/* Two flows towards different places never share a link upwards where there are as many ways up as
 * places below, whatever the permutation's shift. */
static void test_shifts_on_a_full_fat_tree_have_no_conflict(void)
{
    pw_topology *topology = made("fat-tree:2;4,4;1,4;1,1", 16);
    for (uint32_t shift = 1; shift < 16; shift++) {
        uint8_t used[256] = {0};
        for (uint32_t from = 0; from < 16; from++) {
            uint32_t links[PW_ROUTE_MAX];
            const uint32_t num_links =
                pw_topology_route(topology, from, (from + shift) % 16, 0, 0, links);
            for (uint32_t i = 0; i < num_links; i++) assert(!used[links[i]]++);
        }
    }
    pw_topology_destroy(topology);
}

static void test_what_is_refused_says_what_is_allowed(void)
{
    static const struct {
        const char *text, *placement, *why;
    } cases[] = {
        {"ring:4", "packed", "allowed is one of qfdb, torus"},
        {"torus:", "packed", "it is torus:16x8x8"},
        {"torus:4x", "packed", "it is torus:16x8x8"},
        {"torus:4x0", "packed", "it is torus:16x8x8"},
        {"torus:2x2", "packed", "has 4 places for 16 nodes"},
        {"torus:1000", "packed", "more than 64 links"},
        {"fat-tree:2;4,4;1,2", "packed", "it is fat-tree:LEVELS"},
        {"dragonfly:4,2;2,1;4,1;2;best", "packed", "it is dragonfly:GROUPS"},
        {"file:/none", "packed", "No such file"},
        {"full", "random", "a seed follows"},
        {"full", "/none", "No such file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char reason[PW_TOPOLOGY_REASON_BYTES];
        pw_topology *topology;
        const int code =
            pw_topology_create(cases[i].text, cases[i].placement, 16, 4, &topology, reason);
        if (code == PW_OK || !strstr(reason, cases[i].why)) fprintf(stderr, "%s\n", reason);
        assert(code < 0 && !topology && strstr(reason, cases[i].why));
    }
}

static void check_placement(const char *placement, const uint32_t *expected)
{
    char reason[PW_TOPOLOGY_REASON_BYTES];
    pw_topology *topology;
    bool taken[8] = {false};
    assert(pw_topology_create("qfdb:2", placement, 6, 4, &topology, reason) == PW_OK);
    for (uint32_t node = 0; node < 6; node++) {
        const uint32_t place = pw_topology_place(topology, node);
        assert(place < 8 && !taken[place]);
        taken[place] = true;
        assert(!expected || place == expected[node]);
    }
    pw_topology_destroy(topology);
}

static void test_nodes_stand_where_the_placement_says(void)
{
    check_placement("packed", (uint32_t[]){0, 1, 2, 3, 4, 5});
    check_placement("round-robin", (uint32_t[]){0, 4, 1, 5, 2, 6});
    check_placement("random:3", NULL);
}

static void test_nodes_that_stand_together_are_no_link_apart(void)
{
    uint32_t links[PW_ROUTE_MAX];
    pw_topology *topology = made("mesh:4", 4);
    assert(pw_topology_together(topology) == 1);
    pw_topology_set_together(topology, 3);
    assert(pw_topology_together(topology) == 3);
    for (uint32_t from = 0; from < 12; from++)
        for (uint32_t to = 0; to < 12; to++) {
            const uint32_t apart = from / 3 > to / 3 ? from / 3 - to / 3 : to / 3 - from / 3;
            assert(pw_topology_place(topology, from) == from / 3);
            assert(pw_topology_hops(topology, from, to) == apart);
            assert(pw_topology_route(topology, from, to, 0, 0, links) == apart);
        }
    pw_topology_destroy(topology);
}

int main(void)
{
    test_ways_are_as_long_as_theory_says();
    test_shifts_on_a_full_fat_tree_have_no_conflict();
    test_what_is_refused_says_what_is_allowed();
    test_nodes_stand_where_the_placement_says();
    test_nodes_that_stand_together_are_no_link_apart();
    return 0;
}
