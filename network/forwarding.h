/* Packets on the links that all nodes of a process share, each forwarded on its own: the reference
 * that links.h is held against.
 *
 * A packet that comes to a link goes behind all that came before it, of whatever block (first come,
 * first served), and its head goes on a hop later. Blocks that share a link so take turns. A
 * quantum is so many packets of a block that move as one. Queues have room without limit. An event
 * for each quantum and link. Not thread-safe. */
#ifndef PW_NETWORK_FORWARDING_H
#define PW_NETWORK_FORWARDING_H
#include "network/links.h"

/* cdef begin */
typedef struct pw_forwarding pw_forwarding;

typedef struct {
    uint32_t from, to, variant; /* variant, salt: see topology.h */
    uint32_t quantum_bytes;     /* on the link, with headers; the last quantum may be shorter */
    uint64_t salt, wire_bytes;
    int64_t at_ns;       /* the first quantum is before the first link */
    int64_t interval_ps; /* and each further one so much later */
} pw_forwarding_block;

/* A block that has come out of its last link. */
typedef struct {
    uint32_t from;
    uint64_t token;
    pw_passing passing;
    int64_t head_late_ns, tail_late_ns; /* later than was told when it was sent */
} pw_forwarding_out;

/* The links stay the caller's, as long as this; their use is told there. PW_ERR_NOMEM. */
int pw_forwarding_create(pw_links *links, pw_forwarding **out);
void pw_forwarding_destroy(pw_forwarding *forwarding);
/* A block sets out. *told: what would be its passing behind the source's own blocks alone; no block
 * is earlier that is sent in the order of time. Returns where its token is put, until it has come
 * out; NULL: no memory. */
uint64_t *pw_forwarding_send(pw_forwarding *forwarding, const pw_forwarding_block *block,
                             pw_passing *told);
/* Time of the next event; INT64_MAX: no block is under way. A block that comes out by it is a hop
 * later at its end. */
int64_t pw_forwarding_next_ns(const pw_forwarding *forwarding);
/* Go on up to until_ns and until a block has come out. 1: one has; 0: none; PW_ERR_NOMEM. */
int pw_forwarding_run(pw_forwarding *forwarding, int64_t until_ns, pw_forwarding_out *out);
/* cdef end */
#endif
