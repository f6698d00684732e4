/* What is known of each setting, in one table that C and Python read (setting_rows.c). Read-only.
 */
#ifndef PW_NODE_SETTINGS_SETTING_ROWS_H
#define PW_NODE_SETTINGS_SETTING_ROWS_H
#include "native/types.h"

/* cdef begin */
/* How the text of a setting is read, and what the field is that it sets. */
#define PW_KIND_NUMBER 0   /* a whole number; int64_t, as the next four */
#define PW_KIND_DURATION 1 /* with unit, in ns */
#define PW_KIND_SIZE 2     /* in bytes, with or without unit */
#define PW_KIND_BOOL 3
#define PW_KIND_CHOICE 4   /* one of the choices, or a class */
#define PW_KIND_FRACTION 5 /* a number with a point, kept in millionths as int64_t */
#define PW_KIND_FACTOR 6   /* a number with a point; double */
#define PW_KIND_SITE 7     /* num:denom:seed or num:denom:seed:limit; pw_impairment_site */
#define PW_KIND_TEXT 8
#define PW_KIND_PATH 9
#define PW_KIND_STRATEGY 10 /* name of a memory strategy, or a class; int64_t: never faults */
#define PW_KIND_PLATFORM 11 /* name of a platform; of a run also a path */
#define PW_KIND_TABLE 12    /* bytes:ns bytes:ns ...; pw_cost_table */

typedef struct {
    const char *text;
    int64_t number;
} pw_setting_choice;

typedef struct {
    const char *name;    /* section.name, as in files and on the command line */
    const char *initial; /* the default, as text; NULL: the platform says */
    const char *help;
    const char *unit;    /* of a number; NULL: none, or that of its kind */
    uint32_t kind;       /* PW_KIND_* */
    uint32_t offset;     /* of the field in pw_node_config; PW_NO_FIELD */
    uint32_t text_bytes; /* of the char array there that keeps the text too, its 0 included */
    uint32_t text_offset;
    const pw_setting_choice *choices; /* up to one without text; NULL: no choice */
    const char *const *meanings;      /* of each choice, of settings that take a class */
    int64_t min, max;                 /* of fractions and factors: in 1e-6 */
    int64_t none;                     /* the number of `none`, where it is allowed */
    int64_t class_number;             /* of a class */
    uint8_t takes_none;
    uint8_t takes_class;  /* module:Class too, which a host with Python asks */
    uint8_t power_of_two; /* and nothing else */
    uint8_t is_of_run;    /* of a run, its processes or their Python: no setting of a node alone */
    uint8_t reserved[4];
} pw_setting_row;

/* The idx-th row, those of costs and cost tables last; NULL behind the last. */
const pw_setting_row *pw_setting_row_at(uint32_t idx);
/* cdef end */
#define PW_NO_FIELD UINT32_MAX
/* By name; NULL when there is none. */
const pw_setting_row *pw_setting_row_find(const char *name, size_t name_bytes);

/* Those of costs.FIELD and tables.NAME, made of the headers by src/cffi/build_platforms.py. */
extern const pw_setting_row pw_cost_rows[];
extern const uint32_t pw_num_cost_rows;
#endif
