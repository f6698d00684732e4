#include "transport/facade/messaging.h"
#include <stdlib.h>
#include <string.h>

static int failed(pw_messaging *messaging, int mpi_error)
{
    messaging->mpi_error = mpi_error;
    return PW_ERR_HOST;
}

/* -- sending */

/* Eager messages that MPI took meanwhile are over. */
static void reclaim(pw_messaging *messaging)
{
    for (pw_operation *next, *each = messaging->outgoing.head; each; each = next) {
        next = each->next;
        int is_done = 0;
        pw_mpi_status status;
        messaging->mpi->test(&each->inner, &is_done, &status);
        if (!is_done) continue;
        pw_list_remove(&messaging->outgoing, each);
        pw_operation_recycle(messaging, each);
    }
}

static int post_envelope(pw_messaging *messaging, const pw_channel *channel, uint8_t kind,
                         uint64_t address, uint64_t num_bytes, uint64_t key, int32_t dest,
                         int32_t tag)
{
    const pw_mpi_library *mpi = messaging->mpi;
    uint32_t peer = channel->world_rank[dest];
    pw_call_counts *counts = pw_node_calls(messaging->node);
    counts->call[counts->current].bytes += num_bytes;
    bool is_short =
        kind == PW_MESSAGE_RENDEZVOUS || num_bytes <= PW_MESSAGE_BUFFERED_BYTES - PW_ENVELOPE_BYTES;
    if (is_short && dest != channel->rank) { /* to itself, a blocking send would wait for ever */
        uint32_t length = pw_node_write_message(messaging->node, peer, kind, address, num_bytes,
                                                key, messaging->scratch);
        int error = mpi->send(messaging->scratch, (int)length, mpi->byte, dest, tag, channel->comm);
        return error ? failed(messaging, error) : PW_OK;
    }
    pw_operation *operation = pw_operation_new(messaging, PW_OPERATION_OUTGOING);
    if (!operation) return PW_ERR_NOMEM;
    uint32_t length = pw_node_write_message(messaging->node, peer, kind, address, num_bytes, key,
                                            operation->frame);
    int error = mpi->isend(operation->frame, (int)length, mpi->byte, dest, tag, channel->comm,
                           &operation->inner);
    if (error) {
        pw_operation_recycle(messaging, operation);
        return failed(messaging, error);
    }
    pw_list_append(&messaging->outgoing, operation);
    reclaim(messaging);
    return PW_OK;
}

int pw_post_send(pw_messaging *messaging, pw_channel *channel, uint64_t address, uint64_t num_bytes,
                 int32_t dest, int32_t tag, bool is_synchronous, pw_operation **out)
{
    *out = NULL;
    if (num_bytes <= messaging->eager_limit_bytes && !is_synchronous)
        return post_envelope(messaging, channel, PW_MESSAGE_EAGER, address, num_bytes, 0, dest,
                             tag);
    pw_operation *operation = pw_operation_new(messaging, PW_OPERATION_SEND);
    if (!operation) return PW_ERR_NOMEM;
    operation->channel = channel;
    operation->address = address;
    operation->num_bytes = operation->capacity_bytes = num_bytes;
    operation->source = channel->rank;
    operation->tag = tag;
    operation->peer = channel->world_rank[dest];
    int code =
        pw_node_expose(messaging->node, operation->peer, address, num_bytes, &operation->handle);
    if (code == PW_OK)
        code = post_envelope(messaging, channel, PW_MESSAGE_RENDEZVOUS, operation->handle->address,
                             num_bytes, operation->handle->key, dest, tag);
    if (code < 0) {
        if (operation->handle) pw_node_free_handle(messaging->node, operation->handle);
        pw_operation_recycle(messaging, operation);
        return code;
    }
    *out = operation;
    return PW_OK;
}

/* -- receiving */

static void end(pw_messaging *messaging, pw_operation *receive, int64_t complete_ns)
{
    receive->complete_ns = complete_ns;
    /* Its owner may be another thread, which reads the rest once it sees this, without the lock. */
    __atomic_store_n(&receive->done, 1, __ATOMIC_RELEASE);
    if (receive->is_listed) pw_list_remove(&messaging->posted, receive);
    receive->is_listed = 0;
}

static int acquire(pw_messaging *messaging, pw_operation *receive)
{
    if (receive->capacity_bytes <= messaging->eager_limit_bytes) return PW_OK;
    pw_span span = {receive->address, receive->capacity_bytes};
    int code = pw_node_acquire(messaging->node, span, PW_ACCESS_WRITE | PW_ACCESS_MESSAGE,
                               &receive->lease);
    receive->has_lease = code == PW_OK;
    return code;
}

