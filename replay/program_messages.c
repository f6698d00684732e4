/* Messages of a program: sends, receives, probes, and who is told of them. */
#include "native/status.h"
#include "replay/program_parts.h"

typedef unsigned long long printed;

#define NOBODY (PW_ANY_NODE - 1) /* a peer that never sends */

/* Receives of one source that end in order. */
typedef struct {
    pw_peer peer;
    int64_t last_ns; /* when the last of them ended */
} in_order_peer;

/* ---- operations by their numbers */

int pw_program_new_operation(pw_program *program, pw_numbered **out)
{
    *out = (pw_numbered *)pw_operation_new(&program->messages, PW_OPERATION_RECEIVE);
    return *out ? PW_OK : PW_ERR_NOMEM;
}

int pw_program_number(pw_program *program, pw_numbered *operation)
{
    return pw_numbers_add(&program->numbers, operation, program->num_operations++);
}

static int refuse_number(pw_program *program, const pw_record *record)
{
    return pw_program_refuse(program, "operation %llu before the latest: %llu were posted",
                             (printed)record->operation, (printed)program->num_operations);
}

/* The operation that a record names; *out NULL: it is over, and nobody asks for it any more. */
static int find(pw_program *program, const pw_record *record, pw_numbered **out)
{
    *out = NULL;
    if (record->operation >= program->num_operations) return refuse_number(program, record);
    *out = pw_numbers_find(&program->numbers, program->num_operations - 1 - record->operation);
    return PW_OK;
}

/* ---- what the node tells */

int pw_program_message_arrived(void *context, uint32_t source, const uint8_t *frame,
                               uint32_t frame_bytes)
{
    pw_messages *messages = &((pw_program *)context)->messages;
    pw_arrival arrival;
    const int code = pw_messages_read(messages, source, frame, frame_bytes, &arrival);
    if (code < 0) return code;
    switch (arrival.envelope.kind) {
    case PW_MESSAGE_ATOMIC: return pw_program_serve_atomic(context, &arrival);
    case PW_MESSAGE_ANSWER: return pw_program_take_answer(messages, &arrival);
    default: return pw_messages_match(messages, &arrival);
    }
}

int pw_program_handle_finished(void *context, pw_handle *handle)
{
    ((pw_numbered *)handle->owner)->stream = handle->id;
    return pw_messages_finish(&((pw_program *)context)->messages, handle);
}

/* A part of a receive of several messages. */
static pw_numbered *new_part(pw_program *program, pw_numbered *whole, uint64_t message_bytes)
{
    pw_operation *from = &whole->base;
    pw_numbered *part, **last = &whole->parts;
    if (pw_program_new_operation(program, &part) < 0) return NULL;
    pw_operation_cut(from, &part->base, message_bytes);
    part->region = whole->region;
    part->offset = whole->offset;
    if (!from->capacity_bytes) {
        pw_operation_unlink(from);
        from->complete_ns = program->clock->now_ns;
        from->done = 1;
    }
    while (*last) last = &(*last)->sibling;
    *last = part;
    return part;
}

pw_operation *pw_program_matched(void *context, pw_operation *receive, uint64_t message_bytes)
{
    pw_program *program = context;
    if (receive->is_multi) {
        pw_numbered *part = new_part(program, (pw_numbered *)receive, message_bytes);
        if (!part || pw_operation_acquire(&program->messages, &part->base) < 0) return NULL;
        receive = &part->base;
    }
    if (receive->is_unsized && pw_program_make_room(program, (pw_numbered *)receive) < 0)
        return NULL;
    if (receive->is_in_order) pw_operation_append(&program->in_order, receive);
    return receive;
}

