/* A node's clock for the threads of its host: what clock.h has, with the node locked, but where
 * this thread has locked it already: a host's callback may ask for the time. */
#ifndef PW_NODE_SHARED_CLOCK_H
#define PW_NODE_SHARED_CLOCK_H
#include "transport/node/node.h"

/* cdef begin */
void pw_node_clock_enter(pw_node *node, int costs_call);
void pw_node_clock_leave(pw_node *node);
int64_t pw_node_clock_read(pw_node *node);
void pw_node_clock_declare(pw_node *node, int64_t duration_ns);
void pw_node_clock_sleep(pw_node *node, int64_t duration_ns);
void pw_node_clock_completed(pw_node *node, int64_t complete_ns);
/* It is at least that late. */
void pw_node_clock_reach(pw_node *node, int64_t time_ns);
/* The CPU works for so long, in a call. */
void pw_node_clock_pass(pw_node *node, int64_t duration_ns);
/* pw_node_failed_test. */
void pw_node_clock_failed_test(pw_node *node, int is_future, int64_t poll_ns);
/* cdef end */
#endif
