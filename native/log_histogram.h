/* How many values there were of each order of magnitude. Plain data. */
#ifndef PW_NATIVE_LOG_HISTOGRAM_H
#define PW_NATIVE_LOG_HISTOGRAM_H
#include "native/types.h"

/* cdef begin */
#define PW_LOG_BINS 65

typedef struct {
    uint64_t bins[PW_LOG_BINS]; /* bins[0] counts zeros, bins[i] values in [2^(i-1), 2^i) */
} pw_log_histogram;
/* cdef end */

static inline void pw_log_histogram_add(pw_log_histogram *histogram, uint64_t value)
{
    histogram->bins[value ? 64 - __builtin_clzll(value) : 0]++;
}
#endif
