/* Inbound transfers: what the destination knows of each stream of blocks until it is complete here
 * and closed by its source. One NI, one thread at a time. */
#ifndef PW_NI_INBOUND_H
#define PW_NI_INBOUND_H
#include "native/frames.h"
#include "ni/ni.h"
#include "translation/residency.h"

typedef struct pw_inbound {
    struct pw_inbound *next; /* hash chain, or free list */
    uint64_t destination_address, num_bytes;
    uint64_t *delivered; /* bit a block; inside small while that is enough */
    uint64_t small[8];
    pw_notification notification;
    pw_time notification_ns; /* stall: its access waits until then */
    uint32_t peer, stream;
    uint16_t pdid;
    uint32_t num_blocks, num_delivered;
    bool is_read, notified, complete, closed, has_page_ins;
    bool refused; /* going back: the source was told of the next block, and has not sent it again */
    uint64_t granted_generation;               /* of the memory, when the blocks were granted */
    uint32_t granted_end;                      /* blocks before this one are translated already */
    uint8_t translations[2 * PW_GRANT_BLOCKS]; /* ring by block: how its first page is translated */
    int32_t error;
    pw_time last_delivery_ns, notified_ns;
    pw_time bound_ns; /* nothing more of it arrives before */
    pw_residency walk;
} pw_inbound;

pw_inbound *pw_inbound_find(pw_ni *ni, uint32_t peer, uint32_t stream);
/* NULL when the host has no memory. */
pw_inbound *pw_inbound_create(pw_ni *ni, uint32_t peer, uint32_t stream,
                              uint64_t destination_address, uint64_t num_bytes,
                              const pw_notification *notification);
/* Free every one, at the end of the NI. */
void pw_inbound_destroy_all(pw_ni *ni);
/* The source's word that every block has left. */
void pw_inbound_notified(pw_ni *ni, pw_inbound *inbound, pw_time at_ns);
/* Complete it when every block is here and the source has said so. */
void pw_inbound_complete_when_whole(pw_ni *ni, pw_inbound *inbound);
/* The source will send nothing more: gone as soon as it is complete. */
void pw_inbound_close(pw_ni *ni, pw_inbound *inbound);
/* The transfer ends with an error, if it was not complete; the inbound is gone. */
void pw_inbound_fail(pw_ni *ni, pw_inbound *inbound, int error, pw_time at_ns);
/* The reads from peer of which no block has come end with PW_ERR_MALFORMED, at time 0: it is not
 * known when what would have answered them was lost. */
void pw_inbound_fail_unserved(pw_ni *ni, uint32_t peer);

#endif
