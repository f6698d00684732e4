/* The LogGOPS model over graphs of operations: a CPU, a network interface and a link for each rank,
 * no contention between messages, no memory. By the rules that LogGOPSim published; GOAL files hold
 * such graphs.
 *
 * A send takes the CPU for o + (s-1)O and the interface for g + (s-1)G; its message arrives L + o
 * later, and takes the receiver's CPU for o + max((s-1)O, (s-1)G), its interface for g + (s-1)G. A
 * send of at most S bytes is over when it has begun, a longer one, whatever the receive says, when
 * it has been received. One handle, one thread. */
#ifndef PW_REPLAY_LOGGOPS_H
#define PW_REPLAY_LOGGOPS_H
#include "native/types.h"

/* cdef begin */
typedef struct pw_loggops pw_loggops;

#define PW_LOGGOPS_SEND 1
#define PW_LOGGOPS_RECEIVE 2
#define PW_LOGGOPS_CALC 3
#define PW_LOGGOPS_ANY UINT32_MAX /* peer or tag */

#define PW_LOGGOPS_WAITS 0
#define PW_LOGGOPS_BEGUN 1
#define PW_LOGGOPS_DONE 2

typedef struct {
    uint64_t size; /* bytes; ns of a calculation */
    uint32_t peer, tag;
    uint32_t num_open;               /* on how many it depends still */
    uint32_t first_out, num_out;     /* of the edges: those that wait for its end */
    uint32_t first_start, num_start; /* for its beginning */
    uint8_t kind, cpu, nic;
    uint8_t state; /* PW_LOGGOPS_*, written by the run */
} pw_loggops_node;

typedef struct {
    int64_t latency_ns;                           /* L */
    int64_t overhead_ns;                          /* o */
    int64_t gap_ns;                               /* g */
    double gap_per_byte_ns, overhead_per_byte_ns; /* G, O */
    uint64_t eager_bytes;                         /* S */
} pw_loggops_costs;

int pw_loggops_create(uint32_t num_ranks, const pw_loggops_costs *costs, pw_loggops **out);
void pw_loggops_destroy(pw_loggops *loggops);
/* A rank's graph, which must stay until the end and is changed by the run. PW_ERR_INVALID: a number
 * in it is out of range. */
int pw_loggops_set_rank(pw_loggops *loggops, uint32_t rank, pw_loggops_node *nodes,
                        uint32_t num_nodes, const uint32_t *edges, uint32_t num_edges);
/* Until nothing can go on; once. */
int pw_loggops_run(pw_loggops *loggops);
/* When the last of a rank's CPUs was free. */
int64_t pw_loggops_end_ns(const pw_loggops *loggops, uint32_t rank);
/* Messages that nobody has received. */
uint64_t pw_loggops_unexpected(const pw_loggops *loggops, uint32_t rank);
/* Operations that have begun and messages that came. */
uint64_t pw_loggops_events(const pw_loggops *loggops);
/* cdef end */
#endif
