/* The arithmetic of round trips: timeouts and rates, by hand. */
#include <assert.h>

#include "r5sched/round_trips.h"

#define WINDOW_NS 20000
#define KBPS 10000000
#define BLOCK 10000 /* bytes: 8 us at the link's rate */

static pw_round_trips fresh(void)
{
    const pw_unloaded unloaded = {WINDOW_NS, KBPS};
    pw_round_trips trips = {0};
    pw_round_trips_init(&trips, &unloaded);
    return trips;
}

static void test_a_timeout_follows_round_trips_and_doubles(void)
{
    pw_round_trips trips = fresh();
    assert(pw_round_trips_timeout_ns(&trips) == 4 * WINDOW_NS);
    pw_round_trips_note(&trips, 40000); /* smoothed 40, variation 20 us */
    assert(pw_round_trips_timeout_ns(&trips) == 120000);
    pw_round_trips_note(&trips, 80000); /* 40 + 40 / 8; 20 + (40 - 20) / 4 */
    assert(pw_round_trips_timeout_ns(&trips) == 45000 + 4 * 25000);
    pw_round_trips_note_timeout(&trips);
    pw_round_trips_note_timeout(&trips);
    assert(pw_round_trips_timeout_ns(&trips) == 4 * 145000);
    for (int i = 0; i < 100; i++) pw_round_trips_note_timeout(&trips);
    assert(pw_round_trips_timeout_ns(&trips) == 1024 * 145000);
    for (int i = 0; i < 100; i++) pw_round_trips_note(&trips, 1000);
    assert(pw_round_trips_timeout_ns(&trips) == 4 * WINDOW_NS);
}

static void test_blocks_leave_at_the_rate(void)
{
    pw_round_trips trips = fresh();
    assert(pw_round_trips_pace(&trips, BLOCK, 5000) == 5000);
    assert(pw_round_trips_pace(&trips, BLOCK, 5000) == 13000);
    assert(pw_round_trips_pace(&trips, BLOCK, 100000) == 100000); /* no credit for a pause */
    assert(pw_round_trips_follow_timeout(&trips, 100000));        /* half of the rate */
    assert(pw_round_trips_pace(&trips, BLOCK, 100000) == 108000);
    assert(pw_round_trips_pace(&trips, BLOCK, 100000) == 124000);
}

static void test_a_rate_falls_with_long_round_trips_and_grows_with_short_ones(void)
{
    pw_round_trips trips = fresh();
    assert(!pw_round_trips_follow(&trips, BLOCK, 2 * WINDOW_NS, 0) && trips.kbps == KBPS);
    /* a fifth over two windows: 0.8 of that is cut */
    assert(pw_round_trips_follow(&trips, BLOCK, 50000, 1000) && trips.kbps == 8400000);
    /* not again within that round trip */
    assert(!pw_round_trips_follow(&trips, BLOCK, 50000, 50999) && trips.kbps == 8400000);
    /* and by half at most */
    assert(pw_round_trips_follow(&trips, BLOCK, 4000000, 4001000) && trips.kbps == 4200000);
    /* a block takes 19,048 ns at that rate: so much of 256 bytes a window, 102,400 kb/s */
    assert(!pw_round_trips_follow(&trips, BLOCK, WINDOW_NS, 0));
    assert(trips.kbps == 4200000 + 102400 * 19048 / 20000);
    for (int i = 0; i < 20; i++) pw_round_trips_follow_timeout(&trips, i * INT64_C(1000000000));
    assert(trips.kbps == KBPS / 1000 + 1);
    assert(!pw_round_trips_follow(&trips, BLOCK, WINDOW_NS, 0));
    assert(trips.kbps == KBPS / 1000 + 1 + 102400); /* in a block: it takes more than a window */
    for (int i = 0; i < 1000; i++) pw_round_trips_follow(&trips, BLOCK, WINDOW_NS, 0);
    assert(trips.kbps == KBPS);
}

int main(void)
{
    test_a_timeout_follows_round_trips_and_doubles();
    test_blocks_leave_at_the_rate();
    test_a_rate_falls_with_long_round_trips_and_grows_with_short_ones();
    return 0;
}
