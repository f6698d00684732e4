/* The fields of plain structs that are known by name: where each lies in
 * its struct and what it is. The tables are generated from the headers by src/cffi/build_fields.py,
 * so that a name is written once. Constants, thread-safe. */
#ifndef PW_NATIVE_FIELDS_H
#define PW_NATIVE_FIELDS_H
#include "native/impairments.h"

#define PW_FIELD_INT64 0
#define PW_FIELD_UINT64 1
#define PW_FIELD_TEXT 2 /* char[count], with the 0 at its end */

typedef struct {
    const char *name;
    uint32_t offset; /* in the struct, in bytes */
    uint32_t count;  /* elements of an array; 1: no array */
    int kind;        /* PW_FIELD_* */
} pw_field;

typedef struct {
    const pw_field *fields;
    uint32_t num_fields;
} pw_field_table;

extern const pw_field_table pw_fields_costs;             /* pw_costs */
extern const pw_field_table pw_fields_counters;          /* pw_counters */
extern const pw_field_table pw_fields_call_count;        /* pw_call_count */
extern const pw_field_table pw_fields_strategy_counters; /* pw_strategy_counters */

extern const char *const pw_impairment_names[PW_IMPAIRMENT_SITES]; /* by enum pw_impairment_id */
/* cdef begin */
/* The idx-th name of pw_counters as an array of 64-bit words, NULL behind the last: those of an
 * array's elements end with their number. */
const char *pw_counter_name_at(uint32_t idx);
/* cdef end */
#endif
