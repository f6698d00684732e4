/* When things happened: counts over virtual time in a fixed number of bins. A time behind the last
 * bin merges neighbours, which makes all bins twice as wide. Not thread-safe. */
#ifndef PW_NATIVE_TIME_HISTOGRAM_H
#define PW_NATIVE_TIME_HISTOGRAM_H
#include "native/types.h"

/* cdef begin */
#define PW_HISTOGRAM_BINS 256

typedef struct {
    int64_t bin_ns; /* bins[i] counts times in [i * bin_ns, (i + 1) * bin_ns) */
    uint64_t bins[PW_HISTOGRAM_BINS];
} pw_time_histogram;
/* cdef end */

#define PW_HISTOGRAM_FIRST_BIN_NS 1024

static inline void pw_time_histogram_init(pw_time_histogram *histogram)
{
    *histogram = (pw_time_histogram){.bin_ns = PW_HISTOGRAM_FIRST_BIN_NS};
}

static inline void pw_time_histogram_add(pw_time_histogram *histogram, pw_time time_ns)
{
    if (time_ns < 0) time_ns = 0;
    while (time_ns / histogram->bin_ns >= PW_HISTOGRAM_BINS) {
        for (int i = 0; i < PW_HISTOGRAM_BINS / 2; i++)
            histogram->bins[i] = histogram->bins[2 * i] + histogram->bins[2 * i + 1];
        for (int i = PW_HISTOGRAM_BINS / 2; i < PW_HISTOGRAM_BINS; i++) histogram->bins[i] = 0;
        histogram->bin_ns *= 2;
    }
    histogram->bins[time_ns / histogram->bin_ns]++;
}
#endif
