/* Network and host faults by plan: which events of this node fail, decided by a seeded draw for
 * each. A draw depends on the seed, the site, the node and the event's own identity (stream, block,
 * sequence number, packet), not on what was drawn before: so two runs fail alike in whatever
 * physical order frames arrive. The plan is made at start-up. Knows nothing of frames; who owns a
 * site asks and acts. Not modelled: packets of packetizer messages, read requests and completion
 * notifications (links and packetizer see to those themselves [D3.6]). Not thread-safe. */
#ifndef PW_NATIVE_IMPAIRMENTS_H
#define PW_NATIVE_IMPAIRMENTS_H
#include "native/types.h"

/* cdef begin */
enum pw_impairment_id {
    PW_IMPAIRMENT_PACKET_LOSS,       /* a packet of a block that leaves this node */
    PW_IMPAIRMENT_PACKET_CORRUPTION, /* likewise: a bit of its payload is flipped behind the CRC */
    PW_IMPAIRMENT_DUPLICATION,       /* a block that leaves this node: all its packets arrive again,
                                        amount_ns later */
    PW_IMPAIRMENT_DELAY, /* a block that leaves this node: the network keeps it amount_ns longer */
    PW_IMPAIRMENT_LOST_ACK, /* an answer that leaves this node */
    PW_IMPAIRMENT_LOST_NACK,
    PW_IMPAIRMENT_LOST_ERR,
    PW_IMPAIRMENT_LATE_TASKLET, /* the tasklet starts amount_ns late */
    PW_IMPAIRMENT_FIFO_FULL,    /* the NI FIFO takes no entry of a block's page */
    PW_IMPAIRMENT_LINK_LOSS,    /* a packet of a block of this node passes a lossy link */
    PW_IMPAIRMENT_SITES
};

typedef struct {
    uint64_t num, denom; /* num of denom eligible events; num 0: off */
    uint64_t seed;
    uint64_t limit; /* at most so many; 0: no limit */
    int64_t amount_ns;
    uint64_t eligible, injected;
    uint64_t
        late_after_end; /* blocks that the network kept until their transfer was over: dropped */
} pw_impairment_site;

#define PW_IMPAIRMENT_DENOM_MAX 1000000000
#define PW_IMPAIRMENT_AMOUNT_MAX_NS 3600000000000

/* Why a plan is refused with PW_ERR_INVALID, as a sentence; NULL when it is fine. */
const char *pw_impairment_refused(uint32_t site, const pw_impairment_site *plan);
/* Why nothing would get through with a plan that can be made, as a phrase; NULL when it is fine. */
const char *pw_impairment_hopeless(uint32_t site, const pw_impairment_site *plan);
/* cdef end */

typedef struct {
    pw_impairment_site sites[PW_IMPAIRMENT_SITES];
    uint64_t mixed_seeds[PW_IMPAIRMENT_SITES];
    bool any;
} pw_impairments;

/* Set the plan of one site of node; its counts begin anew. PW_ERR_INVALID: see
 * pw_impairment_refused. */
int pw_impairments_plan(pw_impairments *impairments, uint32_t node, uint32_t site,
                        const pw_impairment_site *plan);

static inline uint64_t pw_impairment_mix(uint64_t value)
{
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

/* Key of an event: whose block (node, stream << 32 | block), which attempt, which part of it. */
static inline uint64_t pw_impairment_key(uint32_t node, uint64_t identity, uint16_t sequence,
                                         uint32_t part)
{
    return pw_impairment_mix(identity + UINT64_C(0x9e3779b97f4a7c15)) ^
           ((uint64_t)node << 40 | (uint64_t)sequence << 24 | part);
}

/* Does this eligible event fail? */
static inline bool pw_impairment_draw(pw_impairments *impairments, enum pw_impairment_id id,
                                      uint64_t key)
{
    pw_impairment_site *site = &impairments->sites[id];
    if (!site->num) return false;
    site->eligible++;
    uint64_t drawn = pw_impairment_mix(impairments->mixed_seeds[id] ^ pw_impairment_mix(key)) >> 32;
    if ((drawn * site->denom) >> 32 >= site->num || (site->limit && site->injected >= site->limit))
        return false;
    site->injected++;
    return true;
}
#endif
