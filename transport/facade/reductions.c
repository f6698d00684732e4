/* Reductions: vectors in scratch memory, combined on the way. */
#include <limits.h>
#include <string.h>

#include "transport/facade/calls.h"
#include "transport/facade/collectives.h"

#define TAG PW_COLLECTIVE_TAG

/* A rank's vectors. The first two change places. */
typedef struct {
    pw_messaging *messaging;
    pw_channel *channel;
    const pw_vectors *vectors;
    uint64_t num_bytes;
    pw_scratch *mine, *theirs, *below;
    int64_t began_ns; /* the call */
    bool is_left;     /* by a message that did not end well: the NI may still use all */
} reduction;

static pw_scratch *take(const reduction *all, uint64_t num_bytes)
{
    return pw_scratch_take(&all->messaging->scratches, num_bytes);
}

static void copy(uint8_t *to, const uint8_t *from, uint64_t num_bytes)
{
    if (num_bytes) memcpy(to, from, num_bytes);
}

static void load(const reduction *all)
{
    const uint8_t *sent = (const uint8_t *)(uintptr_t)all->vectors->send_address;
    copy(all->mine->bytes, sent, all->num_bytes);
}

/* The node is unlocked while the host works: it may ask for the time. */
static int reduce_local(const reduction *all, const uint8_t *lower, uint8_t *higher, int count)
{
    pw_messaging *messaging = all->messaging;
    const pw_vectors *vectors = all->vectors;
    const bool is_of_host = vectors->op_traits & PW_OP_OF_HOST;
    if (is_of_host) pw_node_unlock(messaging->node);
    int error = messaging->mpi->reduce_local(lower, higher, count, vectors->datatype, vectors->op);
    if (is_of_host) pw_node_lock(messaging->node);
    if (!error) return PW_OK;
    messaging->mpi_error = error;
    return PW_ERR_HOST;
}

/* An operation that is not the type's fails at every rank, before any waits for another. */
static int try_operation(const reduction *all)
{
    uint64_t lower[4] = {0}, higher[4] = {0};
    const pw_vectors *vectors = all->vectors;
    pw_tried_operation *tried = &all->messaging->tried;
    if (!vectors->count || vectors->element_bytes > sizeof lower ||
        vectors->op_traits & PW_OP_OF_HOST ||
        (tried->op == vectors->op && tried->datatype == vectors->datatype))
        return PW_OK;
    const int code = reduce_local(all, (uint8_t *)lower, (uint8_t *)higher, 1);
    if (code == PW_OK) *tried = (pw_tried_operation){vectors->op, vectors->datatype};
    return code;
}

/* num_theirs: elements of what comes. */
static int open_reduction(reduction *all, pw_messaging *messaging, uint32_t call, int64_t began_ns,
                          pw_channel *channel, const pw_vectors *vectors, uint64_t num_theirs)
{
    *all = (reduction){
        .messaging = messaging, .channel = channel, .vectors = vectors, .began_ns = began_ns};
    all->num_bytes = vectors->count * vectors->element_bytes;
    pw_block_begin(messaging, call, began_ns);
    const int code = try_operation(all);
    if (code < 0) return code;
    all->mine = take(all, all->num_bytes);
    if (!all->mine) return PW_ERR_NOMEM;
    load(all);
    all->theirs = take(all, num_theirs * vectors->element_bytes);
    return all->theirs ? PW_OK : PW_ERR_NOMEM;
}

static void close_reduction(const reduction *all)
{
    pw_scratch **blocks = &all->messaging->scratches;
    if (!all->is_left) {
        pw_scratch_give(blocks, all->mine);
        pw_scratch_give(blocks, all->theirs);
        pw_scratch_give(blocks, all->below);
    }
    pw_block_end(all->messaging, all->began_ns);
}

/* higher = lower op higher */
static int combine(const reduction *all, const uint8_t *lower, uint8_t *higher, uint64_t count)
{
    const uint64_t at_once = INT_MAX;
    int code = PW_OK;
    for (uint64_t done = 0; done < count && code == PW_OK; done += at_once) {
        const uint64_t left = count - done, offset = done * all->vectors->element_bytes;
        code = reduce_local(all, lower + offset, higher + offset,
                            (int)(left < at_once ? left : at_once));
    }
    return code;
}

static int combine_whole(const reduction *all, const pw_scratch *lower, const pw_scratch *higher)
{
    return combine(all, lower->bytes, higher->bytes, all->vectors->count);
}

/* Of a vector's elements. */
typedef struct {
    uint64_t first, count;
} part;

static uint8_t *bytes_of(const reduction *all, const pw_scratch *vector, part of)
{
    return vector->bytes + of.first * all->vectors->element_bytes;
}

/* The result becomes `mine`. is_below: what came is of lower ranks. */
static int join_part(reduction *all, part of, bool is_below)
{
    uint8_t *mine = bytes_of(all, all->mine, of), *theirs = bytes_of(all, all->theirs, of);
    if (is_below) return combine(all, theirs, mine, of.count);
    int code = combine(all, mine, theirs, of.count);
    pw_scratch *result = all->theirs;
    all->theirs = all->mine;
    all->mine = result;
    return code;
}

