/* Nodes of pagewire.h in one process with stream connections: bytes go by RDMA writes, messages
 * through the kernel mailbox of unimem.h.
 *
 * Messages and ends of writes are taken in the order of virtual time, and the node's clock goes on
 * to each. A ring that a peer writes to is registered memory while its connection lasts: what
 * run.memory does to such memory (touch, pin) is done at the connection's set-up, by the node's
 * CPU, and undone behind its end.
 *
 * The programs are other processes, moved whenever something can happen (pw_node_streams_*), or the
 * host's own code in the order of virtual time over all nodes, for experiments and tests
 * (pw_stream_nodes_step). There each node has one CPU, which does one thing after the other: what
 * arrives, and what the host asks for. Its copies between program and ring take time (tables.copy),
 * and so do the faults that it meets there (tables.touch_absent, costs.major_fault). One thread at
 * a time. */
#ifndef PW_UNIMEM_STREAMS_STREAM_NODES_H
#define PW_UNIMEM_STREAMS_STREAM_NODES_H
#include "include/unimem.h"
#include "node/door/door.h"
#include "unimem/streams/streams.h"

/* cdef begin */
typedef struct pw_stream_nodes pw_stream_nodes;

typedef struct {
    uint32_t num_nodes;
    uint32_t num_slots, ring_bytes;
    uint32_t reserved;
    const char *const *const *settings; /* of each node: texts, which NULL ends; see pagewire.h */
} pw_stream_nodes_options;

/* *reason, of reason_bytes: a sentence for a code. */
int pw_stream_nodes_create(const pw_stream_nodes_options *options, char *reason,
                           size_t reason_bytes, pw_stream_nodes **out);
void pw_stream_nodes_destroy(pw_stream_nodes *nodes);
pagewire_node *pw_stream_nodes_door(const pw_stream_nodes *nodes, uint32_t node);
/* The connections: all of streams.h but moving them. */
pw_streams *pw_stream_nodes_streams(const pw_stream_nodes *nodes, uint32_t node);

/* The network moves until nothing is left to do, then the CPU that is the first to be free for
 * something takes it. 1: *node has; 0: nothing is here at any node. */
int pw_stream_nodes_step(pw_stream_nodes *nodes, uint32_t *node);

/* Bytes to the ring, or from it, as many as there is room for, or as are here: how many. */
int64_t pw_stream_nodes_send(pw_stream_nodes *nodes, uint32_t node, uint32_t connection,
                             const void *data, uint32_t num_bytes);
int64_t pw_stream_nodes_receive(pw_stream_nodes *nodes, uint32_t node, uint32_t connection,
                                void *data, uint32_t num_bytes);
/* Pages of the arena that the node's CPU, driver and memory strategy have brought in and that are
 * there now. */
int64_t pw_stream_nodes_resident(const pw_stream_nodes *nodes, uint32_t node);
/* cdef end */

/* No message and no write is under way, and none is due: until a user does something nothing will
 * happen, however often the nodes are moved. */
bool pw_stream_nodes_are_quiet(const pw_stream_nodes *nodes);

/* One of them. */
typedef struct pw_node_streams pw_node_streams;
pw_node_streams *pw_stream_nodes_on_node(pw_stream_nodes *nodes, uint32_t node);
/* Bytes that are here, as pw_streams_here: the node learns of them. */
uint32_t pw_node_streams_here(pw_node_streams *self, uint32_t connection, const uint8_t **data);
/* What has arrived and what is over. 1: something happened, 0: nothing, or a code. */
int pw_node_streams_move(pw_node_streams *self);
/* All of it, and what is due: moving one node has moved all of its process. */
int pw_node_streams_take_all(pw_node_streams *self);
/* Why the last ring that could not be registered could not, so that its connection was refused.
 * NULL: none was. */
const char *pw_node_streams_refusal(const pw_node_streams *self);
#endif
