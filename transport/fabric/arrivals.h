/* What peers send: checked, then given to whom it is for. */
#ifndef PW_FABRIC_ARRIVALS_H
#define PW_FABRIC_ARRIVALS_H
#include "transport/fabric/objects.h"

/* The node's `message` and `finished`: context is the process. */
int pw_fi_message_arrived(void *context, uint32_t source, const uint8_t *frame,
                          uint32_t frame_bytes);
int pw_fi_handle_finished(void *context, pw_handle *handle);
#endif
