#include "transport/facade/collectives.h"
#include <string.h>

#include "transport/facade/calls.h"

#define TAG PW_COLLECTIVE_TAG

pw_tree pw_tree_of(const pw_channel *channel, int32_t root)
{
    pw_tree tree = {.parent = -1};
    const int64_t size = channel->size, relative = (channel->rank - root + size) % size;
    int64_t distance = 1;
    while (distance < size && !(relative & distance)) distance *= 2;
    if (distance < size) tree.parent = (int32_t)((relative - distance + root) % size);
    while (distance /= 2)
        if (relative + distance < size)
            tree.child[tree.num_children++] = (int32_t)((relative + distance + root) % size);
    return tree;
}

/* A receive that ended well is given back; its length is noted. */
static int64_t land(pw_messaging *messaging, int64_t result, uint64_t *num_bytes)
{
    if (result <= 0) return result;
    pw_operation *operation = (pw_operation *)(intptr_t)result;
    if (operation->kind != PW_OPERATION_RECEIVE || operation->error ||
        pw_operation_is_truncated(operation))
        return result;
    *num_bytes = operation->num_bytes;
    pw_operation_free(&messaging->messages, operation);
    return PW_OK;
}

static int64_t send(pw_messaging *messaging, pw_channel *channel, pw_span span, int64_t dest)
{
    return pw_block_send(messaging, channel, span.address, span.num_bytes, (int32_t)dest, TAG, 0);
}

static int64_t receive(pw_messaging *messaging, pw_channel *channel, pw_span *span, int64_t source)
{
    int64_t result = pw_block_receive(messaging, channel, span->address, span->num_bytes,
                                      (int32_t)source, TAG, PW_CALL_KEEP, NULL);
    return land(messaging, result, &span->num_bytes);
}

static int64_t exchange(pw_messaging *messaging, pw_channel *channel, pw_span sent, int64_t dest,
                        pw_span *received, int64_t source)
{
    const pw_block_message outgoing = {sent.address, sent.num_bytes, (int32_t)dest, TAG};
    const pw_block_message incoming = {received->address, received->num_bytes, (int32_t)source,
                                       TAG};
    int64_t result =
        pw_block_exchange(messaging, channel, &outgoing, &incoming, PW_CALL_KEEP, NULL);
    return land(messaging, result, &received->num_bytes);
}

/* Several operations that are started and then waited for: the chain of pw_block_on. */
typedef struct {
    pw_operation *first, **last;
} started;

static int64_t add(pw_messaging *messaging, started *all, int code)
{
    if (code < 0) {
        *all->last = NULL;
        pw_block_abandon(messaging, all->first);
    } else if (*all->last) { /* none: an eager send */
        all->last = &(*all->last)->companion;
    }
    return code;
}

static int64_t start_send(pw_messaging *messaging, pw_channel *channel, started *all, pw_span span,
                          int32_t dest)
{
    int code =
        pw_post_send(messaging, channel, span.address, span.num_bytes, dest, TAG, false, all->last);
    return add(messaging, all, code);
}

static int64_t start_receive(pw_messaging *messaging, pw_channel *channel, started *all,
                             pw_span span, int32_t source)
{
    int code = pw_post_receive(messaging, channel, span.address, span.num_bytes, false, source, TAG,
                               all->last);
    return add(messaging, all, code);
}

int64_t pw_collective_barrier(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                              pw_channel *channel, const int32_t *members, int32_t num_members,
                              int32_t tag)
{
    const int64_t size = num_members;
    int64_t place = channel->rank, result = PW_OK;
    if (members)
        for (place = 0; members[place] != channel->rank;) place++;
    pw_block_begin(messaging, call, began_ns);
    for (int64_t distance = 1; distance < size && result == PW_OK; distance *= 2) {
        const int64_t after = (place + distance) % size, before = (place - distance + size) % size;
        const pw_block_message outgoing = {0, 0, members ? members[after] : (int32_t)after, tag};
        const pw_block_message incoming = {0, 0, members ? members[before] : (int32_t)before, tag};
        result = pw_block_exchange(messaging, channel, &outgoing, &incoming, 0, NULL);
    }
    pw_block_end(messaging, began_ns);
    return result;
}

static int64_t broadcast(pw_messaging *messaging, pw_channel *channel, pw_span *span, int32_t root)
{
    const pw_tree tree = pw_tree_of(channel, root);
    int64_t result = tree.parent < 0 ? PW_OK : receive(messaging, channel, span, tree.parent);
    started sends = {.last = &sends.first};
    for (int32_t i = 0; i < tree.num_children && result == PW_OK; i++)
        result = start_send(messaging, channel, &sends, *span, tree.child[i]);
    return result == PW_OK ? pw_block_on(messaging, sends.first, 0, NULL) : result;
}

