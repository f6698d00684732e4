/* Regions of a program by the C interface: their times, their sums, their limits. */
#include "tests/c/node/two_nodes.h"
#include <stdio.h>

#define MEGABYTE (1 << 20)
#define COUNTERS_MAX 512

static const char *const model[] = {"run.compute=model", NULL};

/* A row's share of a counter, found by the row's name. */
static uint64_t share(pagewire_node *node, const char *region, const char *name)
{
    uint64_t values[COUNTERS_MAX];
    const char *found;
    for (uint32_t i = 0; (found = pagewire_region_read(node, i, NULL, values, COUNTERS_MAX)); i++)
        for (uint32_t j = 0; strcmp(found, region) == 0 && j < pagewire_num_counters(); j++)
            if (strcmp(pagewire_counter_name(j), name) == 0) return values[j];
    fprintf(stderr, "no %s of region %s\n", name, region);
    abort();
}

static uint64_t entries(pagewire_node *node, const char *region)
{
    uint64_t num_entries;
    const char *found;
    for (uint32_t i = 0; (found = pagewire_region_read(node, i, &num_entries, NULL, 0)); i++)
        if (strcmp(found, region) == 0) return num_entries;
    return 0;
}

static void enter(pagewire_node *node, const char *name)
{
    assert(pagewire_region_enter(node, name) == PAGEWIRE_OK);
}

static void leave(pagewire_node *node) { assert(pagewire_region_leave(node) == PAGEWIRE_OK); }

static void time_goes_to_the_innermost_region(void)
{
    pair p = joined(model);
    pagewire_node *node = p.nodes[0];
    assert(pagewire_num_regions(node) == 0 && !pagewire_region_read(node, 0, NULL, NULL, 0));
    pagewire_clock_advance(node, 100);
    for (int turn = 0; turn < 2; turn++) {
        enter(node, "outer");
        pagewire_clock_advance(node, 50);
        enter(node, "inner");
        pagewire_clock_advance(node, 7);
        leave(node);
        pagewire_clock_advance(node, 3);
        leave(node);
        pagewire_clock_sleep(node, 11);
    }
    enter(node, "inner");
    pagewire_clock_advance(node, 1);
    assert(pagewire_num_regions(node) == 4); /* of the one that is open too: so far */
    assert(share(node, "inner", "virtual_time_ns") == 1 && entries(node, "inner") == 1);
    pagewire_clock_advance(node, 1);
    leave(node);
    assert(share(node, "(no region)", "virtual_time_ns") == 122);
    assert(share(node, "(no region)", "sleep_ns") == 22);
    assert(share(node, "outer", "compute_ns") == 106 && entries(node, "outer") == 2);
    assert(share(node, "outer/inner", "compute_ns") == 14 && entries(node, "outer/inner") == 2);
    assert(share(node, "inner", "virtual_time_ns") == 2);
    assert(pagewire_region_leave(node) == PAGEWIRE_ERR_INVALID);
    assert(strstr(pagewire_reason(node), "none open") != NULL);
    end(&p);
}

static void check_sums(pagewire_node *node)
{
    uint64_t whole[COUNTERS_MAX], sums[COUNTERS_MAX] = {0}, values[COUNTERS_MAX];
    const uint32_t num_counters = pagewire_read_counters(node, whole, COUNTERS_MAX);
    for (uint32_t i = 0; pagewire_region_read(node, i, NULL, values, COUNTERS_MAX); i++)
        for (uint32_t j = 0; j < num_counters; j++) sums[j] += values[j];
    for (uint32_t j = 0; j < num_counters; j++)
        if (sums[j] != whole[j]) {
            fprintf(stderr, "%s: %llu of %llu\n", pagewire_counter_name(j),
                    (unsigned long long)sums[j], (unsigned long long)whole[j]);
            abort();
        }
}

