#include "transport/facade/messaging.h"
#include <stdlib.h>

#include "native/types.h"
#include "transport/facade/calls.h"
#include "unimem/unimem.h"

/* ---- what the node tells */

static int message_arrived(void *context, uint32_t source, const uint8_t *frame,
                           uint32_t frame_bytes)
{
    pw_messages *messages = &((pw_messaging *)context)->messages;
    pw_arrival arrival;
    const int code = pw_messages_read(messages, source, frame, frame_bytes, &arrival);
    if (code < 0) return code;
    const uint8_t kind = arrival.envelope.kind;
    if (kind == PW_MESSAGE_EAGER || kind == PW_MESSAGE_RENDEZVOUS)
        return pw_messages_match(messages, &arrival);
    pw_ni_message_refuse(messages->ni);
    return PW_ERR_MALFORMED;
}

static int handle_finished(void *context, pw_handle *handle)
{
    return pw_messages_finish(&((pw_messaging *)context)->messages, handle);
}

int pw_messaging_create(pw_node *node, const pw_mpi_library *mpi, uint64_t eager_limit_bytes,
                        pw_messaging **out)
{
    pw_messaging *messaging = calloc(1, sizeof *messaging);
    if (!messaging) return PW_ERR_NOMEM;
    messaging->node = node;
    messaging->mpi = mpi;
    /* Unimem may be opened later, when frames have been made. */
    const int code =
        pw_messages_open(&messaging->messages, node, &(pw_messages_host){0}, eager_limit_bytes,
                         PW_UNIMEM_FRAME_MAX_BYTES, sizeof(pw_operation));
    if (code < 0) {
        pw_messaging_destroy(messaging);
        return code;
    }
    pw_node_host host = *pw_node_host_of(node); /* Python's functions look at no context */
    host.context = messaging;
    host.message = message_arrived;
    host.finished = handle_finished;
    pw_node_set_host(node, &host);
    *out = messaging;
    return PW_OK;
}

void pw_messaging_destroy(pw_messaging *messaging)
{
    if (!messaging) return;
    pw_messages_close(&messaging->messages);
    pw_scratch_free(&messaging->scratches);
    free(messaging);
}

/* ---- operations that nobody holds any more */

void pw_operation_drop(pw_messaging *messaging, pw_operation *operation)
{
    if (operation->done) pw_operation_free(&messaging->messages, operation);
    else operation->is_dropped = 1;
}

void pw_call_drop(pw_messaging *messaging, pw_operation *operation)
{
    operation->next_given_up = atomic_load_explicit(&messaging->given_up, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&messaging->given_up, &operation->next_given_up,
                                                  operation, memory_order_release,
                                                  memory_order_relaxed)) {}
}

static void drop_given_up(pw_messaging *messaging)
{
    if (!atomic_load_explicit(&messaging->given_up, memory_order_relaxed)) return;
    pw_operation *each = atomic_exchange_explicit(&messaging->given_up, NULL, memory_order_acquire);
    for (pw_operation *next; each; each = next) {
        next = each->next_given_up;
        pw_operation_drop(messaging, each);
    }
}

static pw_operation *new_operation(pw_messaging *messaging, uint8_t kind)
{
    if (!messaging->messages.operations.free_list) drop_given_up(messaging);
    return pw_operation_new(&messaging->messages, kind);
}

/* ---- sending */

int pw_post_send(pw_messaging *messaging, pw_channel *channel, uint64_t address, uint64_t num_bytes,
                 int32_t dest, int32_t tag, bool is_synchronous, pw_operation **out)
{
    pw_messages *messages = &messaging->messages;
    const uint32_t peer = channel->world_rank[dest];
    const pw_message_header header = {
        .context = channel->context, .tag = (uint32_t)tag, .source = (uint32_t)channel->rank};
    pw_call_counts *counts = pw_node_calls(messaging->node);
    *out = NULL;
    if (counts->num_calls) counts->call[counts->current].bytes += num_bytes;
    if (num_bytes <= messages->eager_limit_bytes && !is_synchronous)
        return pw_messages_send_eager(messages, peer, address, num_bytes, &header);
    pw_operation *send = new_operation(messaging, PW_OPERATION_SEND);
    if (!send) return PW_ERR_NOMEM;
    send->peer = peer;
    send->address = address;
    send->num_bytes = send->capacity_bytes = num_bytes;
    const int code = pw_messages_send_exposed(messages, send, &header);
    if (code == PW_OK) *out = send;
    return code;
}

/* ---- receiving */

/* Which message it wants. */
static void want(const pw_messaging *messaging, const pw_channel *channel, int32_t source,
                 int32_t tag, pw_operation *receive)
{
    const pw_mpi_library *mpi = messaging->mpi;
    const bool is_any_tag = tag == mpi->any_tag, is_any_source = source == mpi->any_source;
    receive->context = channel->context;
    receive->tag = is_any_tag ? 0 : (uint32_t)tag;
    receive->ignore = is_any_tag ? UINT64_MAX : 0;
    receive->source = is_any_source ? 0 : (uint32_t)source;
    receive->peer = is_any_source ? PW_ANY_NODE : channel->world_rank[source];
}

