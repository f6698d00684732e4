/* Which message goes to which receive. Messages from one node are matched in the order of sending;
 * a receive from any node takes the one that arrived first in virtual time. What comes before its
 * receive is kept. */
#ifndef PW_FABRIC_MATCHING_H
#define PW_FABRIC_MATCHING_H
#include "transport/fabric/messages.h"

/* The message, of those that came early, that a receive takes; NULL: it is not here. */
pw_fi_operation *pw_fi_find_arrived(const pw_fi_matching *matching, const pw_fi_operation *receive);
/* A sound message for the endpoint is here: envelope and header are those of the frame. PW_ERR_*.
 */
int pw_fi_match_message(pw_fi_endpoint *endpoint, const pw_envelope *envelope,
                        const pw_fi_header *header, const uint8_t *frame, uint32_t frame_bytes);
#endif
