#include "r5sched/round_trips.h"
#include <math.h>

#define TARGET_WINDOWS 2      /* at the link's rate such a round trip is no congestion */
#define CUT_PERMILLE 800      /* Swift's beta */
#define CUT_MOST_PERMILLE 500 /* at a time */
#define RATE_LEAST_PERMILLE 1 /* of the link's */
#define TIMEOUTS_DOUBLING 10  /* further ones leave the timeout as it is */

void pw_round_trips_init(pw_round_trips *trips, const pw_unloaded *unloaded)
{
    trips->unloaded = *unloaded;
    trips->kbps = unloaded->kbps;
    trips->free_ns = trips->cut_ns = INT64_MIN;
}

/* RFC 6298, 2.2 and 2.3. */
void pw_round_trips_note(pw_round_trips *trips, pw_time round_trip_ns)
{
    trips->num_timeouts = 0;
    if (!trips->smoothed_ns) {
        trips->smoothed_ns = round_trip_ns;
        trips->variation_ns = round_trip_ns / 2;
        return;
    }
    const pw_time off_ns = trips->smoothed_ns > round_trip_ns ? trips->smoothed_ns - round_trip_ns
                                                              : round_trip_ns - trips->smoothed_ns;
    trips->variation_ns += (off_ns - trips->variation_ns) / 4;
    trips->smoothed_ns += (round_trip_ns - trips->smoothed_ns) / 8;
}

void pw_round_trips_note_timeout(pw_round_trips *trips) { trips->num_timeouts++; }

/* Once a round trip at most: what is under way was sent at the rate before. */
static bool cut(pw_round_trips *trips, uint64_t permille, pw_time round_trip_ns, pw_time at_ns)
{
    if (trips->cut_ns != INT64_MIN && at_ns < trips->cut_ns + round_trip_ns) return false;
    const uint64_t least_kbps = trips->unloaded.kbps * RATE_LEAST_PERMILLE / 1000 + 1;
    trips->kbps = trips->kbps * (1000 - permille) / 1000;
    if (trips->kbps < least_kbps) trips->kbps = least_kbps;
    trips->cut_ns = at_ns;
    return true;
}

/* The time of a block at the present rate. */
static pw_time block_ns(const pw_round_trips *trips, uint64_t block_bytes)
{
    return (pw_time)((block_bytes * 8000000 + trips->kbps - 1) / trips->kbps);
}

/* By a packet in each unloaded window, or in each block where a block takes longer. */
static void grow(pw_round_trips *trips, uint64_t block_bytes)
{
    const uint64_t window_ns = (uint64_t)trips->unloaded.window_ns;
    const uint64_t packet_kbps = PW_PACKET_BYTES * UINT64_C(8000000) / window_ns;
    uint64_t share_ns = (uint64_t)block_ns(trips, block_bytes);
    if (share_ns > window_ns) share_ns = window_ns;
    trips->kbps += packet_kbps * share_ns / window_ns;
    if (trips->kbps > trips->unloaded.kbps) trips->kbps = trips->unloaded.kbps;
}

/* The more senders there are, the longer is the queue that they cannot help: with the square root
 * of their number, which the rate tells [Swift 3.5]. */
static pw_time target_ns(const pw_round_trips *trips)
{
    const double senders = (double)trips->unloaded.kbps / (double)trips->kbps;
    return (pw_time)(TARGET_WINDOWS * (double)trips->unloaded.window_ns * sqrt(senders));
}

bool pw_round_trips_follow(pw_round_trips *trips, uint64_t block_bytes, pw_time round_trip_ns,
                           pw_time at_ns)
{
    const pw_time over_ns = round_trip_ns - target_ns(trips);
    if (over_ns <= 0) {
        grow(trips, block_bytes);
        return false;
    }
    const uint64_t permille = (uint64_t)(CUT_PERMILLE * over_ns / round_trip_ns);
    return cut(trips, permille < CUT_MOST_PERMILLE ? permille : CUT_MOST_PERMILLE, round_trip_ns,
               at_ns);
}

bool pw_round_trips_follow_timeout(pw_round_trips *trips, pw_time at_ns)
{
    return cut(trips, CUT_MOST_PERMILLE, pw_later(trips->smoothed_ns, trips->unloaded.window_ns),
               at_ns);
}

pw_time pw_round_trips_timeout_ns(const pw_round_trips *trips)
{
    const uint32_t doublings =
        trips->num_timeouts < TIMEOUTS_DOUBLING ? trips->num_timeouts : TIMEOUTS_DOUBLING;
    const pw_time measured_ns = trips->smoothed_ns + 4 * trips->variation_ns;
    return pw_later(measured_ns, PW_AUTO_WINDOWS * trips->unloaded.window_ns) << doublings;
}

pw_time pw_round_trips_pace(pw_round_trips *trips, uint64_t block_bytes, pw_time at_ns)
{
    const pw_time start_ns = pw_later(at_ns, trips->free_ns);
    trips->free_ns = start_ns + block_ns(trips, block_bytes);
    return start_ns;
}