/* What came with its envelope is copied. Receives in order end in the order of sending. */
int pw_program_operation_over(void *context, pw_operation *operation)
{
    pw_program *program = context;
    pw_program_tell_operation(program, (pw_numbered *)operation);
    const bool is_copied = operation->kind == PW_OPERATION_RECEIVE && !operation->error &&
                           operation->message_bytes <= program->messages.eager_limit_bytes;
    const int code =
        is_copied ? pw_program_touch(program, operation->address, operation->num_bytes) : PW_OK;
    if (code < 0 || operation->list != &program->in_order) return code;
    in_order_peer *of = pw_peers_make(&program->in_order_of, operation->peer, sizeof *of);
    if (!of) return PW_ERR_NOMEM;
    while (pw_operation_next_in_order(&program->in_order, operation->context, operation->peer,
                                      operation->source, &of->last_ns)) {}
    return PW_OK;
}

/* ---- sends */

int pw_program_check_peer(pw_program *program, uint64_t peer, uint64_t source)
{
    const uint32_t num_nodes = pw_node_count(program->node);
    if (peer < num_nodes && source <= UINT32_MAX) return PW_OK;
    return pw_program_refuse(program, "rank %llu, source %llu: there are ranks 0 to %u",
                             (printed)peer, (printed)source, num_nodes - 1);
}

static int send_exposed(pw_program *program, const pw_record *record, uint64_t address,
                        const pw_message_header *header)
{
    pw_numbered *send;
    if (pw_program_new_operation(program, &send) < 0) return PW_ERR_NOMEM;
    pw_operation *base = &send->base;
    base->kind = PW_OPERATION_SEND;
    base->peer = (uint32_t)record->peer;
    base->tag = record->tag;
    base->address = address;
    base->posted_ns = program->clock->now_ns;
    send->region = record->region;
    send->offset = record->offset;
    base->num_bytes = base->capacity_bytes = base->message_bytes = record->bytes;
    int code = pw_messages_send_exposed(&program->messages, base, header);
    if (code < 0) return pw_program_of_node(program, code);
    if (!(record->flags & PW_SEND_WAS_EAGER)) return pw_program_number(program, send);
    program->num_operations++;
    if (program->exposed.tail) program->exposed.tail->companion = base;
    else program->exposed.head = base;
    program->exposed.tail = base;
    return PW_OK;
}

int pw_perform_send(pw_program *program, const pw_record *record)
{
    uint64_t address = 0;
    int code = pw_program_check_peer(program, record->peer, record->source);
    if (code == PW_OK) code = pw_program_address(program, record, &address);
    if (code < 0) return code;
    pw_program_tell_buffer(program, record);
    const pw_message_header header = {.context = record->context,
                                      .tag = record->tag,
                                      .data = record->data,
                                      .source = (uint32_t)record->source,
                                      .has_data = (record->flags & PW_SEND_HAS_DATA) != 0};
    pw_call_counts *counts = pw_node_calls(program->node);
    if (counts->num_calls) counts->call[counts->current].bytes += record->bytes;
    if (record->bytes > program->messages.eager_limit_bytes || record->flags & PW_SEND_SYNCHRONOUS)
        return send_exposed(program, record, address, &header);
    program->num_operations++;
    return pw_program_of_node(program,
                              pw_messages_send_eager(&program->messages, (uint32_t)record->peer,
                                                     address, record->bytes, &header));
}

/* ---- receives */

/* Whose message a receive from any source takes. */
static int read_match(pw_program *program, pw_operation *receive)
{
    uint64_t peer, source;
    int code = pw_reader_number(&program->matches, &peer);
    if (code > 0) code = pw_reader_number(&program->matches, &source);
    if (code < 0) return code;
    if (program->matches_freely) return PW_OK;
    receive->peer = NOBODY;
    if (code == 0 || peer == 0) return PW_OK; /* of a run that was killed, or none */
    code = pw_program_check_peer(program, peer - 1, source);
    receive->peer = (uint32_t)(peer - 1);
    receive->source = (uint32_t)source;
    return code;
}

/* Which message it wants. */
static int want(pw_program *program, const pw_record *record, pw_operation *receive)
{
    receive->context = record->context;
    receive->tag = record->tag;
    receive->ignore = record->ignore;
    receive->is_multi = (record->flags & PW_RECEIVE_MULTI) != 0;
    receive->is_in_order = (record->flags & PW_RECEIVE_IN_ORDER) != 0;
    receive->peer = PW_ANY_NODE;
    if (record->peer == 0) return receive->is_multi ? PW_OK : read_match(program, receive);
    const int code = pw_program_check_peer(program, record->peer - 1, record->source);
    receive->peer = (uint32_t)(record->peer - 1);
    receive->source = (uint32_t)record->source;
    return code;
}

