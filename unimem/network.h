/* Nodes of Unimem joined in one process: a frame is handed over at once, its virtual times stand in
 * it. Who serves the earliest of all atomic services first, and lets no thread run whose clock is
 * later, has the order of virtual time. One thread at a time. */
#ifndef PW_UNIMEM_NETWORK_H
#define PW_UNIMEM_NETWORK_H
#include "unimem/unimem.h"

/* cdef begin */
typedef struct pw_unimem_network pw_unimem_network;
/* PW_ERR_INVALID: no nodes, or more than 65536. */
int pw_unimem_network_create(uint32_t num_nodes, pw_unimem_network **out);
/* With its nodes. */
void pw_unimem_network_destroy(pw_unimem_network *network);
/* Node `node` on that NI. spawn: see pw_unimem_host. */
int pw_unimem_network_add(pw_unimem_network *network, pw_ni *ni, const pw_costs *costs,
                          const pw_settings *settings, uint32_t node,
                          uint64_t (*spawn)(void *context, const unimem_fork_request *wanted),
                          void *context, pw_unimem **out);
/* The node is dead: it takes and answers nothing any more. */
void pw_unimem_network_stop(pw_unimem_network *network, uint32_t node);
/* When the first of the services reads its next request, and of which node; INT64_MAX: none does.
 */
int64_t pw_unimem_network_next_ns(const pw_unimem_network *network, uint32_t *node);
/* cdef end */
#endif
