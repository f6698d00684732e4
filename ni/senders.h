/* Senders: what a destination keeps of each peer that writes to it, beyond the end of a transfer. A
 * block of a transfer that its source has ended is no new one: what stood in memory since would be
 * overwritten by old bytes. A node has channels for so many transfers at a time and no more. One
 * NI, one thread at a time.
 *
 * Not seen: a block of a transfer behind whose end PW_ENDED_KEPT others of the same peer ended in
 * its slot's place; the machine sees none at all. */
#ifndef PW_NI_SENDERS_H
#define PW_NI_SENDERS_H
#include "ni/ni.h"

#define PW_ENDED_KEPT 1024

/* May the peer begin a write of this stream? Counted when not. */
bool pw_senders_admit(pw_ni *ni, uint32_t peer, uint32_t stream);
/* An inbound of it was made, and is gone. */
void pw_senders_opened(pw_ni *ni, uint32_t peer);
void pw_senders_closed(pw_ni *ni, uint32_t peer);
/* The peer says that it will send no more of the stream. */
void pw_senders_ended(pw_ni *ni, uint32_t peer, uint32_t stream);
void pw_senders_destroy(pw_ni *ni);

#endif
