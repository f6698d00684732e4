/* What the R5 learns from the round trips of its blocks, for each peer: how long it waits for an
 * answer (firmware.timeout = measured), and how fast it sends (firmware.congestion = delay).
 *
 * The thesis names a limiter as work to come [R5 6], and no source says how it, or a timeout, would
 * follow the load. Assumed: the timeout is TCP's [RFC 6298], the rate follows the delay as Swift's
 * window does [Kumar et al., SIGCOMM 2020]. A block's round trip begins where it may leave for the
 * send engine and ends where the R5 reads its acknowledgement. Blocks that were sent again tell
 * nothing: their acknowledgement may be of any attempt. Not thread-safe. */
#ifndef PW_R5SCHED_ROUND_TRIPS_H
#define PW_R5SCHED_ROUND_TRIPS_H
#include "native/peers.h"
#include "native/settings.h"

/* firmware.timeout = auto: so many unloaded windows, since other transfers share engines and link
 * (assumed). */
#define PW_AUTO_WINDOWS 4

/* Where nobody else sends. */
typedef struct {
    pw_time window_ns; /* a full window of blocks to the peer, with its last acknowledgement back */
    uint64_t kbps;     /* of the slowest link */
} pw_unloaded;

/* All blocks to a peer. */
typedef struct {
    pw_peer peer;
    pw_unloaded unloaded;
    pw_time smoothed_ns, variation_ns; /* of round trips; 0: there was none yet */
    uint32_t num_timeouts;             /* since the last one */
    uint64_t kbps;                     /* at most now, with headers */
    pw_time free_ns;                   /* the next block may leave */
    pw_time cut_ns;                    /* when the rate was cut last */
} pw_round_trips;

void pw_round_trips_init(pw_round_trips *trips, const pw_unloaded *unloaded);
/* The first attempt of a block took so long. */
void pw_round_trips_note(pw_round_trips *trips, pw_time round_trip_ns);
/* A block had no answer in time. */
void pw_round_trips_note_timeout(pw_round_trips *trips);
/* The rate follows a round trip of a block, which is known at at_ns; and a timeout. True: it was
 * cut. */
bool pw_round_trips_follow(pw_round_trips *trips, uint64_t block_bytes, pw_time round_trip_ns,
                           pw_time at_ns);
bool pw_round_trips_follow_timeout(pw_round_trips *trips, pw_time at_ns);
/* Of a block that is sent now: the smoothed round trip and four times its variation, never less
 * than four unloaded windows, and twice as much with each timeout since the last round trip. */
pw_time pw_round_trips_timeout_ns(const pw_round_trips *trips);
/* When a block may leave that was ready at at_ns; the next one leaves behind it at the rate. */
pw_time pw_round_trips_pace(pw_round_trips *trips, uint64_t block_bytes, pw_time at_ns);
#endif
