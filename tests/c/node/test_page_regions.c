/* Regions of pages against a map of bits: joined, cut, and in order of use. */
#include "node/strategies/page_counts.h"

#include <assert.h>
#include <string.h>

#define NUM_PAGES 200u

static uint32_t next_random(uint32_t *state) { return *state = *state * 1664525u + 1013904223u; }

/* As few regions as the bits allow, in order, each where the bits are. */
static void check(const pw_page_regions *all, const bool *is_in)
{
    uint32_t idx = 0;
    for (uint64_t page = 0; page < NUM_PAGES; page++) {
        assert(pw_page_regions_from(all, page) == idx);
        if (!is_in[page]) continue;
        uint64_t end = page;
        while (end < NUM_PAGES && is_in[end]) end++;
        assert(idx < all->num_regions && all->regions[idx].first_page == page &&
               all->regions[idx].end_page == end);
        for (; page + 1 < end; page++) assert(pw_page_regions_from(all, page) == idx);
        idx++;
    }
    assert(all->num_regions == idx);
}

static void test_regions_are_those_of_a_map_of_bits(void)
{
    pw_page_regions all = {0};
    bool is_in[NUM_PAGES] = {false};
    uint32_t random = 7;
    for (int round = 0; round < 4000; round++) {
        uint64_t first = next_random(&random) / 7 % NUM_PAGES;
        uint64_t end = first + 1 + next_random(&random) / 7 % 12;
        if (end > NUM_PAGES) end = NUM_PAGES;
        bool adds = next_random(&random) / 65536 % 2;
        assert((adds ? pw_page_regions_add : pw_page_regions_remove)(&all, first, end) == PW_OK);
        for (uint64_t page = first; page < end; page++) is_in[page] = adds;
        check(&all, is_in);
        bool is_held = true;
        for (uint64_t page = first; page < end; page++) is_held = is_held && is_in[page];
        assert((pw_page_regions_holding(&all, first, end) != NULL) == is_held);
    }
    pw_page_regions_finish(&all);
}

static void test_the_order_of_use_is_kept_over_cuts_and_joins(void)
{
    pw_page_regions all = {0};
    assert(pw_page_regions_add(&all, 0, 10) == PW_OK);
    assert(pw_page_regions_add(&all, 20, 30) == PW_OK);
    assert(all.regions[0].last_use < all.regions[1].last_use);
    pw_page_regions_use(&all, pw_page_regions_holding(&all, 3, 5));
    assert(all.regions[0].last_use > all.regions[1].last_use);
    assert(pw_page_regions_remove(&all, 4, 6) == PW_OK && all.num_regions == 3);
    assert(all.regions[0].last_use == all.regions[1].last_use);
    assert(pw_page_regions_add(&all, 10, 20) == PW_OK && all.num_regions == 2);
    assert(all.regions[1].first_page == 6 && all.regions[1].end_page == 30);
    assert(all.regions[1].last_use > all.regions[0].last_use);
    pw_page_regions_finish(&all);
}

int main(void)
{
    test_regions_are_those_of_a_map_of_bits();
    test_the_order_of_use_is_kept_over_cuts_and_joins();
    return 0;
}
