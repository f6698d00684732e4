/* The report of one rank: a JSON object with the keys of run/report/counters.py, made of what
 * the rank counted. The launcher merges those of all ranks. Stateless, thread-safe. */
#ifndef PW_NODE_REPORT_REPORT_H
#define PW_NODE_REPORT_REPORT_H
#include "native/counters.h"
#include "native/impairments.h"
#include "native/tallies.h"
#include "node/report/call_counts.h"
#include "node/clock.h"
#include "network/demand.h"
#include "node/node.h"

/* cdef begin */
typedef struct {
    const pw_counters *counters;
    const pw_impairment_site *sites; /* PW_IMPAIRMENT_SITES of them */
    const pw_time_histogram *interrupt_times;
    const pw_tallies *tallies;
    const pw_clock *clock;
    const pw_call_counts *calls;
    const pw_node_counters *node;
    int64_t wall_ns; /* since the node's start */
    uint64_t peak_rss_bytes;
    uint32_t page_sources;   /* PW_SOURCE_* */
    const pw_peers *demands; /* of pw_demand; NULL: they are read from the NI */
    const pw_node *of;       /* whose regions are told, as settled; NULL: none are */
} pw_report_input;

/* Bytes of the JSON text, which is in the buffer, with a 0 behind it, when they are fewer than
 * capacity; else what the buffer holds is of no use. capacity 0: buffer may be NULL. */
size_t pw_report_write(const pw_report_input *input, char *buffer, size_t capacity);
/* Write it as DIRECTORY/RANK.report, which appears whole or not at all. PW_ERR_HOST (errno),
 * PW_ERR_NOMEM; PW_ERR_INVALID: the path is too long. */
int pw_report_leave(const pw_report_input *input, const char *directory, uint32_t rank);
/* The most memory that this process had at a time. */
uint64_t pw_report_peak_rss_bytes(void);
/* cdef end */

/* The report of a node: report.h with everything that the node counted. */

/* cdef begin */
/* As pw_report_write and pw_report_leave. The caller has locked the node. */
size_t pw_node_report_write(pw_node *node, char *buffer, size_t capacity);
int pw_node_report_leave(pw_node *node, const char *directory);
/* cdef end */

#endif