static int release(pw_messaging *messaging, pw_operation *receive)
{
    if (!receive->has_lease) return PW_OK;
    receive->has_lease = 0;
    return pw_node_release(messaging->node, &receive->lease);
}

/* Memory for a message that decides its own length. */
static int make_room(pw_messaging *messaging, pw_operation *receive, uint64_t num_bytes)
{
    receive->memory = malloc(num_bytes ? num_bytes : 1);
    if (!receive->memory) return PW_ERR_NOMEM;
    receive->address = (uint64_t)(uintptr_t)receive->memory;
    receive->capacity_bytes = num_bytes;
    return acquire(messaging, receive);
}

/* The envelope is in the frame: land the payload or start fetching it. */
static int match(pw_messaging *messaging, pw_operation *receive)
{
    pw_node *node = messaging->node;
    pw_ni *ni = pw_node_ni(node);
    int code = pw_ni_message_check(ni, receive->frame, receive->frame_bytes);
    if (code < 0) return code;
    pw_envelope envelope;
    memcpy(&envelope, receive->frame, sizeof envelope);
    receive->peer = envelope.source_node;
    if (receive->is_unsized) code = make_room(messaging, receive, envelope.num_bytes);
    if (code < 0) return code;
    uint64_t capacity_bytes = receive->capacity_bytes;
    receive->truncated = envelope.num_bytes > capacity_bytes;
    receive->num_bytes = receive->truncated ? capacity_bytes : envelope.num_bytes;
    if (envelope.kind == PW_MESSAGE_EAGER) {
        int64_t landed_ns = pw_ni_message_land(ni, receive->frame, receive->address, capacity_bytes,
                                               receive->posted_ns);
        code = release(messaging, receive);
        end(messaging, receive, landed_ns);
        return code;
    }
    int64_t matched_ns = pw_later(receive->posted_ns, envelope.arrival_ns);
    code = pw_node_fetch(node, envelope.source_node, envelope.address, envelope.key,
                         receive->address, receive->num_bytes, matched_ns,
                         receive->has_lease ? &receive->lease : NULL, &receive->handle);
    if (code == PW_OK) receive->has_lease = 0; /* the handle's */
    return code;
}

static int post_to_mpi(pw_messaging *messaging, pw_operation *receive)
{
    const pw_mpi_library *mpi = messaging->mpi;
    int error = mpi->irecv(receive->frame, (int)messaging->frame_bytes, mpi->byte, receive->source,
                           receive->tag, receive->channel->comm, &receive->inner);
    if (error) return failed(messaging, error);
    pw_list_append(&messaging->posted, receive);
    receive->is_listed = 1;
    return PW_OK;
}

static void take_frame(pw_operation *receive, pw_operation *arrived)
{
    uint8_t *frame = receive->frame; /* they change places: no copy */
    receive->frame = arrived->frame;
    arrived->frame = frame;
    receive->frame_bytes = arrived->frame_bytes;
    receive->source = arrived->source;
    receive->tag = arrived->tag;
}

int pw_post_receive(pw_messaging *messaging, pw_channel *channel, uint64_t address,
                    uint64_t capacity_bytes, bool is_unsized, int32_t source, int32_t tag,
                    bool is_owned, pw_operation **out)
{
    pw_operation *receive = pw_operation_new(messaging, PW_OPERATION_RECEIVE);
    if (!receive) return PW_ERR_NOMEM;
    receive->channel = channel;
    receive->address = address;
    receive->capacity_bytes = capacity_bytes;
    receive->is_unsized = is_unsized;
    receive->is_owned = is_owned;
    receive->source = source;
    receive->tag = tag;
    int code = is_unsized ? PW_OK : acquire(messaging, receive);
    if (code == PW_OK) {
        receive->posted_ns = pw_node_clock(messaging->node)->now_ns;
        pw_operation *arrived =
            channel->arrived_head ? pw_channel_find(messaging, channel, source, tag) : NULL;
        if (arrived) {
            pw_channel_remove(channel, arrived);
            take_frame(receive, arrived);
            pw_operation_recycle(messaging, arrived);
            receive->is_owned = 1; /* MPI has no request of it */
            code = match(messaging, receive);
            if (code == PW_OK && !receive->done) {
                pw_list_append(&messaging->posted, receive);
                receive->is_listed = 1;
            }
        } else {
            code = post_to_mpi(messaging, receive);
        }
    }
    if (code < 0) {
        (void)release(messaging, receive);
        pw_operation_recycle(messaging, receive);
        return code;
    }
    *out = receive;
    return PW_OK;
}

