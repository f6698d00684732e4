#include "transport/facade/calls.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TURNS_PER_LOOK 64u /* at the wall clock */

static int64_t wall_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void begin(pw_messaging *messaging, uint32_t call, int64_t began_ns, uint32_t flags)
{
    pw_node *node = messaging->node;
    pw_node_lock(node);
    if (flags & PW_CALL_INNER) return;
    pw_clock_enter_at(pw_node_clock(node), true, began_ns);
    pw_call_begin(pw_node_calls(node), call);
}

static void finish(pw_messaging *messaging, uint32_t flags)
{
    pw_node *node = messaging->node;
    if (!(flags & PW_CALL_INNER)) pw_clock_leave(pw_node_clock(node));
    pw_node_unlock(node);
}

static int64_t result_of(pw_operation *operation) { return (int64_t)(intptr_t)operation; }

/* 1: over, 0: the host should look after other things for once. */
static int wait_until_done(pw_messaging *messaging, pw_operation *operation)
{
    pw_node *node = messaging->node;
    int64_t began_ns = 0;
    for (uint32_t turns = 1;; turns++) {
        int code = pw_operation_poll(messaging, operation);
        if (code) return code;
        code = pw_messaging_turn(messaging, true);
        if (code < 0) return code;
        if (code) pw_node_busy(node);
        else pw_node_idle(node);
        if (turns % TURNS_PER_LOOK) continue;
        int64_t now_ns = wall_ns();
        if (!began_ns) began_ns = now_ns;
        else if (now_ns - began_ns > PW_CALL_PAUSE_NS) return 0;
    }
}

static void fill_status(const pw_messaging *messaging, const pw_operation *receive, void *status)
{
    const pw_mpi_library *mpi = messaging->mpi;
    if (receive->cancelled) {
        mpi->status_set_cancelled(status, 1);
        return;
    }
    pw_mpi_status_set(mpi, status, receive->source, receive->tag);
    mpi->status_set_elements_x(status, mpi->byte, (int64_t)receive->num_bytes);
}

/* Back to the host before the end: the clock stays in the call. */
static void pause_call(pw_messaging *messaging, pw_operation *operation, uint32_t flags)
{
    operation->paused_thread = (uint64_t)pthread_self();
    operation->paused_flags = flags;
    operation->is_paused = 1;
    operation->next_paused = messaging->paused;
    messaging->paused = operation;
    pw_node_unlock(messaging->node);
}

static void go_on(pw_messaging *messaging, pw_operation *operation)
{
    pw_node_lock(messaging->node);
    pw_operation **link = &messaging->paused;
    while (*link && *link != operation) link = &(*link)->next_paused;
    if (*link) *link = operation->next_paused;
    operation->is_paused = 0;
}

/* Wait for an operation, and for its companion; the call is over when both are. */
static int64_t finish_when_done(pw_messaging *messaging, pw_operation *operation, uint32_t flags,
                                void *status)
{
    for (;;) {
        int code = wait_until_done(messaging, operation);
        if (code == 0) {
            pause_call(messaging, operation, flags);
            return result_of(operation);
        }
        if (code < 0) {
            pw_operation_drop(messaging, operation);
            finish(messaging, flags);
            return code;
        }
        pw_clock_completed(pw_node_clock(messaging->node), operation->complete_ns);
        bool is_receive = operation->kind == PW_OPERATION_RECEIVE;
        if (is_receive && status) fill_status(messaging, operation, status);
        if (operation->error || operation->truncated || (is_receive && (flags & PW_CALL_KEEP)))
            break;
        pw_operation *companion = operation->companion;
        pw_operation_recycle(messaging, operation);
        operation = companion;
        if (!companion) break;
    }
    finish(messaging, flags);
    return operation ? result_of(operation) : 0;
}

