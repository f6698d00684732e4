#include "ni/path.h"

static int64_t num_hops(uint32_t per_qfdb, uint32_t num_nodes, uint32_t node, uint32_t peer)
{
    if (peer == node) return 0;
    uint32_t num_qfdbs = (num_nodes + per_qfdb - 1) / per_qfdb;
    uint32_t mine = node / per_qfdb, theirs = peer / per_qfdb;
    if (mine == theirs) return 1;
    uint32_t around = mine > theirs ? mine - theirs : theirs - mine;
    if (num_qfdbs - around < around) around = num_qfdbs - around;
    return (int64_t)around + 2;
}

void pw_path_init(pw_path *path, const pw_costs *costs, uint32_t num_nodes, uint32_t node,
                  uint32_t peer)
{
    uint32_t per_qfdb = (uint32_t)costs->nodes_per_qfdb;
    int64_t hops = num_hops(per_qfdb, num_nodes, node, peer);
    int64_t mbps = node / per_qfdb == peer / per_qfdb ? costs->link_mbps : costs->link_between_mbps;
    pw_calendar_init(&path->link);
    /* 8 bits at mbps x coding: ps a byte = 8e6 / (mbps x permille / 1000) */
    path->byte_ps_1000 = (uint64_t)(8000000000000 / (mbps * costs->link_coding_permille));
    path->packet_ps =
        (PW_PACKET_BYTES + (uint64_t)costs->packet_header_bytes) * path->byte_ps_1000 / 1000;
    path->latency_ns = costs->ni_send_ns + hops * costs->hop_ns + costs->ni_receive_ns;
}