static int join(reduction *all, bool is_below)
{
    return join_part(all, (part){0, all->vectors->count}, is_below);
}

static int64_t note(reduction *all, int64_t result)
{
    all->is_left |= result != PW_OK;
    return result;
}

static int64_t send(reduction *all, int64_t dest)
{
    const uint64_t address = (uint64_t)(uintptr_t)all->mine->bytes;
    return note(all, pw_block_send(all->messaging, all->channel, address, all->num_bytes,
                                   (int32_t)dest, TAG, 0));
}

static int64_t receive(reduction *all, const pw_scratch *memory, int64_t source)
{
    const uint64_t address = (uint64_t)(uintptr_t)memory->bytes;
    return note(all, pw_block_receive(all->messaging, all->channel, address, all->num_bytes,
                                      (int32_t)source, TAG, 0, NULL));
}

static int64_t exchange_parts(reduction *all, const uint8_t *outgoing, uint64_t num_sent,
                              int64_t dest, const uint8_t *incoming, uint64_t num_received,
                              int64_t source)
{
    const pw_block_message sent = {(uint64_t)(uintptr_t)outgoing, num_sent, (int32_t)dest, TAG};
    const pw_block_message received = {(uint64_t)(uintptr_t)incoming, num_received, (int32_t)source,
                                       TAG};
    return note(all, pw_block_exchange(all->messaging, all->channel, &sent, &received, 0, NULL));
}

static int64_t exchange(reduction *all, int64_t partner)
{
    return exchange_parts(all, all->mine->bytes, all->num_bytes, partner, all->theirs->bytes,
                          all->num_bytes, partner);
}

/* Among places, the first num_pairs of which are pairs of ranks. */
static int64_t rank_at(int64_t place, int64_t num_pairs)
{
    return place < num_pairs ? 2 * place + 1 : place + num_pairs;
}

static int64_t double_up(reduction *all, int64_t place, int64_t power, int64_t num_pairs)
{
    int64_t result = PW_OK;
    for (int64_t distance = 1; distance < power && result == PW_OK; distance *= 2) {
        const int64_t other = place ^ distance;
        result = exchange(all, rank_at(other, num_pairs));
        if (result == PW_OK) result = join(all, other < place);
    }
    return result;
}

#define HALVINGS_MAX 31 /* ranks are 32 bits */

static part half_of(part whole, bool is_upper)
{
    const uint64_t lower = whole.count / 2;
    return is_upper ? (part){whole.first + lower, whole.count - lower} : (part){whole.first, lower};
}

/* Send `given`, receive `wanted`. */
static int64_t exchange_part(reduction *all, part given, const pw_scratch *memory, part wanted,
                             int64_t partner)
{
    const uint64_t element_bytes = all->vectors->element_bytes;
    return exchange_parts(all, bytes_of(all, all->mine, given), given.count * element_bytes,
                          partner, bytes_of(all, memory, wanted), wanted.count * element_bytes,
                          partner);
}

/* As double_up, for long vectors: partners halve what they have in common, each combines its half,
 * and in the end they give them back. The combinations are those of double_up. */
static int64_t halve(reduction *all, int64_t place, int64_t power, int64_t num_pairs)
{
    struct {
        part own, given;
        int64_t partner;
    } steps[HALVINGS_MAX];
    part own = {0, all->vectors->count};
    int64_t result = PW_OK;
    int depth = 0;
    for (int64_t distance = 1; distance < power && result == PW_OK; distance *= 2, depth++) {
        const int64_t other = place ^ distance, partner = rank_at(other, num_pairs);
        const bool is_upper = other < place;
        const part given = half_of(own, !is_upper);
        own = half_of(own, is_upper);
        steps[depth].own = own;
        steps[depth].given = given;
        steps[depth].partner = partner;
        result = exchange_part(all, given, all->theirs, own, partner);
        if (result == PW_OK) result = join_part(all, own, is_upper);
    }
    while (depth-- && result == PW_OK)
        result = exchange_part(all, steps[depth].own, all->mine, steps[depth].given,
                               steps[depth].partner);
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
        result = send(all, rank + 1);
        return result == PW_OK ? receive(all, all->mine, rank + 1) : result;
    }
    if (is_paired) {
        result = receive(all, all->theirs, rank - 1);
        if (result == PW_OK) result = join(all, true);
    }
    const bool is_long = all->num_bytes > PW_COLLECTIVE_LONG_BYTES && power > 2;
    const int64_t place = is_paired ? rank / 2 : rank - num_pairs;
    if (result == PW_OK)
        result =
            is_long ? halve(all, place, power, num_pairs) : double_up(all, place, power, num_pairs);
    return result == PW_OK && is_paired ? send(all, rank - 1) : result;
}

static void store(const reduction *all, const uint8_t *result, uint64_t num_bytes)
{
    copy((uint8_t *)(uintptr_t)all->vectors->receive_address, result, num_bytes);
}

