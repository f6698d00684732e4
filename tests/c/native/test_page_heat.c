/* Page heat and log histogram against plain lists: groups merge, no count is lost. */
#include <assert.h>

#include "native/tallies.h"

static uint64_t counted(const pw_page_heat *heat, uint64_t group)
{
    for (uint32_t i = 0; i < heat->num_groups; i++)
        if (heat->groups[i].group == group) return heat->groups[i].count;
    return 0;
}

static void check_ascending(const pw_page_heat *heat)
{
    assert(heat->num_groups <= PW_HEAT_GROUPS);
    for (uint32_t i = 1; i < heat->num_groups; i++)
        assert(heat->groups[i - 1].group < heat->groups[i].group);
}

static void test_groups_merge_only_when_places_run_out(void)
{
    pw_page_heat heat = {0};
    for (uint64_t i = 0; i < PW_HEAT_GROUPS; i++) pw_page_heat_add(&heat, PW_HEAT_GROUPS - 1 - i);
    assert(heat.shift == 0 && heat.num_groups == PW_HEAT_GROUPS);
    pw_page_heat_add(&heat, 7);
    assert(heat.shift == 0 && counted(&heat, 7) == 2);
    pw_page_heat_add(&heat, (UINT64_C(1) << 52) - 1);
    assert(heat.shift == 1 && heat.num_groups == PW_HEAT_GROUPS / 2 + 1);
    assert(counted(&heat, 3) == 3 && counted(&heat, (UINT64_C(1) << 51) - 1) == 1);
    check_ascending(&heat);
    pw_page_heat_finish(&heat);
}

static void test_no_count_is_lost(void)
{
    static uint64_t pages[5000];
    pw_page_heat heat = {0};
    for (uint64_t i = 0; i < 5000; i++) {
        pages[i] = i * i * 2654435761u % (UINT64_C(1) << 40);
        pw_page_heat_add(&heat, pages[i]);
    }
    check_ascending(&heat);
    for (uint32_t i = 0; i < heat.num_groups; i++) {
        uint64_t expected = 0;
        for (int j = 0; j < 5000; j++) expected += pages[j] >> heat.shift == heat.groups[i].group;
        assert(heat.groups[i].count == expected);
    }
    uint64_t total = 0;
    for (uint32_t i = 0; i < heat.num_groups; i++) total += heat.groups[i].count;
    assert(total == 5000);
    pw_page_heat_finish(&heat);
}

static void test_orders_of_magnitude(void)
{
    pw_log_histogram histogram = {0};
    const uint64_t values[] = {0, 1, 2, 3, 4, UINT64_MAX};
    for (int i = 0; i < 6; i++) pw_log_histogram_add(&histogram, values[i]);
    assert(histogram.bins[0] == 1 && histogram.bins[1] == 1 && histogram.bins[2] == 2);
    assert(histogram.bins[3] == 1 && histogram.bins[64] == 1);
}

int main(void)
{
    test_groups_merge_only_when_places_run_out();
    test_no_count_is_lost();
    test_orders_of_magnitude();
    return 0;
}
