/* Counts of page ranges against an array of one entry a page, in a long random run; and what a
 * balanced tree promises: the depth stays logarithmic. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "node/strategies/page_counts.h"

#define NUM_PAGES 200u
#define NUM_HOLDS 24u
#define NUM_STEPS 60000

struct reference {
    uint64_t num_holders[NUM_PAGES], since[NUM_PAGES];
    bool is_unheld[NUM_PAGES]; /* by the last drop */
};

struct hold {
    uint64_t first_page, num_pages, hold;
};

static uint64_t state = 12345;

static uint64_t draw(uint64_t limit)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % limit;
}

static void check_same(const pw_page_counts *counts, const struct reference *reference)
{
    uint32_t num_intervals = 0;
    uint64_t page = 0;
    const pw_page_interval *before = NULL;
    for (const pw_page_interval *next = pw_page_counts_from(counts, 0); next;
         next = pw_page_counts_from(counts, next->end_page)) {
        for (; page < next->first_page; page++) assert(reference->num_holders[page] == 0);
        for (; page < next->end_page; page++) {
            assert(reference->num_holders[page] == next->num_holders);
            assert(reference->since[page] == next->since);
        }
        assert(!before || before->end_page < next->first_page ||
               before->num_holders != next->num_holders || before->since != next->since);
        before = next;
        num_intervals++;
    }
    for (; page < NUM_PAGES; page++) assert(reference->num_holders[page] == 0);
    assert(num_intervals == counts->num_intervals);
}

static int note_unheld(void *context, uint64_t first_page, uint64_t num_pages)
{
    struct reference *reference = context;
    assert(num_pages > 0);
    for (uint64_t i = first_page; i < first_page + num_pages; i++) {
        assert(!reference->is_unheld[i]);
        reference->is_unheld[i] = true;
    }
    /* A run is as long as can be. */
    assert(first_page == 0 || !reference->is_unheld[first_page - 1]);
    return PW_OK;
}

static void drop(pw_page_counts *counts, struct reference *reference, const struct hold *held)
{
    bool expected[NUM_PAGES] = {0};
    for (uint64_t i = held->first_page; i < held->first_page + held->num_pages; i++)
        if (reference->num_holders[i] > 0 && reference->since[i] <= held->hold)
            expected[i] = --reference->num_holders[i] == 0;
    memset(reference->is_unheld, 0, sizeof(reference->is_unheld));
    assert(pw_page_counts_drop(counts, held->first_page, held->num_pages, held->hold, note_unheld,
                               reference) == PW_OK);
    assert(memcmp(expected, reference->is_unheld, sizeof(expected)) == 0);
}

static void test_random_run(void)
{
    pw_page_counts counts = {0};
    struct reference reference = {0};
    struct hold holds[NUM_HOLDS];
    uint32_t num_holds = 0;
    for (int step = 0; step < NUM_STEPS; step++) {
        struct hold new = {.first_page = draw(NUM_PAGES)};
        new.num_pages = draw(NUM_PAGES - new.first_page + 1);
        if (draw(40) == 0) {
            assert(pw_page_counts_forget(&counts, new.first_page, new.num_pages) == PW_OK);
            for (uint64_t i = new.first_page; i < new.first_page + new.num_pages; i++)
                reference.num_holders[i] = 0;
        } else if (num_holds < NUM_HOLDS && draw(2) == 0) {
            assert(pw_page_counts_hold(&counts, new.first_page, new.num_pages, &new.hold) == PW_OK);
            for (uint64_t i = new.first_page; i < new.first_page + new.num_pages; i++)
                if (reference.num_holders[i]++ == 0) reference.since[i] = new.hold;
            holds[num_holds++] = new;
        } else if (num_holds > 0) {
            uint32_t i = (uint32_t)draw(num_holds);
            drop(&counts, &reference, &holds[i]);
            holds[i] = holds[--num_holds];
        }
        check_same(&counts, &reference);
    }
    while (num_holds > 0) drop(&counts, &reference, &holds[--num_holds]);
    assert(counts.num_intervals == 0 && counts.root == 0);
    pw_page_counts_finish(&counts);
}

static uint32_t depth_of(const pw_page_counts *counts, uint32_t idx)
{
    if (!idx) return 0;
    uint32_t left = depth_of(counts, counts->intervals[idx].left);
    uint32_t right = depth_of(counts, counts->intervals[idx].right);
    return 1 + (left > right ? left : right);
}

static int count_unheld(void *context, uint64_t first_page, uint64_t num_pages)
{
    (void)first_page;
    *(uint64_t *)context += num_pages;
    return PW_OK;
}

