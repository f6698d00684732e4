#include "node/wires/shared_rings.h"
#include "node/wires/shared_segment.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Only so long does a node rest that is not woken: because the ring was lost that tells of room,
 * or because its peer was killed. */
#define REST_NS 1000000
#define REST_FOR_ROOM_NS 100000

/* Rings begin at different slots, or the slots polled would all be in the same set of the cache. */
static uint32_t slot_idx(uint64_t number, uint32_t source)
{
    return (uint32_t)((number + source) % SLOTS);
}

static void set_add(node_set *set, uint32_t node) { set->node[set->num_nodes++] = node; }

bool pw_shared_is_near(const pw_shared_bursts *shared, uint32_t peer)
{
    return peer < shared->num_nodes && shared->neighbours[peer].segment.base != NULL;
}

static bool is_slot_free(const slot *slot)
{
    return !atomic_load_explicit(&slot->number, memory_order_acquire);
}

/* The peer begins to poll the ring of this node: a peer that never sends costs it nothing. */
static void greet(pw_shared_bursts *shared, neighbour *to)
{
    _Atomic uint64_t *words = (void *)(to->segment.base + ALIGNMENT);
    atomic_fetch_or(&words[shared->node / 64], UINT64_C(1) << shared->node % 64);
    to->has_greeted = true;
}

static uint8_t *take_copy(pw_shared_bursts *shared)
{
    uint8_t *copy = shared->copies;
    if (!copy) return pw_shared_allocate(shared, PW_BURST_BYTES);
    memcpy(&shared->copies, copy, sizeof shared->copies);
    return copy;
}

static void lend(pw_shared_bursts *shared, uint32_t peer, lent_buffer *lent, uint8_t *data,
                 bool is_copy)
{
    neighbour *to = &shared->neighbours[peer];
    *lent = (lent_buffer){data, is_copy};
    to->num_lent++;
    if (to->is_lending) return;
    to->is_lending = true;
    set_add(&shared->lending, peer);
}

static void take_back(pw_shared_bursts *shared, neighbour *from, lent_buffer *lent)
{
    if (lent->is_copy) give_copy_back(shared, lent->data);
    lent->data = NULL;
    from->num_lent--;
}

enum put_result { PUT_NOT, PUT_FREE, PUT_LENT };

/* Into the ring to the peer, if there is room. */
static enum put_result put(pw_shared_bursts *shared, uint32_t peer, uint8_t *data,
                           uint32_t num_bytes)
{
    neighbour *to = &shared->neighbours[peer];
    const uint32_t idx = slot_idx(to->num_sent, shared->node);
    slot *into = &to->out[idx];
    lent_buffer *lent = &to->lent[idx];
    enum put_result result = PUT_FREE;
    if (!is_slot_free(into)) return PUT_NOT;
    if (lent->data && lent->is_copy) take_back(shared, to, lent);
    if (lent->data) return PUT_NOT; /* the node gets it by pw_shared_sent */
    if (num_bytes <= SHORT_BYTES) {
        memcpy(into->data, data, num_bytes);
        into->offset = 0;
        shared->counters.num_short++;
    } else {
        if (pw_segment_has(&shared->segment, data, num_bytes)) {
            lend(shared, peer, lent, data, false);
            shared->counters.num_in_place++;
            result = PUT_LENT;
        } else {
            uint8_t *copy = take_copy(shared);
            if (!copy) return PUT_NOT;
            memcpy(copy, data, num_bytes);
            lend(shared, peer, lent, copy, true);
            shared->counters.num_copied++;
        }
        into->offset = (uint32_t)(lent->data - shared->segment.base);
    }
    into->num_bytes = num_bytes;
    /* Whoever sees the number sees the bytes. */
    atomic_store_explicit(&into->number, ++to->num_sent, memory_order_release);
    if (!to->has_greeted) greet(shared, to);
    pw_bell_ring(bell_in(&to->segment), PW_BELL_ARRIVAL);
    return result;
}

int pw_shared_send(pw_shared_bursts *shared, uint32_t peer, uint8_t *data, uint32_t num_bytes,
                   bool *is_free)
{
    enum put_result result = PUT_NOT;
    if (!pw_shared_is_near(shared, peer) || !num_bytes || num_bytes > PW_BURST_BYTES ||
        !*shared->is_owner)
        return PW_ERR_INVALID;
    pw_waiting_list *waiting = &shared->neighbours[peer].waiting;
    const bool is_first = !waiting->first;
    if (is_first) result = put(shared, peer, data, num_bytes);
    if (result == PUT_NOT) {
        if (pw_waiting_append(&shared->pool, waiting, data, num_bytes)) return PW_ERR_NOMEM;
        if (is_first) set_add(&shared->waiting, peer);
    }
    *is_free = result == PUT_FREE;
    shared->num_pending += !*is_free;
    return PW_OK;
}

