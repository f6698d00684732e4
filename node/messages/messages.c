#include "node/messages/messages.h"
#include "node/record/recorder.h"
#include <stdlib.h>
#include <string.h>

/* ---- operations */

pw_operation *pw_operation_new(pw_messages *messages, uint8_t kind)
{
    pw_operation *operation = pw_pool_take(&messages->operations, messages->operation_bytes);
    if (!operation) return NULL;
    memset(operation, 0, messages->operation_bytes);
    operation->kind = kind;
    return operation;
}

/* NULL: nothing is recorded, or the messages are closed. */
static pw_recorder *recorder_of(const pw_messages *messages)
{
    return messages->clock ? messages->clock->recorder : NULL;
}

static bool is_recorded(const pw_messages *messages, const pw_operation *operation)
{
    return recorder_of(messages) && operation->recorded;
}

/* What keeps a message of so many bytes that came early. */
static pw_frame_pool *frames_for(pw_messages *messages, uint32_t frame_bytes)
{
    return frame_bytes <= messages->frames.frame_bytes ? &messages->frames
                                                       : &messages->promised_frames;
}

void pw_operation_free(pw_messages *messages, pw_operation *operation)
{
    if (is_recorded(messages, operation)) pw_recorder_forget(recorder_of(messages), operation);
    free(operation->memory);
    operation->memory = NULL;
    if (operation->frame)
        pw_frame_give(frames_for(messages, operation->frame_bytes), operation->frame);
    operation->frame = NULL;
    pw_pool_give(&messages->operations, operation);
}

/* Of a payload, what stands in its frame. */
static uint32_t carried_bytes(const pw_messages *messages, uint64_t payload_bytes)
{
    return pw_ni_has_no_bytes(messages->ni) ? 0 : (uint32_t)payload_bytes;
}

int pw_messages_open(pw_messages *messages, pw_node *node, const pw_messages_host *host,
                     uint64_t eager_limit_bytes, uint64_t payload_bytes, size_t operation_bytes)
{
    if (payload_bytes < eager_limit_bytes) payload_bytes = eager_limit_bytes;
    if (payload_bytes > PW_MESSAGE_EAGER_MAX_BYTES) return PW_ERR_INVALID;
    *messages = (pw_messages){.node = node,
                              .ni = pw_node_ni(node),
                              .clock = pw_node_clock(node),
                              .host = *host,
                              .eager_limit_bytes = eager_limit_bytes,
                              .operation_bytes = operation_bytes};
    messages->frames.frame_bytes =
        (PW_MESSAGE_FRAME_BYTES(carried_bytes(messages, eager_limit_bytes)) + 63) & ~UINT32_C(63);
    messages->promised_frames.frame_bytes =
        (PW_MESSAGE_FRAME_BYTES(pw_node_promise_bytes(node, PW_BLOCK_BYTES)) + 63) & ~UINT32_C(63);
    /* Now, and not when a message comes early: what is allocated next would lie elsewhere then. */
    const bool promises = pw_node_promise_bytes(node, 1) != 0;
    pw_operation *first = pw_operation_new(messages, PW_OPERATION_ARRIVED);
    if (first) first->frame = pw_frame_take(&messages->frames, NULL);
    uint8_t *promised = promises ? pw_frame_take(&messages->promised_frames, NULL) : NULL;
    const int code = first && first->frame && (promised || !promises) ? PW_OK : PW_ERR_NOMEM;
    if (promised) pw_frame_give(&messages->promised_frames, promised);
    if (first) pw_operation_free(messages, first);
    payload_bytes = carried_bytes(messages, payload_bytes);
    return code < 0 ? code : pw_node_set_frame_bytes(node, PW_MESSAGE_FRAME_BYTES(payload_bytes));
}

void pw_messages_close(pw_messages *messages)
{
    for (pw_link *link = messages->operations.chunks; link; link = link->next) {
        pw_pool_chunk *chunk = (pw_pool_chunk *)link;
        for (size_t i = 0; i < chunk->num_items; i++) {
            const pw_operation *each = pw_pool_item(chunk, i, messages->operation_bytes);
            free(each->memory);
        }
    }
    pw_pool_finish(&messages->operations);
    pw_frame_pool_finish(&messages->frames);
    pw_frame_pool_finish(&messages->promised_frames);
    *messages = (pw_messages){.node = NULL};
}

