#include "transport/facade/calls.h"
#include <stdlib.h>
#include <string.h>

/* ---- blocking steps */

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

/* ---- calls */

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

static int by_end(const void *a, const void *b)
{
    const pw_operation *const *left = a, *const *right = b;
    return ((*left)->complete_ns > (*right)->complete_ns) -
           ((*left)->complete_ns < (*right)->complete_ns);
}

/* The CPU learns of operations that are over. Are all well? */
static bool complete_all(pw_messaging *messaging, pw_operation **operations,
                         uint32_t num_operations)
{
    bool are_well = true;
    if (num_operations) qsort(operations, num_operations, sizeof(pw_operation *), by_end);
    for (uint32_t i = 0; i < num_operations; i++) {
        pw_clock_completed(pw_node_clock(messaging->node), operations[i]->complete_ns);
        are_well &= !operations[i]->error && !pw_operation_is_truncated(operations[i]);
    }
    return are_well;
}

int pw_call_wait_all(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                     pw_operation **operations, uint32_t num_operations)
{
    int code = 1;
    pw_block_begin(messaging, call, began_ns);
    for (uint32_t i = 0; code > 0 && i < num_operations; i++)
        code = pw_block_until_done(messaging, operations[i]);
    if (code > 0) code = complete_all(messaging, operations, num_operations);
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

/* ---- probes */

/* The program learns of a message: it is told of, or taken. */
static void tell(pw_operation *arrived, uint32_t flags, pw_found *out)
{
    *out = (pw_found){.num_bytes = arrived->message_bytes,
                      .source = (int32_t)arrived->source,
                      .tag = (int32_t)arrived->tag};
    if (flags & PW_PROBE_TAKE) out->taken = arrived;
}

/* As a Test does: 1 when it has arrived in virtual time. */
static int probe_now(pw_messaging *messaging, pw_channel *channel, int32_t source, int32_t tag,
                     pw_operation **found)
{
    pw_clock *clock = pw_node_clock(messaging->node);
    *found = pw_channel_find(messaging, channel, source, tag);
    if (!*found) {
        int code = pw_messaging_step(messaging, false);
        if (code < 0) return code;
        *found = pw_channel_find(messaging, channel, source, tag);
    }
    if (*found && (*found)->arrival_ns <= clock->now_ns) return 1;
    pw_node_failed_test(messaging->node, *found != NULL, clock->poll_ns);
    return 0;
}

int pw_call_probe(pw_messaging *messaging, pw_channel *channel, int32_t source, int32_t tag,
                  uint32_t flags, pw_found *out)
{
    pw_operation *found = NULL;
    int code;
    pw_node_lock(messaging->node);
    if (flags & PW_PROBE_WAIT) {
        found = pw_channel_find(messaging, channel, source, tag);
        code = found != NULL;
        if (found) {
            pw_messages_announce(&messaging->messages, found, true, flags & PW_PROBE_TAKE);
            pw_clock_completed(pw_node_clock(messaging->node), found->arrival_ns);
        }
    } else {
        code = probe_now(messaging, channel, source, tag, &found);
        if (code > 0)
            pw_messages_announce(&messaging->messages, found, false, flags & PW_PROBE_TAKE);
    }
    if (code > 0) tell(found, flags, out);
    pw_node_unlock(messaging->node);
    return code;
}

int64_t pw_call_receive_found(pw_messaging *messaging, pw_operation *arrived, uint64_t address,
                              uint64_t capacity_bytes, uint32_t flags)
{
    pw_operation *receive = NULL;
    pw_node_lock(messaging->node);
    int code = pw_receive_arrived(messaging, arrived, address, capacity_bytes,
                                  flags & PW_CALL_UNSIZED, &receive);
    pw_node_unlock(messaging->node);
    return code < 0 ? code : (int64_t)(intptr_t)receive;
}

/* ---- the node as one of pagewire.h */

/* A program that looks again and again gives its core away too. */
static int turn(void *context, bool is_waiting)
{
    return is_waiting ? pw_messaging_turn(context, true) : pw_messaging_step(context, false);
}

static int pause_wait(void *context)
{
    const pw_messaging *messaging = context;
    return messaging->pause ? messaging->pause(messaging->pause_context, NULL) : PW_OK;
}

int pw_call_open_door(pw_messaging *messaging, pagewire_node **out)
{
    const pw_door_host host = {.context = messaging,
                               .turn = turn,
                               .pause = pause_wait,
                               .pause_ns = PW_CALL_PAUSE_NS,
                               .look_ns = pw_node_costs(messaging->node)->poll_ns};
    return pw_door_wrap(messaging->node, &host, out);
}
