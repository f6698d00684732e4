#include "transport/facade/collectives.h"

#include "transport/facade/blocking.h"

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

static int64_t exchange(pw_messaging *messaging, pw_channel *channel, uint64_t send_address,
                        uint64_t send_bytes, int64_t dest, uint64_t receive_address,
                        uint64_t receive_bytes, int64_t source)
{
    const pw_block_message outgoing = {send_address, send_bytes, (int32_t)dest, TAG};
    const pw_block_message incoming = {receive_address, receive_bytes, (int32_t)source, TAG};
    return pw_block_exchange(messaging, channel, &outgoing, &incoming, 0, NULL);
}

static int64_t barrier(pw_messaging *messaging, pw_channel *channel)
{
    const int64_t rank = channel->rank, size = channel->size;
    int64_t result = PW_OK;
    for (int64_t distance = 1; distance < size && result == PW_OK; distance *= 2)
        result = exchange(messaging, channel, 0, 0, (rank + distance) % size, 0, 0,
                          (rank - distance + size) % size);
    return result;
}

/* Start all sends and wait for all; those that are posted form the chain of pw_block_on. */
static int64_t send_to_children(pw_messaging *messaging, pw_channel *channel, const pw_tree *tree,
                                uint64_t address, uint64_t num_bytes)
{
    pw_operation *first = NULL, **last = &first;
    for (int32_t i = 0; i < tree->num_children; i++) {
        int code =
            pw_post_send(messaging, channel, address, num_bytes, tree->child[i], TAG, false, last);
        if (code < 0) {
            *last = NULL;
            pw_block_abandon(messaging, first);
            return code;
        }
        if (*last) last = &(*last)->companion;
    }
    return pw_block_on(messaging, first, 0, NULL);
}

static int64_t broadcast(pw_messaging *messaging, pw_channel *channel, uint64_t address,
                         uint64_t num_bytes, int32_t root)
{
    const pw_tree tree = pw_tree_of(channel, root);
    if (tree.parent >= 0) {
        int64_t result =
            pw_block_receive(messaging, channel, address, num_bytes, tree.parent, TAG, 0, NULL);
        if (result != PW_OK) return result;
    }
    return send_to_children(messaging, channel, &tree, address, num_bytes);
}

/* For a power of two of ranks: log2(size) steps, each with twice the bytes of the last. */
static int64_t allgather_doubling(pw_messaging *messaging, pw_channel *channel, uint64_t address,
                                  uint64_t block_bytes)
{
    const int64_t rank = channel->rank;
    int64_t result = PW_OK;
    for (int64_t distance = 1; distance < channel->size && result == PW_OK; distance *= 2) {
        const int64_t partner = rank ^ distance;
        const uint64_t num_bytes = (uint64_t)distance * block_bytes;
        const uint64_t mine = (uint64_t)(rank / distance) * num_bytes;
        const uint64_t theirs = (uint64_t)(partner / distance) * num_bytes;
        result = exchange(messaging, channel, address + mine, num_bytes, partner, address + theirs,
                          num_bytes, partner);
    }
    return result;
}

/* In each step a rank passes on what it got in the last. */
static int64_t allgather_ring(pw_messaging *messaging, pw_channel *channel, uint64_t address,
                              uint64_t block_bytes)
{
    const int64_t rank = channel->rank, size = channel->size;
    const int64_t right = (rank + 1) % size, left = (rank - 1 + size) % size;
    int64_t result = PW_OK;
    for (int64_t step = 0; step < size - 1 && result == PW_OK; step++) {
        const uint64_t outgoing = (uint64_t)((rank - step + size) % size) * block_bytes;
        const uint64_t incoming = (uint64_t)((rank - step - 1 + size) % size) * block_bytes;
        result = exchange(messaging, channel, address + outgoing, block_bytes, right,
                          address + incoming, block_bytes, left);
    }
    return result;
}

static int64_t allgather(pw_messaging *messaging, pw_channel *channel, uint64_t address,
                         uint64_t block_bytes)
{
    const uint64_t size = (uint64_t)channel->size;
    const bool is_short = size * block_bytes <= PW_COLLECTIVE_LONG_BYTES;
    if (is_short && (size & (size - 1)) == 0)
        return allgather_doubling(messaging, channel, address, block_bytes);
    return allgather_ring(messaging, channel, address, block_bytes);
}

static int64_t alltoall(pw_messaging *messaging, pw_channel *channel, uint64_t send_address,
                        uint64_t receive_address, uint64_t block_bytes)
{
    const int64_t rank = channel->rank, size = channel->size;
    int64_t result = PW_OK;
    for (int64_t step = 1; step < size && result == PW_OK; step++) {
        const int64_t dest = (rank + step) % size, source = (rank - step + size) % size;
        result =
            exchange(messaging, channel, send_address + (uint64_t)dest * block_bytes, block_bytes,
                     dest, receive_address + (uint64_t)source * block_bytes, block_bytes, source);
    }
    return result;
}

int64_t pw_call_barrier(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                        pw_channel *channel, uint32_t flags)
{
    pw_block_begin(messaging, call, began_ns, flags);
    int64_t result = barrier(messaging, channel);
    pw_block_end(messaging, flags);
    return result;
}

int64_t pw_call_broadcast(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                          pw_channel *channel, uint64_t address, uint64_t num_bytes, int32_t root,
                          uint32_t flags)
{
    pw_block_begin(messaging, call, began_ns, flags);
    int64_t result = broadcast(messaging, channel, address, num_bytes, root);
    pw_block_end(messaging, flags);
    return result;
}

int64_t pw_call_allgather(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                          pw_channel *channel, uint64_t address, uint64_t block_bytes,
                          uint32_t flags)
{
    pw_block_begin(messaging, call, began_ns, flags);
    int64_t result = allgather(messaging, channel, address, block_bytes);
    pw_block_end(messaging, flags);
    return result;
}

int64_t pw_call_alltoall(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                         pw_channel *channel, uint64_t send_address, uint64_t receive_address,
                         uint64_t block_bytes, uint32_t flags)
{
    pw_block_begin(messaging, call, began_ns, flags);
    int64_t result = alltoall(messaging, channel, send_address, receive_address, block_bytes);
    pw_block_end(messaging, flags);
    return result;
}
