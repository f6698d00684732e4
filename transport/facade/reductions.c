/* Reductions: vectors in memory of the library's own, combined on the way. */
#include <limits.h>
#include <stdlib.h>
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
    uint8_t *mine, *theirs;
} reduction;

static uint64_t address_of(const uint8_t *memory) { return (uint64_t)(uintptr_t)memory; }

static uint8_t *allocate(uint64_t num_bytes) { return malloc(num_bytes ? num_bytes : 1); }

/* An allocation for each call, as MPI libraries do: pages that were not there before fault. */
static int open_reduction(reduction *all, uint64_t send_address, bool needs_theirs)
{
    all->mine = allocate(all->num_bytes);
    if (!all->mine) return PW_ERR_NOMEM;
    if (all->num_bytes) memcpy(all->mine, (const void *)(uintptr_t)send_address, all->num_bytes);
    if (!needs_theirs) return PW_OK;
    all->theirs = allocate(all->num_bytes);
    return all->theirs ? PW_OK : PW_ERR_NOMEM;
}

static void close_reduction(reduction *all, int64_t result)
{
    if (result == PW_OK) {
        free(all->mine);
        free(all->theirs);
    } else { /* the NI may still use them */
        pw_messaging_keep(all->messaging, all->mine);
        pw_messaging_keep(all->messaging, all->theirs);
    }
}

/* higher = lower op higher */
static int combine(const reduction *all, const uint8_t *lower, uint8_t *higher)
{
    const uint64_t at_once = INT_MAX;
    for (uint64_t done = 0; done < all->count; done += at_once) {
        const uint64_t left = all->count - done, count = left < at_once ? left : at_once;
        const uint64_t offset = done * all->element_bytes;
        int error = all->messaging->mpi->reduce_local(lower + offset, higher + offset, (int)count,
                                                      all->datatype, all->op);
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
    uint8_t *result = all->theirs;
    all->theirs = all->mine;
    all->mine = result;
    return code;
}

static int64_t send(const reduction *all, const uint8_t *memory, int64_t dest)
{
    return pw_block_send(all->messaging, all->channel, address_of(memory), all->num_bytes,
                         (int32_t)dest, TAG, 0);
}

static int64_t receive(const reduction *all, const uint8_t *memory, int64_t source)
{
    return pw_block_receive(all->messaging, all->channel, address_of(memory), all->num_bytes,
                            (int32_t)source, TAG, 0, NULL);
}

static int64_t exchange(const reduction *all, int64_t partner)
{
    const pw_block_message outgoing = {address_of(all->mine), all->num_bytes, (int32_t)partner,
                                       TAG};
    const pw_block_message incoming = {address_of(all->theirs), all->num_bytes, (int32_t)partner,
                                       TAG};
    return pw_block_exchange(all->messaging, all->channel, &outgoing, &incoming, 0, NULL);
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
    if (all->num_bytes) memcpy((void *)(uintptr_t)receive_address, all->mine, all->num_bytes);
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
    close_reduction(&all, result);
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
    close_reduction(&all, result);
    pw_block_end(messaging, flags);
    return result;
}