int64_t pw_collective_broadcast(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                                pw_channel *channel, uint64_t address, uint64_t num_bytes,
                                int32_t root, uint64_t *num_received)
{
    pw_span span = {address, num_bytes};
    pw_block_begin(messaging, call, began_ns);
    int64_t result = broadcast(messaging, channel, &span, root);
    pw_block_end(messaging, began_ns);
    if (num_received) *num_received = span.num_bytes;
    return result;
}

/* Of the memory that holds the blocks of this rank's subtree, the part of `rank`'s subtree. */
static pw_span part_of(const pw_channel *channel, uint64_t address, uint64_t block_bytes,
                       int32_t root, int64_t rank)
{
    const int64_t size = channel->size;
    const int64_t mine = (channel->rank - root + size) % size, its = (rank - root + size) % size;
    int64_t held = its ? its & -its : size;
    if (held > size - its) held = size - its;
    return (pw_span){address + (uint64_t)(its - mine) * block_bytes, (uint64_t)held * block_bytes};
}

static int64_t gather(pw_messaging *messaging, pw_channel *channel, uint64_t address,
                      uint64_t block_bytes, int32_t root)
{
    const pw_tree tree = pw_tree_of(channel, root);
    for (int32_t i = tree.num_children; i--;) {
        pw_span part = part_of(channel, address, block_bytes, root, tree.child[i]);
        int64_t result = receive(messaging, channel, &part, tree.child[i]);
        if (result != PW_OK) return result;
    }
    if (tree.parent < 0) return PW_OK;
    const pw_span mine = part_of(channel, address, block_bytes, root, channel->rank);
    return send(messaging, channel, mine, tree.parent);
}

int64_t pw_collective_gather(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                             pw_channel *channel, uint64_t address, uint64_t block_bytes,
                             int32_t root)
{
    pw_block_begin(messaging, call, began_ns);
    int64_t result = gather(messaging, channel, address, block_bytes, root);
    pw_block_end(messaging, began_ns);
    return result;
}

static int64_t scatter(pw_messaging *messaging, pw_channel *channel, uint64_t address,
                       uint64_t block_bytes, int32_t root, uint64_t *num_received)
{
    const pw_tree tree = pw_tree_of(channel, root);
    int64_t result = PW_OK;
    if (tree.parent >= 0) {
        pw_span mine = part_of(channel, address, block_bytes, root, channel->rank);
        result = receive(messaging, channel, &mine, tree.parent);
        *num_received = mine.num_bytes < block_bytes ? mine.num_bytes : block_bytes;
    }
    started sends = {.last = &sends.first};
    for (int32_t i = 0; i < tree.num_children && result == PW_OK; i++) {
        const pw_span part = part_of(channel, address, block_bytes, root, tree.child[i]);
        result = start_send(messaging, channel, &sends, part, tree.child[i]);
    }
    return result == PW_OK ? pw_block_on(messaging, sends.first, 0, NULL) : result;
}

int64_t pw_collective_scatter(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                              pw_channel *channel, uint64_t address, uint64_t block_bytes,
                              int32_t root, uint64_t *num_received)
{
    pw_block_begin(messaging, call, began_ns);
    int64_t result = scatter(messaging, channel, address, block_bytes, root, num_received);
    pw_block_end(messaging, began_ns);
    return result;
}

static int64_t gather_each(pw_messaging *messaging, pw_channel *channel, pw_span *blocks)
{
    const int32_t root = channel->rank;
    int64_t result = PW_OK;
    started receives = {.last = &receives.first};
    for (int32_t i = 0; i < channel->size && result == PW_OK; i++)
        if (i != root) result = start_receive(messaging, channel, &receives, blocks[i], i);
    if (result != PW_OK) return result;
    pw_operation *each = receives.first;
    for (int32_t i = 0; i < channel->size && result == PW_OK; i++) {
        if (i == root) continue;
        pw_operation *next = each->companion;
        each->companion = NULL;
        result =
            land(messaging, pw_block_on(messaging, each, PW_CALL_KEEP, NULL), &blocks[i].num_bytes);
        each = next;
    }
    if (result != PW_OK) pw_block_abandon(messaging, each);
    return result;
}

int64_t pw_collective_gather_each(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                                  pw_channel *channel, pw_span *blocks, int32_t root)
{
    pw_block_begin(messaging, call, began_ns);
    int64_t result = channel->rank == root ? gather_each(messaging, channel, blocks)
                                           : send(messaging, channel, blocks[0], root);
    pw_block_end(messaging, began_ns);
    return result;
}

