/* Write channels in a user's hands: opened once, then descriptor, trigger and poll as often as
 * wanted [R5 2.3.3]. Channels that nobody has opened are claimed for one transfer
 * (pw_firmware_claim_write). Not thread-safe. */
#ifndef PW_R5SCHED_CHANNELS_H
#define PW_R5SCHED_CHANNELS_H
#include "r5sched/firmware.h"

/* cdef begin */
/* What poll says of a channel's last transfer. */
#define PW_CHANNEL_FINISHED 1
#define PW_CHANNEL_ONGOING 2
#define PW_CHANNEL_PAUSED 3 /* without error: a block waits for its page */
#define PW_CHANNEL_FAILED 4 /* finished with error */
/* cdef end */

/* A free write channel of the domain's page, kept until it is closed: its index, PW_ERR_FULL when
 * all 32 are taken, PW_ERR_CONTEXT without a page. */
int pw_channel_open(pw_firmware *firmware, uint16_t pdid);
/* PW_ERR_INVALID when the channel is not open or its transfer is not over. */
int pw_channel_close(pw_firmware *firmware, uint32_t channel);
/* Put a descriptor for the peer into the open channel. PW_ERR_INVALID when the channel is not open
 * or in use, the transfer is empty, the notification is not 16-byte aligned, or hint or window is
 * none. */
int pw_channel_insert(pw_firmware *firmware, uint32_t channel, uint32_t peer,
                      const pw_descriptor *descriptor);
/* Start what was inserted, once, at at_ns. PW_ERR_INVALID when there is nothing to start. */
int pw_channel_trigger(pw_firmware *firmware, uint32_t channel, pw_time at_ns, uint32_t *stream);
/* PW_CHANNEL_* as of at_ns; PW_ERR_INVALID when nothing was triggered. */
int pw_channel_poll(const pw_firmware *firmware, uint32_t channel, pw_time at_ns);
#endif