static void test_depth_stays_logarithmic(void)
{
    pw_page_counts counts = {0};
    uint64_t hold;
    for (uint64_t i = 0; i < 1u << 16; i++)
        assert(pw_page_counts_hold(&counts, 2 * i, 1, &hold) == PW_OK);
    assert(counts.num_intervals == 1u << 16);
    assert(depth_of(&counts, counts.root) < 64); /* 16 at best, 65536 in a list */
    uint32_t capacity = counts.capacity;
    for (int i = 0; i < 1000; i++) {
        assert(pw_page_counts_hold(&counts, 1000, 1024, &hold) == PW_OK);
        uint64_t num_unheld = 0;
        assert(pw_page_counts_drop(&counts, 1000, 1024, hold, count_unheld, &num_unheld) == PW_OK);
        assert(num_unheld == 512);
        assert(counts.capacity == capacity);
    }
    pw_page_counts_finish(&counts);
}

static void test_ends_of_the_page_numbers(void)
{
    pw_page_counts counts = {0};
    uint64_t hold;
    assert(pw_page_counts_from(&counts, 0) == NULL);
    assert(pw_page_counts_forget(&counts, 0, UINT64_MAX) == PW_OK);
    assert(pw_page_counts_hold(&counts, 5, 0, &hold) == PW_OK && counts.num_intervals == 0);
    assert(pw_page_counts_hold(&counts, UINT64_MAX - 3, 3, &hold) == PW_OK);
    assert(pw_page_counts_forget(&counts, 1, UINT64_MAX) == PW_OK && counts.num_intervals == 0);
    pw_page_counts_finish(&counts);
}

/* As few intervals as a map of bits allows, in order, each where the bits are. */
static void check_merged(const pw_page_counts *counts, const bool *is_in)
{
    uint32_t num_intervals = 0;
    for (uint64_t page = 0; page < NUM_PAGES; page++) {
        uint64_t end = page, found = page;
        while (end < NUM_PAGES && is_in[end]) end++;
        uint64_t run = pw_page_counts_next(counts, &found, NUM_PAGES);
        if (end == page) {
            assert(!run || found > page);
            continue;
        }
        assert(found == page && run == end - page);
        num_intervals += page == 0 || !is_in[page - 1];
    }
    assert(counts->num_intervals == num_intervals);
}

static void test_merged_intervals_are_those_of_a_map_of_bits(void)
{
    pw_page_counts counts = {0};
    bool is_in[NUM_PAGES] = {false};
    for (int round = 0; round < 4000; round++) {
        uint64_t first = draw(NUM_PAGES), num_pages = 1 + draw(12), hold;
        if (num_pages > NUM_PAGES - first) num_pages = NUM_PAGES - first;
        bool adds = draw(2);
        assert(pw_page_counts_forget(&counts, first, num_pages) == PW_OK);
        if (adds) {
            assert(pw_page_counts_hold(&counts, first, num_pages, &hold) == PW_OK);
            pw_page_counts_merge(&counts, first, first + num_pages);
        }
        for (uint64_t page = first; page < first + num_pages; page++) is_in[page] = adds;
        check_merged(&counts, is_in);
    }
    pw_page_counts_finish(&counts);
}

static bool is_not(const void *context, const pw_page_interval *each)
{
    return each->first_page != *(const uint64_t *)context;
}

static uint64_t oldest_but(const pw_page_counts *counts, uint64_t first_page)
{
    return pw_page_counts_oldest(counts, is_not, &first_page)->first_page;
}

static void test_the_order_of_use_is_kept_over_cuts_and_merges(void)
{
    pw_page_counts counts = {0};
    uint64_t hold;
    assert(pw_page_counts_hold(&counts, 20, 10, &hold) == PW_OK);
    assert(pw_page_counts_hold(&counts, 0, 10, &hold) == PW_OK);
    assert(oldest_but(&counts, 99) == 20 && oldest_but(&counts, 20) == 0);
    pw_page_counts_merge(&counts, 23, 25);
    assert(oldest_but(&counts, 99) == 0);
    assert(pw_page_counts_forget(&counts, 4, 2) == PW_OK && counts.num_intervals == 3);
    assert(oldest_but(&counts, 99) == 0 && oldest_but(&counts, 0) == 6);
    assert(pw_page_counts_hold(&counts, 10, 10, &hold) == PW_OK);
    pw_page_counts_merge(&counts, 10, 20);
    assert(counts.num_intervals == 2 && counts.num_held_pages == 28);
    assert(pw_page_counts_from(&counts, 6)->end_page == 30 && oldest_but(&counts, 99) == 0);
    assert(pw_page_counts_forget(&counts, 0, 100) == PW_OK);
    assert(pw_page_counts_oldest(&counts, is_not, &hold) == NULL);
    pw_page_counts_finish(&counts);
}

int main(void)
{
    test_random_run();
    test_depth_stays_logarithmic();
    test_ends_of_the_page_numbers();
    test_merged_intervals_are_those_of_a_map_of_bits();
    test_the_order_of_use_is_kept_over_cuts_and_merges();
    return 0;
}
