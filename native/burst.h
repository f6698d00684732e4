/* Outgoing bursts: one open buffer a peer, taken from a pool, filled with frames, handed to the
 * host when it asks and returned by it when sent. Grows by a few buffers when the host is slow to
 * return them; no allocation otherwise. Not thread-safe. */
#ifndef PW_NATIVE_BURST_H
#define PW_NATIVE_BURST_H
#include "native/frames.h"

/* cdef begin */
typedef struct {
    uint32_t peer;
    uint32_t num_bytes;
    uint8_t *data; /* valid until pw_ni_tx_release */
} pw_burst;
/* cdef end */

typedef struct pw_burst_pool pw_burst_pool;

int pw_burst_pool_create(uint32_t num_peers, pw_burst_pool **out);
void pw_burst_pool_destroy(pw_burst_pool *pool);
/* Memory for the buffers that are made from now on, aligned to 64 bytes: allocate's, which must
 * outlive their use but not the pool; NULL from it: the pool takes its own for these. */
typedef uint8_t *(*pw_burst_allocate)(void *context, size_t num_bytes);
void pw_burst_pool_set_memory(pw_burst_pool *pool, pw_burst_allocate allocate, void *context);
/* Room for a frame of num_bytes (<= PW_BURST_BYTES) to the peer, zeroed header not included;
 * NULL when the host has no memory. */
void *pw_burst_append(pw_burst_pool *pool, uint32_t peer, uint32_t num_bytes);
/* The next frames to the peer, num_bytes (<= PW_BURST_BYTES) of them, stand in one burst. */
void pw_burst_reserve(pw_burst_pool *pool, uint32_t peer, uint32_t num_bytes);
/* The frame that was appended for the peer last is not sent. */
void pw_burst_take_back(pw_burst_pool *pool, uint32_t peer, uint32_t num_bytes);
/* 1 and *out when a burst is ready, else 0. */
int pw_burst_take(pw_burst_pool *pool, pw_burst *out);
/* Buffers that there are, in use or not. */
uint32_t pw_burst_pool_num_buffers(const pw_burst_pool *pool);
/* A burst is full: the host should send it before more is made. */
bool pw_burst_is_full(const pw_burst_pool *pool);
void pw_burst_release(pw_burst_pool *pool, uint8_t *data);
#endif
