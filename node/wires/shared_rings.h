/* What shared_bursts.c works with, and where it lies in a segment: header,
 * bell, greetings, for each node a ring and the place of a promise, the area for buffers. */
#ifndef PW_NODE_WIRES_SHARED_RINGS_H
#define PW_NODE_WIRES_SHARED_RINGS_H
#include <stdatomic.h>
#include <string.h>

#include "node/wires/bell.h"
#include "node/wires/shared_bursts.h"
#include "node/waiting_list.h"

/* Measured on two cores: up to some 240 bytes a copy in the slot is faster than another cache line,
 * and the buffer is free at once. */
#define SHORT_BYTES PW_SHARED_SHORT_BYTES
#define SLOT_BYTES (16 + SHORT_BYTES)
#define SLOTS PW_SHARED_SLOTS
#define AREA_BYTES ((size_t)256 << 20)      /* for burst buffers, sparse */
#define FIRST_REACH_BYTES ((size_t)1 << 20) /* of the area */
#define ALIGNMENT ((size_t)128)             /* cache lines come in pairs */
#define BELL_OFFSET ((size_t)64)            /* beside the header, which is read once only */
_Static_assert(sizeof(pw_segment_header) <= BELL_OFFSET, "header");

/* Written by the sender, but for the number, which the receiver takes back. */
typedef struct {
    _Atomic uint64_t number; /* of the burst between these two nodes, from 1; 0: free */
    uint32_t num_bytes;
    uint32_t offset; /* in the sender's segment; 0: in data */
    uint8_t data[SHORT_BYTES];
} slot;
_Static_assert(sizeof(slot) == SLOT_BYTES, "slot");
#define RING_BYTES ((size_t)SLOTS * SLOT_BYTES)
#define RINGS_END_MAX (((size_t)PW_SHARED_NODES_MAX + 64) * (RING_BYTES + PW_PROMISE_BYTES))
_Static_assert(RINGS_END_MAX + AREA_BYTES <= UINT32_MAX, "an offset fits in a slot");

/* A buffer that the peer may still read. */
typedef struct {
    uint8_t *data; /* NULL: none in this slot */
    bool is_copy;  /* one of `copies`, not the node's */
} lent_buffer;

typedef struct {
    pw_segment segment; /* the peer's; without: it is far */
    slot *out;          /* in its segment */
    slot *in;           /* in this node's; also of a peer that is not met */
    uint64_t num_sent, num_reclaimed, num_polled;
    uint32_t num_lent;
    bool has_greeted; /* the peer polls what this node sends */
    bool is_lending;  /* is in the set */
    lent_buffer lent[SLOTS];
    pw_waiting_list waiting; /* for a free slot */
} neighbour;

/* Nodes in no order, each once. */
typedef struct {
    uint32_t *node;
    uint32_t num_nodes;
} node_set;

struct pw_shared_bursts {
    uint32_t node, num_nodes;
    uint32_t num_near; /* peers whose segments are mapped */
    pw_segment segment;
    pw_segment_facts facts; /* fd is open until agreed, without agree to the end; then -1 */
    uint8_t *is_owner;      /* a page that reads 0 in a forked child */
    neighbour *neighbours;
    _Atomic uint64_t *greetings; /* in the segment: a bit for each node that has sent */
    uint64_t *heard;             /* those of them that are in `active` */
    node_set active;             /* nodes that have sent */
    node_set lending;            /* nodes that may still read buffers */
    node_set waiting;            /* nodes with bursts that wait */
    uint32_t turn;               /* of active */
    uint32_t num_pending;        /* buffers of the node's that it has not back yet */
    size_t area_end;             /* behind what has been allocated */
    uint8_t *copies; /* free buffers for bursts from elsewhere; each begins with the next one */
    pw_waiting_pool pool;
    pw_waiting_list gone; /* waited and were copied; the node has not asked yet */
    pw_shared_counters counters;
};

static inline void set_remove_at(node_set *set, uint32_t idx)
{
    set->node[idx] = set->node[--set->num_nodes];
}

/* In whose segment it is rests at it. */
static inline uint32_t *bell_in(const pw_segment *segment)
{
    return (uint32_t *)(void *)(segment->base + BELL_OFFSET);
}

static inline size_t num_words(uint32_t num_nodes) { return (num_nodes + 63) / 64; }

static inline void give_copy_back(pw_shared_bursts *shared, uint8_t *copy)
{
    memcpy(copy, &shared->copies, sizeof shared->copies);
    shared->copies = copy;
}

#endif
