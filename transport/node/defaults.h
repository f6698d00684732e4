/* What the settings registry and the platform files say, for a node without Python. The tables are
 * made by src/cffi/build_defaults.py from the Python declarations and the TOML files when the core
 * is built: nothing is written twice. Read-only. */
#ifndef PW_NODE_DEFAULTS_H
#define PW_NODE_DEFAULTS_H
#include "native/costs.h"
#include "native/impairments.h"
#include "native/settings.h"
#include "transport/node/cost_table.h"

/* cdef begin */
/* A platform file. */
typedef struct {
    const char *name, *description;
    pw_costs costs;
    pw_cost_tables tables;
} pw_platform;

/* All that settings decide of a node. */
typedef struct {
    pw_settings settings;
    pw_costs costs;
    pw_impairment_site sites[PW_IMPAIRMENT_SITES];
    int64_t compute;      /* PW_COMPUTE_* */
    double compute_scale; /* of every duration */
    const char *memory;   /* name of the memory strategy */
    const char *platform; /* name; costs are its own, unless given by themselves */
} pw_node_settings;

/* How the text of a setting is read. */
#define PW_KIND_NUMBER 0   /* a whole number */
#define PW_KIND_DURATION 1 /* with unit, in ns */
#define PW_KIND_SIZE 2     /* in bytes, with or without unit */
#define PW_KIND_BOOL 3
#define PW_KIND_CHOICE 4
#define PW_KIND_FRACTION 5 /* a number with a point, kept as an integer of 1 / scale */
#define PW_KIND_FACTOR 6   /* a number with a point, kept as a double */
#define PW_KIND_SITE 7     /* num:denom:seed or num:denom:seed:limit */
#define PW_KIND_FOREIGN 8  /* of a run, not of a node: refused */

#define PW_NO_FIELD UINT32_MAX

typedef struct {
    const char *text;
    int64_t number;
} pw_setting_choice;

typedef struct {
    const char *name;     /* section.name, as in files and on the command line; costs.field */
    uint32_t kind;        /* PW_KIND_* */
    uint32_t offset;      /* of what it sets in pw_node_settings; PW_NO_FIELD: nothing */
    uint32_t text_offset; /* of the const char * that becomes the choice's text; PW_NO_FIELD */
    uint32_t num_choices;
    const pw_setting_choice *choices;
    int64_t min, max;   /* of a fraction or factor: in 1e-6 */
    int64_t none;       /* what `none` means, where it is allowed */
    uint8_t takes_none; /* `none` is allowed */
    uint8_t power_of_two;
    uint8_t reserved[6];
} pw_setting_row;

extern const pw_node_settings pw_node_settings_default;
/* The idx-th row, platform and name of a counter (pw_counters as an array of 64-bit words); NULL
 * behind the last. */
const pw_setting_row *pw_setting_row_at(uint32_t idx);
const pw_platform *pw_platform_at(uint32_t idx);
const char *pw_counter_name_at(uint32_t idx);
/* By name, NULL when there is none. */
const pw_platform *pw_platform_find(const char *name);
/* cdef end */

#endif