/* What waits goes into the rings that have room again. */
static void send_waiting(pw_shared_bursts *shared)
{
    for (uint32_t i = shared->waiting.num_nodes; i-- > 0;) {
        const uint32_t peer = shared->waiting.node[i];
        pw_waiting_list *waiting = &shared->neighbours[peer].waiting;
        while (waiting->first) {
            const pw_waiting *burst = waiting->first;
            const enum put_result result = put(shared, peer, burst->data, burst->num_bytes);
            if (result == PUT_NOT) break;
            if (result == PUT_FREE) pw_waiting_move(waiting, &shared->gone);
            else pw_waiting_take(&shared->pool, waiting);
        }
        if (!waiting->first) set_remove_at(&shared->waiting, i);
    }
}

/* The oldest buffer of the node's that this peer has read, NULL: none. */
static uint8_t *reclaim(pw_shared_bursts *shared, neighbour *from)
{
    for (; from->num_reclaimed < from->num_sent; from->num_reclaimed++) {
        const uint32_t idx = slot_idx(from->num_reclaimed, shared->node);
        lent_buffer *lent = &from->lent[idx];
        if (!lent->data) continue;
        if (!is_slot_free(&from->out[idx])) return NULL;
        uint8_t *data = lent->is_copy ? NULL : lent->data;
        take_back(shared, from, lent);
        if (data) return data;
    }
    return NULL;
}

uint8_t *pw_shared_sent(pw_shared_bursts *shared)
{
    if (!*shared->is_owner) return NULL;
    if (shared->waiting.num_nodes) send_waiting(shared);
    uint8_t *data = pw_waiting_take(&shared->pool, &shared->gone);
    for (uint32_t i = shared->lending.num_nodes; !data && i-- > 0;) {
        neighbour *from = &shared->neighbours[shared->lending.node[i]];
        data = reclaim(shared, from);
        if (from->num_lent) continue;
        from->is_lending = false;
        set_remove_at(&shared->lending, i);
    }
    shared->num_pending -= data != NULL;
    return data;
}

bool pw_shared_is_waiting(const pw_shared_bursts *shared) { return shared->waiting.num_nodes > 0; }

bool pw_shared_rest(const pw_shared_bursts *shared, pw_wire_rest *out)
{
    if (!*shared->is_owner) return false;
    const bool is_waiting = pw_shared_is_waiting(shared);
    *out = (pw_wire_rest){.bell = bell_in(&shared->segment),
                          .calls = PW_BELL_ARRIVAL | (is_waiting ? PW_BELL_ROOM : 0),
                          .num_near = shared->num_near,
                          .limit_ns = is_waiting ? REST_FOR_ROOM_NS : REST_NS};
    return true;
}

uint32_t pw_shared_num_pending(const pw_shared_bursts *shared) { return shared->num_pending; }

/* Nodes that have sent for the first time: true if there is one. */
static bool hear(pw_shared_bursts *shared)
{
    bool is_news = false;
    for (uint32_t word = 0; word < num_words(shared->num_nodes); word++) {
        const uint64_t now = atomic_load_explicit(&shared->greetings[word], memory_order_acquire);
        uint64_t news = now & ~shared->heard[word];
        for (shared->heard[word] |= news; news; news &= news - 1) {
            const uint32_t peer = word * 64 + (uint32_t)__builtin_ctzll(news);
            if (peer >= shared->num_nodes || peer == shared->node) continue;
            set_add(&shared->active, peer);
            is_news = true;
        }
    }
    return is_news;
}

/* A burst is in the slot. The sender is another process: believe nothing. */
static int read_slot(neighbour *from, uint32_t source, slot *slot, pw_wire_burst *out)
{
    const uint32_t num_bytes = slot->num_bytes, offset = slot->offset;
    const uint32_t limit = offset ? PW_BURST_BYTES : SHORT_BYTES;
    if (!num_bytes || num_bytes > limit) return PW_ERR_MALFORMED;
    /* Of a sender that is not met there is no segment, and so no reach. */
    if (offset && pw_segment_reach(&from->segment, offset, num_bytes)) return PW_ERR_MALFORMED;
    from->num_polled++;
    out->source = source;
    out->num_bytes = num_bytes;
    out->data = offset ? from->segment.base + offset : slot->data;
    out->token = (uintptr_t)slot;
    return 1;
}

