/* Bursts between the nodes of one host through shared memory, without MPI: each node has a segment
 * with a ring of slots for every peer that may send to it, and with the buffers that it sends from.
 * A short burst is copied into the slot; a longer one is named there and read by the receiver where
 * the sender wrote it; the receiver gives the slot, and with it the buffer, back. One writer and
 * one reader a ring: no lock, and a process that is stopped or killed holds up nobody else's
 * bursts.
 *
 * Made in three steps, between which the host exchanges bytes with all nodes: create and facts;
 * meet each peer; agree. Or peers one by one at any time: meet and, when the peer could not map
 * this node's segment in turn, part. A short burst can be read before its sender is met, so that it
 * may tell who the sender is. One thread at a time. Of no use in a forked child: refused there. */
#ifndef PW_NODE_WIRES_SHARED_BURSTS_H
#define PW_NODE_WIRES_SHARED_BURSTS_H
#include "native/frames.h"
#include "node/wires/shared_segment.h"
#include "node/wires/wire.h"

/* cdef begin */
#define PW_SHARED_NODES_MAX 65536
#define PW_SHARED_SHORT_BYTES 240 /* at most so many are copied into the slot */
#define PW_SHARED_SLOTS 64        /* of a ring: a window of messages of most programs fits */

typedef struct pw_shared_bursts pw_shared_bursts;

typedef struct {
    uint64_t num_short;    /* copied into the slot */
    uint64_t num_in_place; /* read by the receiver where the sender wrote them */
    uint64_t num_copied;   /* their buffer was not of pw_shared_allocate */
} pw_shared_counters;

/* PW_ERR_INVALID: too many nodes; PW_ERR_NOMEM; PW_ERR_HOST: the kernel refuses, see errno. */
int pw_shared_create(uint32_t node, uint32_t num_nodes, pw_shared_bursts **out,
                     pw_segment_facts *facts);
/* 1: peer's segment is mapped; 0: the peer is on another host, or the kernel refuses (errno).
 * PW_ERR_MALFORMED: the segment is of another size, or another node's. */
int pw_shared_meet(pw_shared_bursts *shared, uint32_t peer, const pw_segment_facts *theirs);
/* Every node has met all: is_mutual[peer]: it could map this node's segment. What only one of a
 * pair has mapped is dropped. Number of peers that are near. */
uint32_t pw_shared_agree(pw_shared_bursts *shared, const uint8_t *is_mutual);
/* Drop the mapping of a peer's segment. Bursts to it that waited are given back by pw_shared_sent;
 * longer ones that it has not read are lost with their buffers: for a peer that got none. */
void pw_shared_part(pw_shared_bursts *shared, uint32_t peer);
void pw_shared_destroy(pw_shared_bursts *shared);
bool pw_shared_is_near(const pw_shared_bursts *shared, uint32_t peer);
void pw_shared_read_counters(const pw_shared_bursts *shared, pw_shared_counters *out);
/* cdef end */

/* As the functions of pw_wire_ops; the peer is near. PW_ERR_INVALID: it is not, or the number of
 * bytes is not from 1 to PW_BURST_BYTES, or this is a forked child; PW_ERR_MALFORMED: a peer wrote
 * nonsense in a slot. */
int pw_shared_send(pw_shared_bursts *shared, uint32_t peer, uint8_t *data, uint32_t num_bytes,
                   bool *is_free);
uint8_t *pw_shared_sent(pw_shared_bursts *shared);
int pw_shared_poll(pw_shared_bursts *shared, pw_wire_burst *out);
void pw_shared_taken(pw_shared_bursts *shared, const pw_wire_burst *burst);
/* As in pw_wire_ops. num_near: of those that are met. */
bool pw_shared_rest(const pw_shared_bursts *shared, pw_wire_rest *out);
/* Some found no room yet; the others, pending or not, the peers can read without this process. */
bool pw_shared_is_waiting(const pw_shared_bursts *shared);
uint32_t pw_shared_num_pending(const pw_shared_bursts *shared);
/* As in pw_wire_ops: node or peer is this one, and the other one near. */
pw_promise_place *pw_shared_promises(const pw_shared_bursts *shared, uint32_t node, uint32_t peer);
/* NULL when the segment is full: bursts in other memory are copied. */
uint8_t *pw_shared_allocate(pw_shared_bursts *shared, size_t num_bytes);
#endif
