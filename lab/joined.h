/* NIs without nodes, joined in one process in the order of virtual time: their host posts to them
 * itself, and is told each event. */
#ifndef PW_LAB_JOINED_H
#define PW_LAB_JOINED_H
#include "node/order.h"

/* cdef begin */
typedef struct pw_joined pw_joined;

/* Costs and settings are those of every NI. A code with the reason, *out is then NULL. */
int pw_joined_create(uint32_t num_nodes, const pw_costs *costs, const pw_settings *settings,
                     const pw_network_texts *network, pw_joined **out,
                     char reason[PW_TOPOLOGY_REASON_BYTES]);
/* Bursts that are on their way are gone. NIs stay the caller's, and may be gone before. */
void pw_joined_destroy(pw_joined *joined);
/* The NI of a node, once, before its first transfer; it stands in the network from now on. */
int pw_joined_add(pw_joined *joined, uint32_t node, pw_ni *ni);
/* The program of each node may run before the next call of pw_joined_run: see pw_ni_enter. */
void pw_joined_enter(pw_joined *joined);
/* Something was posted to the NI, or it was told something. */
int pw_joined_note(pw_joined *joined, uint32_t node);
/* Go on until a node's NI tells something, but no longer than max_turns: how many events there are,
 * and whose. PW_ERR_*: *node has failed. With few events at once the host can post at the time of
 * each. PW_ERR_HOST: it has not answered a decision that it was asked for. */
int pw_joined_run(pw_joined *joined, uint64_t max_turns, pw_host_event *events, int max_events,
                  uint32_t *node);
/* Nothing was left to do when it ran last. */
bool pw_joined_is_over(const pw_joined *joined);
/* Some nodes that have had a turn, or were noted, since they were told here last: how many there
 * are in `nodes`; 0: no more. */
uint32_t pw_joined_take_moved(pw_joined *joined, uint32_t *nodes, uint32_t capacity);
/* So far, of all nodes: what the speed of a host depends on. */
uint64_t pw_joined_num_turns(const pw_joined *joined);
/* cdef end */
#endif