int pw_shared_poll(pw_shared_bursts *shared, pw_wire_burst *out)
{
    if (!*shared->is_owner) return PW_ERR_INVALID;
    if (shared->waiting.num_nodes) send_waiting(shared);
    do {
        for (uint32_t i = 0; i < shared->active.num_nodes; i++) {
            if (shared->turn >= shared->active.num_nodes) shared->turn = 0;
            const uint32_t source = shared->active.node[shared->turn++];
            neighbour *from = &shared->neighbours[source];
            slot *slot = &from->in[slot_idx(from->num_polled, source)];
            /* One that was polled and is not taken yet has a number of the round before. */
            if (atomic_load_explicit(&slot->number, memory_order_acquire) == from->num_polled + 1)
                return read_slot(from, source, slot, out);
        }
    } while (hear(shared));
    return 0;
}

void pw_shared_taken(pw_shared_bursts *shared, const pw_wire_burst *burst)
{
    const neighbour *from = &shared->neighbours[burst->source];
    slot *slot = (void *)(uintptr_t)burst->token;
    /* Not before the node has read all bytes. */
    atomic_store_explicit(&slot->number, 0, memory_order_release);
    /* Without a fence, which each burst would cost: a full ring is rare, and the slot taken next
     * rings too; that all these rings are lost costs the peer one short rest. */
    if (!from->segment.base || !pw_bell_is_set(bell_in(&from->segment), PW_BELL_ROOM)) return;
    pw_bell_wake(bell_in(&from->segment));
}

void pw_shared_read_counters(const pw_shared_bursts *shared, pw_shared_counters *out)
{
    *out = shared->counters;
}

static size_t rings_offset(uint32_t num_nodes)
{
    const size_t end = ALIGNMENT + num_words(num_nodes) * sizeof(uint64_t);
    return (end + PW_PAGE_BYTES - 1) / PW_PAGE_BYTES * PW_PAGE_BYTES;
}

static size_t promises_offset(uint32_t num_nodes)
{
    return rings_offset(num_nodes) + num_nodes * RING_BYTES;
}

static size_t area_offset(uint32_t num_nodes)
{
    const size_t end = promises_offset(num_nodes) + num_nodes * (size_t)PW_PROMISE_BYTES;
    return (end + PW_PAGE_BYTES - 1) / PW_PAGE_BYTES * PW_PAGE_BYTES;
}

pw_promise_place *pw_shared_promises(const pw_shared_bursts *shared, uint32_t node, uint32_t peer)
{
    const bool is_own = node == shared->node;
    const uint32_t other = is_own ? peer : node;
    if (other == shared->node || !pw_shared_is_near(shared, other)) return NULL;
    const pw_segment *segment = is_own ? &shared->segment : &shared->neighbours[other].segment;
    return (pw_promise_place *)(void *)(segment->base + promises_offset(shared->num_nodes)) + peer;
}

/* Where the bursts of a node go in the segment of another. */
static pw_segment_header *header_of(const pw_segment *segment)
{
    return (pw_segment_header *)(void *)segment->base;
}

static slot *ring_of(const pw_segment *segment, uint32_t num_nodes, uint32_t source)
{
    return (slot *)(void *)(segment->base + rings_offset(num_nodes) + source * RING_BYTES);
}

static bool make_tables(pw_shared_bursts *shared)
{
    const size_t num_nodes = shared->num_nodes;
    shared->neighbours = calloc(num_nodes, sizeof *shared->neighbours);
    shared->heard = calloc(num_words(shared->num_nodes), sizeof *shared->heard);
    shared->active.node = calloc(num_nodes, sizeof *shared->active.node);
    shared->lending.node = calloc(num_nodes, sizeof *shared->lending.node);
    shared->waiting.node = calloc(num_nodes, sizeof *shared->waiting.node);
    return shared->neighbours && shared->heard && shared->active.node && shared->lending.node &&
           shared->waiting.node;
}

