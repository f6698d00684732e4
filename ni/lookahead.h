/* Look-ahead: the destination translates the next blocks of a lone transfer and tells the source,
 * which then knows when their ACKs will be here and need not wait for them in wall time. Virtual
 * times are the same without it. One NI, one thread at a time. */
#ifndef PW_NI_LOOKAHEAD_H
#define PW_NI_LOOKAHEAD_H
#include "native/frames.h"
#include "ni/inbound.h"
#include "r5sched/firmware.h"

/* Destination: look at the pages of the stream's next blocks and tell the source, when that can
 * help. */
void pw_lookahead_grant(pw_ni *ni, pw_inbound *inbound);
/* Destination: may the block still be written as it was granted? Not when the OS has changed its
 * pages since. */
bool pw_lookahead_holds(pw_ni *ni, pw_inbound *inbound, const pw_block_frame *block);
/* Source: keep the grant; the last one of a stream counts. */
void pw_lookahead_accept(pw_ni *ni, const pw_grant_frame *grant);
/* Source: when the block's ACK will be here, if that is certain but for other flows at the
 * destination: it has translated the pages, and an idle receive engine takes packets as they come.
 */
bool pw_lookahead_foresee(pw_ni *ni, const pw_transfer *transfer, const pw_transaction *transaction,
                          const pw_block_frame *frame, pw_time *ack_ns);

#endif
