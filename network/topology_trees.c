/* Fat trees, generalised: level l has down[l] children below a switch and up[l] parents above a
 * child, joined by cables[l]. Routes go up as far as needed, by destination alone (D-mod-k), and
 * come down the only way there is. */
#include "network/topology_state.h"

static bool read_levels(const char **text, uint32_t *out, uint32_t num_levels)
{
    return *(*text)++ == ';' && pw_topology_numbers(text, ',', out, num_levels) == num_levels;
}

static bool number_parts(pw_topology *topology)
{
    pw_fat_tree *tree = &topology->tree;
    uint64_t links = 0, routers;
    tree->downs[0] = tree->ups[0] = 1;
    for (uint32_t l = 0; l < tree->num_levels; l++) {
        tree->downs[l + 1] = pw_topology_product((uint32_t[]){tree->downs[l], tree->down[l]}, 2);
        tree->ups[l + 1] = pw_topology_product((uint32_t[]){tree->ups[l], tree->up[l]}, 2);
        if (tree->downs[l + 1] == UINT32_MAX || tree->ups[l + 1] == UINT32_MAX) return false;
    }
    topology->num_places = tree->downs[tree->num_levels];
    routers = topology->num_places;
    for (uint32_t l = 0; l < tree->num_levels; l++) {
        const uint64_t children = (uint64_t)topology->num_places / tree->downs[l] * tree->ups[l];
        const uint64_t edges = children * tree->up[l] * tree->cables[l];
        tree->first_router[l + 1] = (uint32_t)routers;
        tree->first_link[l] = (uint32_t)links;
        tree->num_edges[l] = (uint32_t)edges;
        links += 2 * edges;
        routers += (uint64_t)topology->num_places / tree->downs[l + 1] * tree->ups[l + 1];
        if (links > UINT32_MAX / 2 || routers > UINT32_MAX / 2) return false;
    }
    topology->num_routers = (uint32_t)routers;
    topology->num_links = (uint32_t)links;
    topology->per_board = tree->down[0];
    topology->num_ways = PW_VARIANTS_MAX;
    return true;
}

static bool read_tree(pw_topology *topology, const char *text)
{
    pw_fat_tree *tree = &topology->tree;
    if (pw_topology_numbers(&text, ',', &tree->num_levels, 1) != 1) return false;
    if (tree->num_levels > PW_TOPOLOGY_LEVELS) return false;
    return read_levels(&text, tree->down, tree->num_levels) &&
           read_levels(&text, tree->up, tree->num_levels) &&
           read_levels(&text, tree->cables, tree->num_levels) && !*text && number_parts(topology);
}

/* The edge above a child of a level that leads towards a place. */
static uint32_t edge_towards(const pw_fat_tree *tree, uint32_t level, uint32_t place,
                             uint32_t *parent)
{
    const uint32_t port = place / tree->ups[level] % (tree->up[level] * tree->cables[level]);
    *parent = port % tree->up[level];
    return *parent * tree->cables[level] + port / tree->up[level];
}

static uint32_t route_tree(const pw_topology *topology, const pw_route_wish *wish, uint32_t *links)
{
    const pw_fat_tree *tree = &topology->tree;
    const uint32_t key = wish->to + wish->variant;
    uint32_t top = 0, branch[PW_TOPOLOGY_LEVELS + 1] = {0}, edges[PW_TOPOLOGY_LEVELS];
    uint32_t num_links = 0;
    while (wish->from / tree->downs[top] != wish->to / tree->downs[top]) {
        uint32_t parent;
        const uint32_t child = wish->from / tree->downs[top] * tree->ups[top] + branch[top];
        edges[top] = edge_towards(tree, top, key, &parent);
        links[num_links++] =
            tree->first_link[top] + child * tree->up[top] * tree->cables[top] + edges[top];
        branch[top + 1] = branch[top] * tree->up[top] + parent;
        top++;
    }
    while (top-- > 0) {
        const uint32_t child = wish->to / tree->downs[top] * tree->ups[top] + branch[top];
        links[num_links++] = tree->first_link[top] + tree->num_edges[top] +
                             child * tree->up[top] * tree->cables[top] + edges[top];
    }
    return num_links;
}

static void link_of_tree(const pw_topology *topology, uint32_t link, pw_topology_link *out)
{
    const pw_fat_tree *tree = &topology->tree;
    uint32_t level = tree->num_levels - 1;
    while (link < tree->first_link[level]) level--;
    uint32_t edge = link - tree->first_link[level];
    const bool goes_down = edge >= tree->num_edges[level];
    if (goes_down) edge -= tree->num_edges[level];
    const uint32_t cable = edge % tree->cables[level];
    const uint32_t parent = edge / tree->cables[level] % tree->up[level];
    const uint32_t child = edge / tree->cables[level] / tree->up[level];
    const uint32_t below = level ? tree->first_router[level] + child : child;
    const uint32_t above = tree->first_router[level + 1] +
                           child / tree->ups[level] / tree->down[level] * tree->ups[level + 1] +
                           child % tree->ups[level] * tree->up[level] + parent;
    *out = (pw_topology_link){.source = goes_down ? above : below,
                              .target = goes_down ? below : above,
                              .tier = PW_TIER_BETWEEN,
                              .cable = cable};
}

const pw_topology_kind pw_topology_fat_tree = {
    read_tree, route_tree, link_of_tree,
    "fat-tree:LEVELS;DOWN,..;UP,..;CABLES,.., a number for each of up to 8 levels, as in "
    "fat-tree:2;4,4;1,2;1,2",
    NULL};
