/* Buffers for messages that a node sends over its wire: all of one size, out of slabs that the wire
 * may provide. No allocation in steady state. One thread at a time. */
#ifndef PW_NODE_WIRES_FRAME_POOL_H
#define PW_NODE_WIRES_FRAME_POOL_H
#include "node/wires/wire.h"

typedef struct {
    uint8_t *first;
    uint32_t num_frames;
    bool is_wires;
} pw_frame_slab;

/* Zeroed: empty, of no size yet. */
typedef struct {
    uint32_t frame_bytes; /* a multiple of 64 */
    uint32_t num_slabs, slabs_capacity;
    pw_frame_slab *slabs;
    uint8_t *free_list; /* each begins with the next one */
} pw_frame_pool;

/* A frame, NULL: no memory. wire: that may provide it, NULL: none does. */
uint8_t *pw_frame_take(pw_frame_pool *pool, pw_wire *wire);
/* Whether the buffer is one of the pool's. */
bool pw_frame_is_own(const pw_frame_pool *pool, const uint8_t *data);
void pw_frame_give(pw_frame_pool *pool, uint8_t *frame);
/* The wire is closed. */
void pw_frame_pool_finish(pw_frame_pool *pool);
#endif
