/* A message that has been matched lands in its receive's buffer: at once where it rides along, by a
 * read from the sender's memory else. */
#ifndef PW_FABRIC_LANDING_H
#define PW_FABRIC_LANDING_H
#include "transport/fabric/messages.h"

static inline bool pw_fi_is_of_same_source(const pw_fi_operation *a, const pw_fi_operation *b)
{
    return a->node == b->node && a->peer_endpoint == b->peer_endpoint;
}

/* The memory strategy's part of posting a buffer that the NI may write, and its end. PW_ERR_*. */
int pw_fi_acquire_buffer(pw_fi_process *process, pw_fi_operation *receive);
int pw_fi_release_buffer(pw_fi_process *process, pw_fi_operation *receive);

/* The message in the frame goes to a receive, or to a part of a multi-receive buffer. PW_ERR_*. */
int pw_fi_land(pw_fi_process *process, pw_fi_operation *receive, const pw_fi_header *header,
               const uint8_t *frame);
int pw_fi_land_in_part(pw_fi_process *process, pw_fi_operation *buffer, const pw_fi_header *header,
                       const uint8_t *frame);
/* The same for a message that came early, out of the list that it is in. */
int pw_fi_take_arrived(pw_fi_process *process, pw_fi_operation *receive, pw_fi_operation *arrived);
pw_fi_header pw_fi_header_of(const pw_fi_operation *arrived);
/* A receive's read is over: its parts get their bytes, its time is on the timeline. */
int pw_fi_end_receive(pw_fi_process *process, pw_fi_operation *receive);
#endif
