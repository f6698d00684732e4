/* Costs over size as the platform files state them: a line through points, beyond the last point by
 * the slope of the last piece. */
#ifndef PW_NODE_SETTINGS_COST_TABLE_H
#define PW_NODE_SETTINGS_COST_TABLE_H
#include "native/types.h"

/* cdef begin */
#define PW_COST_POINTS_MAX 16
#define PW_COST_TOUCH_RESIDENT 0
#define PW_COST_TOUCH_ABSENT 1
#define PW_COST_PIN_ABSENT 2
#define PW_COST_PIN_RESIDENT 3
#define PW_COST_UNPIN 4
#define PW_COST_MMAP 5
#define PW_COST_MUNMAP 6
#define PW_COST_COPY 7
#define PW_COST_TABLES 8

typedef struct {
    uint32_t num_points;
    uint32_t reserved;
    int64_t num_bytes[PW_COST_POINTS_MAX];
    int64_t cost_ns[PW_COST_POINTS_MAX];
} pw_cost_table;

typedef struct {
    pw_cost_table table[PW_COST_TABLES];
} pw_cost_tables;

/* Why a table cannot be used, NULL when it can: it is empty or too long, its sizes do not rise, or
 * its costs fall or are below 0. */
const char *pw_cost_table_refused(const pw_cost_table *table);
/* PW_ERR_INVALID, and that of the first one in *reason. Whoever takes tables from outside asks this
 * once. */
int pw_cost_tables_check(const pw_cost_tables *tables, const char **reason);
/* Time of one operation on num_bytes, or on num_pages pages, rounded down to a whole ns; nothing
 * costs nothing. Below the first point: its cost. What is beyond INT64_MAX is INT64_MAX. The tables
 * must be sound. */
int64_t pw_cost_bytes_ns(const pw_cost_tables *tables, int table, uint64_t num_bytes);
int64_t pw_cost_ns(const pw_cost_tables *tables, int table, uint64_t num_pages);
/* cdef end */
#endif
