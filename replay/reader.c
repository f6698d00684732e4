#include "replay/reader.h"
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef unsigned long long printed;

#define LEB_BYTES 10 /* of a number of 64 bits */

/* The fields of each opcode, in their order. */
enum field {
    NONE,
    PEER,
    CONTEXT,
    TAG,
    SOURCE,
    BYTES,
    REGION,
    OFFSET,
    SEND_FLAGS,
    RECEIVE_FLAGS,
    FLAGS,
    DATA,
    IGNORE,
    OPERATION,
    DURATION,
    SIGNED_DURATION,
    COUNT,
    IDX,
    GROUP,
    STATE,
    REMOTE_REGION,
    REMOTE_OFFSET,
    REQUEST_BYTES,
    ANSWER_BYTES,
    KEY,
    TEXT, /* its length, then so many bytes */
};

#define FIELDS_MAX 9

static const uint8_t fields_of[PW_OPS][FIELDS_MAX] = {
    [PW_OP_COMPUTE] = {DURATION},
    [PW_OP_NAME] = {IDX, TEXT},
    [PW_OP_CALL] = {IDX},
    [PW_OP_SEND] = {PEER, CONTEXT, TAG, SOURCE, BYTES, REGION, OFFSET, SEND_FLAGS},
    [PW_OP_RECEIVE] = {PEER, CONTEXT, TAG, SOURCE, BYTES, REGION, OFFSET, RECEIVE_FLAGS},
    [PW_OP_DONE] = {OPERATION},
    [PW_OP_TOLD] = {OPERATION},
    [PW_OP_LOOKS] = {COUNT, DURATION},
    [PW_OP_SLEEP] = {DURATION},
    [PW_OP_PASS] = {SIGNED_DURATION},
    [PW_OP_MEET] = {GROUP, COUNT},
    [PW_OP_FOUND] = {PEER, CONTEXT, TAG, SOURCE, FLAGS},
    [PW_OP_TAKE] = {OPERATION, BYTES, REGION, OFFSET, FLAGS},
    [PW_OP_CANCEL] = {OPERATION},
    [PW_OP_PAGES] = {REGION, OFFSET, COUNT, STATE},
    [PW_OP_UNMAP] = {REGION, OFFSET, COUNT},
    [PW_OP_REGION] = {TEXT},
    [PW_OP_LOST] = {TEXT},
    [PW_OP_PART] = {OPERATION, PEER, SOURCE},
    [PW_OP_REGISTER] = {BYTES, REGION, OFFSET, FLAGS},
    [PW_OP_DEREGISTER] = {IDX},
    [PW_OP_PUT] = {PEER, BYTES, REGION, OFFSET, REMOTE_REGION, REMOTE_OFFSET, KEY},
    [PW_OP_GET] = {PEER, BYTES, REGION, OFFSET, REMOTE_REGION, REMOTE_OFFSET, KEY},
    [PW_OP_ATOMIC] = {PEER, BYTES, REMOTE_REGION, REMOTE_OFFSET, REQUEST_BYTES, ANSWER_BYTES},
};

#define AT(member) offsetof(pw_record, member)

static const uint8_t place_of[] = {
    [PEER] = AT(peer),
    [CONTEXT] = AT(context),
    [TAG] = AT(tag),
    [SOURCE] = AT(source),
    [BYTES] = AT(bytes),
    [REGION] = AT(region),
    [OFFSET] = AT(offset),
    [SEND_FLAGS] = AT(flags),
    [RECEIVE_FLAGS] = AT(flags),
    [FLAGS] = AT(flags),
    [DATA] = AT(data),
    [IGNORE] = AT(ignore),
    [OPERATION] = AT(operation),
    [DURATION] = AT(duration_ns),
    [SIGNED_DURATION] = AT(duration_ns),
    [COUNT] = AT(count),
    [IDX] = AT(idx),
    [GROUP] = AT(group),
    [STATE] = AT(state),
    [REMOTE_REGION] = AT(remote_region),
    [REMOTE_OFFSET] = AT(remote_offset),
    [REQUEST_BYTES] = AT(request_bytes),
    [ANSWER_BYTES] = AT(answer_bytes),
    [KEY] = AT(key),
};