int64_t pw_collective_allreduce(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                                pw_channel *channel, pw_vectors vectors)
{
    reduction all;
    int64_t result =
        open_reduction(&all, messaging, call, began_ns, channel, &vectors, vectors.count);
    if (result == PW_OK) result = allreduce(&all);
    if (result == PW_OK) store(&all, all.mine->bytes, all.num_bytes);
    close_reduction(&all);
    return result;
}

/* To the tree's root. */
static int64_t reduce(reduction *all, int32_t top)
{
    const pw_tree tree = pw_tree_of(all->channel, top);
    for (int32_t i = tree.num_children; i--;) {
        int64_t result = receive(all, all->theirs, tree.child[i]);
        if (result == PW_OK) result = join(all, false);
        if (result != PW_OK) return result;
    }
    return tree.parent < 0 ? PW_OK : send(all, tree.parent);
}

int64_t pw_collective_reduce(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                             pw_channel *channel, pw_vectors vectors, int32_t root)
{
    reduction all;
    const int32_t rank = channel->rank, top = vectors.op_traits & PW_OP_ORDERED ? 0 : root;
    int64_t result =
        open_reduction(&all, messaging, call, began_ns, channel, &vectors, vectors.count);
    if (result == PW_OK) result = reduce(&all, top);
    if (result == PW_OK && top != root && rank == top) result = send(&all, root);
    if (result == PW_OK && top != root && rank == root) result = receive(&all, all.mine, top);
    if (result == PW_OK && rank == root) store(&all, all.mine->bytes, all.num_bytes);
    close_reduction(&all);
    return result;
}

/* Where the part of `rank` begins in a vector, in bytes. */
static uint64_t part_offset(const reduction *all, const uint64_t *counts, int64_t rank)
{
    uint64_t before = 0;
    for (int64_t i = 0; i < rank; i++) before += counts[i];
    return before * all->vectors->element_bytes;
}

static int64_t reduce_scatter(reduction *all, const uint64_t *counts)
{
    const int64_t rank = all->channel->rank, size = all->channel->size;
    const uint64_t element_bytes = all->vectors->element_bytes, count = counts[rank];
    const uint64_t part_bytes = count * element_bytes;
    int64_t result = PW_OK;
    for (int64_t step = 1; step < size && result == PW_OK; step++) {
        const int64_t dest = (rank + step) % size, source = (rank - step + size) % size;
        result = exchange_parts(
            all, all->mine->bytes + part_offset(all, counts, dest), counts[dest] * element_bytes,
            dest, all->theirs->bytes + (uint64_t)source * part_bytes, part_bytes, source);
    }
    uint8_t *lower = NULL;
    for (int64_t i = 0; i < size && result == PW_OK; i++) {
        uint8_t *each = i == rank ? all->mine->bytes + part_offset(all, counts, rank)
                                  : all->theirs->bytes + (uint64_t)i * part_bytes;
        if (lower) result = combine(all, lower, each, count);
        lower = each;
    }
    if (result == PW_OK) store(all, lower, part_bytes);
    return result;
}

int64_t pw_collective_reduce_scatter(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                                     pw_channel *channel, pw_vectors vectors,
                                     const uint64_t *counts)
{
    reduction all;
    const uint64_t parts = (uint64_t)channel->size * counts[channel->rank];
    int64_t result = open_reduction(&all, messaging, call, began_ns, channel, &vectors, parts);
    if (result == PW_OK) result = reduce_scatter(&all, counts);
    close_reduction(&all);
    return result;
}

/* What came from lower ranks goes below, too. */
static int64_t lower_came(reduction *all)
{
    if (all->below) return combine_whole(all, all->theirs, all->below);
    all->below = take(all, all->num_bytes);
    if (!all->below) return PW_ERR_NOMEM;
    copy(all->below->bytes, all->theirs->bytes, all->num_bytes);
    return PW_OK;
}

/* `mine` becomes the result of the ranks met so far, `below` that of those lower than this. */
static int64_t scan(reduction *all)
{
    const int64_t rank = all->channel->rank;
    for (int64_t distance = 1; distance < all->channel->size; distance *= 2) {
        const int64_t partner = rank ^ distance;
        if (partner >= all->channel->size) continue;
        int64_t result = exchange(all, partner);
        if (result == PW_OK) result = join(all, partner < rank);
        if (result == PW_OK && partner < rank) result = lower_came(all);
        if (result != PW_OK) return result;
    }
    return PW_OK;
}

int64_t pw_collective_scan(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                           pw_channel *channel, pw_vectors vectors, int is_inclusive)
{
    reduction all;
    int64_t result =
        open_reduction(&all, messaging, call, began_ns, channel, &vectors, vectors.count);
    if (result == PW_OK) result = scan(&all);
    if (result == PW_OK && is_inclusive) {
        load(&all);
        if (all.below) result = combine_whole(&all, all.below, all.mine);
    }
    const pw_scratch *last = is_inclusive ? all.mine : all.below;
    if (result == PW_OK && last) store(&all, last->bytes, all.num_bytes);
    close_reduction(&all);
    return result;
}
