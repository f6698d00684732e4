/* What stands behind the handle of unimem.h: door.c has the shared memory, door_messages.c the
 * messages of 64 bits. */
#ifndef PW_UNIMEM_DOOR_STATE_H
#define PW_UNIMEM_DOOR_STATE_H
#include "include/unimem.h"
#include "transport/unimem/on_node.h"

struct unimem {
    pagewire_node *node;
    pw_unimem_on_node *on_node;
    pw_unimem *unimem;  /* its own */
    uint32_t interface; /* of the node's CPU */
    unimem_options options;
};
#endif
