/* Many NIs of one process in one order of virtual time. A heap holds what is to come by (time,
 * node): what an NI will do of itself, frames at their arrival, and what the host puts there.
 * Bursts are handed over by pointer. All stand in one topology, and share its links if the settings
 * say so. What comes out depends on what is posted and on the settings alone. A turn costs O(log
 * nodes), and nodes that have nothing to do cost none. One thread. */
#ifndef PW_NODE_ORDER_H
#define PW_NODE_ORDER_H
#include "network/links.h"
#include "ni/ni.h"
#include "node/sentence.h"
#include "node/wires/wire.h"

typedef struct pw_order pw_order;

/* Why it is a node's turn. */
#define PW_TURN_HOST 0   /* pw_order_queue */
#define PW_TURN_ENGINE 1 /* the NI goes on by itself */
#define PW_TURN_BURST 2  /* one is here: the next poll of the wire gives it */

typedef struct {
    uint32_t node, kind; /* PW_TURN_* */
} pw_order_turn;

/* PW_ERR_NOMEM; PW_ERR_INVALID: no nodes, or more than PW_NODES_MAX. */
int pw_order_create(uint32_t num_nodes, pw_order **out);
/* With the wires that nobody has taken. NIs that were added are the caller's: not run any more. */
void pw_order_destroy(pw_order *order);
/* What all nodes stand in, before the first one is added; the topology is the order's from now on,
 * also when this fails. PW_ERR_NOMEM. */
int pw_order_set_network(pw_order *order, pw_topology *topology, const pw_costs *costs,
                         const pw_settings *settings);
const pw_topology *pw_order_topology(const pw_order *order);
/* NULL: each pair of nodes has its own. */
pw_links *pw_order_links(const pw_order *order);
/* NULL: blocks pass links as a whole. */
pw_forwarding *pw_order_forwarding(const pw_order *order);
/* The wire of a node, once: who takes it closes it. NULL: there is no such node, or it is gone. */
pw_wire *pw_order_take_wire(pw_order *order, uint32_t node);
/* The NI of a node whose wire was taken, which stands in the network already. */
void pw_order_add(pw_order *order, uint32_t node, pw_ni *ni);
/* Bursts are not in order any more: `sent` sees to them, as wire.h says. */
void pw_order_let_bursts(pw_order *order,
                         bool (*sent)(void *context, uint32_t node, const pw_wire_burst *burst),
                         void *context);

/* Several processes that share the nodes: these are not here. `carry`: see pw_wire_set_away. */
void pw_order_let_nodes(pw_order *order, uint32_t first, uint32_t end,
                        int (*carry)(void *context, uint32_t node, const pw_wire_burst *burst),
                        void *context);
/* A burst of such a node is here, sent in a turn of that time. PW_ERR_INVALID: there is no such
 * node; PW_ERR_NOMEM. */
int pw_order_bring(pw_order *order, uint32_t node, const pw_wire_burst *burst, int64_t sent_ns);
/* From now on no turn is at this time or behind it: nodes that are not here may be felt then. */
void pw_order_set_limit(pw_order *order, int64_t limit_ns);
/* Nothing is left before it; PW_NEVER: nor behind. */
int64_t pw_order_next_ns(const pw_order *order);
/* Nothing that a node does is felt by another one before so long. */
int64_t pw_order_reach_ns(const pw_order *order);

/* Give a node a turn of its host's at that time. is_last: those of the same time come first. */
void pw_order_queue(pw_order *order, uint32_t node, int64_t time_ns, bool is_last);
/* The next turn, which the caller does: 1; 0: nothing is left before the limit; PW_ERR_NOMEM, or a
 * wire's code. */
int pw_order_next(pw_order *order, pw_order_turn *out);
/* Within its turn the NI may run so far: others may answer to what it does behind. */
int64_t pw_order_until_ns(const pw_order *order, uint32_t node);
/* The NI has run, or something was posted to it: when will it go on by itself? */
void pw_order_look(pw_order *order, uint32_t node);

/* Who is next as things are now: what is pushed meanwhile may come first. False: nobody is. */
bool pw_order_coming(const pw_order *order, uint32_t *node);
/* Of the turn. */
int64_t pw_order_now_ns(const pw_order *order);
uint64_t pw_order_num_turns(const pw_order *order);
#endif
