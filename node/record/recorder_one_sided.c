/* One-sided operations in a recording, and what peers do with registered memory. */
#include "node/record/recorder_parts.h"
#include "native/array.h"
#include "native/frames.h"
#include <errno.h>
#include <string.h>

#define FIRST_CAPACITY 64u

/* ---- memory that peers may use */

static void put_key(pw_recorder *recorder, uint64_t key)
{
    pw_record_begin(recorder, recorder->keys);
    pw_record_put(recorder->keys, key);
    pw_record_end(recorder->keys);
}

uint32_t pw_recorder_registered(pw_recorder *recorder, pw_span span, uint64_t key, uint32_t rights)
{
    const bool is_all = rights & PW_REGISTER_ALL;
    if (PW_ARRAY_MAKE_ROOM(recorder->registered, recorder->num_registered,
                           recorder->registered_capacity, FIRST_CAPACITY) < 0) {
        recorder->error = ENOMEM;
        return 0;
    }
    if (!is_all && span.num_bytes) pw_record_look(recorder, span);
    pw_pwt_open_chunk *out = pw_record_certain(recorder, PW_OP_REGISTER);
    pw_record_put(out, is_all ? 0 : span.num_bytes);
    pw_record_put_address(recorder, out, is_all ? (pw_span){0} : span);
    pw_record_put(out, rights);
    put_key(recorder, key);
    recorder->registered[recorder->num_registered++] =
        (pw_record_registration){++recorder->num_registrations, span};
    return recorder->num_registrations;
}

void pw_recorder_deregistered(pw_recorder *recorder, uint32_t number)
{
    uint32_t place = 0;
    while (place < recorder->num_registered && recorder->registered[place].number != number)
        place++;
    if (place == recorder->num_registered) return;
    recorder->registered[place] = recorder->registered[--recorder->num_registered];
    pw_record_put(pw_record_certain(recorder, PW_OP_DEREGISTER), number - 1);
}

static bool is_registered(const pw_recorder *recorder, pw_span span)
{
    for (uint32_t i = 0; i < recorder->num_registered; i++) {
        const pw_span whole = recorder->registered[i].span;
        const uint64_t offset = span.address - whole.address;
        if (offset < whole.num_bytes && span.num_bytes <= whole.num_bytes - offset) return true;
    }
    return false;
}

/* What memory of this node's a frame is about, if the NI is to reach it for a peer. */
static pw_span span_of(const pw_frame_header *header)
{
    const pw_block_frame *block = (const pw_block_frame *)header;
    const pw_read_request_frame *request = (const pw_read_request_frame *)header;
    if (header->kind == PW_FRAME_BLOCK && header->frame_bytes >= sizeof *block &&
        !(header->stream & PW_STREAM_READ))
        return (pw_span){block->destination_address, block->block_bytes};
    if (header->kind == PW_FRAME_READ_REQUEST && header->frame_bytes >= sizeof *request)
        return (pw_span){request->source_address, request->num_bytes};
    return (pw_span){0};
}

/* Frames that make no sense are the NI's to refuse. */
void pw_record_look_at_frames(pw_recorder *recorder, const uint8_t *data, uint32_t num_bytes)
{
    while (num_bytes >= sizeof(pw_frame_header) && !recorder->error) {
        const pw_frame_header *header = (const pw_frame_header *)(const void *)data;
        if (header->magic != PW_FRAME_MAGIC || header->frame_bytes < sizeof *header ||
            header->frame_bytes > num_bytes || header->frame_bytes % 8)
            return;
        const pw_span span = span_of(header);
        if (span.num_bytes && is_registered(recorder, span)) pw_recorder_uses(recorder, span);
        data += header->frame_bytes;
        num_bytes -= header->frame_bytes;
    }
}

/* ---- operations */

/* How a PUT or GET says it: PW_KEY_*. */
static uint32_t number_of_key(pw_recorder *recorder, uint32_t peer, uint64_t key)
{
    if (!key) return PW_KEY_NONE;
    for (uint32_t ago = 0; ago < PW_KEYS_KNOWN && ago < recorder->num_keys; ago++) {
        const uint32_t place = (recorder->num_keys - 1 - ago) % PW_KEYS_KNOWN;
        if (recorder->known_keys[place].key == key && recorder->known_keys[place].peer == peer)
            return PW_KEY_KNOWN + ago;
    }
    const uint32_t place = recorder->num_keys++ % PW_KEYS_KNOWN;
    recorder->known_keys[place].peer = peer;
    recorder->known_keys[place].key = key;
    put_key(recorder, key);
    return PW_KEY_NEW;
}

void pw_recorder_transfer(pw_recorder *recorder, pw_operation *transfer)
{
    const pw_span span = {transfer->address, transfer->num_bytes};
    const pw_span remote = {transfer->remote_address, transfer->num_bytes};
    pw_recorder_uses(recorder, span);
    if (transfer->peer == recorder->rank && is_registered(recorder, remote))
        pw_recorder_uses(recorder, remote);
    pw_pwt_open_chunk *out =
        pw_record_certain(recorder, transfer->kind == PW_OPERATION_READ ? PW_OP_GET : PW_OP_PUT);
    pw_record_put(out, transfer->peer);
    pw_record_put(out, transfer->num_bytes);
    pw_record_put_address(recorder, out, span);
    pw_record_put_place(recorder, out, transfer->peer, remote);
    pw_record_put(out, number_of_key(recorder, transfer->peer, transfer->remote_key));
    pw_record_number(recorder, transfer);
}

void pw_recorder_atomic(pw_recorder *recorder, pw_operation *atomic, uint32_t request_bytes,
                        uint32_t answer_bytes)
{
    const pw_span remote = {atomic->remote_address, atomic->num_bytes};
    pw_pwt_open_chunk *out = pw_record_certain(recorder, PW_OP_ATOMIC);
    pw_record_put(out, atomic->peer);
    pw_record_put(out, atomic->num_bytes);
    pw_record_put_place(recorder, out, atomic->peer, remote);
    pw_record_put(out, request_bytes);
    pw_record_put(out, answer_bytes);
    pw_record_number(recorder, atomic);
}
