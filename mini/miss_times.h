/* How long the host takes for a miss of the NIC: the delay until the kernel thread runs, and the
 * thread's work, pinning included. From component costs, or drawn from what the thesis measured
 * with an application [MINI tables 4.6, 4.7]: the bin by its share, the time evenly inside of the
 * bin; above 500 us up to 1000 us (assumed: the bin is open). */
#ifndef PW_MINI_MISS_TIMES_H
#define PW_MINI_MISS_TIMES_H
#include "native/costs.h"
#include "native/counters.h"
#include "native/settings.h"

#define PW_MISS_BINS 7 /* up to 10, 20, 50, 100, 200, 500 us, and above */

/* What the kernel thread did for a miss. */
typedef struct {
    bool is_pinned; /* pages were pinned, so many: */
    int64_t num_pages;
    uint64_t key; /* of the draw: equal misses of equal runs take the same */
} pw_miss_work;

typedef struct {
    pw_time delay_ns, work_ns;
} pw_miss_times;

pw_miss_times pw_miss_times_of(const pw_costs *costs, const pw_settings *settings,
                               const pw_miss_work *work);
/* Count a miss that took these times, by bin and in the sums. */
void pw_miss_times_count(pw_counters *counters, const pw_miss_times *times);
#endif
