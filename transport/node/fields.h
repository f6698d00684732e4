/* The fields of those plain structs that a node file or a report holds by name: where each lies in
 * its struct and what it is. The tables are generated from the headers by src/cffi/build_fields.py,
 * so that a name is written once. Constants, thread-safe. */
#ifndef PW_NODE_FIELDS_H
#define PW_NODE_FIELDS_H
#include "native/impairments.h"
#include "transport/node/cost_table.h"

#define PW_FIELD_INT64 0
#define PW_FIELD_UINT64 1
#define PW_FIELD_DOUBLE 2
#define PW_FIELD_FLAG 3 /* bool */
#define PW_FIELD_TEXT 4 /* char[count], with the 0 at its end */

typedef struct {
    const char *name;
    uint32_t offset; /* in the struct, in bytes */
    uint32_t count;  /* elements of an array; 1: no array */
    int kind;        /* PW_FIELD_* */
} pw_field;

typedef struct {
    const char *section; /* what stands before the names in a node file */
    const pw_field *fields;
    uint32_t num_fields;
} pw_field_table;

extern const pw_field_table pw_fields_costs;             /* pw_costs */
extern const pw_field_table pw_fields_settings;          /* pw_settings */
extern const pw_field_table pw_fields_run;               /* pw_node_run */
extern const pw_field_table pw_fields_counters;          /* pw_counters */
extern const pw_field_table pw_fields_call_count;        /* pw_call_count */
extern const pw_field_table pw_fields_strategy_counters; /* pw_strategy_counters */

extern const char *const pw_impairment_names[PW_IMPAIRMENT_SITES]; /* by enum pw_impairment_id */
extern const char *const pw_cost_table_names[PW_COST_TABLES];      /* by PW_COST_* */
#endif
