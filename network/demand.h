/* What nodes whose links are private would have asked of shared ones.
 *
 * Each node notes what it sends to each peer, and when; at the end of the run that is laid over the
 * links of the topology. Nothing waits here: times are those of the run that had private links, so
 * a link may be asked for more than it could carry. Not thread-safe. */
#ifndef PW_NETWORK_DEMAND_H
#define PW_NETWORK_DEMAND_H
#include "native/peers.h"
#include "network/links.h"

/* cdef begin */
#define PW_DEMAND_SPANS 64

/* Of a node to one peer. Virtual time is cut in windows of PW_LINK_WINDOW_NS, from 0 on. 2^shift of
 * them are a span, of which the bytes of its busiest window are kept: in a run of up to
 * PW_DEMAND_SPANS windows each window by itself. A time behind the last span makes all of them
 * twice as long. A block counts where it begins to leave. */
typedef struct {
    pw_peer peer;
    uint32_t shift;
    uint64_t num_blocks, num_bytes;       /* bytes: with headers */
    uint64_t window, window_bytes;        /* the latest one */
    uint32_t most_bytes[PW_DEMAND_SPANS]; /* by span, of one of its windows; at most 2^32 - 1 */
} pw_demand;

typedef struct pw_load pw_load;

/* shift: the largest of all demands to come. Bytes are spread over num_ways of the ways that blocks
 * take: of `multipath` variants in turn, and draws. topology and costs stay the caller's.
 * PW_ERR_NOMEM. */
int pw_load_create(const pw_topology *topology, const pw_costs *costs, uint32_t shift,
                   uint32_t num_ways, uint32_t multipath, pw_load **out);
void pw_load_destroy(pw_load *load);
/* The demand is node `from`'s. PW_ERR_INVALID: its shift is larger than the load's; PW_ERR_NOMEM.
 */
int pw_load_add(pw_load *load, uint32_t from, const pw_demand *demand);
/* Without waits. busiest_ns is the most that a window can have had: of each pair of nodes the
 * busiest window of the span, together. The number of pairs whose blocks pass. */
uint32_t pw_load_read(const pw_load *load, uint32_t link, pw_link_use *out);
/* cdef end */

static inline void pw_demand_lengthen(pw_demand *demand)
{
    uint32_t *most_bytes = demand->most_bytes;
    for (uint32_t i = 0; i < PW_DEMAND_SPANS / 2; i++) {
        const uint32_t one = most_bytes[2 * i], other = most_bytes[2 * i + 1];
        most_bytes[i] = one > other ? one : other;
    }
    for (uint32_t i = PW_DEMAND_SPANS / 2; i < PW_DEMAND_SPANS; i++) most_bytes[i] = 0;
    demand->shift++;
}

/* What leaves before something that has left counts in the window of that. */
static inline void pw_demand_add(pw_demand *demand, int64_t at_ns, uint64_t wire_bytes)
{
    const uint64_t window = (uint64_t)at_ns / PW_LINK_WINDOW_NS;
    if (window > demand->window) {
        demand->window = window;
        demand->window_bytes = 0;
        while (window >> demand->shift >= PW_DEMAND_SPANS) pw_demand_lengthen(demand);
    }
    demand->window_bytes += wire_bytes;
    demand->num_bytes += wire_bytes;
    demand->num_blocks++;
    uint32_t *most_bytes = &demand->most_bytes[demand->window >> demand->shift];
    const uint64_t bytes = demand->window_bytes < UINT32_MAX ? demand->window_bytes : UINT32_MAX;
    if (bytes > *most_bytes) *most_bytes = (uint32_t)bytes;
}
#endif