static int new_receive(pw_messaging *messaging, uint64_t address, uint64_t capacity_bytes,
                       bool is_unsized, pw_operation **out)
{
    pw_operation *receive = new_operation(messaging, PW_OPERATION_RECEIVE);
    if (!receive) return PW_ERR_NOMEM;
    receive->address = address;
    receive->capacity_bytes = capacity_bytes;
    receive->is_unsized = is_unsized;
    const int code = is_unsized ? PW_OK : pw_operation_acquire(&messaging->messages, receive);
    if (code < 0) pw_operation_free(&messaging->messages, receive);
    else *out = receive;
    return code;
}

/* What a receive is posted with. */
static int begun(pw_messaging *messaging, pw_operation *receive, int code, pw_operation **out)
{
    if (code == PW_OK) {
        *out = receive;
        return PW_OK;
    }
    (void)pw_operation_release(&messaging->messages, receive);
    pw_operation_free(&messaging->messages, receive);
    return code;
}

int pw_post_receive(pw_messaging *messaging, const pw_channel *channel, uint64_t address,
                    uint64_t capacity_bytes, bool is_unsized, int32_t source, int32_t tag,
                    pw_operation **out)
{
    pw_operation *receive;
    const int code = new_receive(messaging, address, capacity_bytes, is_unsized, &receive);
    if (code < 0) return code;
    want(messaging, channel, source, tag, receive);
    return begun(messaging, receive, pw_messages_post(&messaging->messages, receive), out);
}

int pw_receive_arrived(pw_messaging *messaging, pw_operation *arrived, uint64_t address,
                       uint64_t capacity_bytes, bool is_unsized, pw_operation **out)
{
    pw_operation *receive;
    const int code = new_receive(messaging, address, capacity_bytes, is_unsized, &receive);
    if (code < 0) return code;
    receive->posted_ns = messaging->messages.clock->now_ns;
    return begun(messaging, receive, pw_messages_take(&messaging->messages, receive, arrived), out);
}

pw_operation *pw_channel_find(const pw_messaging *messaging, const pw_channel *channel,
                              int32_t source, int32_t tag)
{
    pw_operation wanted;
    want(messaging, channel, source, tag, &wanted);
    return pw_messages_find(&messaging->messages, &wanted);
}

int pw_operation_cancel(pw_messaging *messaging, pw_operation *operation)
{
    if (operation->list != &messaging->messages.posted) return PW_OK;
    operation->cancelled = 1;
    return pw_messages_withdraw(&messaging->messages, operation);
}

/* ---- progress */

int pw_messaging_turn(pw_messaging *messaging, bool waiting)
{
    const int moved = pw_node_turn(messaging->node, waiting);
    if (moved >= 0) drop_given_up(messaging);
    return moved;
}

int pw_messaging_step(pw_messaging *messaging, bool waiting)
{
    const int code = pw_messaging_turn(messaging, waiting);
    if (code > 0) pw_node_busy(messaging->node);
    else if (code == 0) pw_node_idle(messaging->node);
    return code;
}

/* ---- scratch memory */

static pw_scratch *create(uint64_t num_bytes)
{
    pw_scratch *block = calloc(1, sizeof *block);
    if (!block) return NULL;
    block->num_bytes = PW_PAGE_BYTES;
    while (block->num_bytes < num_bytes) block->num_bytes *= 2;
    block->bytes = aligned_alloc(PW_PAGE_BYTES, block->num_bytes);
    if (block->bytes) return block;
    free(block);
    return NULL;
}

/* The smallest that fits, the longest kept of equal ones: a program's calls get the same ones in
 * every run. */
pw_scratch *pw_scratch_take(pw_scratch **all, uint64_t num_bytes)
{
    if (num_bytes > SIZE_MAX / 4) return NULL;
    pw_scratch *best = NULL, **end = all;
    for (; *end; end = &(*end)->next) {
        pw_scratch *block = *end;
        if (block->is_taken || block->num_bytes < num_bytes) continue;
        if (!best || block->num_bytes < best->num_bytes) best = block;
    }
    if (!best) best = *end = create(num_bytes);
    if (best) best->is_taken = true;
    return best;
}

void pw_scratch_give(pw_scratch **all, pw_scratch *block)
{
    if (!block) return;
    block->is_taken = false;
    if (block->num_bytes <= PW_SCRATCH_KEPT_BYTES) return;
    while (*all != block) all = &(*all)->next;
    *all = block->next;
    free(block->bytes);
    free(block);
}

void pw_scratch_free(pw_scratch **all)
{
    for (pw_scratch *next, *block = *all; block; block = next) {
        next = block->next;
        free(block->bytes);
        free(block);
    }
    *all = NULL;
}
