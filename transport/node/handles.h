/* The handles of a node's transfers: a pool of them, found by the id of the engine's event while
 * they are under way, and listed. No allocation in steady state. One thread at a time. */
#ifndef PW_NODE_HANDLES_H
#define PW_NODE_HANDLES_H
#include "transport/node/node.h"

typedef struct pw_handle_chunk pw_handle_chunk;

typedef struct {
    pw_handle **slots; /* open addressing, by id; num_slots: a power of two */
    uint32_t num_slots, num_under_way;
    pw_handle *under_way; /* the newest first */
    pw_handle *free_list;
    pw_handle_chunk *chunks;
} pw_handles;

int pw_handles_init(pw_handles *handles);
void pw_handles_destroy(pw_handles *handles);
/* A blank handle and a place for its id, NULL: no memory. */
pw_handle *pw_handles_take(pw_handles *handles);
/* It is under way: an id that no other one under way has. */
void pw_handles_begin(pw_handles *handles, pw_handle *handle, uint64_t id);
/* The one under way with this id, which no longer is; NULL: none. */
pw_handle *pw_handles_end(pw_handles *handles, uint64_t id);
/* Back to the pool; it is not under way. */
void pw_handles_give(pw_handles *handles, pw_handle *handle);
#endif
