/* A link from each place to each, and graphs of a user's own: the shortest ways out of a table. */
#include "network/topology_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- full */

static bool read_full(pw_topology *topology, const char *text)
{
    const uint64_t num_nodes = topology->num_nodes;
    if (*text || num_nodes * (num_nodes - 1) > UINT32_MAX) return false;
    topology->num_places = topology->num_routers = topology->per_board = topology->num_nodes;
    topology->num_links = (uint32_t)(num_nodes * (num_nodes - 1));
    return true;
}

static uint32_t route_full(const pw_topology *topology, const pw_route_wish *wish, uint32_t *links)
{
    links[0] = wish->from * (topology->num_places - 1) + wish->to - (wish->to > wish->from);
    return 1;
}

static void link_of_full(const pw_topology *topology, uint32_t link, pw_topology_link *out)
{
    const uint32_t from = link / (topology->num_places - 1);
    const uint32_t other = link % (topology->num_places - 1);
    *out = (pw_topology_link){
        .source = from, .target = other + (other >= from), .tier = PW_TIER_BETWEEN};
}

const pw_topology_kind pw_topology_full = {read_full, route_full, link_of_full,
                                           "full, for up to 65,536 nodes", NULL};

/* ---- a file */

/* Lines `routers N`, `place ROUTER` for each place in order, `link A B` for one each way; `#`
 * begins a remark. False with the sentence. */
static bool read_line(pw_topology *topology, const char *path, uint32_t number, char *line,
                      uint32_t *capacity)
{
    pw_graph *graph = &topology->graph;
    unsigned from, to;
    line[strcspn(line, "#\n")] = '\0';
    if (!line[strspn(line, " \t\r")]) return true;
    if (sscanf(line, "routers %u", &from) == 1) {
        if (from == 0 || from > PW_TOPOLOGY_ROUTERS_MAX || topology->num_routers)
            return pw_topology_refuse(topology,
                                      "topology '%s', line %u: allowed is one line of 1 "
                                      "to %d routers",
                                      path, number, PW_TOPOLOGY_ROUTERS_MAX);
        topology->num_routers = from;
        graph->places = calloc(PW_TOPOLOGY_ROUTERS_MAX * 16u, sizeof *graph->places);
        return graph->places != NULL;
    }
    const bool is_link = sscanf(line, "link %u %u", &from, &to) == 2;
    if (!is_link) to = 0;
    if ((!is_link && sscanf(line, "place %u", &from) != 1) || from >= topology->num_routers ||
        to >= topology->num_routers || topology->num_places == PW_TOPOLOGY_ROUTERS_MAX * 16u)
        return pw_topology_refuse(topology,
                                  "topology '%s', line %u: allowed is 'place ROUTER' or "
                                  "'link ROUTER ROUTER', routers below %u",
                                  path, number, topology->num_routers);
    if (!is_link) {
        graph->places[topology->num_places++] = from;
        return true;
    }
    while (topology->num_links + 2 > *capacity) {
        pw_topology_link *more = reallocarray(graph->links, *capacity * 2 + 64, sizeof *more);
        if (!more) return false;
        graph->links = more;
        *capacity = *capacity * 2 + 64;
    }
    graph->links[topology->num_links++] = (pw_topology_link){from, to, PW_TIER_BETWEEN, 0};
    graph->links[topology->num_links++] = (pw_topology_link){to, from, PW_TIER_BETWEEN, 0};
    return true;
}

static bool read_lines(pw_topology *topology, const char *path)
{
    char line[256];
    uint32_t capacity = 0, number = 0;
    bool is_good = true;
    FILE *file = fopen(path, "r");
    if (!file) return pw_topology_refuse(topology, "topology '%s': %s", path, strerror(errno));
    while (is_good && fgets(line, sizeof line, file))
        is_good = read_line(topology, path, ++number, line, &capacity);
    fclose(file);
    if (is_good && topology->num_places == 0)
        return pw_topology_refuse(topology, "topology '%s': no line of it says 'place ROUTER'",
                                  path);
    return is_good;
}

/* Links by the router that they leave, in order: starts[r] to starts[r + 1]. */
static void sort_links(const pw_topology *topology, uint32_t *starts, uint32_t *order)
{
    for (uint32_t i = 0; i < topology->num_links; i++)
        starts[topology->graph.links[i].source + 1]++;
    for (uint32_t r = 0; r < topology->num_routers; r++) starts[r + 1] += starts[r];
    for (uint32_t i = topology->num_links; i-- > 0;)
        order[--starts[topology->graph.links[i].source + 1]] = i;
    for (uint32_t r = 0; r < topology->num_routers; r++) starts[r] = starts[r + 1];
    starts[topology->num_routers] = topology->num_links;
}

