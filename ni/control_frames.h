/* Control frames out: answers to blocks and news of transfers; and how errors look on the wire. One
 * NI, one thread at a time. */
#ifndef PW_NI_CONTROL_FRAMES_H
#define PW_NI_CONTROL_FRAMES_H
#include "native/frames.h"
#include "ni/ni.h"

/* PW_ERR_* of a NACK's code, and the code of an error. */
int pw_error_of_nack(uint32_t code);
uint32_t pw_nack_of_error(int code);
/* Append a control frame that arrives at header.time_ns; magic, length, node and CRC are filled in.
 */
void pw_engine_send_control(pw_ni *ni, uint32_t peer, const pw_control_frame *frame);
/* A frame about a transfer that leaves at at_ns. */
void pw_control_send_plain(pw_ni *ni, enum pw_frame_kind kind, uint32_t peer, uint32_t stream,
                           uint32_t code, pw_time at_ns);
/* Does a node answer for a block that was sent to another, or in another domain? Its numbers are
 * easily guessed. Counted.
 * What is about no pending block can do no harm. */
bool pw_control_is_foreign(pw_ni *ni, const pw_frame_header *header);

#endif