static const char *name_of(uint32_t kind)
{
    switch (kind) {
    case PW_PWT_MATCHES: return "match";
    case PW_PWT_TIMES: return "time";
    case PW_PWT_REGIONS: return "region";
    case PW_PWT_KEYS: return "key";
    case PW_PWT_ROOMS: return "room";
    default: return "record";
    }
}

static int refuse(pw_reader *reader, const char *what)
{
    return pw_sentence_refuse(reader->reason, PW_ERR_MALFORMED, "rank %u, %s %llu: %s",
                              reader->rank, name_of(reader->kind), (printed)reader->num_read, what);
}

/* Something stands at `at`: 1; 0: the stream is at its end; or the source's code. */
static int fill(pw_reader *reader)
{
    while (reader->at == reader->end) {
        uint32_t num_bytes = 0;
        const uint8_t *bytes = NULL;
        const int code = reader->source.next(reader->source.context, reader->rank, reader->kind,
                                             &bytes, &num_bytes);
        if (code < 0)
            return pw_sentence_refuse(
                reader->reason, code, "rank %u, %s %llu: the next chunk cannot be read",
                reader->rank, name_of(reader->kind), (printed)reader->num_read);
        if (code == 0) return 0;
        reader->at = bytes;
        reader->end = bytes + num_bytes;
    }
    return 1;
}

static int read_number(pw_reader *reader, uint64_t *out)
{
    uint64_t number = 0;
    for (unsigned i = 0; i < LEB_BYTES; i++) {
        if (reader->at == reader->end)
            return refuse(reader, "cut short, its chunk ends within a number");
        const uint8_t byte = *reader->at++;
        if (i == LEB_BYTES - 1 && byte > 1) break;
        number |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            *out = number;
            return PW_OK;
        }
    }
    return refuse(reader, "a number of more than 64 bits");
}

static int read_text(pw_reader *reader, pw_record *out)
{
    uint64_t num_bytes = 0;
    const int code = read_number(reader, &num_bytes);
    if (code < 0) return code;
    if (num_bytes > (uint64_t)(reader->end - reader->at))
        return refuse(reader, "cut short, its chunk ends within a text");
    out->text = reader->at;
    out->text_bytes = (uint32_t)num_bytes;
    reader->at += num_bytes;
    return PW_OK;
}

static int read_field(pw_reader *reader, enum field field, pw_record *out)
{
    uint64_t number = 0;
    if (field == TEXT) return read_text(reader, out);
    int code = read_number(reader, &number);
    if (code < 0) return code;
    if (field == OFFSET || field == SIGNED_DURATION || field == REMOTE_OFFSET)
        number = (uint64_t)pw_zigzag(number);
    memcpy((uint8_t *)out + place_of[field], &number, sizeof number);
    if (field == SEND_FLAGS && number & PW_SEND_HAS_DATA) return read_field(reader, DATA, out);
    if (field == RECEIVE_FLAGS && number & PW_RECEIVE_IGNORES)
        return read_field(reader, IGNORE, out);
    return PW_OK;
}

int pw_reader_record(pw_reader *reader, pw_record *out)
{
    int code = fill(reader);
    if (code <= 0) return code;
    const uint8_t opcode = *reader->at++;
    if (opcode >= PW_OPS) {
        char what[96];
        snprintf(what, sizeof what, "opcode %u, this version knows 0 to %u", opcode, PW_OPS - 1);
        return refuse(reader, what);
    }
    *out = (pw_record){.opcode = opcode};
    for (const uint8_t *field = fields_of[opcode]; *field; field++) {
        code = read_field(reader, (enum field) * field, out);
        if (code < 0) return code;
    }
    reader->num_read++;
    return 1;
}

int pw_reader_number(pw_reader *reader, uint64_t *out)
{
    int code = fill(reader);
    if (code <= 0) return code;
    code = read_number(reader, out);
    if (code < 0) return code;
    reader->num_read++;
    return 1;
}
