/* Keys of miNI's buffers: found again, hard to guess in each of their 64 bits. */
#include <assert.h>

#include "native/impairments.h"
#include "ni/regions.h"

enum { ID_BITS = 20, NUM_KEYS = 4096, NUM_GUESSES = 100000 };

static pw_regions regions_of(uint64_t secret)
{
    pw_regions made;
    pw_regions_init(&made);
    pw_regions_draw_keys(&made, ID_BITS, 1);
    made.secret = secret;
    return made;
}

static uint64_t open_one(pw_regions *regions)
{
    const pw_region *region = pw_regions_open(regions, 0, 4096, 100);
    assert(region);
    return region->key;
}

static void test_each_bit_is_random_and_each_wrong_one_refused(void)
{
    pw_regions regions = regions_of(7);
    static uint64_t keys[NUM_KEYS];
    uint32_t num_ones[64] = {0}, num_equal[64] = {0};
    for (uint32_t i = 0; i < NUM_KEYS; i++) {
        keys[i] = open_one(&regions);
        for (uint32_t bit = 0; bit < 64; bit++) {
            num_ones[bit] += (uint32_t)(keys[i] >> bit & 1);
            if (i) num_equal[bit] += !((keys[i] ^ keys[i - 1]) >> bit & 1);
        }
    }
    for (uint32_t bit = 0; bit < 64; bit++) {
        assert(num_ones[bit] > NUM_KEYS * 45 / 100 && num_ones[bit] < NUM_KEYS * 55 / 100);
        assert(num_equal[bit] > NUM_KEYS * 45 / 100 && num_equal[bit] < NUM_KEYS * 55 / 100);
    }
    for (uint64_t i = 0; i < NUM_KEYS; i++) {
        const pw_region *region = pw_regions_find(&regions, keys[i]);
        assert(region == &regions.list[i] && pw_regions_id(&regions, keys[i]) == i + 1);
        for (uint32_t bit = 0; bit < 64; bit++)
            assert(!pw_regions_find(&regions, keys[i] ^ UINT64_C(1) << bit));
    }
    for (uint64_t guess = 0; guess < NUM_GUESSES; guess++) {
        assert(!pw_regions_find(&regions, guess));
        assert(!pw_regions_find(&regions, pw_impairment_mix(guess)));
    }
    pw_regions_destroy(&regions);
}

static void test_another_secret_gives_other_keys(void)
{
    pw_regions one = regions_of(7), other = regions_of(8);
    for (uint32_t i = 0; i < 100; i++) {
        uint64_t key = open_one(&one);
        assert(key != open_one(&other) && !pw_regions_find(&other, key));
    }
    pw_regions_destroy(&one);
    pw_regions_destroy(&other);
}

static void test_key_of_a_buffer_that_went_stays_void(void)
{
    pw_regions regions = regions_of(7);
    static uint64_t gone[NUM_KEYS];
    for (uint32_t i = 0; i < NUM_KEYS; i++) {
        gone[i] = open_one(&regions);
        assert(pw_regions_id(&regions, gone[i]) == 1); /* the same slot again */
        for (uint32_t before = i < 8 ? 0 : i - 8; before < i; before++)
            assert(!pw_regions_find(&regions, gone[before]));
        pw_regions_close(&regions, pw_regions_find(&regions, gone[i]));
    }
    assert(!pw_regions_find(&regions, 0)); /* of free slots */
    pw_regions_destroy(&regions);
}

/* With few ids the word 0 deciphers to the id of some slot, for most secrets. */
static void test_no_key_is_none_of_a_buffer_that_went(void)
{
    for (uint64_t secret = 0; secret < 64; secret++) {
        pw_regions regions;
        pw_regions_init(&regions);
        pw_regions_draw_keys(&regions, 4, 1);
        regions.secret = secret;
        uint64_t keys[15];
        for (uint32_t i = 0; i < 15; i++) keys[i] = open_one(&regions);
        for (uint32_t i = 0; i < 15; i++)
            pw_regions_close(&regions, pw_regions_find(&regions, keys[i]));
        assert(!pw_regions_find(&regions, 0));
        pw_regions_destroy(&regions);
    }
}

int main(void)
{
    test_each_bit_is_random_and_each_wrong_one_refused();
    test_another_secret_gives_other_keys();
    test_key_of_a_buffer_that_went_stays_void();
    test_no_key_is_none_of_a_buffer_that_went();
    return 0;
}
