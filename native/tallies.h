/* What the engine counts beside its counters, for pictures of a run: how large its messages were
 * and to whom, when and where pages faulted, how long blocks waited for them. Of a fixed size but
 * for the peers. Not thread-safe. */
#ifndef PW_NATIVE_TALLIES_H
#define PW_NATIVE_TALLIES_H
#include "native/log_histogram.h"
#include "native/page_heat.h"
#include "native/time_histogram.h"

/* cdef begin */
/* What left for a peer: eager messages and transfers. */
typedef struct {
    uint64_t messages, bytes;
} pw_peer_traffic;

typedef struct {
    pw_log_histogram message_sizes; /* bytes of each */
    pw_log_histogram fault_waits;   /* ns from the NACK of a page fault, as the R5 handled it, until
                                       the block was sent again */
    pw_time_histogram fault_times;
    pw_page_heat fault_pages;
    pw_peer_traffic *peers; /* num_peers of them, by node */
    uint32_t num_peers;
} pw_tallies;
/* cdef end */

static inline void pw_tallies_message(pw_tallies *tallies, uint32_t peer, uint64_t num_bytes)
{
    pw_log_histogram_add(&tallies->message_sizes, num_bytes);
    if (peer >= tallies->num_peers) return;
    tallies->peers[peer].messages++;
    tallies->peers[peer].bytes += num_bytes;
}

static inline void pw_tallies_fault(pw_tallies *tallies, uint64_t page, pw_time at_ns)
{
    pw_time_histogram_add(&tallies->fault_times, at_ns);
    pw_page_heat_add(&tallies->fault_pages, page);
}
#endif
