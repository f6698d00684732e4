/* The time histogram against a plain list of times: widths, merges, no count lost. */
#include <assert.h>

#include "native/tallies.h"

static uint64_t sum(const pw_time_histogram *histogram)
{
    uint64_t total = 0;
    for (int i = 0; i < PW_HISTOGRAM_BINS; i++) total += histogram->bins[i];
    return total;
}

int main(void)
{
    pw_time_histogram histogram;
    pw_time_histogram_init(&histogram);
    int64_t width = histogram.bin_ns;
    pw_time_histogram_add(&histogram, 0);
    pw_time_histogram_add(&histogram, width - 1);
    pw_time_histogram_add(&histogram, width);
    pw_time_histogram_add(&histogram, PW_HISTOGRAM_BINS * width - 1);
    assert(histogram.bin_ns == width && histogram.bins[0] == 2 && histogram.bins[1] == 1);
    assert(histogram.bins[PW_HISTOGRAM_BINS - 1] == 1);

    pw_time_histogram_add(&histogram,
                          PW_HISTOGRAM_BINS * width); /* one behind the end: bins merge */
    assert(histogram.bin_ns == 2 * width && histogram.bins[0] == 3 && histogram.bins[1] == 0);
    assert(histogram.bins[PW_HISTOGRAM_BINS / 2 - 1] == 1 &&
           histogram.bins[PW_HISTOGRAM_BINS / 2] == 1);

    pw_time_histogram_add(&histogram, INT64_MAX); /* as wide as it takes */
    pw_time_histogram_add(&histogram, -1);
    assert(sum(&histogram) == 7 && histogram.bins[0] == 6);

    static int64_t times[1000];
    pw_time_histogram_init(&histogram);
    for (int i = 0; i < 1000; i++) {
        times[i] = (int64_t)i * i * 37 % 9000017;
        pw_time_histogram_add(&histogram, times[i]);
    }
    for (int bin = 0; bin < PW_HISTOGRAM_BINS; bin++) {
        uint64_t expected = 0;
        for (int i = 0; i < 1000; i++) expected += times[i] / histogram.bin_ns == bin;
        assert(histogram.bins[bin] == expected);
    }
    return 0;
}
