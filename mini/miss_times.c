#include "mini/miss_times.h"
#include "native/impairments.h"

#define LAST_BIN_END_NS 1000000

static const pw_time bin_begin_ns[PW_MISS_BINS + 1] = {0,      10000,  20000,  50000,
                                                       100000, 200000, 500000, LAST_BIN_END_NS};

/* Shares in 1/10000 of the misses, by PW_MISS_TIMES_* and bin. */
static const uint16_t delays[][PW_MISS_BINS] = {
    [PW_MISS_TIMES_WATER_NSQUARED] = {2143, 6429, 1250, 89, 0, 0, 89},
    [PW_MISS_TIMES_WATER_SPATIAL] = {4197, 5574, 98, 66, 33, 0, 33},
    [PW_MISS_TIMES_FFT] = {4543, 5207, 203, 5, 2, 8, 33},
    [PW_MISS_TIMES_RADIX] = {2340, 5975, 1489, 53, 0, 18, 124},
    [PW_MISS_TIMES_LU] = {2709, 5829, 1148, 49, 69, 98, 98},
    [PW_MISS_TIMES_OCEAN] = {2082, 5041, 2493, 274, 0, 27, 82},
    [PW_MISS_TIMES_VOLREND] = {2075, 5472, 1887, 189, 189, 189, 0},
    [PW_MISS_TIMES_RAYTRACE] = {3069, 6029, 542, 253, 36, 36, 36},
};
static const uint16_t processings[][PW_MISS_BINS] = {
    [PW_MISS_TIMES_WATER_NSQUARED] = {0, 1522, 290, 1522, 652, 5435, 580},
    [PW_MISS_TIMES_WATER_SPATIAL] = {0, 127, 1587, 3905, 32, 3937, 413},
    [PW_MISS_TIMES_FFT] = {9, 6603, 563, 1979, 24, 816, 6},
    [PW_MISS_TIMES_RADIX] = {162, 4149, 630, 1674, 657, 2691, 36},
    [PW_MISS_TIMES_LU] = {54, 2259, 693, 4077, 153, 2583, 180},
    [PW_MISS_TIMES_OCEAN] = {78, 2583, 738, 2039, 544, 3903, 117},
    [PW_MISS_TIMES_VOLREND] = {235, 2824, 118, 706, 588, 4588, 941},
    [PW_MISS_TIMES_RAYTRACE] = {383, 5008, 1516, 613, 15, 2312, 153},
};

/* The shares of a row are rounded, so that their sum is what there is to draw from. */
static pw_time draw(const uint16_t shares[PW_MISS_BINS], uint64_t random)
{
    uint32_t sum = 0, bin = 0;
    for (uint32_t i = 0; i < PW_MISS_BINS; i++) sum += shares[i];
    uint32_t drawn = (uint32_t)((random >> 32) % sum);
    while (drawn >= shares[bin]) drawn -= shares[bin++];
    uint64_t width_ns = (uint64_t)(bin_begin_ns[bin + 1] - bin_begin_ns[bin]);
    return bin_begin_ns[bin] + (pw_time)((random & UINT32_MAX) * width_ns >> 32);
}

pw_miss_times pw_miss_times_of(const pw_costs *costs, const pw_settings *settings,
                               const pw_miss_work *work)
{
    if (settings->miss_times == PW_MISS_TIMES_PLATFORM)
        return (pw_miss_times){
            .delay_ns = costs->miss_delay_ns,
            .work_ns = costs->miss_fill_ns +
                       (work->is_pinned
                            ? costs->miss_pin_fixed_ns + work->num_pages * costs->miss_pin_page_ns
                            : 0)};
    uint64_t seed = pw_impairment_mix((uint64_t)settings->mini_seed ^ pw_impairment_mix(work->key));
    return (pw_miss_times){.delay_ns = draw(delays[settings->miss_times], seed),
                           .work_ns =
                               draw(processings[settings->miss_times], pw_impairment_mix(seed))};
}

static uint32_t bin_of(pw_time duration_ns)
{
    uint32_t bin = 0;
    while (bin + 1 < PW_MISS_BINS && duration_ns >= bin_begin_ns[bin + 1]) bin++;
    return bin;
}

void pw_miss_times_count(pw_counters *counters, const pw_miss_times *times)
{
    uint64_t *const by_delay[PW_MISS_BINS] = {
        &counters->miss_delays_10us,  &counters->miss_delays_20us,  &counters->miss_delays_50us,
        &counters->miss_delays_100us, &counters->miss_delays_200us, &counters->miss_delays_500us,
        &counters->miss_delays_longer};
    uint64_t *const by_work[PW_MISS_BINS] = {
        &counters->miss_works_10us,  &counters->miss_works_20us,  &counters->miss_works_50us,
        &counters->miss_works_100us, &counters->miss_works_200us, &counters->miss_works_500us,
        &counters->miss_works_longer};
    ++*by_delay[bin_of(times->delay_ns)];
    ++*by_work[bin_of(times->work_ns)];
    counters->miss_delay_ns += times->delay_ns;
    counters->miss_work_ns += times->work_ns;
}
