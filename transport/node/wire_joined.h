/* A wire that joins the nodes of one process, for C hosts and unit tests: a burst is handed over by
 * reference, in the order in which bursts were sent. All nodes that it joins: one thread at a time.
 * PW_ERR_INVALID: a burst for a node that has closed its wire. */
#ifndef PW_NODE_WIRE_JOINED_H
#define PW_NODE_WIRE_JOINED_H
#include "transport/node/wire.h"

/* cdef begin */
/* wires[i] becomes that of node i; each is closed by itself. PW_ERR_INVALID: no nodes. */
int pw_wire_join(uint32_t num_nodes, pw_wire **wires);
/* cdef end */
#endif
