/* The way of a packet to a peer, with the link it occupies. One NI, one thread at a time. */
#ifndef PW_NI_PATH_H
#define PW_NI_PATH_H
#include "native/calendar.h"
#include "native/costs.h"

/* Inside a QFDB every pair of nodes has its own link (1 hop); between QFDBs a packet leaves and
 * enters through a network node, and QFDBs form a ring (assumed): distance + 2 hops at the slower
 * link. Links on the way are not shared between pairs. */
typedef struct {
    uint64_t packet_ps;    /* a full packet on the link */
    uint64_t byte_ps_1000; /* 1000 x picoseconds of one byte on the link */
    pw_time latency_ns;    /* NI, hops, NI; without serialisation */
    pw_calendar link;
    struct {
        bool is_set;
        uint32_t stream, block_idx;
        pw_time at_ns;
    } lost; /* a block of the peer that was dropped here and has not come again */
} pw_path;

void pw_path_init(pw_path *path, const pw_costs *costs, uint32_t num_nodes, uint32_t node,
                  uint32_t peer);

#endif
