#include "transport/facade/blocking.h"

void pw_block_begin(pw_messaging *messaging, uint32_t call, int64_t began_ns)
{
    pw_node *node = messaging->node;
    pw_node_lock(node);
    if (!began_ns) return;
    pw_clock_enter_at(pw_node_clock(node), true, began_ns);
    pw_call_begin(pw_node_calls(node), call);
}

void pw_block_end(pw_messaging *messaging, int64_t began_ns)
{
    pw_node *node = messaging->node;
    if (began_ns) pw_clock_leave(pw_node_clock(node));
    pw_node_unlock(node);
}

/* The host may call this library meanwhile. */
static int pause_call(pw_messaging *messaging, pw_operation *operation)
{
    if (!messaging->pause) return PW_OK;
    pw_node_unlock(messaging->node);
    int code = messaging->pause(messaging->pause_context, operation);
    pw_node_lock(messaging->node);
    return code;
}

int pw_block_until_done(pw_messaging *messaging, pw_operation *operation)
{
    pw_pace pace = {.num_turns = 0};
    while (!operation->done) {
        int code = pw_messaging_step(messaging, true);
        if (code < 0) return code;
        if (!pw_node_is_due(messaging->node, &pace, code, PW_CALL_PAUSE_NS)) continue;
        code = pause_call(messaging, operation);
        if (code < 0) return code;
    }
    return 1;
}

void pw_block_abandon(pw_messaging *messaging, pw_operation *operation)
{
    for (pw_operation *next; operation; operation = next) {
        next = operation->companion;
        (void)pw_operation_cancel(messaging, operation); /* the first error counts */
        pw_operation_drop(messaging, operation);
    }
}

static void fill_status(const pw_messaging *messaging, const pw_operation *receive, void *status)
{
    const pw_mpi_library *mpi = messaging->mpi;
    if (receive->cancelled) {
        mpi->status_set_cancelled(status, 1);
        return;
    }
    pw_mpi_status_set(mpi, status, (int32_t)receive->source, (int32_t)receive->tag);
    mpi->status_set_elements_x(status, mpi->byte, (int64_t)receive->num_bytes);
}

int64_t pw_block_on(pw_messaging *messaging, pw_operation *operation, uint32_t flags, void *status)
{
    for (pw_operation *next; operation; operation = next) {
        int code = pw_block_until_done(messaging, operation);
        if (code < 0) {
            pw_block_abandon(messaging, operation);
            return code;
        }
        next = operation->companion;
        pw_messages_completed(&messaging->messages, operation, NULL);
        bool is_receive = operation->kind == PW_OPERATION_RECEIVE;
        if (is_receive && status) fill_status(messaging, operation, status);
        if (operation->error || pw_operation_is_truncated(operation) ||
            (is_receive && (flags & PW_CALL_KEEP))) {
            pw_block_abandon(messaging, next);
            return (int64_t)(intptr_t)operation;
        }
        pw_operation_free(&messaging->messages, operation);
    }
    return PW_OK;
}

int64_t pw_block_send(pw_messaging *messaging, pw_channel *channel, uint64_t address,
                      uint64_t num_bytes, int32_t dest, int32_t tag, uint32_t flags)
{
    pw_operation *operation;
    int code = pw_post_send(messaging, channel, address, num_bytes, dest, tag,
                            flags & PW_CALL_SYNCHRONOUS, &operation);
    return code < 0 ? code : pw_block_on(messaging, operation, flags, NULL);
}

int64_t pw_block_receive(pw_messaging *messaging, pw_channel *channel, uint64_t address,
                         uint64_t capacity_bytes, int32_t source, int32_t tag, uint32_t flags,
                         void *status)
{
    pw_operation *operation;
    int code = pw_post_receive(messaging, channel, address, capacity_bytes, flags & PW_CALL_UNSIZED,
                               source, tag, &operation);
    return code < 0 ? code : pw_block_on(messaging, operation, flags, status);
}

int64_t pw_block_exchange(pw_messaging *messaging, pw_channel *channel,
                          const pw_block_message *outgoing, const pw_block_message *incoming,
                          uint32_t flags, void *status)
{
    pw_operation *send = NULL, *receive = NULL;
    int code = pw_post_receive(messaging, channel, incoming->address, incoming->num_bytes,
                               flags & PW_CALL_UNSIZED, incoming->rank, incoming->tag, &receive);
    if (code < 0) return code;
    code = pw_post_send(messaging, channel, outgoing->address, outgoing->num_bytes, outgoing->rank,
                        outgoing->tag, false, &send);
    if (code < 0) {
        pw_block_abandon(messaging, receive);
        return code;
    }
    if (send) send->companion = receive;
    return pw_block_on(messaging, send ? send : receive, flags, status);
}
