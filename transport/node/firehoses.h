/* Firehoses: pages of peers that this node holds pinned, to read them without a word to their owner
 * [Bell and Bonachea 2003]. F = M / (P * (nodes - 1)) of them for each peer: M is what a node lets
 * its peers hold (strategy.firehose_limit), P the page. Those that no read uses stand in a queue;
 * for pages that are not held the first ones of it are moved:
 *
 *   reader                          owner
 *   LET_GO (pages), one a run    -> may unpin them
 *   HOLD (pages), one a run      -> pins them
 *                               <- HELD
 *   reads                           (its NI answers)
 *   DONE, of more than F pages   -> the message is over
 *
 * A message of more than F pages is read in chunks of F, one after the other. What the owner's
 * library does is its progress thread's (library.h). */
#ifndef PW_NODE_FIREHOSES_H
#define PW_NODE_FIREHOSES_H
#include "transport/node/node.h"

#define PW_MESSAGE_OF_FIREHOSES (PW_MESSAGE_OF_NODES + 8) /* kinds from here on */

/* num_started: nodes, of pw_node_options. PW_ERR_INVALID: the limit has no page for each peer. */
int pw_firehoses_init(pw_node *node, uint32_t num_started);
void pw_firehoses_destroy(pw_node *node);
/* Expose what the handle is of, from address on, to its peer. 1: it is done by DONE; 0: it has no
 * more pages than firehoses, and is exposed as under any strategy. */
int pw_firehoses_offer(pw_node *node, pw_handle *handle, uint64_t address);
/* Read what handle says from source_address on to `address`, at at_ns. */
int pw_firehoses_fetch(pw_node *node, pw_handle *handle, uint64_t source_address, uint64_t key,
                       uint64_t address, int64_t at_ns);
/* A chunk's event. */
int pw_firehoses_finish(pw_node *node, pw_handle *chunk, const pw_host_event *event);
/* A message between nodes. */
int pw_firehoses_message(pw_node *node, uint32_t source, const uint8_t *frame,
                         uint32_t frame_bytes);
#endif
