/* Names that records tell in pieces of 16 bytes, by their index. One thread at a time. */
#ifndef PW_RUN_TIMELINE_RECORD_NAMES_H
#define PW_RUN_TIMELINE_RECORD_NAMES_H
#include "native/trace.h"

typedef struct {
    char text[PW_TRACE_PATH_BYTES + 1];
} pw_record_name;

/* Zeroed: none. */
typedef struct {
    pw_record_name *names;
    uint32_t num_names;
} pw_record_names;

/* A piece: the peer is the name's index, below max_names, time the piece's number. PW_ERR_INVALID:
 * there are no such ones; PW_ERR_NOMEM. */
int pw_record_names_add(pw_record_names *names, const pw_trace_record *record, uint32_t max_names);
/* Empty: not told. */
const char *pw_record_names_of(const pw_record_names *names, uint64_t idx);
void pw_record_names_destroy(pw_record_names *names);
#endif
