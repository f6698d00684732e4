/* The timeline of a run: a Perfetto file made of what its ranks have recorded (node_trace.h).
 * Records and packets pass through; in memory is what is on its way in virtual time: blocks,
 * messages, open faults, and records whose times are out of order. One thread at a time. */
#ifndef PW_RUN_TIMELINE_TIMELINE_H
#define PW_RUN_TIMELINE_TIMELINE_H
#include "native/types.h"

/* cdef begin */
typedef struct pw_timeline pw_timeline;

typedef struct {
    const char *label;               /* in front of the ranks' names; empty: none */
    uint32_t group;                  /* number of the run in a file that holds several */
    pw_time handler_ns, err_send_ns; /* of the platform: what no record tells */
} pw_timeline_options;

typedef struct {
    uint64_t num_records;  /* shown */
    uint64_t num_packets;  /* in the file */
    uint64_t num_held_max; /* records, spans, faults and messages that were in memory at once */
} pw_timeline_counts;

/* The file is the caller's, open for writing. PW_ERR_NOMEM. */
int pw_timeline_create(pw_timeline **timeline, int descriptor, const pw_timeline_options *options);
/* The next rank's records; their file is changed. PW_ERR_HOST (errno), PW_ERR_NOMEM,
 * PW_ERR_INVALID: the file is cut, or holds something else. */
int pw_timeline_add_rank(pw_timeline *timeline, const char *path);
/* Write what that many further records show. 1: there are more; 0: the file is complete.
 * PW_ERR_HOST (errno), PW_ERR_NOMEM, PW_ERR_INVALID. */
int pw_timeline_step(pw_timeline *timeline, uint64_t num_records);
/* A track of the network: from virtual time 0 on percent of each bin of time, and nothing behind
 * them. The codes of `step`. */
int pw_timeline_add_values(pw_timeline *timeline, const char *name, pw_time bin_ns,
                           const uint32_t *percent, uint32_t num_bins);
void pw_timeline_count(const pw_timeline *timeline, pw_timeline_counts *counts);
void pw_timeline_destroy(pw_timeline *timeline);
/* cdef end */
#endif