void pw_operation_append(pw_operation_list *list, pw_operation *operation)
{
    operation->list = list;
    operation->next = NULL;
    operation->previous = list->tail;
    if (list->tail) list->tail->next = operation;
    else list->head = operation;
    list->tail = operation;
}

void pw_operation_unlink(pw_operation *operation)
{
    pw_operation_list *list = operation->list;
    if (!list) return;
    if (operation->previous) operation->previous->next = operation->next;
    else list->head = operation->next;
    if (operation->next) operation->next->previous = operation->previous;
    else list->tail = operation->previous;
    operation->next = operation->previous = NULL;
    operation->list = NULL;
}

void pw_operation_cut(pw_operation *whole, pw_operation *part, uint64_t message_bytes)
{
    part->posted_ns = whole->posted_ns;
    part->context = whole->context;
    part->is_in_order = whole->is_in_order;
    part->address = whole->address;
    part->capacity_bytes =
        message_bytes < whole->capacity_bytes ? message_bytes : whole->capacity_bytes;
    whole->address += part->capacity_bytes;
    whole->capacity_bytes -= part->capacity_bytes;
}

pw_operation *pw_operation_next_in_order(const pw_operation_list *list, uint64_t context,
                                         uint32_t peer, uint32_t source, int64_t *last_ns)
{
    pw_operation *first = list->head;
    while (first && (first->context != context || first->peer != peer || first->source != source))
        first = first->next;
    if (!first || !first->done) return NULL;
    pw_operation_unlink(first);
    first->complete_ns = *last_ns = pw_later(*last_ns, first->complete_ns);
    return first;
}

int pw_operation_acquire(pw_messages *messages, pw_operation *receive)
{
    if (receive->capacity_bytes <= messages->eager_limit_bytes) return PW_OK;
    const pw_span span = {receive->address, receive->capacity_bytes};
    if (recorder_of(messages)) pw_recorder_uses(recorder_of(messages), span);
    const int code =
        pw_node_acquire(messages->node, span, PW_ACCESS_WRITE | PW_ACCESS_MESSAGE, &receive->lease);
    receive->has_lease = code == PW_OK;
    return code;
}

int pw_operation_release(pw_messages *messages, pw_operation *operation)
{
    if (!operation->has_lease) return PW_OK;
    operation->has_lease = false;
    return pw_node_release(messages->node, &operation->lease);
}

static int end(pw_messages *messages, pw_operation *operation)
{
    if (is_recorded(messages, operation)) pw_recorder_over(recorder_of(messages), operation);
    /* Its owner may be another thread, which reads the rest once it sees this, without the lock. */
    __atomic_store_n(&operation->done, 1, __ATOMIC_RELEASE);
    if (operation->is_dropped) pw_operation_free(messages, operation);
    else if (messages->host.over) return messages->host.over(messages->host.context, operation);
    return PW_OK;
}

/* ---- one-sided: reads and writes by the NI */

static bool is_one_sided(const pw_operation *operation)
{
    return operation->kind == PW_OPERATION_READ || operation->kind == PW_OPERATION_WRITE;
}

/* The next piece. A descriptor's length has 32 bits: one byte less than a transfer can have. */
static pw_descriptor describe(const pw_messages *messages, const pw_operation *transfer)
{
    const bool is_read = transfer->kind == PW_OPERATION_READ;
    const uint64_t here = transfer->lease.ni_address + transfer->begun_bytes;
    const uint64_t there = transfer->remote_address + transfer->begun_bytes;
    const uint64_t destination = is_read ? here : there;
    uint64_t piece_bytes = pw_node_piece_bytes(messages->node, destination,
                                               transfer->num_bytes - transfer->begun_bytes);
    if (piece_bytes > UINT32_MAX) piece_bytes -= PW_BLOCK_BYTES + destination % PW_BLOCK_BYTES;
    return (pw_descriptor){
        .source_address = is_read ? there : here,
        .destination_address = destination,
        .transfer_bytes = (uint32_t)piece_bytes,
    };
}

