/* The table of pages that were seen, against one byte a page. */
#include "native/memory.h"
#include "native/present_pages.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NUM_PAGES 2000u
#define FIRST 12345u /* no multiple of a chunk */

static uint64_t draw(uint64_t *seed, uint64_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (*seed >> 33) % below;
}

static void test_what_is_noted_is_known_until_it_is_forgotten(void)
{
    static bool known[2][NUM_PAGES];
    uint8_t state[NUM_PAGES];
    pw_present_pages present = {NULL};
    uint64_t seed = 1, num_found = 0;
    assert(pw_present_init(&present) == PW_OK && pw_present_init(&present) == PW_OK);
    for (int turn = 0; turn < 20000; turn++) {
        const uint64_t from = draw(&seed, NUM_PAGES), most = draw(&seed, 2) ? 3 : NUM_PAGES - from;
        uint64_t num = 1 + draw(&seed, most);
        if (num > NUM_PAGES - from) num = NUM_PAGES - from;
        const bool for_write = draw(&seed, 2);
        const uint64_t what = draw(&seed, 4);
        if (what == 0) {
            pw_present_forget(&present, FIRST + from, FIRST + from + num);
            for (int i = 0; i < 2; i++) memset(&known[i][from], 0, num);
        } else if (what == 1) {
            for (uint64_t i = 0; i < num; i++) {
                state[i] = draw(&seed, 8) ? PW_PAGE_PRESENT : PW_PAGE_ABSENT;
                known[for_write][from + i] |= state[i] == PW_PAGE_PRESENT;
            }
            pw_present_note(&present, for_write, FIRST + from, num, state);
        }
        bool all = true;
        for (uint64_t i = 0; i < num; i++) all &= known[for_write][from + i];
        assert(pw_present_has(&present, for_write, FIRST + from, num) == all);
        num_found += all;
    }
    assert(num_found > 1000);
    pw_present_forget(&present, 0, UINT64_C(1) << 52);
    for (uint32_t i = 0; i < NUM_PAGES; i++) assert(!pw_present_has(&present, i & 1, FIRST + i, 1));
    pw_present_finish(&present);
}

static void test_a_chunk_takes_the_place_of_another(void)
{
    const uint8_t state = PW_PAGE_PRESENT;
    const uint64_t other = FIRST + UINT64_C(64) * PW_PRESENT_CHUNKS;
    pw_present_pages present = {NULL};
    assert(pw_present_init(&present) == PW_OK);
    assert(!pw_present_has(&present, true, FIRST, 1));
    pw_present_note(&present, true, FIRST, 1, &state);
    pw_present_forget(&present, other, other + 1);
    assert(pw_present_has(&present, true, FIRST, 1));
    assert(!pw_present_has(&present, true, other, 1) && !pw_present_has(&present, false, FIRST, 1));
    pw_present_note(&present, true, other, 1, &state);
    assert(pw_present_has(&present, true, other, 1) && !pw_present_has(&present, true, FIRST, 1));
    pw_present_finish(&present);
}

int main(void)
{
    test_what_is_noted_is_known_until_it_is_forgotten();
    test_a_chunk_takes_the_place_of_another();
    return 0;
}
