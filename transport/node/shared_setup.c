#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "transport/node/owner_page.h"
#include "transport/node/shared_rings.h"

static size_t rings_offset(uint32_t num_nodes)
{
    const size_t end = ALIGNMENT + num_words(num_nodes) * sizeof(uint64_t);
    return (end + PW_PAGE_BYTES - 1) / PW_PAGE_BYTES * PW_PAGE_BYTES;
}

static size_t area_offset(uint32_t num_nodes)
{
    return rings_offset(num_nodes) + num_nodes * RING_BYTES;
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
    pw_waiting_finish(&shared->pool);
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