int pw_messaging_create(pw_node *node, const pw_mpi_library *mpi, uint64_t eager_limit_bytes,
                        pw_messaging **out)
{
    pw_messaging *messaging = calloc(1, sizeof *messaging);
    if (!messaging) return PW_ERR_NOMEM;
    messaging->node = node;
    messaging->mpi = mpi;
    messaging->eager_limit_bytes = eager_limit_bytes;
    messaging->frame_bytes = (PW_ENVELOPE_BYTES + eager_limit_bytes + 63) & ~UINT64_C(63);
    messaging->scratch = malloc(messaging->frame_bytes);
    if (!messaging->scratch) {
        free(messaging);
        return PW_ERR_NOMEM;
    }
    *out = messaging;
    return PW_OK;
}

void pw_messaging_destroy(pw_messaging *messaging)
{
    if (!messaging) return;
    for (pw_operation *each = messaging->posted.head; each; each = each->next) free(each->memory);
    for (uint32_t i = 0; i < messaging->num_slabs; i++) free(messaging->slabs[i]);
    free(messaging->slabs);
    free(messaging->scratch);
    free(messaging);
}

int pw_channel_create(pw_mpi_handle comm, int32_t rank, int32_t size, const uint32_t *world_ranks,
                      pw_channel **out)
{
    if (size < 1 || rank < 0 || rank >= size) return PW_ERR_INVALID;
    size_t bytes = (size_t)size * sizeof *world_ranks;
    pw_channel *channel = calloc(1, sizeof *channel + bytes);
    if (!channel) return PW_ERR_NOMEM;
    channel->comm = comm;
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
    for (pw_operation *next, *each = channel->arrived_head; each; each = next) {
        next = each->next;
        pw_operation_recycle(messaging, each);
    }
    pw_node_unlock(messaging->node);
    free(channel);
}

int64_t pw_call_send(pw_messaging *messaging, uint32_t call, int64_t began_ns, pw_channel *channel,
                     uint64_t address, uint64_t num_bytes, int32_t dest, int32_t tag,
                     uint32_t flags)
{
    begin(messaging, call, began_ns, flags);
    pw_operation *operation;
    int code = pw_post_send(messaging, channel, address, num_bytes, dest, tag,
                            flags & PW_CALL_SYNCHRONOUS, &operation);
    if (code == PW_OK && operation) return finish_when_done(messaging, operation, flags, NULL);
    finish(messaging, flags);
    return code;
}

int64_t pw_call_receive(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                        pw_channel *channel, uint64_t address, uint64_t capacity_bytes,
                        int32_t source, int32_t tag, uint32_t flags, void *status)
{
    begin(messaging, call, began_ns, flags);
    pw_operation *operation;
    int code = pw_post_receive(messaging, channel, address, capacity_bytes, flags & PW_CALL_UNSIZED,
                               source, tag, true, &operation);
    if (code == PW_OK) return finish_when_done(messaging, operation, flags, status);
    finish(messaging, flags);
    return code;
}

int64_t pw_call_exchange(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                         pw_channel *channel, uint64_t send_address, uint64_t send_bytes,
                         int32_t dest, int32_t send_tag, uint64_t receive_address,
                         uint64_t capacity_bytes, int32_t source, int32_t receive_tag,
                         uint32_t flags, void *status)
{
    begin(messaging, call, began_ns, flags);
    pw_operation *send = NULL, *receive = NULL;
    int code = pw_post_receive(messaging, channel, receive_address, capacity_bytes,
                               flags & PW_CALL_UNSIZED, source, receive_tag, true, &receive);
    if (code == PW_OK)
        code = pw_post_send(messaging, channel, send_address, send_bytes, dest, send_tag, false,
                            &send);
    if (code == PW_OK) {
        if (send) send->companion = receive;
        return finish_when_done(messaging, send ? send : receive, flags, status);
    }
    if (receive) {
        pw_operation_cancel(messaging, receive);
        pw_operation_drop(messaging, receive);
    }
    finish(messaging, flags);
    return code;
}

int64_t pw_call_isend(pw_messaging *messaging, uint32_t call, int64_t began_ns, pw_channel *channel,
                      uint64_t address, uint64_t num_bytes, int32_t dest, int32_t tag,
                      uint32_t flags)
{
    begin(messaging, call, began_ns, flags);
    pw_operation *operation;
    int code = pw_post_send(messaging, channel, address, num_bytes, dest, tag,
                            flags & PW_CALL_SYNCHRONOUS, &operation);
    finish(messaging, flags);
    return code < 0 ? code : result_of(operation);
}