static void rows_add_up_to_the_whole(void)
{
    pair p = joined(none);
    uint8_t *source = fresh_pages(MEGABYTE), *destination = fresh_pages(MEGABYTE);
    fill(source, MEGABYTE, 5);
    put(&p, source, destination, 8);
    for (int node = 0; node < 2; node++) enter(p.nodes[node], "faults");
    put(&p, source, destination, MEGABYTE);
    for (int node = 0; node < 2; node++) leave(p.nodes[node]);
    enter(p.nodes[0], "again");
    put(&p, source, destination, MEGABYTE);
    const uint64_t num_blocks = counter(p.nodes[0], "blocks");
    assert(share(p.nodes[0], "faults", "retransmitted_blocks") > 0);
    assert(share(p.nodes[0], "again", "retransmitted_blocks") == 0);
    assert(share(p.nodes[0], "faults", "blocks") == share(p.nodes[0], "again", "blocks"));
    assert(share(p.nodes[0], "(no region)", "blocks") == num_blocks % 2);
    assert(share(p.nodes[1], "faults", "pages_paged_in") >= MEGABYTE / 4096 - 16);
    assert(entries(p.nodes[1], "again") == 0);
    const int64_t now_ns = pagewire_clock_ns(p.nodes[0]);
    enter(p.nodes[0], "of no time");
    leave(p.nodes[0]);
    assert(pagewire_clock_ns(p.nodes[0]) == now_ns);
    check_sums(p.nodes[0]);
    check_sums(p.nodes[1]);
    end(&p);
}

static void what_has_no_row_shares_one(void)
{
    pair p = joined(model);
    pagewire_node *node = p.nodes[0];
    char name[80];
    for (int i = 0; i < 70; i++) enter(node, "deep");
    pagewire_clock_advance(node, 5);
    for (int i = 0; i < 70; i++) leave(node);
    assert(pagewire_region_leave(node) == PAGEWIRE_ERR_INVALID);
    /* 51 names are the longest path below 256 bytes. */
    assert(share(node, "(more regions)", "compute_ns") == 5);
    assert(entries(node, "(more regions)") == 70 - 51);
    for (int i = 0; i < 600; i++) {
        snprintf(name, sizeof name, "step %d", i);
        enter(node, name);
        pagewire_clock_advance(node, 2);
        leave(node);
    }
    assert(pagewire_num_regions(node) == 512);
    assert(share(node, "step 0", "compute_ns") == 2 && entries(node, "step 599") == 0);
    const int num_free = 512 - 2 - 51; /* but for those outside, without a row, and deep */
    assert(entries(node, "(more regions)") == 70 - 51 + 600 - (uint64_t)num_free);
    check_sums(node);
    end(&p);
}

static void names_are_checked(void)
{
    pair p = joined(none);
    char name[65];
    memset(name, 'x', sizeof name);
    name[64] = 0;
    assert(pagewire_region_enter(p.nodes[0], name) == PAGEWIRE_ERR_INVALID);
    assert(strstr(pagewire_reason(p.nodes[0]), "64 bytes: allowed are 1 to 63"));
    assert(pagewire_region_enter(p.nodes[0], "") == PAGEWIRE_ERR_INVALID);
    assert(pagewire_region_enter(p.nodes[0], "a\nb") == PAGEWIRE_ERR_INVALID);
    assert(pagewire_num_regions(p.nodes[0]) == 0);
    name[63] = 0;
    enter(p.nodes[0], name);
    assert(entries(p.nodes[0], name) == 1);
    end(&p);
}

static void *mark_beside(void *node)
{
    enter(node, "beside");
    assert(pagewire_region_leave(node) == PAGEWIRE_ERR_INVALID);
    return NULL;
}

static void *mark_alone(void *node)
{
    enter(node, "alone");
    leave(node);
    return NULL;
}

static void in_thread(void *(*function)(void *), pagewire_node *node)
{
    pthread_t thread;
    assert(pthread_create(&thread, NULL, function, node) == 0);
    assert(pthread_join(thread, NULL) == 0);
}

static void regions_are_those_of_one_thread_at_a_time(void)
{
    pair p = joined(none);
    enter(p.nodes[0], "first");
    in_thread(mark_beside, p.nodes[0]);
    leave(p.nodes[0]);
    assert(entries(p.nodes[0], "beside") == 0 && entries(p.nodes[0], "first/beside") == 0);
    in_thread(mark_alone, p.nodes[0]);
    assert(entries(p.nodes[0], "alone") == 1);
    end(&p);
}

int main(void)
{
    time_goes_to_the_innermost_region();
    rows_add_up_to_the_whole();
    what_has_no_row_shares_one();
    names_are_checked();
    regions_are_those_of_one_thread_at_a_time();
    return 0;
}
