/* What is known to be in memory: each page once, at most and on average over virtual time. */
#include "native/memory.h"
#include "native/page_leaves.h"
#include <assert.h>

enum { FIRST = 3 * PW_LEAF_PAGES - 2 }; /* ranges reach over two leaves */

static pw_memory *all_absent(uint64_t num_frames)
{
    const pw_memory_model_options options = {
        .seed = 1, .fault_millionths = 1000000, .frame_limit_pages = num_frames, .detached = 1};
    pw_memory *memory;
    assert(pw_memory_create(PW_MEMORY_MODEL, &options, &memory) == PW_OK);
    return memory;
}

static void test_pages_count_once_from_when_they_came_in(void)
{
    uint8_t state[8], effects[4];
    pw_memory *memory = all_absent(0);
    const pw_pinned *resident = pw_memory_resident(memory);
    assert(pw_memory_walk(memory, FIRST, 8, 1, state) == PW_OK && resident->num_pages == 0);
    pw_memory_at(memory, 100);
    assert(pw_memory_populate(memory, FIRST, 4, 1, NULL) == PW_OK && resident->num_pages == 4);
    pw_memory_at(memory, 200);
    assert(pw_memory_page_in(memory, FIRST + 2, 4, 1, effects) == PW_OK);
    assert(resident->num_pages == 6);
    pw_memory_at(memory, PW_NEVER); /* as before */
    assert(pw_memory_walk(memory, FIRST, 8, 1, state) == PW_OK && resident->num_pages == 6);
    pw_memory_at(memory, 300);
    pw_memory_unmapped(memory, FIRST + 1, 4);
    assert(resident->num_pages == 2 && resident->peak_pages == 6);
    assert(pw_pinned_mean_bytes(resident, 400) == (400 + 600 + 200) * PW_PAGE_BYTES / 400);
    pw_memory_unmapped(memory, 0, UINT64_MAX);
    assert(resident->num_pages == 0);
    pw_memory_destroy(memory);
}

static void test_what_is_found_there_counts_and_what_is_found_gone_does_not(void)
{
    uint8_t state[4];
    pw_memory *memory = all_absent(0);
    const pw_pinned *resident = pw_memory_resident(memory);
    assert(pw_memory_set(memory, FIRST, 4, PW_PAGE_PRESENT) == PW_OK);
    assert(resident->num_pages == 4); /* each has a frame */
    pw_memory_unmapped(memory, FIRST, 4);
    assert(pw_memory_walk(memory, FIRST, 4, 0, state) == PW_OK && resident->num_pages == 4);
    assert(pw_memory_set(memory, FIRST, 3, PW_PAGE_ABSENT) == PW_OK && resident->num_pages == 1);
    pw_memory_destroy(memory);
}

static void test_evicted_pages_are_not_there(void)
{
    pw_memory *memory = all_absent(3);
    const pw_pinned *resident = pw_memory_resident(memory);
    assert(pw_memory_pin(memory, FIRST, 1, NULL) == PW_OK);
    assert(pw_memory_populate(memory, FIRST + 1, 5, 1, NULL) == PW_OK);
    uint8_t state[6];
    assert(pw_memory_walk(memory, FIRST, 6, 1, state) == PW_OK && resident->num_pages == 3);
    uint8_t effects[1];
    assert(pw_memory_page_in(memory, FIRST + 1, 1, 1, effects) == PW_OK);
    assert(resident->num_pages == 3); /* one came in, one went */
    pw_memory_destroy(memory);
}

int main(void)
{
    test_pages_count_once_from_when_they_came_in();
    test_what_is_found_there_counts_and_what_is_found_gone_does_not();
    test_evicted_pages_are_not_there();
    return 0;
}
