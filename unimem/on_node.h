/* Unimem on a node: its frames go over the node's wire, and its atomic service, which has a core of
 * its own, serves a request as soon as it is here. Locked by the node's lock, which the caller
 * holds.
 */
#ifndef PW_UNIMEM_ON_NODE_H
#define PW_UNIMEM_ON_NODE_H
#include "unimem/dma.h"
#include "unimem/unimem.h"

typedef struct pw_unimem_on_node pw_unimem_on_node;

/* Before the node's first transfer, on all nodes before one of them is asked. spawn: as of
 * pw_unimem_host. The reason of a failure is the node's. PW_ERR_FULL: the node has one. */
int pw_unimem_on_node_create(pw_node *node,
                             uint64_t (*spawn)(void *context, const unimem_fork_request *wanted),
                             void *context, pw_unimem_on_node **out);
/* Before its node. */
void pw_unimem_on_node_destroy(pw_unimem_on_node *self);
pw_unimem *pw_unimem_of_node(pw_unimem_on_node *self);
unim_dma *pw_dma_of_node(pw_unimem_on_node *self);
#endif
