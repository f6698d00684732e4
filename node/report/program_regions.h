/* Regions of a program: phases that it enters and leaves by name, nested. What the node counts and
 * the time that passes between two such marks belongs to the innermost region that is open; what
 * stands outside of all is a row of its own. So the rows' sums are the whole, for every counter.
 *
 * A row is a path of names, "outer/inner"; entered again, it goes on. What happens beside the
 * program (a driver's tasklet, a peer's packet) belongs to the region in which it was counted: a
 * mark does not turn the node.
 *
 * One row is open at a time, as the rank has one CPU with one clock. So regions are those of the
 * thread that entered the outermost one; other threads' marks are counted meanwhile, and open
 * nothing. Every function locks the node, but where this thread has. */
#ifndef PW_NODE_REPORT_PROGRAM_REGIONS_H
#define PW_NODE_REPORT_PROGRAM_REGIONS_H
#include "native/counters.h"
#include "node/node.h"

/* cdef begin */
#define PW_REGIONS_MAX 512
#define PW_REGION_DEPTH_MAX 64
#define PW_REGION_NAME_BYTES 64  /* of one name, with the 0 behind it */
#define PW_REGION_PATH_BYTES 256 /* the same of a path */

/* What is split by region; all of it 64 bits wide. */
typedef struct {
    pw_counters counters;
    pw_strategy_counters strategy;
    int64_t virtual_time_ns, compute_ns, mpi_ns, sleep_ns;
    int64_t touch_ns, pin_ns, copy_ns; /* of the memory strategy */
    int64_t wall_ns;
} pw_region_sums;

/* Number of the region that is now open, from 1 on, for pw_node_region_leave; 0: another thread's
 * is, and nothing was opened. PW_ERR_INVALID: the name is empty, as long as PW_REGION_NAME_BYTES,
 * or has control characters; PW_ERR_NOMEM. Beyond PW_REGIONS_MAX rows, PW_REGION_DEPTH_MAX open
 * ones, or a path of PW_REGION_PATH_BYTES the region is one row with all others there. */
int64_t pw_node_region_enter(pw_node *node, const char *name, uint64_t name_bytes);
/* It is left, and what was entered in it and was not left. What is open no more, or was never, 0
 * too, is nothing. */
void pw_node_region_leave(pw_node *node, int64_t number);
/* The same for the innermost region with that name; name_bytes 0: for the innermost one. 0 when
 * there is none, which is counted. */
int pw_node_region_leave_named(pw_node *node, const char *name, uint64_t name_bytes);
/* Rows so far: 0, or those of the regions and the one for what lies outside, which is the first. */
uint32_t pw_node_num_regions(const pw_node *node);
/* What was counted since the last mark goes to its row too. The caller has locked the node. */
void pw_node_regions_settle(pw_node *node);
/* Path, entries and sums of a row, as settled last; NULL behind the last. */
const char *pw_node_region_read(const pw_node *node, uint32_t idx, uint64_t *entries,
                                pw_region_sums *out);
/* Marks that opened or closed nothing. */
typedef struct {
    uint64_t unmatched;        /* leaves, by name, of what was not open */
    uint64_t of_other_threads; /* while one thread's region was open */
} pw_region_faults;
pw_region_faults pw_node_region_faults(const pw_node *node);
/* cdef end */

typedef struct {
    uint64_t entries;
    pw_region_sums sums;
    uint32_t path_bytes, reserved; /* without the 0 */
    char path[PW_REGION_PATH_BYTES];
} pw_region_row;

typedef struct {
    int64_t number;
    int64_t entered_ns;
    uint32_t row;
} pw_open_region;

/* Of a node, made when the first is entered. */
typedef struct {
    pw_region_row *rows[PW_REGIONS_MAX]; /* the last place: those that have none of their own */
    uint32_t num_rows;
    uint32_t depth; /* open ones; those beyond PW_REGION_DEPTH_MAX have no place */
    pw_open_region open[PW_REGION_DEPTH_MAX];
    int64_t last_number;
    uint64_t thread;     /* of the outermost one */
    pw_region_sums last; /* at the last mark */
    pw_region_faults faults;
} pw_program_regions;

/* Everything since the node's start. A mark within a call wants what that has taken so far; the
 * report has calls that are over. */
void pw_node_read_sums(const pw_node *node, bool is_mark, pw_region_sums *out);
/* Spans of the regions that are open, and the rows' names, as the trace ends. */
void pw_node_regions_trace(pw_node *node);
void pw_node_regions_finish(pw_node *node);
#endif
