/* The nodes of one process with stream connections, whose programs are the host's own code, in the
 * order of virtual time: for experiments and tests. Each node has one CPU, which does one thing
 * after the other: what arrives, and what the host asks for. Its copies between program and ring
 * take time (tables.copy), and so do the faults that it meets there (tables.touch_absent,
 * costs.major_fault). One thread at a time. */
#ifndef PW_UNIMEM_STREAMS_STREAM_NODES_H
#define PW_UNIMEM_STREAMS_STREAM_NODES_H
#include "node/door/door.h"
#include "unimem/streams/node_streams.h"

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
pw_streams *pw_stream_nodes_streams(pw_stream_nodes *nodes, uint32_t node);

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
pw_node_streams *pw_stream_nodes_on_node(const pw_stream_nodes *nodes, uint32_t node);
#endif