/* A receive with its buffer; the strategy's part of posting it is done. */
static int new_receive(pw_program *program, const pw_record *record, pw_numbered **out)
{
    uint64_t address = 0;
    int code = pw_program_address(program, record, &address);
    if (code == PW_OK) code = pw_program_new_operation(program, out);
    if (code < 0) return code;
    pw_operation *receive = &(*out)->base;
    pw_program_tell_buffer(program, record);
    (*out)->region = record->region;
    (*out)->offset = record->offset;
    receive->address = address;
    receive->capacity_bytes = record->bytes;
    receive->is_unsized = (record->flags & PW_RECEIVE_UNSIZED) != 0;
    const bool is_later = receive->is_unsized || record->flags & PW_RECEIVE_MULTI;
    if (receive->is_unsized) code = pw_program_read_room(program, *out);
    code = is_later || code < 0 ? code : pw_operation_acquire(&program->messages, receive);
    if (code < 0) pw_operation_free(&program->messages, receive);
    return pw_program_of_node(program, code);
}

int pw_perform_receive(pw_program *program, const pw_record *record)
{
    pw_numbered *receive = NULL;
    int code = new_receive(program, record, &receive);
    if (code < 0) return code;
    code = want(program, record, &receive->base);
    if (code == PW_OK) code = pw_program_number(program, receive);
    if (code < 0) {
        pw_operation_free(&program->messages, &receive->base);
        return code;
    }
    return pw_program_of_node(program, pw_messages_post(&program->messages, &receive->base));
}

int pw_perform_await(pw_program *program, const pw_record *record)
{
    const int code = find(program, record, &program->operation);
    if (code < 0 || !program->operation) return code; /* sent eagerly here */
    if (program->operation->base.kind == PW_OPERATION_ARRIVED)
        return pw_program_refuse(program, "operation %llu is a message that nobody received",
                                 (printed)program->operation->number);
    program->wanted = *record;
    program->waits = PW_PROGRAM_WAITS_OPERATION;
    return PW_OK;
}

int pw_perform_await_message(pw_program *program, const pw_record *record)
{
    program->wanted = *record;
    program->operation = NULL;
    int code = pw_program_check_peer(program, record->peer, record->source);
    if (code == PW_OK && record->opcode == PW_OP_PART) {
        code = find(program, record, &program->operation);
        if (code == PW_OK && (!program->operation || !program->operation->base.is_multi))
            return pw_program_refuse(program, "a part of what is no receive of several messages");
    }
    if (code == PW_OK) program->waits = PW_PROGRAM_WAITS_MESSAGE;
    return code;
}

int pw_perform_take(pw_program *program, const pw_record *record)
{
    pw_numbered *arrived = NULL, *receive = NULL;
    int code = find(program, record, &arrived);
    if (code < 0) return code;
    if (!arrived || arrived->base.kind != PW_OPERATION_ARRIVED)
        return pw_program_refuse(program, "a message is received that no probe has taken");
    pw_numbers_remove(&program->numbers, arrived);
    code = new_receive(program, record, &receive);
    if (code < 0) return code;
    receive->base.posted_ns = program->clock->now_ns;
    code = pw_program_number(program, receive);
    if (code < 0) return code;
    return pw_program_of_node(program,
                              pw_messages_take(&program->messages, &receive->base, &arrived->base));
}

int pw_perform_cancel(pw_program *program, const pw_record *record)
{
    pw_numbered *receive = NULL;
    const int code = find(program, record, &receive);
    if (code < 0 || !receive || receive->base.list != &program->messages.posted) return code;
    receive->base.cancelled = 1;
    return pw_program_of_node(program, pw_messages_withdraw(&program->messages, &receive->base));
}