/* Begin the next piece at at_ns. When the CPU has posted it, or a code; PW_ERR_FULL: every write
 * channel is taken. */
static int64_t start_piece(pw_messages *messages, pw_operation *transfer, int64_t at_ns)
{
    const pw_descriptor descriptor = describe(messages, transfer);
    const bool is_read = transfer->kind == PW_OPERATION_READ;
    const uint16_t pdid = pw_node_pdid(messages->node);
    uint64_t id;
    const int64_t posted_ns =
        is_read ? pw_ni_read(messages->ni, pdid, transfer->peer, &descriptor, transfer->remote_key,
                             at_ns, &id)
                : pw_ni_write_descriptor(messages->ni, pdid, transfer->peer, &descriptor,
                                         transfer->remote_key, at_ns, &id);
    if (posted_ns < 0) return posted_ns;
    const int code = pw_node_started(messages->node, id, transfer->peer, &transfer->handle);
    if (code < 0) return code;
    transfer->begun_bytes += descriptor.transfer_bytes;
    transfer->handle->owner = transfer;
    transfer->handle->num_bytes = transfer->num_bytes;
    transfer->handle->is_fetch = is_read;
    transfer->handle->lease = transfer->lease;
    if (transfer->begun_bytes < transfer->num_bytes) return posted_ns;
    transfer->handle->has_lease = transfer->has_lease;
    transfer->has_lease = false;
    return posted_ns;
}

static int start(pw_messages *messages, pw_operation *transfer)
{
    const int64_t posted_ns = start_piece(messages, transfer, messages->clock->now_ns);
    if (posted_ns < 0) return (int)posted_ns;
    messages->clock->now_ns = posted_ns;
    return PW_OK;
}

/* What was refused before it began is the operation's own error. */
static int end_refused(pw_messages *messages, pw_operation *transfer, int error)
{
    (void)pw_operation_release(messages, transfer);
    transfer->error = error;
    transfer->complete_ns = messages->clock->now_ns;
    return end(messages, transfer);
}

/* A channel has become free. */
static int resume_writes(pw_messages *messages)
{
    for (pw_operation *first; (first = messages->writes.head);) {
        int code = start(messages, first);
        if (code == PW_ERR_FULL) return PW_OK;
        pw_operation_unlink(first);
        if (code < 0) code = end_refused(messages, first, code);
        if (code < 0) return code;
    }
    return PW_OK;
}

int pw_messages_transfer(pw_messages *messages, pw_operation *transfer)
{
    const bool is_read = transfer->kind == PW_OPERATION_READ;
    const pw_span span = {transfer->address, transfer->num_bytes};
    if (recorder_of(messages)) pw_recorder_transfer(recorder_of(messages), transfer);
    int code = pw_node_acquire(messages->node, span, is_read ? PW_ACCESS_WRITE : PW_ACCESS_READ,
                               &transfer->lease);
    if (code < 0) return end_refused(messages, transfer, code);
    transfer->has_lease = true;
    const bool must_wait = !is_read && messages->writes.head;
    code = must_wait ? PW_ERR_FULL : start(messages, transfer);
    if (code == PW_ERR_FULL && !is_read) {
        pw_operation_append(&messages->writes, transfer);
        return PW_OK;
    }
    return code < 0 ? end_refused(messages, transfer, code) : PW_OK;
}

/* A piece is over: the library's progress thread posts the next one. */
static int go_on(pw_messages *messages, pw_operation *transfer)
{
    const int64_t at_ns = transfer->handle->complete_ns;
    pw_node_free_handle(messages->node, transfer->handle);
    transfer->handle = NULL;
    const int64_t posted_ns = start_piece(messages, transfer, at_ns);
    if (posted_ns >= 0) return PW_OK;
    if (posted_ns != PW_ERR_FULL || transfer->kind == PW_OPERATION_READ)
        return end_refused(messages, transfer, (int)posted_ns);
    pw_operation_append(&messages->writes, transfer);
    return PW_OK;
}

