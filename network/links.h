/* The links of a network that all nodes of a process share, each with a calendar.
 *
 * A block holds each link of its way for the time that its packets take there, in pieces where
 * others hold it already. Its head goes on to the next link as soon as it can (cut-through), its
 * tail follows the slowest one. What a link cannot take yet waits before it, in room without
 * limit: short buffers and what they block behind them are not modelled, but blocks that wait long
 * are counted. Not thread-safe. */
#ifndef PW_NETWORK_LINKS_H
#define PW_NETWORK_LINKS_H
#include "native/costs.h"
#include "native/tallies.h"
#include "network/topology.h"

/* cdef begin */
typedef struct pw_links pw_links;

#define PW_LINK_WINDOW_NS 1000000 /* the busiest window of a link is one of these */

typedef struct {
    uint64_t num_blocks, num_bytes; /* bytes: with headers */
    uint64_t num_long_waits;        /* of blocks: above wait_limit_ns */
    int64_t busy_ns, waited_ns, longest_wait_ns;
    int64_t busiest_ns, busiest_at_ns; /* busy time in the busiest window, and where that begins */
} pw_link_use;

/* A block on its way, behind its first link's wait. */
typedef struct {
    int64_t leaves_ns; /* its head enters the first link */
    int64_t head_ns;   /* it comes out of the last link, less the serialisation of a packet */
    int64_t tail_ns;   /* the last byte does */
} pw_passing;

/* Both stay the caller's, as long as the links. PW_ERR_NOMEM. */
int pw_links_create(const pw_topology *topology, const pw_costs *costs, int64_t wait_limit_ns,
                    pw_links **out);
void pw_links_destroy(pw_links *links);
const pw_topology *pw_links_topology(const pw_links *links);
/* wire_bytes of a block are before the first link at at_ns. variant, salt: see topology.h. */
void pw_links_pass(pw_links *links, uint32_t from, uint32_t to, uint32_t variant, uint64_t salt,
                   uint64_t wire_bytes, int64_t at_ns, pw_passing *out);
/* Keep from now on when each link is busy. */
void pw_links_keep_times(pw_links *links);
/* ns that a link was busy, by bins of time; NULL: it never was, or times are not kept. */
const pw_time_histogram *pw_links_times(const pw_links *links, uint32_t link);
/* Which links the latest block passes, in whatever model; how many. */
uint32_t pw_links_latest_way(const pw_links *links, const uint32_t **way);
/* link below pw_topology_num_links. */
void pw_links_read(const pw_links *links, uint32_t link, pw_link_use *out);
/* cdef end */

/* 1000 x picoseconds of a byte on a link of a tier: 8 bits at mbps x coding, so ps a byte are
 * 8e6 / (mbps x permille / 1000). */
static inline int64_t pw_link_byte_ps_1000(const pw_costs *costs, uint32_t tier)
{
    const int64_t mbps = tier == PW_TIER_INSIDE ? costs->link_mbps : costs->link_between_mbps;
    return INT64_C(8000000000000) / (mbps * costs->link_coding_permille);
}
#endif
