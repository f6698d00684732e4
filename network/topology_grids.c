/* Torus and mesh, and the machine's own: boards of nodes on a torus. A router's links: dimension by
 * dimension, those up, then those down. */
#include "network/topology_state.h"

/* The QFDBs of a blade are a ring with two links an edge; of the six links that leave it one goes
 * up and one down in each of two dimensions, and two are left for others (assumed). [R5 2.2.1.2] */
#define BOARDS_PER_BLADE 4u
#define CABLES_ON_BLADE 2u
#define BOARD_DIMENSIONS 3u

static void number_links(pw_grid *grid)
{
    uint32_t next = 0;
    for (uint32_t dim = 0; dim < grid->num_dims; dim++) {
        grid->strides[dim] = pw_topology_product(grid->sides, dim);
        grid->first_link[dim] = next;
        next += 2 * grid->cables[dim];
    }
    grid->links_per_router = next;
}

/* Another dimension first, and another cable. */
static uint32_t num_ways(const pw_grid *grid)
{
    uint32_t cables = 1;
    for (uint32_t dim = 0; dim < grid->num_dims; dim++)
        if (grid->cables[dim] > cables) cables = grid->cables[dim];
    return grid->num_dims * cables;
}

/* Sides "16x8x8"; the number of routers, 0: the text is wrong. */
static uint32_t read_sides(pw_grid *grid, const char *text)
{
    grid->num_dims = pw_topology_numbers(&text, 'x', grid->sides, PW_TOPOLOGY_DIMENSIONS);
    for (uint32_t dim = 0; dim < PW_TOPOLOGY_DIMENSIONS; dim++) grid->cables[dim] = 1;
    const uint32_t num_routers = pw_topology_product(grid->sides, grid->num_dims);
    return grid->num_dims == 0 || *text || num_routers == UINT32_MAX ? 0 : num_routers;
}

/* Is a route that long at most? */
static bool is_short(const pw_grid *grid, uint32_t num_others)
{
    uint64_t hops = num_others;
    for (uint32_t dim = 0; dim < grid->num_dims; dim++)
        hops += grid->wraps ? grid->sides[dim] / 2 : grid->sides[dim] - 1;
    return hops <= PW_WAY_MAX;
}

static uint32_t coordinate(const pw_grid *grid, uint32_t router, uint32_t dim)
{
    return router / grid->strides[dim] % grid->sides[dim];
}

static uint32_t neighbour(const pw_grid *grid, uint32_t router, uint32_t dim, bool up)
{
    const uint32_t at = coordinate(grid, router, dim), side = grid->sides[dim];
    const uint32_t to = up ? (at + 1 == side ? 0 : at + 1) : (at ? at - 1 : side - 1);
    return router + to * grid->strides[dim] - at * grid->strides[dim];
}

/* Behind a router's own links come others; `stride` is all of them. Dimension order begins with
 * dimension `variant`; parallel cables are taken by destination. */
static uint32_t walk(const pw_grid *grid, uint32_t from, uint32_t to, uint32_t variant,
                     uint32_t key, uint32_t stride, uint32_t *links)
{
    uint32_t num_links = 0;
    for (uint32_t i = 0; i < grid->num_dims; i++) {
        const uint32_t dim = (i + variant) % grid->num_dims, side = grid->sides[dim];
        const uint32_t begin = coordinate(grid, from, dim), target = coordinate(grid, to, dim);
        const uint32_t above = (target + side - begin) % side;
        const bool up = grid->wraps ? 2 * above <= side : target > begin;
        uint32_t steps = up || !above ? above : side - above;
        const uint32_t cable = (key + variant) % grid->cables[dim];
        for (; steps; steps--) {
            links[num_links++] =
                from * stride + grid->first_link[dim] + (up ? 0 : grid->cables[dim]) + cable;
            from = neighbour(grid, from, dim, up);
        }
    }
    return num_links;
}

/* The link of a router by its number there. */
static void link_of(const pw_grid *grid, uint32_t router, uint32_t number, pw_topology_link *out)
{
    uint32_t dim = grid->num_dims - 1;
    while (number < grid->first_link[dim]) dim--;
    const uint32_t behind = number - grid->first_link[dim];
    const bool up = behind < grid->cables[dim];
    const bool is_border =
        !grid->wraps && coordinate(grid, router, dim) == (up ? grid->sides[dim] - 1 : 0);
    *out = (pw_topology_link){
        .source = router,
        .target = is_border ? router : neighbour(grid, router, dim, up),
        .tier = PW_TIER_BETWEEN,
        .cable = behind % grid->cables[dim],
    };
}

/* ---- torus, mesh */

static bool read_grid(pw_topology *topology, const char *text, bool wraps)
{
    pw_grid *grid = &topology->grid;
    const uint32_t num_routers = read_sides(grid, text);
    grid->wraps = wraps;
    if (num_routers == 0) return false;
    if (!is_short(grid, 0))
        return pw_topology_refuse(topology, "topology '%s': its longest way has more than %d links",
                                  text, PW_WAY_MAX);
    number_links(grid);
    topology->num_ways = num_ways(grid);
    topology->per_board = grid->sides[0];
    topology->num_places = topology->num_routers = num_routers;
    topology->num_links = num_routers * grid->links_per_router;
    return true;
}

static bool read_torus(pw_topology *topology, const char *text)
{
    return read_grid(topology, text, true);
}

static bool read_mesh(pw_topology *topology, const char *text)
{
    return read_grid(topology, text, false);
}