int pw_messages_finish(pw_messages *messages, pw_handle *handle)
{
    pw_operation *operation = handle->owner;
    if (!handle->error && operation->begun_bytes < operation->num_bytes && is_one_sided(operation))
        return go_on(messages, operation);
    const pw_lease *lease = &handle->lease;
    const bool is_in_place = !lease->is_in_pieces && lease->ni_address == lease->span.address;
    const uint8_t kind = operation->kind;
    const bool is_here = kind == PW_OPERATION_RECEIVE || kind == PW_OPERATION_READ;
    if (recorder_of(messages) && is_here && !handle->error && is_in_place)
        pw_recorder_landed(recorder_of(messages),
                           (pw_span){operation->address, operation->num_bytes});
    operation->handle = NULL;
    operation->complete_ns = handle->complete_ns;
    operation->error = handle->error;
    pw_node_free_handle(messages->node, handle);
    if (kind == PW_OPERATION_SEND) pw_operation_unlink(operation);
    const int released =
        pw_operation_release(messages, operation); /* of pieces, of which one failed */
    const int code = end(messages, operation);
    const int resumed = kind == PW_OPERATION_WRITE ? resume_writes(messages) : PW_OK;
    if (released < 0) return released;
    return code < 0 ? code : resumed;
}

/* ---- sending */

int pw_messages_send_frame(pw_messages *messages, uint32_t peer, uint8_t *frame,
                           uint32_t payload_bytes, const pw_message_header *header)
{
    memcpy(frame + PW_ENVELOPE_BYTES + payload_bytes, header, sizeof *header);
    return pw_node_send_frame(messages->node, peer, frame, PW_MESSAGE_FRAME_BYTES(payload_bytes));
}

int pw_messages_send_plain(pw_messages *messages, uint32_t peer, uint8_t kind, uint64_t address,
                           uint32_t payload_bytes, int64_t at_ns, const pw_message_header *header)
{
    uint8_t *frame = pw_node_take_frame(messages->node);
    if (!frame) return PW_ERR_NOMEM;
    (void)pw_ni_message_write(messages->ni, peer, kind, address, payload_bytes, 0, payload_bytes,
                              at_ns, frame);
    return pw_messages_send_frame(messages, peer, frame, carried_bytes(messages, payload_bytes),
                                  header);
}

int pw_messages_ask(pw_messages *messages, pw_operation *atomic, uint64_t address,
                    uint32_t request_bytes, uint32_t answer_bytes, const pw_message_header *header)
{
    if (recorder_of(messages))
        pw_recorder_atomic(recorder_of(messages), atomic, request_bytes, answer_bytes);
    pw_operation_append(&messages->atomics, atomic);
    return pw_messages_send_plain(messages, atomic->peer, PW_MESSAGE_ATOMIC, address, request_bytes,
                                  messages->clock->now_ns, header);
}

void pw_messages_served(pw_messages *messages, pw_span span)
{
    if (recorder_of(messages)) pw_recorder_landed(recorder_of(messages), span);
}

void pw_messages_answered(pw_messages *messages, pw_operation *atomic, const pw_arrival *arrival,
                          uint64_t address, uint32_t capacity_bytes)
{
    atomic->complete_ns = pw_ni_message_land(messages->ni, arrival->frame, address, capacity_bytes,
                                             arrival->envelope.arrival_ns);
    pw_operation_unlink(atomic);
    if (is_recorded(messages, atomic)) pw_recorder_over(recorder_of(messages), atomic);
    atomic->done = 1;
}

int pw_messages_send_eager(pw_messages *messages, uint32_t peer, uint64_t address,
                           uint64_t num_bytes, const pw_message_header *header)
{
    uint8_t *frame = pw_node_take_frame(messages->node);
    if (!frame) return PW_ERR_NOMEM;
    if (recorder_of(messages))
        pw_recorder_sent(recorder_of(messages), NULL, peer, header, (pw_span){address, num_bytes});
    (void)pw_node_write_message(messages->node, peer, PW_MESSAGE_EAGER, address, num_bytes, 0,
                                frame);
    return pw_messages_send_frame(messages, peer, frame, carried_bytes(messages, num_bytes),
                                  header);
}

/* Does the program expect no message? Where it expects several things, in which order it learns of
 * them costs it looks: that must not change by what is foreseen. */
static bool expects_nothing(const pw_messages *messages)
{
    const pw_operation *posted = messages->posted.head;
    while (posted && posted->is_multi) posted = posted->next;
    return !posted;
}

