/* Chunks of a recorder: encodes records, and writes the chunks that are full. What is not written
 * yet stands in a file that is mapped, where a kill leaves it. */
#include "node/record/recorder_parts.h"
#include "native/crc32c.h"
#include "node/report/output_file.h"
#include <string.h>

#define RECORD_MAX_BYTES 512u /* longest, but for the name in it */
#define NAME_MAX_BYTES 256u

void pw_record_write_bytes(pw_recorder *recorder, const void *bytes, size_t num_bytes)
{
    if (!recorder->error) recorder->error = pw_output_put(recorder->descriptor, bytes, num_bytes);
}

static void write_chunk(pw_recorder *recorder, pw_pwt_open_chunk *out)
{
    pw_pwt_chunk_header header = {.magic = PW_PWT_CHUNK_MAGIC,
                                  .kind = out->kind,
                                  .rank = recorder->rank,
                                  .sequence = out->sequence,
                                  .stored_bytes = out->num_bytes,
                                  .raw_bytes = out->num_bytes,
                                  .num_records = out->num_records};
    if (!out->num_bytes) return;
    header.crc = pw_crc32c(pw_crc32c(0, &header, sizeof header), out->bytes, out->num_bytes);
    pw_record_write_bytes(recorder, &header, sizeof header);
    pw_record_write_bytes(recorder, out->bytes, out->num_bytes);
    out->sequence++;
    out->whole_bytes = out->whole_records = out->num_bytes = out->num_records = 0;
}

void pw_record_write_chunks(pw_recorder *recorder)
{
    for (uint32_t i = 0; i < PW_PWT_OPEN_CHUNKS; i++) write_chunk(recorder, &recorder->tail[i]);
}

/* ---- records */

void pw_record_end(pw_pwt_open_chunk *out)
{
    out->whole_bytes = out->num_bytes;
    out->whole_records = out->num_records;
}

void pw_record_begin(pw_recorder *recorder, pw_pwt_open_chunk *out)
{
    if (out->num_bytes + RECORD_MAX_BYTES > sizeof out->bytes) write_chunk(recorder, out);
    if (recorder->error) out->num_bytes = 0;
    pw_record_end(out);
    out->num_records++;
}

void pw_record_put(pw_pwt_open_chunk *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) out->bytes[out->num_bytes++] = (uint8_t)(value | 0x80);
    out->bytes[out->num_bytes++] = (uint8_t)value;
}

void pw_record_put_signed(pw_pwt_open_chunk *out, int64_t value)
{
    pw_record_put(out, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

void pw_record_put_bytes(pw_pwt_open_chunk *out, const char *bytes, size_t num_bytes)
{
    if (num_bytes > NAME_MAX_BYTES) num_bytes = NAME_MAX_BYTES;
    pw_record_put(out, num_bytes);
    memcpy(out->bytes + out->num_bytes, bytes, num_bytes);
    out->num_bytes += (uint32_t)num_bytes;
}

pw_pwt_open_chunk *pw_record_op(pw_recorder *recorder, uint8_t opcode)
{
    pw_pwt_open_chunk *out = recorder->ops;
    pw_record_begin(recorder, out);
    recorder->num_since_turn++;
    out->bytes[out->num_bytes++] = opcode;
    return out;
}
