/* What the kinds of topologies are made of; private to network/. */
#ifndef PW_NETWORK_TOPOLOGY_STATE_H
#define PW_NETWORK_TOPOLOGY_STATE_H
#include "network/topology.h"

#define PW_VARIANTS_MAX 64u

/* From one place to another. */
typedef struct {
    uint32_t from, to;
    uint32_t variant;
    uint64_t salt;
    pw_link_backlog backlog; /* NULL: nobody asks */
    const void *context;
} pw_route_wish;

typedef struct {
    /* What follows the colon of the text, or "". Sets num_places, num_routers, num_links. False:
     * the text is wrong, and the reason says what is allowed. */
    bool (*read)(pw_topology *topology, const char *text);
    uint32_t (*route)(const pw_topology *topology, const pw_route_wish *wish, uint32_t *links);
    void (*link_at)(const pw_topology *topology, uint32_t link, pw_topology_link *out);
    const char *form; /* how its text looks */
    /* NULL, or: make the table of ways without those that failed. False as above. */
    bool (*find_ways)(pw_topology *topology);
} pw_topology_kind;

/* A grid of routers, or of boards: dimension order. */
typedef struct {
    uint32_t num_dims, sides[PW_TOPOLOGY_DIMENSIONS];
    uint32_t strides[PW_TOPOLOGY_DIMENSIONS];    /* from a router to the next of a dimension */
    uint32_t cables[PW_TOPOLOGY_DIMENSIONS];     /* to each neighbour */
    uint32_t first_link[PW_TOPOLOGY_DIMENSIONS]; /* up, of a router's links in order */
    uint32_t links_per_router;
    bool wraps;
} pw_grid;

typedef struct {
    uint32_t num_levels;
    uint32_t down[PW_TOPOLOGY_LEVELS], up[PW_TOPOLOGY_LEVELS], cables[PW_TOPOLOGY_LEVELS];
    uint32_t downs[PW_TOPOLOGY_LEVELS + 1], ups[PW_TOPOLOGY_LEVELS + 1]; /* products below */
    uint32_t first_link[PW_TOPOLOGY_LEVELS]; /* up; those down follow those up */
    uint32_t num_edges[PW_TOPOLOGY_LEVELS];  /* up */
    uint32_t first_router[PW_TOPOLOGY_LEVELS + 1];
} pw_fat_tree;

enum pw_dragonfly_routing { PW_DRAGONFLY_MINIMAL, PW_DRAGONFLY_VALIANT, PW_DRAGONFLY_UGAL };
typedef struct {
    uint32_t groups, group_cables, chassis, chassis_cables, routers, router_cables, nodes;
    uint32_t per_group;                               /* routers */
    uint32_t first_local, first_global, first_inject; /* links */
    uint32_t locals;                                  /* links of a router inside its group */
    enum pw_dragonfly_routing routing;
} pw_dragonfly;

typedef struct {
    uint32_t *next;   /* link of the way, by router and place */
    uint32_t *places; /* router of each place */
    pw_topology_link *links;
} pw_graph;

/* The way from one router to another without failed links, in place of a usual one with them. */
typedef struct {
    uint64_t ends;             /* from << 32 | to */
    uint32_t first, num_links; /* in `links` */
} pw_detour;

typedef struct {
    uint64_t *failed;   /* bit a link; NULL: none has failed */
    uint64_t *reached;  /* bit a vertex */
    pw_detour *detours; /* by their ends */
    uint32_t num_detours, capacity;
    uint32_t *links;
    uint32_t num_links, links_capacity;
} pw_failures;

struct pw_topology {
    const pw_topology_kind *kind;
    uint32_t num_nodes, num_places, num_routers, num_links;
    uint32_t per_board; /* qfdb; places of what round-robin goes over */
    uint32_t *place_of; /* NULL: node i is at place i */
    uint32_t together;  /* nodes in a row that count as one */
    uint32_t num_ways;  /* variants that may differ, at most PW_VARIANTS_MAX */
    pw_failures failures;
    uint64_t *lossy; /* bit a link; NULL: none */
    union {
        pw_grid grid;
        pw_fat_tree tree;
        pw_dragonfly dragonfly;
        pw_graph graph;
    };
    char *reason; /* while it is made */
};

extern const pw_topology_kind pw_topology_qfdb, pw_topology_torus, pw_topology_mesh,
    pw_topology_fat_tree, pw_topology_dragonfly, pw_topology_full, pw_topology_file;

/* False, with the sentence. */
bool pw_topology_refuse(pw_topology *topology, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Numbers from 1 on between separators, at most max; *text goes behind them. How many; 0: something
 * else stands there. */
uint32_t pw_topology_numbers(const char **text, char separator, uint32_t *out, uint32_t max);
/* The product, or UINT32_MAX when it is above PW_TOPOLOGY_PLACES_MAX. */
uint32_t pw_topology_product(const uint32_t *factors, uint32_t num_factors);
/* Routers, and places behind them that are none. */
uint32_t pw_topology_num_vertices(const pw_topology *topology);
uint32_t pw_topology_vertex_of(const pw_topology *topology, uint32_t place);
static inline bool pw_topology_bit(const uint64_t *bits, uint32_t number)
{
    return bits && bits[number / 64] >> number % 64 & 1;
}
static inline void pw_topology_set_bit(uint64_t *bits, uint32_t number)
{
    bits[number / 64] |= UINT64_C(1) << number % 64;
}
/* The bits of the links that are named. is_inwards: of a router those that lead to it. False: no
 * memory, or the reason. */
bool pw_topology_read_names(pw_topology *topology, const char *names, bool is_inwards,
                            uint64_t **bits);
/* Find what goes round failures.failed. False: no memory, or the reason. */
bool pw_failures_find(pw_topology *topology, const char *names);
/* The usual way with its failed links gone round; it may stand in `links` already. */
uint32_t pw_failures_go_round(const pw_topology *topology, uint32_t num_links, uint32_t *links);
bool pw_failures_is_clean(const pw_topology *topology, const uint32_t *links, uint32_t num_links);
void pw_failures_finish(pw_failures *failures);
/* A number that looks random, of a few others. */
static inline uint64_t pw_topology_mix(uint64_t seed)
{
    seed += UINT64_C(0x9e3779b97f4a7c15);
    seed = (seed ^ seed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    seed = (seed ^ seed >> 27) * UINT64_C(0x94d049bb133111eb);
    return seed ^ seed >> 31;
}
#endif
