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
        {"torus:1000", "packed", "more than 128 links"},
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

static void test_machine_of_65536_nodes_needs_no_sides(void)
{
    char reason[PW_TOPOLOGY_REASON_BYTES];
    pw_topology *topology;
    assert(pw_topology_create("qfdb", "packed", 65536, 4, &topology, reason) == PW_OK);
    pw_topology_destroy(topology);
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

/* ---- failed links */

static pw_topology *without(const char *text, uint32_t num_nodes, const char *names)
{
    char reason[PW_TOPOLOGY_REASON_BYTES];
    pw_topology *topology = made(text, num_nodes);
    const int code = pw_topology_fail(topology, names, reason);
    if (code < 0) fprintf(stderr, "%s without %s: %s\n", text, names, reason);
    assert(code == PW_OK);
    return topology;
}

/* Every way is one, and passes no failed link. The longest. */
static uint32_t check_ways_round(const char *text, uint32_t num_nodes, const char *names)
{
    pw_topology *topology = without(text, num_nodes, names);
    uint32_t links[PW_ROUTE_MAX], longest = 0;
    for (uint32_t from = 0; from < num_nodes; from++)
        for (uint32_t to = 0; to < num_nodes; to++) {
            const uint32_t num_links =
                pw_topology_route(topology, from, to, from % 3, from * 7 + to, links);
            pw_topology_link before = {0}, link = {0};
            assert((num_links == 0) == (from == to));
            for (uint32_t i = 0; i < num_links; i++, before = link) {
                assert(!pw_topology_is_failed(topology, links[i]));
                pw_topology_link_at(topology, links[i], &link);
                assert(i == 0 || link.source == before.target);
            }
            if (num_links > longest) longest = num_links;
        }
    pw_topology_destroy(topology);
    return longest;
}

static void test_ways_go_round_failed_links(void)
{
    assert(check_ways_round("torus:8", 8, "0 to 1") == 7);
    /* 3 in place of 1, and no way is longer by more than 2 */
    assert(check_ways_round("torus:4x4", 16, "0 to 1; 5 to 9") <= 6);
    assert(check_ways_round("torus:6x6x6", 216, "0 to 1, 7 to 8, 43 to 49; 100 to 136") <= 11);
    assert(check_ways_round("mesh:3x3", 9, "0 to 1") == 6 - 2); /* 0 to 1: by 3 and 4 */
    assert(check_ways_round("qfdb", 16, "F1 to F2 of QFDB 0") == 4);
    /* the second cable of an edge is as near */
    assert(check_ways_round("qfdb", 16, "F0 of QFDB 0 to 1") == 4);
    assert(check_ways_round("qfdb", 16, "F0 of QFDB 0 to 1; F0 of QFDB 0 to 1, cable 1") == 5);
    /* the leaf switches are 16 to 19, and each has a way up by 20 and by 21 */
    assert(check_ways_round("fat-tree:2;4,4;1,2;1,1", 16, "16 to 20") == 4);
    assert(check_ways_round("fat-tree:2;4,4;1,2;1,1", 16,
                            "switch 0 of level 1 to switch 1 of level 2") == 4);
    assert(check_ways_round("fat-tree:2;4,4;1,2;1,1", 16, "router 21") == 4);
    /* no parent is left that both have: over one of another pair of leaves */
    assert(check_ways_round("fat-tree:3;2,2,4;1,2,2;1,1,2", 16, "16 to 24; 17 to 25") == 10);
    assert(check_ways_round("dragonfly:4,2;2,1;4,1;2", 64, "0 to 12") == 7);
    assert(check_ways_round("dragonfly:9,1;1,1;4,1;2", 72, "0 to 7; 1 to 10") <= 9);
    check_ways_round("dragonfly:9,1;1,1;4,1;2;valiant", 72, "0 to 7; 1 to 10");
    assert(check_ways_round("full", 9, "3 to 5") == 2);
}

/* A router that stands alone may fail; what is only joined through it goes with it. */
static void test_ways_go_round_failed_routers(void)
{
    assert(check_ways_round("torus:4x4x4", 20, "router 21; router 42") <= 8);
    assert(check_ways_round("torus:4x4x4", 20,
                            "router 41; router 38; router 26; router 22; "
                            "router 58; router 40, router 43") <= 10);
}

static uint32_t num_links_of(pw_topology *topology, uint32_t from, uint32_t to)
{
    uint32_t links[PW_ROUTE_MAX];
    return pw_topology_route(topology, from, to, 0, 0, links);
}

static void test_a_ring_without_a_link_goes_the_other_way_round(void)
{
    pw_topology *ring = without("torus:8", 8, "0 to 1");
    assert(num_links_of(ring, 0, 1) == 7 && num_links_of(ring, 1, 0) == 7);
    assert(num_links_of(ring, 0, 2) == 6 && num_links_of(ring, 0, 3) == 5);
    assert(num_links_of(ring, 0, 4) == 4 && num_links_of(ring, 1, 4) == 3);
    assert(pw_topology_hops(ring, 0, 1) == 7);
    pw_topology_destroy(ring);
}

/* The table of ways round grows with the failures alone. */
static void test_a_large_torus_without_some_links_is_made(void)
{
    pw_topology *torus = without("torus:64x32x32", 65000, "0 to 1; 70 to 71; router 65535");
    assert(num_links_of(torus, 0, 1) == 3);
    pw_topology_destroy(torus);
}

static void test_failures_that_leave_no_way_or_name_nothing_are_refused(void)
{
    static const struct {
        const char *text, *names, *why;
    } cases[] = {
        {"torus:8", "0 to 1; 4 to 5",
         "no way is left from node 0 to node 1: failed are '0 to 1; 4"},
        {"torus:4x4", "router 5", "from node 0 to node 5: failed are 'router 5'"},
        {"fat-tree:1;8;1;1", "3 to 8", "from node 0 to node 3"},
        {"torus:8", "0 to 2", "link 0 to 2, cable 0 (routers by number): there is none"},
        {"torus:8", "0 to 1, cable 1", "there is none"},
        {"torus:8", "router 8", "it has no links; there are 8 routers"},
        {"torus:8", "0 to 1 or so", "allowed are names as in '2 to 3"},
        {"torus:8", "/none", "nor a file: No such file"},
        {"qfdb", "F1 to F4 of QFDB 0", "allowed are names"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char reason[PW_TOPOLOGY_REASON_BYTES];
        pw_topology *topology = made(cases[i].text, 8);
        const int code = pw_topology_fail(topology, cases[i].names, reason);
        if (code == PW_OK || !strstr(reason, cases[i].why)) fprintf(stderr, "%s\n", reason);
        assert(code < 0 && strstr(reason, cases[i].why));
        pw_topology_destroy(topology);
    }
}

static void test_lossy_links_of_a_router_lead_to_it(void)
{
    char reason[PW_TOPOLOGY_REASON_BYTES];
    pw_topology *ring = made("torus:8", 8);
    pw_topology_link link;
    assert(!pw_topology_has_lossy(ring));
    assert(pw_topology_mark_lossy(ring, "router 3; 6 to 7", reason) == PW_OK);
    for (uint32_t i = 0; i < pw_topology_num_links(ring); i++) {
        pw_topology_link_at(ring, i, &link);
        const bool is_cable = link.source + link.target == 13;
        assert(pw_topology_is_lossy(ring, i) == (link.target == 3 || is_cable));
    }
    pw_topology_destroy(ring);
}

int main(void)
{
    test_ways_go_round_failed_links();
    test_ways_go_round_failed_routers();
    test_a_ring_without_a_link_goes_the_other_way_round();
    test_a_large_torus_without_some_links_is_made();
    test_failures_that_leave_no_way_or_name_nothing_are_refused();
    test_lossy_links_of_a_router_lead_to_it();
    test_ways_are_as_long_as_theory_says();
    test_shifts_on_a_full_fat_tree_have_no_conflict();
    test_machine_of_65536_nodes_needs_no_sides();
    test_what_is_refused_says_what_is_allowed();
    test_nodes_stand_where_the_placement_says();
    test_nodes_that_stand_together_are_no_link_apart();
    return 0;
}