int pw_messages_send_exposed(pw_messages *messages, pw_operation *send,
                             const pw_message_header *header)
{
    if (recorder_of(messages))
        pw_recorder_sent(recorder_of(messages), send, send->peer, header,
                         (pw_span){send->address, send->num_bytes});
    int code =
        pw_node_expose(messages->node, send->peer, send->address, send->num_bytes, &send->handle);
    if (code < 0) {
        pw_operation_free(messages, send);
        return code;
    }
    send->handle->owner = send; /* and ends it, whatever follows */
    pw_operation_append(&messages->sends, send);
    uint8_t envelope[PW_ENVELOPE_BYTES];
    uint32_t promise_bytes;
    uint8_t *frame = NULL;
    (void)pw_node_write_message(messages->node, send->peer, PW_MESSAGE_RENDEZVOUS,
                                send->handle->address, send->num_bytes, send->handle->key,
                                envelope);
    if (expects_nothing(messages))
        frame = pw_node_promise(messages->node, send->handle, sizeof *header, &promise_bytes);
    if (!frame) {
        promise_bytes = 0;
        frame = pw_node_take_frame(messages->node);
    }
    code = frame ? PW_OK : PW_ERR_NOMEM;
    if (frame) {
        memcpy(frame, envelope, sizeof envelope);
        code = pw_messages_send_frame(messages, send->peer, frame, promise_bytes, header);
    }
    if (code < 0) send->is_dropped = true;
    return code;
}

/* ---- which message a receive takes */

static bool suits(const pw_operation *receive, uint64_t context, uint64_t tag, uint32_t peer,
                  uint32_t source)
{
    return receive->context == context && !((receive->tag ^ tag) & ~receive->ignore) &&
           (receive->peer == PW_ANY_NODE || (receive->peer == peer && receive->source == source));
}

static bool suits_arrived(const pw_operation *receive, const pw_operation *arrived)
{
    return suits(receive, arrived->context, arrived->tag, arrived->peer, arrived->source);
}

/* Is it the first of its source that suits the receive? A message that was sent later may arrive
 * earlier in virtual time, where a gap on the link was too short for the one before it. */
static bool is_first_of_source(const pw_messages *messages, const pw_operation *receive,
                               const pw_operation *arrived)
{
    for (const pw_operation *each = messages->unexpected.head; each != arrived; each = each->next)
        if (pw_is_of_same_source(each, arrived) && suits_arrived(receive, each)) return false;
    return true;
}

pw_operation *pw_messages_find(const pw_messages *messages, const pw_operation *receive)
{
    pw_operation *best = NULL;
    for (pw_operation *each = messages->unexpected.head; each; each = each->next) {
        if (!suits_arrived(receive, each)) continue;
        if (receive->peer != PW_ANY_NODE) return each;
        const bool is_better = !best || each->is_announced || each->arrival_ns < best->arrival_ns;
        if (!is_better || !is_first_of_source(messages, receive, each)) continue;
        if (each->is_announced) return each;
        best = each;
    }
    return best;
}

static int keep(pw_messages *messages, const pw_arrival *arrival)
{
    pw_operation *arrived = pw_operation_new(messages, PW_OPERATION_ARRIVED);
    if (!arrived) return PW_ERR_NOMEM;
    arrived->frame = pw_frame_take(frames_for(messages, arrival->frame_bytes), NULL);
    if (!arrived->frame) {
        pw_operation_free(messages, arrived);
        return PW_ERR_NOMEM;
    }
    memcpy(arrived->frame, arrival->frame, arrival->frame_bytes);
    arrived->frame_bytes = arrival->frame_bytes;
    arrived->context = arrival->header.context;
    arrived->tag = arrival->header.tag;
    arrived->data = arrival->header.data;
    arrived->has_data = arrival->header.has_data != 0;
    arrived->source = arrival->header.source;
    arrived->peer = arrival->envelope.source_node;
    arrived->message_bytes = arrival->envelope.num_bytes;
    arrived->arrival_ns = arrival->envelope.arrival_ns;
    pw_operation_append(&messages->unexpected, arrived);
    return PW_OK;
}

/* ---- where it lands */

