#include "unimem/network.h"
#include <stdlib.h>

typedef struct {
    pw_unimem_network *network;
    pw_unimem *unimem; /* NULL: not added */
    uint32_t number;
    bool is_stopped;
} member;

struct pw_unimem_network {
    uint32_t num_nodes;
    member members[];
};

int pw_unimem_network_create(uint32_t num_nodes, pw_unimem_network **out)
{
    if (num_nodes == 0 || num_nodes > PW_UNIMEM_NODES_MAX) return PW_ERR_INVALID;
    pw_unimem_network *network = calloc(1, sizeof *network + num_nodes * sizeof *network->members);
    if (!network) return PW_ERR_NOMEM;
    network->num_nodes = num_nodes;
    *out = network;
    return PW_OK;
}

void pw_unimem_network_destroy(pw_unimem_network *network)
{
    if (!network) return;
    for (uint32_t i = 0; i < network->num_nodes; i++) pw_unimem_destroy(network->members[i].unimem);
    free(network);
}

static int hand_over(void *context, uint32_t peer, const uint8_t *frame, uint32_t frame_bytes)
{
    const member *source = context;
    const member *to = &source->network->members[peer];
    if (source->is_stopped || to->is_stopped || !to->unimem) return PW_OK;
    return pw_unimem_receive(to->unimem, source->number, frame, frame_bytes);
}

int pw_unimem_network_add(pw_unimem_network *network, pw_ni *ni, const pw_costs *costs,
                          const pw_settings *settings, uint32_t node,
                          uint64_t (*spawn)(void *context, const unimem_fork_request *wanted),
                          void *context, pw_unimem **out)
{
    if (node >= network->num_nodes || network->members[node].unimem) return PW_ERR_INVALID;
    member *self = &network->members[node];
    *self = (member){.network = network, .number = node};
    const pw_unimem_host host = {
        .context = self, .send = hand_over, .spawn_context = context, .spawn = spawn};
    int code =
        pw_unimem_create(ni, costs, settings, node, network->num_nodes, &host, &self->unimem);
    if (code == PW_OK) *out = self->unimem;
    return code;
}

void pw_unimem_network_stop(pw_unimem_network *network, uint32_t node)
{
    if (node < network->num_nodes) network->members[node].is_stopped = true;
}

int64_t pw_unimem_network_next_ns(const pw_unimem_network *network, uint32_t *node)
{
    int64_t first_ns = PW_NEVER;
    for (uint32_t i = 0; i < network->num_nodes; i++) {
        const member *each = &network->members[i];
        if (!each->unimem || each->is_stopped) continue;
        int64_t next_ns = pw_unimem_next_ns(each->unimem);
        if (next_ns >= first_ns) continue;
        first_ns = next_ns;
        *node = i;
    }
    return first_ns;
}
