#include "network/demand.h"

#include <stdlib.h>

#include "native/status.h"

typedef struct {
    uint64_t latest_pair; /* of nodes: a pair's ways may pass a link more than once */
    uint32_t num_pairs;
    uint64_t num_blocks, num_bytes;
    uint64_t most_bytes[PW_DEMAND_SPANS];
} link_load;

struct pw_load {
    const pw_topology *topology;
    const pw_costs *costs;
    uint32_t shift, num_ways, multipath;
    link_load *links[]; /* NULL: no block passes */
};

int pw_load_create(const pw_topology *topology, const pw_costs *costs, uint32_t shift,
                   uint32_t num_ways, uint32_t multipath, pw_load **out)
{
    pw_load *load = calloc(1, sizeof *load + pw_topology_num_links(topology) * sizeof(link_load *));
    if (!load) return PW_ERR_NOMEM;
    load->topology = topology;
    load->costs = costs;
    load->shift = shift;
    load->num_ways = num_ways;
    load->multipath = multipath;
    *out = load;
    return PW_OK;
}

void pw_load_destroy(pw_load *load)
{
    if (!load) return;
    for (uint32_t i = 0; i < pw_topology_num_links(load->topology); i++) free(load->links[i]);
    free(load);
}

/* Of a number that is dealt out to all ways, what this one gets. */
static uint64_t part_of(const pw_load *load, uint64_t number, uint32_t way)
{
    return number / load->num_ways + (way < number % load->num_ways);
}

static void put(const pw_load *load, link_load *link, const pw_demand *demand, uint32_t way)
{
    link->num_blocks += part_of(load, demand->num_blocks, way);
    link->num_bytes += part_of(load, demand->num_bytes, way);
    const uint32_t per_span = 1u << (load->shift - demand->shift);
    for (uint32_t i = 0; i < PW_DEMAND_SPANS; i += per_span) {
        uint64_t most_bytes = 0;
        for (uint32_t j = i; j < i + per_span && j < PW_DEMAND_SPANS; j++)
            if (demand->most_bytes[j] > most_bytes) most_bytes = demand->most_bytes[j];
        link->most_bytes[i / per_span] += part_of(load, most_bytes, way);
    }
}

static int add_way(pw_load *load, const uint32_t *links, uint32_t num_links, uint64_t pair,
                   const pw_demand *demand, uint32_t way)
{
    for (uint32_t i = 0; i < num_links; i++) {
        link_load **link = &load->links[links[i]];
        if (!*link && !(*link = calloc(1, sizeof **link))) return PW_ERR_NOMEM;
        put(load, *link, demand, way);
        if ((*link)->latest_pair != pair) (*link)->num_pairs++;
        (*link)->latest_pair = pair;
    }
    return PW_OK;
}

int pw_load_add(pw_load *load, uint32_t from, const pw_demand *demand)
{
    uint32_t links[PW_ROUTE_MAX];
    const uint32_t to = demand->peer.peer;
    const uint64_t pair = ((uint64_t)from << 32 | to) + 1; /* no link's before the first one */
    if (demand->shift > load->shift || load->shift - demand->shift > 31) return PW_ERR_INVALID;
    for (uint32_t way = 0; way < load->num_ways; way++) {
        const uint32_t num_links =
            pw_topology_route(load->topology, from, to, way % load->multipath, way, links);
        const int code = add_way(load, links, num_links, pair, demand, way);
        if (code < 0) return code;
    }
    return PW_OK;
}

static int64_t busy_ns(const pw_load *load, uint32_t link, uint64_t num_bytes)
{
    pw_topology_link of;
    pw_topology_link_at(load->topology, link, &of);
    const uint64_t byte_ps_1000 = (uint64_t)pw_link_byte_ps_1000(load->costs, of.tier);
    return (int64_t)((unsigned __int128)num_bytes * byte_ps_1000 / 1000000);
}

uint32_t pw_load_read(const pw_load *load, uint32_t link, pw_link_use *out)
{
    const link_load *found = load->links[link];
    *out = (pw_link_use){0};
    if (!found) return 0;
    uint32_t busiest = 0;
    for (uint32_t i = 1; i < PW_DEMAND_SPANS; i++)
        if (found->most_bytes[i] > found->most_bytes[busiest]) busiest = i;
    out->num_blocks = found->num_blocks;
    out->num_bytes = found->num_bytes;
    out->busy_ns = busy_ns(load, link, found->num_bytes);
    out->busiest_ns = busy_ns(load, link, found->most_bytes[busiest]);
    out->busiest_at_ns = (int64_t)busiest << load->shift;
    out->busiest_at_ns *= PW_LINK_WINDOW_NS;
    return found->num_pairs;
}
