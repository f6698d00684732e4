/* Stream connections on a node of pagewire.h: their bytes go by RDMA writes, their messages through
 * the kernel mailbox of unimem.h. All nodes of the run make one, before their first transfer.
 *
 * Messages and ends of writes are taken in the order of virtual time, and the node's clock goes on
 * to each. A ring that a peer writes to is registered memory while its connection lasts: what
 * run.memory does to such memory (touch, pin) is done at the connection's set-up, by the node's
 * CPU, and undone behind its end. One thread at a time. */
#ifndef PW_UNIMEM_STREAMS_NODE_STREAMS_H
#define PW_UNIMEM_STREAMS_NODE_STREAMS_H
#include "include/unimem.h"
#include "unimem/streams/streams.h"

typedef struct pw_node_streams pw_node_streams;

/* arenas: where each node's arena is in its own process, copied; this node's is options->arena. */
int pw_node_streams_create(pagewire_node *node, unimem *memory, const pw_streams_options *options,
                           const uint64_t *arenas, pw_node_streams **out);
/* Before the node's Unimem; writes under way are forgotten. */
void pw_node_streams_destroy(pw_node_streams *self);
/* The connections: all of streams.h but moving them, which is the next function's. */
pw_streams *pw_node_streams_of(pw_node_streams *self);
/* Bytes that are here, as pw_streams_here: the node learns of them. */
uint32_t pw_node_streams_here(pw_node_streams *self, uint32_t connection, const uint8_t **data);
/* What has arrived and what is over. 1: something happened, 0: nothing, or a code. */
int pw_node_streams_move(pw_node_streams *self);
/* The two parts of moving, for a user who keeps several nodes in the order of time and moves the
 * network himself: when the first of what is here was here, PW_NEVER: nothing is; and taking it, 0:
 * nothing is. */
int64_t pw_node_streams_next_ns(pw_node_streams *self);
int pw_node_streams_take(pw_node_streams *self);
/* Why the last ring that could not be registered could not, so that its connection was refused.
 * NULL: none was. */
const char *pw_node_streams_refusal(const pw_node_streams *self);
/* All of it, and what is due: moving one node has moved all of its process. */
int pw_node_streams_take_all(pw_node_streams *self);
/* All nodes of the run, in this process: no message and no write of theirs is under way, and none
 * is due. Until a user does something nothing will happen, however often they are moved. */
bool pw_node_streams_are_quiet(pw_node_streams *const *all, uint32_t num_nodes);
#endif