/* Memory for a message that decides its own length. */
static int make_room(pw_messages *messages, pw_operation *receive, uint64_t num_bytes)
{
    if (!pw_ni_has_no_bytes(messages->ni)) {
        receive->memory = malloc(num_bytes ? num_bytes : 1);
        if (!receive->memory) return PW_ERR_NOMEM;
        receive->address = (uintptr_t)receive->memory;
    }
    if (is_recorded(messages, receive))
        pw_recorder_made_room(recorder_of(messages), receive,
                              (pw_span){receive->address, num_bytes});
    receive->capacity_bytes = num_bytes;
    return pw_operation_acquire(messages, receive);
}

/* The receive is over with what it landed, or without. */
static int end_at(pw_messages *messages, pw_operation *receive, int64_t complete_ns)
{
    const int code = pw_operation_release(messages, receive);
    receive->complete_ns = complete_ns;
    const int ended = end(messages, receive);
    return code < 0 ? code : ended;
}

int pw_messages_withdraw(pw_messages *messages, pw_operation *receive)
{
    if (is_recorded(messages, receive)) pw_recorder_cancelled(recorder_of(messages), receive);
    pw_operation_unlink(receive);
    return end_at(messages, receive, messages->clock->now_ns);
}

/* The payload is copied, or read from the sender's memory. */
static int land(pw_messages *messages, pw_operation *receive, const pw_arrival *arrival)
{
    const pw_envelope *envelope = &arrival->envelope;
    const pw_message_header *header = &arrival->header;
    if (!receive->is_multi) pw_operation_unlink(receive);
    if (is_recorded(messages, receive) && receive->match)
        pw_recorder_matched(recorder_of(messages), receive, envelope->source_node, header->source);
    if (messages->host.matched)
        receive = messages->host.matched(messages->host.context, receive, envelope->num_bytes);
    int code = receive ? PW_OK : PW_ERR_NOMEM;
    if (code == PW_OK && receive->is_unsized)
        code = make_room(messages, receive, envelope->num_bytes);
    if (code < 0) return code;
    receive->peer = envelope->source_node;
    receive->source = header->source;
    receive->tag = header->tag;
    receive->data = header->data;
    receive->has_data = header->has_data != 0;
    receive->message_bytes = envelope->num_bytes;
    receive->arrival_ns = envelope->arrival_ns;
    receive->num_bytes = envelope->num_bytes < receive->capacity_bytes ? envelope->num_bytes
                                                                       : receive->capacity_bytes;
    if (envelope->kind == PW_MESSAGE_EAGER && recorder_of(messages)) /* the CPU copies it */
        pw_recorder_landed(recorder_of(messages), (pw_span){receive->address, receive->num_bytes});
    if (envelope->kind == PW_MESSAGE_EAGER)
        return end_at(messages, receive,
                      pw_ni_message_land(messages->ni, arrival->frame, receive->address,
                                         receive->capacity_bytes, receive->posted_ns));
    const int64_t matched_ns = pw_later(receive->posted_ns, envelope->arrival_ns);
    code = pw_node_fetch(messages->node, envelope->source_node, envelope->address, envelope->key,
                         receive->address, receive->num_bytes, matched_ns,
                         receive->has_lease ? &receive->lease : NULL, &receive->handle);
    if (code == PW_ERR_ADDRESS) { /* of the program's buffer */
        receive->error = code;
        receive->num_bytes = 0;
        return end_at(messages, receive, matched_ns);
    }
    if (code < 0) return code;
    receive->has_lease = false; /* the handle's */
    receive->handle->owner = receive;
    if (!arrival->promise_bytes || receive->num_bytes != envelope->num_bytes) return PW_OK;
    return pw_node_take_promise(messages->node, envelope->source_node,
                                arrival->frame + PW_ENVELOPE_BYTES);
}

/* ---- receiving */

static void read_frame(const uint8_t *frame, uint32_t frame_bytes, pw_arrival *out)
{
    memcpy(&out->envelope, frame, sizeof out->envelope);
    memcpy(&out->header, frame + frame_bytes - sizeof out->header, sizeof out->header);
    out->frame = frame;
    out->frame_bytes = frame_bytes;
    out->promise_bytes =
        out->envelope.kind == PW_MESSAGE_RENDEZVOUS ? frame_bytes - PW_MESSAGE_FRAME_BYTES(0) : 0;
}

