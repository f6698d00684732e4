/* Reductions: vectors in scratch memory, combined on the way. */
#include <limits.h>
#include <string.h>

#include "transport/facade/blocking.h"
#include "transport/facade/collectives.h"

#define TAG PW_COLLECTIVE_TAG

/* The two vectors of a rank; they change places. */
typedef struct {
    pw_messaging *messaging;
    pw_channel *channel;
    uint64_t count, element_bytes, num_bytes;
    pw_mpi_handle datatype, op;
    pw_scratch *mine, *theirs;
    bool is_left; /* by a message that did not end well: the NI may still use both */
} reduction;

static uint64_t address_of(const pw_scratch *block) { return (uint64_t)(uintptr_t)block->bytes; }

static int open_reduction(reduction *all, uint64_t send_address, bool needs_theirs)
{
    pw_scratch **blocks = &all->messaging->scratches;
    all->mine = pw_scratch_take(blocks, all->num_bytes);
    if (!all->mine) return PW_ERR_NOMEM;
    if (all->num_bytes)
        memcpy(all->mine->bytes, (const void *)(uintptr_t)send_address, all->num_bytes);
    if (!needs_theirs) return PW_OK;
    all->theirs = pw_scratch_take(blocks, all->num_bytes);
    return all->theirs ? PW_OK : PW_ERR_NOMEM;
}

static void close_reduction(const reduction *all)
{
    if (all->is_left) return;
    pw_scratch_give(&all->messaging->scratches, all->mine);
    pw_scratch_give(&all->messaging->scratches, all->theirs);
}

/* higher = lower op higher */
static int combine(const reduction *all, const pw_scratch *lower, pw_scratch *higher)
{
    const uint64_t at_once = INT_MAX;
    for (uint64_t done = 0; done < all->count; done += at_once) {
        const uint64_t left = all->count - done, count = left < at_once ? left : at_once;
        const uint64_t offset = done * all->element_bytes;
        int error = all->messaging->mpi->reduce_local(lower->bytes + offset, higher->bytes + offset,
                                                      (int)count, all->datatype, all->op);
        if (error) {
            all->messaging->mpi_error = error;
            return PW_ERR_HOST;
        }
    }
    return PW_OK;
}

/* The result becomes `mine`. is_below: what came is of lower ranks. */
static int join(reduction *all, bool is_below)
{
    if (is_below) return combine(all, all->theirs, all->mine);
    int code = combine(all, all->mine, all->theirs);
    pw_scratch *result = all->theirs;
    all->theirs = all->mine;
    all->mine = result;
    return code;
}

static int64_t note(reduction *all, int64_t result)
{
    all->is_left |= result != PW_OK;
    return result;
}

static int64_t send(reduction *all, const pw_scratch *memory, int64_t dest)
{
    return note(all, pw_block_send(all->messaging, all->channel, address_of(memory), all->num_bytes,
                                   (int32_t)dest, TAG, 0));
}

static int64_t receive(reduction *all, const pw_scratch *memory, int64_t source)
{
    return note(all, pw_block_receive(all->messaging, all->channel, address_of(memory),
                                      all->num_bytes, (int32_t)source, TAG, 0, NULL));
}

static int64_t exchange(reduction *all, int64_t partner)
{
    const pw_block_message outgoing = {address_of(all->mine), all->num_bytes, (int32_t)partner,
                                       TAG};
    const pw_block_message incoming = {address_of(all->theirs), all->num_bytes, (int32_t)partner,
                                       TAG};
    return note(all,
                pw_block_exchange(all->messaging, all->channel, &outgoing, &incoming, 0, NULL));
}

/* Among `power` places, the first num_pairs of which are pairs of ranks. */
static int64_t double_up(reduction *all, int64_t place, int64_t power, int64_t num_pairs)
{
    int64_t result = PW_OK;
    for (int64_t distance = 1; distance < power && result == PW_OK; distance *= 2) {
        const int64_t other = place ^ distance;
        result = exchange(all, other < num_pairs ? 2 * other + 1 : other + num_pairs);
        if (result == PW_OK) result = join(all, other < place);
    }
    return result;
}

static int64_t allreduce(reduction *all)
{
    const int64_t rank = all->channel->rank, size = all->channel->size;
    int64_t power = 1, result = PW_OK;
    while (2 * power <= size) power *= 2;
    const int64_t num_pairs = size - power;
    const bool is_paired = rank < 2 * num_pairs;
    if (is_paired && rank % 2 == 0) {
        result = send(all, all->mine, rank + 1);
        return result == PW_OK ? receive(all, all->mine, rank + 1) : result;
    }
    if (is_paired) {
        result = receive(all, all->theirs, rank - 1);
        if (result == PW_OK) result = join(all, true);
    }
    if (result == PW_OK)
        result = double_up(all, is_paired ? rank / 2 : rank - num_pairs, power, num_pairs);
    return result == PW_OK && is_paired ? send(all, all->mine, rank - 1) : result;
}

static int64_t reduce(reduction *all, const pw_tree *tree)
{
    for (int32_t i = tree->num_children; i--;) {
        int64_t result = receive(all, all->theirs, tree->child[i]);
        if (result == PW_OK) result = join(all, false);
        if (result != PW_OK) return result;
    }
    return tree->parent < 0 ? PW_OK : send(all, all->mine, tree->parent);
}

static void store(const reduction *all, uint64_t receive_address)
{
    if (all->num_bytes)
        memcpy((void *)(uintptr_t)receive_address, all->mine->bytes, all->num_bytes);
}

static reduction reduction_of(pw_messaging *messaging, pw_channel *channel, uint64_t count,
                              uint64_t element_bytes, pw_mpi_handle datatype, pw_mpi_handle op)
{
    return (reduction){.messaging = messaging,
                       .channel = channel,
                       .count = count,
                       .element_bytes = element_bytes,
                       .num_bytes = count * element_bytes,
                       .datatype = datatype,
                       .op = op};
}

int64_t pw_call_allreduce(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                          pw_channel *channel, uint64_t send_address, uint64_t receive_address,
                          uint64_t count, uint64_t element_bytes, pw_mpi_handle datatype,
                          pw_mpi_handle op, uint32_t flags)
{
    reduction all = reduction_of(messaging, channel, count, element_bytes, datatype, op);
    pw_block_begin(messaging, call, began_ns, flags);
    int64_t result = open_reduction(&all, send_address, true);
    if (result == PW_OK) result = allreduce(&all);
    if (result == PW_OK) store(&all, receive_address);
    close_reduction(&all);
    pw_block_end(messaging, flags);
    return result;
}

int64_t pw_call_reduce(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                       pw_channel *channel, uint64_t send_address, uint64_t receive_address,
                       uint64_t count, uint64_t element_bytes, pw_mpi_handle datatype,
                       pw_mpi_handle op, int32_t root, uint32_t flags)
{
    const pw_tree tree = pw_tree_of(channel, root);
    reduction all = reduction_of(messaging, channel, count, element_bytes, datatype, op);
    pw_block_begin(messaging, call, began_ns, flags);
    int64_t result = open_reduction(&all, send_address, tree.num_children > 0);
    if (result == PW_OK) result = reduce(&all, &tree);
    if (result == PW_OK && tree.parent < 0) store(&all, receive_address);
    close_reduction(&all);
    pw_block_end(messaging, flags);
    return result;
}
