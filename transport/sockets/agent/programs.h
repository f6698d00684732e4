/* The programs' side of a node: their descriptors, and the bytes between these and the node's
 * stream connections. Descriptors do not block; who waits is in `epoll`. */
#ifndef PW_SOCKETS_AGENT_PROGRAMS_H
#define PW_SOCKETS_AGENT_PROGRAMS_H
#include "unimem/streams/stream_nodes.h"

typedef struct pw_programs pw_programs;
typedef struct pw_endpoint pw_endpoint; /* what epoll's data.ptr points to */

/* Programs of the node reach it from now on. PW_ERR_HOST: see errno. */
int pw_programs_create(pw_stream_nodes *all, uint32_t node, int epoll, pw_programs **out);
/* epoll says that the descriptor is ready. */
int pw_programs_ready(pw_endpoint *endpoint, uint32_t events);
uint32_t pw_programs_node_of(const pw_endpoint *endpoint);
/* What has changed at the node's connections. */
int pw_programs_move(pw_programs *self);
/* Connects that have waited too long for their answer are given up; a listener that has taken its
 * connection without a sign gets the next one. To be called now and then while something waits. */
int pw_programs_look_late(pw_programs *self, int64_t now_ns);
bool pw_programs_are_waiting(const pw_programs *self);
/* Has one of the node's called listen, with success? */
bool pw_programs_have_listened(const pw_programs *self);
/* Endpoints that were closed are freed: after all events of a turn. */
void pw_programs_sweep(pw_programs *self);
#endif