int pw_receive_arrived(pw_messaging *messaging, pw_operation *arrived, uint64_t address,
                       uint64_t capacity_bytes, bool is_unsized)
{
    arrived->kind = PW_OPERATION_RECEIVE;
    arrived->address = address;
    arrived->capacity_bytes = capacity_bytes;
    arrived->is_unsized = is_unsized;
    int code = is_unsized ? PW_OK : acquire(messaging, arrived);
    if (code < 0) return code;
    arrived->posted_ns = pw_node_clock(messaging->node)->now_ns;
    code = match(messaging, arrived);
    if (code == PW_OK && !arrived->done) {
        pw_list_append(&messaging->posted, arrived);
        arrived->is_listed = 1;
    }
    return code;
}

/* -- what is under way */

/* 1 when MPI has brought the envelope, or taken the receive back. */
static int look_for_envelope(pw_messaging *messaging, pw_operation *receive)
{
    const pw_mpi_library *mpi = messaging->mpi;
    pw_mpi_status status;
    int is_here = 0, count = 0, is_cancelled = 0;
    int error = receive->is_owned ? mpi->test(&receive->inner, &is_here, &status)
                                  : mpi->request_get_status(receive->inner, &is_here, &status);
    if (error) return failed(messaging, error);
    if (!is_here) return 0;
    if (receive->is_cancelling) mpi->test_cancelled(&status, &is_cancelled);
    if (is_cancelled) {
        receive->cancelled = 1;
        end(messaging, receive, pw_node_clock(messaging->node)->now_ns);
        int code = release(messaging, receive);
        return code < 0 ? code : 1;
    }
    error = mpi->get_count(&status, mpi->byte, &count);
    if (error || count < 0) return failed(messaging, error);
    receive->frame_bytes = (uint32_t)count;
    receive->source = pw_mpi_source(mpi, &status);
    receive->tag = pw_mpi_tag(mpi, &status);
    int code = match(messaging, receive);
    return code < 0 ? code : 1;
}

int pw_operation_poll(pw_messaging *messaging, pw_operation *operation)
{
    if (operation->done) return 1;
    if (operation->kind == PW_OPERATION_RECEIVE && !operation->handle) {
        int code = look_for_envelope(messaging, operation);
        if (code <= 0 || operation->done) return code;
    }
    pw_handle *handle = operation->handle;
    if (!handle->done) return 0;
    operation->error = handle->error;
    operation->handle = NULL;
    end(messaging, operation, handle->complete_ns);
    pw_node_free_handle(messaging->node, handle);
    return 1;
}

void pw_operation_drop(pw_messaging *messaging, pw_operation *operation)
{
    if (operation->done) {
        pw_operation_recycle(messaging, operation);
        return;
    }
    operation->is_dropped = 1;
    if (operation->is_listed) return;
    pw_list_append(&messaging->posted, operation);
    operation->is_listed = 1;
}

void pw_operation_give_up(pw_messaging *messaging, pw_operation *operation)
{
    operation->next_given_up = atomic_load_explicit(&messaging->given_up, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&messaging->given_up, &operation->next_given_up,
                                                  operation, memory_order_release,
                                                  memory_order_relaxed)) {}
}

void pw_messaging_drop_given_up(pw_messaging *messaging)
{
    if (!atomic_load_explicit(&messaging->given_up, memory_order_relaxed)) return;
    pw_operation *each = atomic_exchange_explicit(&messaging->given_up, NULL, memory_order_acquire);
    for (pw_operation *next; each; each = next) {
        next = each->next_given_up;
        pw_operation_drop(messaging, each);
    }
}

void pw_operation_cancel(pw_messaging *messaging, pw_operation *operation)
{
    if (operation->kind != PW_OPERATION_RECEIVE || operation->handle || operation->done) return;
    if (!operation->is_cancelling) messaging->mpi->cancel(&operation->inner);
    operation->is_cancelling = 1;
}

int pw_messaging_turn(pw_messaging *messaging, bool waiting)
{
    int moved = pw_node_turn(messaging->node, waiting);
    if (moved < 0) return moved;
    pw_messaging_drop_given_up(messaging);
    for (pw_operation *next, *each = messaging->posted.head; each; each = next) {
        next = each->next;
        int code = pw_operation_poll(messaging, each);
        if (code < 0) return code;
        if (code == 0) continue;
        moved = 1;
        if (each->is_dropped) pw_operation_recycle(messaging, each);
    }
    if (messaging->outgoing.head) reclaim(messaging);
    return moved;
}

int pw_messaging_step(pw_messaging *messaging, bool waiting)
{
    int code = pw_messaging_turn(messaging, waiting);
    if (code > 0) pw_node_busy(messaging->node);
    else if (code == 0) pw_node_idle(messaging->node);
    return code;
}
