/* Reads one stream of a recorded trace (node/record/pwt_format.h): the records of a rank, or the
 * numbers of one of its other kinds. The raw bytes come chunk by chunk from whoever has the file,
 * so that what is held does not grow with the trace. Whatever stands in the bytes, a reader ends
 * with PW_ERR_MALFORMED and a sentence, or reads on. One thread at a time. */
#ifndef PW_REPLAY_READER_H
#define PW_REPLAY_READER_H
#include "node/record/pwt_format.h"
#include "node/sentence.h"

/* cdef begin */
/* Where chunks come from, in their order. */
typedef struct {
    void *context;
    /* 1 and *bytes, which stay until the next call for this rank and kind; 0: there is no further
     * chunk; or a negative PW_ERR_*. */
    int (*next)(void *context, uint32_t rank, uint32_t kind, const uint8_t **bytes,
                uint32_t *num_bytes);
} pw_chunk_source;

/* A record; what its opcode does not have is 0. */
typedef struct {
    uint32_t opcode;
    uint32_t text_bytes;
    const uint8_t *text; /* good until the next read */
    uint64_t peer, context, tag, source, bytes, region, flags, data, ignore;
    uint64_t operation, count, idx, group, state;
    uint64_t remote_region, request_bytes, answer_bytes, key;
    int64_t duration_ns; /* above INT64_MAX in the stream: negative */
    int64_t offset;      /* bytes, or pages */
    int64_t remote_offset;
} pw_record;

/* Zeroed, then the first four members set: at the beginning of a stream. */
typedef struct {
    pw_chunk_source source;
    uint32_t rank, kind;
    pw_sentence *reason; /* the caller's: of a negative code */
    const uint8_t *at, *end;
    uint64_t num_read; /* records, or numbers */
} pw_reader;

/* The next record of an OPS stream. 1; 0: the stream is at its end; PW_ERR_MALFORMED, or the
 * source's code. */
int pw_reader_record(pw_reader *reader, pw_record *out);
/* The next number of another stream, unsigned; pw_zigzag makes a signed one of it. Codes as above.
 */
int pw_reader_number(pw_reader *reader, uint64_t *out);
/* cdef end */

static inline int64_t pw_zigzag(uint64_t number)
{
    return (int64_t)(number >> 1) ^ -(int64_t)(number & 1);
}
#endif
