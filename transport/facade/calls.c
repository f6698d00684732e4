#include "transport/facade/calls.h"
#include <stdlib.h>
#include <string.h>

#include "transport/facade/blocking.h"

static int64_t result_of(pw_operation *operation) { return (int64_t)(intptr_t)operation; }

void pw_messaging_set_pause(pw_messaging *messaging, pw_call_pause pause, void *context)
{
    pw_node_lock(messaging->node);
    messaging->pause = pause;
    messaging->pause_context = context;
    pw_node_unlock(messaging->node);
}

int pw_channel_create(uint64_t context, int32_t rank, int32_t size, const uint32_t *world_ranks,
                      pw_channel **out)
{
    if (size < 1 || rank < 0 || rank >= size) return PW_ERR_INVALID;
    size_t bytes = (size_t)size * sizeof *world_ranks;
    pw_channel *channel = calloc(1, sizeof *channel + bytes);
    if (!channel) return PW_ERR_NOMEM;
    channel->context = context;
    channel->rank = rank;
    channel->size = size;
    memcpy(channel->world_rank, world_ranks, bytes);
    *out = channel;
    return PW_OK;
}

void pw_channel_destroy(pw_messaging *messaging, pw_channel *channel)
{
    if (!channel) return;
    pw_node_lock(messaging->node);
    for (pw_operation *next, *each = messaging->messages.unexpected.head; each; each = next) {
        next = each->next;
        if (each->context != channel->context) continue;
        pw_operation_unlink(each);
        pw_operation_free(&messaging->messages, each);
    }
    pw_node_unlock(messaging->node);
    free(channel);
}

int64_t pw_call_send(pw_messaging *messaging, uint32_t call, int64_t began_ns, pw_channel *channel,
                     uint64_t address, uint64_t num_bytes, int32_t dest, int32_t tag,
                     uint32_t flags)
{
    pw_block_begin(messaging, call, began_ns);
    int64_t result = pw_block_send(messaging, channel, address, num_bytes, dest, tag, flags);
    pw_block_end(messaging, began_ns);
    return result;
}

int64_t pw_call_receive(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                        pw_channel *channel, uint64_t address, uint64_t capacity_bytes,
                        int32_t source, int32_t tag, uint32_t flags, void *status)
{
    pw_block_begin(messaging, call, began_ns);
    int64_t result =
        pw_block_receive(messaging, channel, address, capacity_bytes, source, tag, flags, status);
    pw_block_end(messaging, began_ns);
    return result;
}

int64_t pw_call_exchange(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                         pw_channel *channel, uint64_t send_address, uint64_t send_bytes,
                         int32_t dest, int32_t send_tag, uint64_t receive_address,
                         uint64_t capacity_bytes, int32_t source, int32_t receive_tag,
                         uint32_t flags, void *status)
{
    const pw_block_message outgoing = {send_address, send_bytes, dest, send_tag};
    const pw_block_message incoming = {receive_address, capacity_bytes, source, receive_tag};
    pw_block_begin(messaging, call, began_ns);
    int64_t result = pw_block_exchange(messaging, channel, &outgoing, &incoming, flags, status);
    pw_block_end(messaging, began_ns);
    return result;
}

int64_t pw_call_isend(pw_messaging *messaging, uint32_t call, int64_t began_ns, pw_channel *channel,
                      uint64_t address, uint64_t num_bytes, int32_t dest, int32_t tag,
                      uint32_t flags)
{
    pw_block_begin(messaging, call, began_ns);
    pw_operation *operation;
    int code = pw_post_send(messaging, channel, address, num_bytes, dest, tag,
                            flags & PW_CALL_SYNCHRONOUS, &operation);
    pw_block_end(messaging, began_ns);
    return code < 0 ? code : result_of(operation);
}

int64_t pw_call_ireceive(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                         pw_channel *channel, uint64_t address, uint64_t capacity_bytes,
                         int32_t source, int32_t tag, uint32_t flags)
{
    pw_block_begin(messaging, call, began_ns);
    pw_operation *operation = NULL;
    int code = pw_post_receive(messaging, channel, address, capacity_bytes, flags & PW_CALL_UNSIZED,
                               source, tag, &operation);
    pw_block_end(messaging, began_ns);
    return code < 0 ? code : result_of(operation);
}

int pw_call_wait(pw_messaging *messaging, uint32_t call, int64_t began_ns, pw_operation *operation,
                 uint32_t flags)
{
    pw_block_begin(messaging, call, began_ns);
    int code = pw_block_until_done(messaging, operation);
    if (code > 0 && !(flags & PW_CALL_REACH))
        pw_messages_completed(&messaging->messages, operation, NULL);
    pw_block_end(messaging, began_ns);
    return code;
}

int pw_call_test(pw_messaging *messaging, uint32_t call, int64_t began_ns, pw_operation *operation)
{
    pw_block_begin(messaging, call, began_ns);
    pw_clock *clock = pw_node_clock(messaging->node);
    int code = operation->done;
    if (code == 0) {
        code = pw_messaging_step(messaging, false);
        if (code >= 0) code = operation->done;
    }
    if (code > 0 && operation->complete_ns <= clock->now_ns) {
        pw_messages_completed(&messaging->messages, operation, NULL);
    } else if (code >= 0) {
        pw_node_failed_test(messaging->node, code, clock->poll_ns);
        code = 0;
    }
    pw_block_end(messaging, began_ns);
    return code;
}

int pw_call_cancel(pw_messaging *messaging, pw_operation *operation)
{
    pw_node_lock(messaging->node);
    int code = pw_operation_cancel(messaging, operation);
    pw_node_unlock(messaging->node);
    return code;
}

int pw_call_turn(pw_messaging *messaging, int waiting)
{
    pw_node_lock(messaging->node);
    int code = pw_messaging_step(messaging, waiting);
    pw_node_unlock(messaging->node);
    return code;
}

int pw_call_drained(pw_messaging *messaging)
{
    pw_node_lock(messaging->node);
    int code = pw_messaging_turn(messaging, true);
    if (code >= 0) code = !messaging->messages.sends.head && !pw_node_num_leaving(messaging->node);
    pw_node_unlock(messaging->node);
    return code;
}

void pw_call_enter(pw_messaging *messaging, uint32_t call, int costs_call)
{
    pw_node_lock(messaging->node);
    pw_clock_enter(pw_node_clock(messaging->node), costs_call);
    pw_call_begin(pw_node_calls(messaging->node), call);
    pw_node_unlock(messaging->node);
}

void pw_call_leave(pw_messaging *messaging)
{
    pw_node_lock(messaging->node);
    pw_clock_leave(pw_node_clock(messaging->node));
    pw_node_unlock(messaging->node);
}

int32_t pw_call_mpi_error(pw_messaging *messaging)
{
    pw_node_lock(messaging->node);
    int32_t error = messaging->mpi_error;
    messaging->mpi_error = 0;
    pw_node_unlock(messaging->node);
    return error;
}
