/* One-sided operations of a program: memory that peers may use, puts, gets, atomic operations. */
#include "native/status.h"
#include "replay/program_parts.h"

typedef unsigned long long printed;

/* ---- memory that peers may use */

/* The next one of the recorded run; 0: there is none. */
static int read_key(pw_program *program, uint64_t *key)
{
    *key = 0;
    const int code = pw_reader_number(&program->keys, key);
    return code < 0 ? code : PW_OK;
}

/* The recorded key that a PUT or GET says so. */
static int find_key(pw_program *program, uint64_t number, uint64_t *key)
{
    uint64_t *known = program->known_keys;
    if (number == PW_KEY_NEW) {
        const int code = read_key(program, key);
        known[program->num_keys++ % PW_KEYS_KNOWN] = *key;
        return code;
    }
    const uint64_t ago = number - PW_KEY_KNOWN;
    if (ago >= PW_KEYS_KNOWN || ago >= program->num_keys)
        return pw_program_refuse(program,
                                 "the key %llu before the latest: %llu were told, and %u are known",
                                 (printed)ago, (printed)program->num_keys, PW_KEYS_KNOWN);
    *key = known[(program->num_keys - 1 - ago) % PW_KEYS_KNOWN];
    return PW_OK;
}

static int tell(pw_program *program, const pw_registration *made, bool is_gone)
{
    if (!program->tell_registered) return PW_OK;
    return program->tell_registered(program->context, program->ops.rank, made, is_gone);
}

int pw_perform_register(pw_program *program, const pw_record *record)
{
    const bool is_all = record->flags & PW_REGISTER_ALL;
    pw_registration made = {.number = program->num_registrations++,
                            .num_bytes = is_all ? PW_PROGRAM_ADDRESS_END : record->bytes,
                            .rights = record->flags & (PW_REGISTER_READ | PW_REGISTER_WRITE)};
    int code = is_all ? PW_OK : pw_program_address(program, record, &made.address);
    if (code == PW_OK) code = read_key(program, &made.recorded_key);
    if (code == PW_OK)
        code = pw_ni_register(pw_node_ni(program->node), made.address, made.num_bytes, made.rights,
                              &made.key);
    if (code == PW_OK) code = pw_registered_add(&program->registered, &made);
    return code < 0 ? code : tell(program, &made, false);
}

int pw_perform_deregister(pw_program *program, const pw_record *record)
{
    pw_registration gone;
    if (!pw_registered_remove(&program->registered, record->idx, &gone))
        return pw_program_refuse(program, "registration %llu: there is none any more, or not yet",
                                 (printed)record->idx);
    const int code = tell(program, &gone, true);
    return code < 0 ? code : pw_ni_unexpose(pw_node_ni(program->node), gone.key);
}

uint64_t pw_program_key(const pw_program *program, const pw_program_wish *wish)
{
    return pw_registered_key(&program->registered, wish);
}

/* ---- operations */

/* An operation on a peer's memory, numbered. */
static int new_one_sided(pw_program *program, const pw_record *record, uint8_t kind,
                         pw_operation **out)
{
    uint64_t remote_address = 0;
    pw_numbered *made = NULL;
    int code = pw_program_check_peer(program, record->peer, 0);
    if (code == PW_OK && record->bytes == 0)
        return pw_program_refuse(program, "0 bytes of a peer's memory: allowed is from 1 on");
    if (code == PW_OK) code = pw_program_remote_address(program, record, &remote_address);
    if (code == PW_OK) code = pw_program_new_operation(program, &made);
    if (code < 0) return code;
    made->base.kind = kind;
    made->base.peer = (uint32_t)record->peer;
    made->base.posted_ns = program->clock->now_ns;
    made->region = record->region;
    made->offset = record->offset;
    made->base.num_bytes = made->base.message_bytes = record->bytes;
    made->base.remote_address = remote_address;
    *out = &made->base;
    code = pw_program_number(program, made);
    if (code < 0) pw_operation_free(&program->messages, &made->base);
    return code;
}

int pw_perform_transfer(pw_program *program, const pw_record *record)
{
    const bool is_get = record->opcode == PW_OP_GET;
    uint64_t address = 0;
    pw_operation *made;
    pw_program_wish wish = {.num_bytes = record->bytes,
                            .right = is_get ? PW_REMOTE_READ : PW_REMOTE_WRITE};
    int code = pw_program_address(program, record, &address);
    if (code == PW_OK && record->key) code = find_key(program, record->key, &wish.key);
    if (code == PW_OK)
        code =
            new_one_sided(program, record, is_get ? PW_OPERATION_READ : PW_OPERATION_WRITE, &made);
    if (code < 0) return code;
    pw_program_tell_buffer(program, record);
    made->address = address;
    made->capacity_bytes = record->bytes;
    wish.address = made->remote_address;
    if (record->key) made->remote_key = program->key_of(program->context, made->peer, &wish);
    pw_call_counts *counts = pw_node_calls(program->node);
    if (counts->num_calls) counts->call[counts->current].bytes += record->bytes;
    return pw_program_of_node(program, pw_messages_transfer(&program->messages, made));
}

int pw_perform_atomic(pw_program *program, const pw_record *record)
{
    const uint64_t limit = PW_MESSAGE_EAGER_MAX_BYTES;
    pw_operation *made;
    if (record->bytes > limit || record->request_bytes > limit || record->answer_bytes > limit)
        return pw_program_refuse(
            program,
            "an atomic of %llu bytes, %llu and %llu in its messages: allowed is "
            "up to %llu each",
            (printed)record->bytes, (printed)record->request_bytes, (printed)record->answer_bytes,
            (printed)limit);
    const int code = new_one_sided(program, record, PW_OPERATION_ATOMIC, &made);
    if (code < 0) return code;
    made->data = ++program->num_atomics;
    const pw_message_header header = {
        .context = record->bytes, .tag = record->answer_bytes, .data = made->data};
    return pw_program_of_node(program,
                              pw_messages_ask(&program->messages, made, made->remote_address,
                                              (uint32_t)record->request_bytes,
                                              (uint32_t)record->answer_bytes, &header));
}

/* ---- a peer's atomic operations */

/* An atomic operation of a peer. Its header: bytes of the memory, of the answer, and a number. */
int pw_program_serve_atomic(pw_program *program, const pw_arrival *arrival)
{
    const pw_envelope *envelope = &arrival->envelope;
    const pw_message_header *asked = &arrival->header;
    const int64_t landed_ns =
        pw_ni_message_land(pw_node_ni(program->node), arrival->frame, 0, 0, envelope->arrival_ns);
    const int code = pw_program_touch(program, envelope->address, asked->context);
    const pw_message_header header = {.data = asked->data};
    if (code < 0) return code;
    return pw_messages_send_plain(&program->messages, envelope->source_node, PW_MESSAGE_ANSWER, 0,
                                  (uint32_t)asked->tag, landed_ns, &header);
}

int pw_program_take_answer(pw_messages *messages, const pw_arrival *arrival)
{
    pw_operation *asked = messages->atomics.head;
    while (asked && asked->data != arrival->header.data) asked = asked->next;
    if (!asked) return PW_ERR_MALFORMED;
    pw_messages_answered(messages, asked, arrival, 0, 0);
    return PW_OK;
}