int pw_shared_create(uint32_t node, uint32_t num_nodes, pw_shared_bursts **out,
                     pw_segment_facts *facts)
{
    int code = PW_ERR_NOMEM;
    if (!num_nodes || num_nodes > PW_SHARED_NODES_MAX || node >= num_nodes) return PW_ERR_INVALID;
    pw_shared_bursts *shared = calloc(1, sizeof *shared);
    if (!shared) return PW_ERR_NOMEM;
    shared->node = node;
    shared->num_nodes = num_nodes;
    shared->facts.fd = -1;
    if (!make_tables(shared)) goto failed;
    code = PW_ERR_HOST;
    shared->is_owner = pw_owner_page_create();
    if (!shared->is_owner) goto failed;
    shared->area_end = area_offset(num_nodes);
    if (pw_segment_create(shared->area_end + AREA_BYTES, shared->area_end + FIRST_REACH_BYTES,
                          &shared->segment, &shared->facts))
        goto failed;
    header_of(&shared->segment)->node = node;
    shared->greetings = (void *)(shared->segment.base + ALIGNMENT);
    for (uint32_t peer = 0; peer < num_nodes; peer++)
        shared->neighbours[peer].in = ring_of(&shared->segment, num_nodes, peer);
    /* One at least, so that a burst from elsewhere can go when the segment is full of buffers. */
    give_copy_back(shared, pw_shared_allocate(shared, PW_BURST_BYTES));
    *facts = shared->facts;
    *out = shared;
    return PW_OK;
failed:
    pw_shared_destroy(shared);
    return code;
}

void pw_shared_destroy(pw_shared_bursts *shared)
{
    if (!shared) return;
    const int saved = errno;
    for (uint32_t peer = 0; shared->neighbours && peer < shared->num_nodes; peer++)
        pw_segment_detach(&shared->neighbours[peer].segment);
    pw_segment_detach(&shared->segment);
    if (shared->facts.fd >= 0) close(shared->facts.fd);
    pw_owner_page_destroy(shared->is_owner);
    pw_pool_finish(&shared->pool);
    free(shared->waiting.node);
    free(shared->lending.node);
    free(shared->active.node);
    free(shared->heard);
    free(shared->neighbours);
    free(shared);
    errno = saved;
}

int pw_shared_meet(pw_shared_bursts *shared, uint32_t peer, const pw_segment_facts *theirs)
{
    if (peer >= shared->num_nodes || peer == shared->node) return PW_ERR_INVALID;
    neighbour *it = &shared->neighbours[peer];
    const size_t reach = area_offset(shared->num_nodes) + FIRST_REACH_BYTES;
    if (it->segment.base) return PW_ERR_INVALID;
    if (theirs->pid && theirs->num_bytes != shared->segment.num_bytes) return PW_ERR_MALFORMED;
    if (pw_segment_attach(theirs, &shared->facts, reach, &it->segment)) return 0;
    if (header_of(&it->segment)->node != peer) {
        pw_segment_detach(&it->segment);
        return PW_ERR_MALFORMED;
    }
    it->out = ring_of(&it->segment, shared->num_nodes, shared->node);
    shared->num_near++;
    return 1;
}

void pw_shared_part(pw_shared_bursts *shared, uint32_t peer)
{
    if (!pw_shared_is_near(shared, peer)) return;
    neighbour *it = &shared->neighbours[peer];
    while (it->waiting.first) pw_waiting_move(&it->waiting, &shared->gone);
    for (uint32_t i = shared->waiting.num_nodes; i-- > 0;)
        if (shared->waiting.node[i] == peer) set_remove_at(&shared->waiting, i);
    pw_segment_detach(&it->segment);
    shared->num_near--;
}

uint32_t pw_shared_agree(pw_shared_bursts *shared, const uint8_t *is_mutual)
{
    uint32_t num_near = 0;
    for (uint32_t peer = 0; peer < shared->num_nodes; peer++) {
        if (!is_mutual[peer]) pw_shared_part(shared, peer);
        num_near += pw_shared_is_near(shared, peer);
    }
    close(shared->facts.fd);
    shared->facts.fd = -1;
    return num_near;
}

uint8_t *pw_shared_allocate(pw_shared_bursts *shared, size_t num_bytes)
{
    const size_t room = shared->segment.num_bytes - shared->area_end;
    if (num_bytes > room || pw_segment_reach(&shared->segment, shared->area_end, num_bytes))
        return NULL;
    uint8_t *data = shared->segment.base + shared->area_end;
    const size_t rounded = (num_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    shared->area_end += rounded < room ? rounded : room;
    return data;
}
