/* Bounds between source and destination of a transfer: emulation only, in virtual time nothing
 * changes.
 *
 * An ERR depends on entries that may still arrive while the tasklet runs. So a destination that
 * refuses a block says "no ERR before L" (NACK, ERR_LATER); the source decides what lies before L
 * and says "no block of mine before T" (BOUND); an ERR that leaves before T is final, and is sent.
 * One NI, one thread at a time. */
#ifndef PW_NI_BOUNDS_H
#define PW_NI_BOUNDS_H
#include "native/frames.h"
#include "ni/inbound.h"
#include "r5sched/scheduler.h"

typedef struct {
    struct {
        pw_time need_ns; /* at the destination: the bound that it waits for */
        uint32_t stream;
        bool listed;
    } wanted[PW_NUM_CHANNELS];
    uint16_t channels[PW_NUM_CHANNELS]; /* those listed */
    uint32_t num_channels;
} pw_bounds;

/* Source: an answer said that an ERR comes; its destination wants a bound of the transfer. */
void pw_bounds_want(pw_ni *ni, const pw_control_frame *answer);
/* Source: send the bounds that are wanted and reach far enough as things are now. */
void pw_bounds_announce(pw_ni *ni);
/* Destination: nothing of the transfer arrives before at_ns. Sends ERRs that are final by it. */
void pw_bounds_note(pw_ni *ni, pw_inbound *inbound, pw_time at_ns);
/* Destination: say before when none of the transfer's ERRs comes, when one is still to come. */
void pw_bounds_tell_later(pw_ni *ni, const pw_inbound *inbound);
void pw_bounds_on_frame(pw_ni *ni, const pw_frame_header *frame);
/* Destination: nothing of the transfer arrives any more. */
void pw_bounds_release(pw_ni *ni, pw_inbound *inbound);
/* Destination: send the ERRs that are final, of those before known_ns. */
void pw_bounds_send_errs(pw_ni *ni, pw_time known_ns);

#endif