/* Those between the same two routers are numbered, alike in both directions. */
static void number_cables(pw_topology *topology, const uint32_t *starts, const uint32_t *order)
{
    pw_topology_link *links = topology->graph.links;
    for (uint32_t r = 0; r < topology->num_routers; r++)
        for (uint32_t i = starts[r]; i < starts[r + 1]; i++) {
            links[order[i]].cable = 0;
            for (uint32_t j = starts[r]; j < i; j++)
                links[order[i]].cable += links[order[j]].target == links[order[i]].target;
        }
}

/* Does the link lead nearer to where distances are from? */
static bool is_nearer(const pw_topology *topology, uint32_t link, const uint32_t *distance)
{
    const pw_topology_link *its = &topology->graph.links[link];
    return distance[its->source] != UINT32_MAX &&
           distance[its->target] + 1 == distance[its->source] &&
           !pw_topology_is_failed(topology, link);
}

/* All ways to one router: of several shortest ones the destination's number decides. Links come in
 * pairs, one each way, so that those that leave a router also tell who leads to it. */
static uint32_t find_ways(pw_topology *topology, uint32_t to, const uint32_t *starts,
                          const uint32_t *order, uint32_t *distance, uint32_t *queue)
{
    const uint32_t num_routers = topology->num_routers;
    const pw_topology_link *links = topology->graph.links;
    uint32_t head = 0, tail = 0;
    for (uint32_t r = 0; r < num_routers; r++) distance[r] = UINT32_MAX;
    distance[to] = 0;
    queue[tail++] = to;
    while (head < tail) {
        const uint32_t at = queue[head++];
        for (uint32_t i = starts[at]; i < starts[at + 1]; i++) {
            const uint32_t next = links[order[i]].target;
            if (distance[next] != UINT32_MAX || pw_topology_is_failed(topology, order[i])) continue;
            distance[next] = distance[at] + 1;
            queue[tail++] = next;
        }
    }
    for (uint32_t r = 0; r < num_routers; r++) {
        uint32_t num_best = 0, chosen;
        for (uint32_t i = starts[r]; i < starts[r + 1]; i++)
            num_best += is_nearer(topology, order[i], distance);
        chosen = num_best ? to % num_best : 0;
        for (uint32_t i = starts[r]; num_best && i < starts[r + 1]; i++)
            if (is_nearer(topology, order[i], distance) && chosen-- == 0)
                topology->graph.next[(size_t)r * num_routers + to] = order[i];
    }
    return tail;
}

/* False: no memory, or a reason. */
static bool make_table(pw_topology *topology)
{
    const uint32_t num_routers = topology->num_routers;
    uint32_t *starts = calloc(num_routers + 1, sizeof *starts);
    uint32_t *order = calloc(topology->num_links + 1, sizeof *order);
    uint32_t *work = calloc(2 * (size_t)num_routers, sizeof *work);
    if (!topology->graph.next)
        topology->graph.next = calloc((size_t)num_routers * num_routers, sizeof(uint32_t));
    bool is_good = starts && order && work && topology->graph.next;
    if (is_good) {
        sort_links(topology, starts, order);
        number_cables(topology, starts, order);
    }
    for (uint32_t to = 0; is_good && to < num_routers; to++) {
        const uint32_t reached = find_ways(topology, to, starts, order, work, work + num_routers);
        if (reached < num_routers && !topology->failures.failed)
            is_good = pw_topology_refuse(topology,
                                         "topology of a file: %u of %u routers cannot reach "
                                         "router %u; join them by links",
                                         num_routers - reached, num_routers, to);
        for (uint32_t r = 0; is_good && r < num_routers; r++)
            if (work[r] > PW_ROUTE_MAX && work[r] != UINT32_MAX)
                is_good = pw_topology_refuse(topology,
                                             "topology of a file: %u links from router %u to "
                                             "%u; allowed is up to %d",
                                             work[r], r, to, PW_ROUTE_MAX);
    }
    free(starts);
    free(order);
    free(work);
    return is_good;
}

static bool read_file(pw_topology *topology, const char *text)
{
    if (!*text) return false;
    topology->per_board = 1;
    return read_lines(topology, text) && make_table(topology);
}

static uint32_t route_file(const pw_topology *topology, const pw_route_wish *wish, uint32_t *links)
{
    const pw_graph *graph = &topology->graph;
    const uint32_t to = graph->places[wish->to];
    uint32_t num_links = 0;
    for (uint32_t at = graph->places[wish->from]; at != to;) {
        const uint32_t link = graph->next[(size_t)at * topology->num_routers + to];
        links[num_links++] = link;
        at = graph->links[link].target;
    }
    return num_links;
}

static void link_of_file(const pw_topology *topology, uint32_t link, pw_topology_link *out)
{
    *out = topology->graph.links[link];
}

const pw_topology_kind pw_topology_file = {read_file, route_file, link_of_file,
                                           "file:PATH of a file of routers, places and links",
                                           make_table};
