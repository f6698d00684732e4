/* The records that ranks have left (node_trace.h), one after the other in the order of their times,
 * over all ranks. In a file they stand as they were made, so their times go back at places, and the
 * time of some is told by a later record (PW_TRACE_MOVED). A file is read twice: once to put those
 * times into it and to note how far back the times of what follows go, once to give the records
 * away. In memory are those that something earlier may still follow, and 8 bytes for each piece of
 * 1024 records. One thread at a time. */
#ifndef PW_RUN_TIMELINE_RECORD_ORDER_H
#define PW_RUN_TIMELINE_RECORD_ORDER_H
#include "native/trace.h"

/* More than a rank has. */
#define PW_CALL_NAMES_MAX 4096
#define PW_REGION_NAMES_MAX 4096
#define PW_REGION_DEPTHS_MAX 256

typedef struct {
    char text[PW_TRACE_PATH_BYTES + 1];
} pw_record_name;

/* Names that records tell in pieces of 16 bytes, by their index. Zeroed: none. */
typedef struct {
    pw_record_name *names;
    uint32_t num_names;
} pw_record_names;

/* One rank's records. */
typedef struct {
    char *path;
    uint64_t num_records;
    uint32_t num_pieces, next_piece;
    pw_time *earliest_ns;           /* by piece: of the records in it and behind it */
    pw_record_names calls, regions; /* of MPI calls; paths of the program's regions */
    pw_time last_link_ns;           /* when the last block begins to leave */
} pw_rank_records;

typedef struct pw_record_run pw_record_run;

/* Zeroed: no ranks. */
typedef struct {
    pw_rank_records *ranks;
    uint32_t num_ranks, ranks_capacity;
    pw_record_run **heap; /* by time of the next record */
    uint32_t num_runs, runs_capacity;
    pw_record_run *free_runs;
    pw_record_run *current; /* whose record was given last */
    uint64_t num_held;      /* records that are in memory */
} pw_record_order;

/* Empty: not told. */
const char *pw_record_names_of(const pw_record_names *names, uint64_t idx);
/* The time by which a record is given away. */
pw_time pw_record_time(const pw_trace_record *record);

/* One more rank; its index is their number before. Changes the times in the file. PW_ERR_HOST
 * (errno), PW_ERR_NOMEM, PW_ERR_INVALID: the file is cut. */
int pw_record_order_add(pw_record_order *order, const char *path);
/* 1 and the next record, valid until the next call; 0: no more. The codes of `add`. */
int pw_record_order_next(pw_record_order *order, const pw_trace_record **record,
                         uint32_t *rank_idx);
void pw_record_order_destroy(pw_record_order *order);
#endif
