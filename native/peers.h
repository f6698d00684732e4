/* A sparse table by peer: what a node keeps of each peer that it has to do with, and nothing of the
 * others, of which a run may have thousands. Open addressing; an item stays where it is until the
 * table is cleared, and only a new one allocates. Zero is an empty one. Not thread-safe. */
#ifndef PW_NATIVE_PEERS_H
#define PW_NATIVE_PEERS_H
#include "native/types.h"

/* cdef begin */
/* Every item begins with it. */
typedef struct {
    uint32_t peer;
} pw_peer;

/* The number stands beside its item, so that nobody looks into another one's. */
typedef struct {
    pw_peer *item; /* NULL: none */
    uint32_t peer;
} pw_peer_slot;

typedef struct {
    pw_peer_slot *slots;
    pw_peer_slot latest; /* that was made or asked for by `make` */
    uint32_t num_slots;  /* a power of two, or 0 */
    uint32_t num_items;
} pw_peers;

/* The peer's item, made when there is none: item_bytes, zero but for the peer. NULL: no memory. */
void *pw_peers_make(pw_peers *peers, uint32_t peer, size_t item_bytes);
void pw_peers_clear(pw_peers *peers);
/* All num_items of them, in the order of their peers. */
void pw_peers_list(const pw_peers *peers, pw_peer **items);
/* cdef end */

/* Where it is, or would be. */
static inline pw_peer_slot *pw_peers_slot(const pw_peers *peers, uint32_t peer)
{
    uint32_t slot = (uint32_t)(peer * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (peers->num_slots - 1);
    while (peers->slots[slot].item && peers->slots[slot].peer != peer)
        slot = (slot + 1) & (peers->num_slots - 1);
    return &peers->slots[slot];
}

/* The peer's item; NULL: none. */
static inline void *pw_peers_find(const pw_peers *peers, uint32_t peer)
{
    if (peers->latest.item && peers->latest.peer == peer) return peers->latest.item;
    return peers->num_slots ? pw_peers_slot(peers, peer)->item : NULL;
}
#endif
