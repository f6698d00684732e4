#include "native/peers.h"
#include <stdlib.h>

#define FIRST_SLOTS 4u

static int grow(pw_peers *peers)
{
    pw_peers bigger = *peers;
    bigger.num_slots = peers->num_slots ? 2 * peers->num_slots : FIRST_SLOTS;
    bigger.slots = calloc(bigger.num_slots, sizeof *bigger.slots);
    if (!bigger.slots) return PW_ERR_NOMEM;
    for (uint32_t i = 0; i < peers->num_slots; i++)
        if (peers->slots[i].item) *pw_peers_slot(&bigger, peers->slots[i].peer) = peers->slots[i];
    free(peers->slots);
    *peers = bigger;
    return PW_OK;
}

void *pw_peers_make(pw_peers *peers, uint32_t peer, size_t item_bytes)
{
    pw_peer *item = pw_peers_find(peers, peer);
    if (!item) {
        if (2 * (peers->num_items + 1) > peers->num_slots && grow(peers) < 0) return NULL;
        item = calloc(1, item_bytes);
        if (!item) return NULL;
        item->peer = peer;
        *pw_peers_slot(peers, peer) = (pw_peer_slot){item, peer};
        peers->num_items++;
    }
    peers->latest = (pw_peer_slot){item, peer};
    return item;
}

void pw_peers_clear(pw_peers *peers)
{
    for (uint32_t i = 0; i < peers->num_slots; i++) free(peers->slots[i].item);
    free(peers->slots);
    *peers = (pw_peers){0};
}

static int compare(const void *a, const void *b)
{
    const uint32_t left = (*(pw_peer *const *)a)->peer, right = (*(pw_peer *const *)b)->peer;
    return (left > right) - (left < right);
}

void pw_peers_list(const pw_peers *peers, pw_peer **items)
{
    uint32_t num_items = 0;
    for (uint32_t i = 0; i < peers->num_slots; i++)
        if (peers->slots[i].item) items[num_items++] = peers->slots[i].item;
    if (num_items) qsort(items, num_items, sizeof *items, compare);
}
