/* Counts a program's MPI calls by name: how often each, and which bytes went by the NI and which
 * around it. Bytes of a call that the NI carries are those of the messages that the call sent; of
 * one that MPI carries, those of the buffer that it was given. */
#ifndef PW_NODE_REPORT_CALL_COUNTS_H
#define PW_NODE_REPORT_CALL_COUNTS_H
#include "native/types.h"

/* cdef begin */
#define PW_CALLS_MAX 512
#define PW_CALL_NAME_BYTES 48

typedef struct {
    uint64_t calls; /* all of them */
    uint64_t bytes; /* sent by the NI */
    uint64_t not_carried_calls, not_carried_bytes;
    char name[PW_CALL_NAME_BYTES];
} pw_call_count;

typedef struct {
    pw_call_count *call; /* num_calls of them; they move when one is added */
    uint32_t num_calls, capacity;
    uint32_t current; /* the call that the rank is in, or was last in */
} pw_call_counts;

/* Index of a name, made when it is new; PW_ERR_FULL, PW_ERR_INVALID: too many, too long;
 * PW_ERR_NOMEM. */
int pw_call_index(pw_call_counts *counts, const char *name);
/* The program calls. */
void pw_call_begin(pw_call_counts *counts, uint32_t idx);
void pw_call_counts_finish(pw_call_counts *counts);
/* cdef end */
#endif