static uint32_t route_grid(const pw_topology *topology, const pw_route_wish *wish, uint32_t *links)
{
    return walk(&topology->grid, wish->from, wish->to, wish->variant, wish->to,
                topology->grid.links_per_router, links);
}

static void link_of_grid(const pw_topology *topology, uint32_t link, pw_topology_link *out)
{
    const uint32_t stride = topology->grid.links_per_router;
    link_of(&topology->grid, link / stride, link % stride, out);
}

const pw_topology_kind pw_topology_torus = {read_torus, route_grid, link_of_grid,
                                            "torus:16x8x8, up to 8 sides from 1 on", NULL};
const pw_topology_kind pw_topology_mesh = {read_mesh, route_grid, link_of_grid,
                                           "mesh:16x16, up to 8 sides from 1 on", NULL};

/* ---- boards */

/* As few boards as hold the nodes: rings of a blade, and blades as square as it goes. */
static void choose_sides(pw_grid *grid, uint32_t num_boards)
{
    const uint32_t blades = (num_boards + BOARDS_PER_BLADE - 1) / BOARDS_PER_BLADE;
    grid->num_dims = BOARD_DIMENSIONS;
    grid->sides[0] = num_boards < BOARDS_PER_BLADE ? num_boards : BOARDS_PER_BLADE;
    grid->sides[1] = 1;
    while (grid->sides[1] * grid->sides[1] < blades) grid->sides[1]++;
    grid->sides[2] = (blades + grid->sides[1] - 1) / grid->sides[1];
}

static uint32_t links_per_board(const pw_topology *topology)
{
    return topology->per_board * (topology->per_board - 1) + topology->grid.links_per_router;
}

static bool read_boards(pw_topology *topology, const char *text)
{
    pw_grid *grid = &topology->grid;
    const uint32_t size = topology->per_board;
    if (*text && (read_sides(grid, text) == 0 || grid->num_dims > BOARD_DIMENSIONS)) return false;
    if (!*text) choose_sides(grid, (topology->num_nodes + size - 1) / size);
    grid->wraps = true;
    for (uint32_t dim = 0; dim < grid->num_dims; dim++)
        grid->cables[dim] = dim == 0 ? CABLES_ON_BLADE : 1;
    if (!is_short(grid, 2))
        return pw_topology_refuse(topology,
                                  "a torus of %u boards: its longest way has more than %d "
                                  "links; give its sides, as in qfdb:16x16x16",
                                  pw_topology_product(grid->sides, grid->num_dims), PW_WAY_MAX);
    number_links(grid);
    topology->num_ways = num_ways(grid);
    const uint32_t num_boards = pw_topology_product(grid->sides, grid->num_dims);
    const uint32_t both[] = {num_boards, size};
    topology->num_places = topology->num_routers = pw_topology_product(both, 2);
    topology->num_links = num_boards * links_per_board(topology);
    return topology->num_places != UINT32_MAX;
}

/* From one node of a board to another. */
static uint32_t link_inside(const pw_topology *topology, uint32_t board, uint32_t from, uint32_t to)
{
    return board * links_per_board(topology) + topology->grid.links_per_router +
           from * (topology->per_board - 1) + to - (to > from);
}

/* All links to other boards are at the first node of a board, which is a router [PART 4.1]. */
static uint32_t route_boards(const pw_topology *topology, const pw_route_wish *wish,
                             uint32_t *links)
{
    const uint32_t size = topology->per_board;
    const uint32_t mine = wish->from / size, theirs = wish->to / size;
    const uint32_t leaves = wish->from % size, arrives = wish->to % size;
    uint32_t num_links = 0;
    if (mine == theirs) {
        links[0] = link_inside(topology, mine, leaves, arrives);
        return 1;
    }
    if (leaves) links[num_links++] = link_inside(topology, mine, leaves, 0);
    num_links += walk(&topology->grid, mine, theirs, wish->variant, wish->to,
                      links_per_board(topology), links + num_links);
    if (arrives) links[num_links++] = link_inside(topology, theirs, 0, arrives);
    return num_links;
}

static void link_of_boards(const pw_topology *topology, uint32_t link, pw_topology_link *out)
{
    const uint32_t size = topology->per_board, stride = links_per_board(topology);
    const uint32_t board = link / stride, number = link % stride;
    const uint32_t num_outer = topology->grid.links_per_router;
    if (number < num_outer) {
        link_of(&topology->grid, board, number, out);
        out->source *= size;
        out->target *= size;
        return;
    }
    const uint32_t from = (number - num_outer) / (size - 1);
    const uint32_t other = (number - num_outer) % (size - 1);
    *out = (pw_topology_link){.source = board * size + from,
                              .target = board * size + other + (other >= from),
                              .tier = PW_TIER_INSIDE};
}

const pw_topology_kind pw_topology_qfdb = {read_boards, route_boards, link_of_boards,
                                           "qfdb, or with the torus of boards: qfdb:4x2x2, up to "
                                           "3 sides from 1 on",
                                           NULL};

uint32_t pw_topology_sides(const pw_topology *topology, uint32_t sides[PW_TOPOLOGY_DIMENSIONS])
{
    const pw_topology_kind *kind = topology->kind;
    const pw_grid *grid = &topology->grid;
    if (kind != &pw_topology_qfdb && kind != &pw_topology_torus && kind != &pw_topology_mesh)
        return 0;
    for (uint32_t dim = 0; dim < grid->num_dims; dim++) sides[dim] = grid->sides[dim];
    return grid->num_dims;
}