int64_t pw_call_ireceive(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                         pw_channel *channel, uint64_t address, uint64_t capacity_bytes,
                         int32_t source, int32_t tag, uint32_t flags)
{
    begin(messaging, call, began_ns, flags);
    pw_operation *operation = NULL;
    int code = pw_post_receive(messaging, channel, address, capacity_bytes, flags & PW_CALL_UNSIZED,
                               source, tag, !(flags & PW_CALL_USERS), &operation);
    finish(messaging, flags);
    return code < 0 ? code : result_of(operation);
}

int64_t pw_call_resume(pw_messaging *messaging, pw_operation *operation, uint32_t flags,
                       void *status)
{
    go_on(messaging, operation);
    return finish_when_done(messaging, operation, flags, status);
}

void pw_call_interrupt(pw_messaging *messaging)
{
    pw_node *node = messaging->node;
    pw_node_lock(node);
    pw_operation *operation = messaging->paused;
    while (operation && operation->paused_thread != (uint64_t)pthread_self())
        operation = operation->next_paused;
    pw_node_unlock(node);
    if (!operation) return;
    go_on(messaging, operation);
    uint32_t flags = operation->paused_flags;
    for (pw_operation *next; operation && !(flags & PW_CALL_WAIT); operation = next) {
        next = operation->companion;
        pw_operation_cancel(messaging, operation);
        pw_operation_drop(messaging, operation);
    }
    finish(messaging, flags);
}

static int finish_wait(pw_messaging *messaging, pw_operation *operation, uint32_t flags)
{
    int code = wait_until_done(messaging, operation);
    if (code == 0) {
        pause_call(messaging, operation, flags | PW_CALL_WAIT);
        return 0;
    }
    if (code > 0 && !(flags & PW_CALL_REACH))
        pw_clock_completed(pw_node_clock(messaging->node), operation->complete_ns);
    finish(messaging, flags);
    return code;
}

int pw_call_wait(pw_messaging *messaging, uint32_t call, int64_t began_ns, pw_operation *operation,
                 uint32_t flags)
{
    begin(messaging, call, began_ns, flags);
    return finish_wait(messaging, operation, flags);
}

int pw_call_resume_wait(pw_messaging *messaging, pw_operation *operation, uint32_t flags)
{
    go_on(messaging, operation);
    return finish_wait(messaging, operation, flags);
}

int pw_call_test(pw_messaging *messaging, uint32_t call, int64_t began_ns, pw_operation *operation,
                 uint32_t flags)
{
    begin(messaging, call, began_ns, flags);
    pw_clock *clock = pw_node_clock(messaging->node);
    int code = pw_operation_poll(messaging, operation);
    if (code == 0) {
        code = pw_messaging_step(messaging, false);
        if (code >= 0) code = pw_operation_poll(messaging, operation);
    }
    if (code > 0 && operation->complete_ns <= clock->now_ns) {
        pw_clock_completed(clock, operation->complete_ns);
    } else if (code >= 0) {
        pw_node_failed_test(messaging->node, code, clock->poll_ns);
        code = 0;
    }
    finish(messaging, flags);
    return code;
}

int pw_call_poll(pw_messaging *messaging, pw_operation *operation)
{
    pw_node_lock(messaging->node);
    int code = pw_operation_poll(messaging, operation);
    pw_node_unlock(messaging->node);
    return code;
}

void pw_call_cancel(pw_messaging *messaging, pw_operation *operation)
{
    pw_node_lock(messaging->node);
    pw_operation_cancel(messaging, operation);
    pw_node_unlock(messaging->node);
}

void pw_call_drop(pw_messaging *messaging, pw_operation *operation)
{
    pw_operation_give_up(messaging, operation);
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
    if (code >= 0) code = !messaging->outgoing.head;
    for (pw_operation *each = messaging->posted.head; each && code > 0; each = each->next)
        code = each->kind != PW_OPERATION_SEND;
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