static int64_t scatter_each(pw_messaging *messaging, pw_channel *channel, const pw_span *blocks)
{
    int64_t result = PW_OK;
    started sends = {.last = &sends.first};
    for (int32_t i = 0; i < channel->size && result == PW_OK; i++)
        if (i != channel->rank) result = start_send(messaging, channel, &sends, blocks[i], i);
    return result == PW_OK ? pw_block_on(messaging, sends.first, 0, NULL) : result;
}

int64_t pw_collective_scatter_each(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                                   pw_channel *channel, pw_span *blocks, int32_t root)
{
    pw_block_begin(messaging, call, began_ns);
    int64_t result = channel->rank == root ? scatter_each(messaging, channel, blocks)
                                           : receive(messaging, channel, &blocks[0], root);
    pw_block_end(messaging, began_ns);
    return result;
}

/* Blocks of the ranks: one after the other at `address`, or by `each`. */
typedef struct {
    uint64_t address, num_bytes;
    const pw_span *each;
} blocks;

static pw_span block_of(const blocks *all, int64_t rank)
{
    if (all->each) return all->each[rank];
    return (pw_span){all->address + (uint64_t)rank * all->num_bytes, all->num_bytes};
}

/* Send rank `dest` its block, and receive that of rank `source`. */
static int64_t exchange_blocks(pw_messaging *messaging, pw_channel *channel, pw_span sent,
                               int64_t dest, const blocks *to, int64_t block, int64_t source,
                               pw_span *landed)
{
    pw_span received = block_of(to, block);
    int64_t result = exchange(messaging, channel, sent, dest, &received, source);
    if (landed) landed[block].num_bytes = received.num_bytes;
    return result;
}

/* For a power of two of ranks: log2(size) steps, each with twice the bytes of the last. */
static int64_t allgather_doubling(pw_messaging *messaging, pw_channel *channel, const blocks *all)
{
    const int64_t rank = channel->rank;
    int64_t result = PW_OK;
    for (int64_t distance = 1; distance < channel->size && result == PW_OK; distance *= 2) {
        const int64_t partner = rank ^ distance;
        const uint64_t num_bytes = (uint64_t)distance * all->num_bytes;
        const pw_span mine = {block_of(all, rank & -distance).address, num_bytes};
        pw_span theirs = {block_of(all, partner & -distance).address, num_bytes};
        result = exchange(messaging, channel, mine, partner, &theirs, partner);
    }
    return result;
}

/* In each step a rank passes on what it got in the last. */
static int64_t allgather_ring(pw_messaging *messaging, pw_channel *channel, const blocks *all,
                              pw_span *landed)
{
    const int64_t rank = channel->rank, size = channel->size;
    const int64_t right = (rank + 1) % size, left = (rank - 1 + size) % size;
    int64_t result = PW_OK;
    for (int64_t step = 0; step < size - 1 && result == PW_OK; step++)
        result = exchange_blocks(messaging, channel, block_of(all, (rank - step + size) % size),
                                 right, all, (rank - step - 1 + size) % size, left, landed);
    return result;
}

int64_t pw_collective_allgather(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                                pw_channel *channel, uint64_t address, uint64_t block_bytes,
                                pw_span *each)
{
    const uint64_t size = (uint64_t)channel->size;
    const bool is_short = size * block_bytes <= PW_COLLECTIVE_LONG_BYTES;
    const blocks all = {address, block_bytes, each};
    pw_block_begin(messaging, call, began_ns);
    int64_t result = !each && is_short && (size & (size - 1)) == 0
                         ? allgather_doubling(messaging, channel, &all)
                         : allgather_ring(messaging, channel, &all, each);
    pw_block_end(messaging, began_ns);
    return result;
}

int64_t pw_collective_alltoall(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                               pw_channel *channel, uint64_t send_address, uint64_t receive_address,
                               uint64_t block_bytes, const pw_span *outgoing, pw_span *incoming)
{
    const int64_t rank = channel->rank, size = channel->size;
    const blocks sent = {send_address, block_bytes, outgoing};
    const blocks received = {receive_address, block_bytes, incoming};
    int64_t result = PW_OK;
    pw_block_begin(messaging, call, began_ns);
    if (!incoming && block_bytes)
        memmove((void *)(uintptr_t)block_of(&received, rank).address,
                (const void *)(uintptr_t)block_of(&sent, rank).address, block_bytes);
    for (int64_t step = 1; step < size && result == PW_OK; step++) {
        const int64_t dest = (rank + step) % size, source = (rank - step + size) % size;
        result = exchange_blocks(messaging, channel, block_of(&sent, dest), dest, &received, source,
                                 source, incoming);
    }
    pw_block_end(messaging, began_ns);
    return result;
}