void pw_messages_announce(pw_messages *messages, pw_operation *arrived, bool waited, bool taken)
{
    arrived->is_announced = 1;
    if (recorder_of(messages))
        pw_recorder_found(recorder_of(messages), arrived,
                          (waited ? PW_FOUND_WAITED : 0) | (taken ? PW_FOUND_TAKEN : 0));
    if (taken) pw_operation_unlink(arrived);
}

void pw_messages_completed(pw_messages *messages, pw_operation *operation,
                           const pw_operation *whole)
{
    pw_clock *clock = messages->clock;
    if (clock->recorder)
        pw_recorder_done(clock->recorder, operation, whole, clock->now_ns, clock->poll_ns);
    clock->now_ns = pw_later(clock->now_ns, operation->complete_ns) + clock->poll_ns;
}

void pw_messages_told(pw_messages *messages, pw_operation *operation, const pw_operation *whole)
{
    if (recorder_of(messages)) pw_recorder_told(recorder_of(messages), operation, whole);
}

int pw_messages_take(pw_messages *messages, pw_operation *receive, pw_operation *arrived)
{
    pw_arrival arrival;
    if (is_recorded(messages, arrived) && !receive->recorded)
        pw_recorder_took(recorder_of(messages), arrived, receive);
    read_frame(arrived->frame, arrived->frame_bytes, &arrival);
    pw_operation_unlink(arrived);
    const int code = land(messages, receive, &arrival);
    pw_operation_free(messages, arrived);
    return code;
}

int pw_messages_post(pw_messages *messages, pw_operation *receive)
{
    const bool is_multi = receive->is_multi;
    receive->posted_ns = messages->clock->now_ns;
    if (recorder_of(messages)) pw_recorder_posted(recorder_of(messages), receive);
    pw_operation_append(&messages->posted, receive);
    do {
        pw_operation *arrived = pw_messages_find(messages, receive);
        if (!arrived) return PW_OK;
        const int code = pw_messages_take(messages, receive, arrived);
        if (code < 0) return code;
    } while (is_multi && receive->list); /* else it is on its way, and not ours any more */
    return PW_OK;
}

int pw_messages_match(pw_messages *messages, const pw_arrival *arrival)
{
    const pw_message_header *header = &arrival->header;
    pw_operation *receive = messages->posted.head;
    while (receive && !suits(receive, header->context, header->tag, arrival->envelope.source_node,
                             header->source))
        receive = receive->next;
    return receive ? land(messages, receive, arrival) : keep(messages, arrival);
}

static bool is_whole(const pw_messages *messages, const pw_envelope *envelope, uint32_t source,
                     uint32_t frame_bytes)
{
    const uint32_t promise_bytes =
        envelope->kind == PW_MESSAGE_RENDEZVOUS && frame_bytes > PW_MESSAGE_FRAME_BYTES(0)
            ? pw_node_promise_bytes(messages->node, envelope->num_bytes)
            : 0;
    if (envelope->source_node != source ||
        frame_bytes != (uint64_t)carried_bytes(messages, envelope->payload_bytes) + promise_bytes +
                           PW_MESSAGE_FRAME_BYTES(0))
        return false;
    if (envelope->kind == PW_MESSAGE_EAGER)
        return envelope->payload_bytes == envelope->num_bytes &&
               frame_bytes <= messages->frames.frame_bytes;
    return envelope->kind != PW_MESSAGE_RENDEZVOUS ||
           (envelope->payload_bytes == 0 && envelope->num_bytes <= UINT64_MAX - envelope->address);
}

int pw_messages_read(pw_messages *messages, uint32_t source, const uint8_t *frame,
                     uint32_t frame_bytes, pw_arrival *out)
{
    const int code = pw_ni_message_check(messages->ni, frame, frame_bytes);
    if (code < 0) return code;
    read_frame(frame, frame_bytes, out);
    if (is_whole(messages, &out->envelope, source, frame_bytes)) return PW_OK;
    pw_ni_message_refuse(messages->ni);
    return PW_ERR_MALFORMED;
}
