/* The network between nodes: topologies, routes, placement, links that nodes share.
 *
 * Which links a block passes from one node to another, in the machine's own network and others.
 * A place is where a node can stand; a router has links, and in most topologies each place is one.
 * Routes are arithmetic, or out of a table for a graph of a user's own. Read-only once it is made:
 * all nodes of a process share it. */
#ifndef PW_NETWORK_TOPOLOGY_H
#define PW_NETWORK_TOPOLOGY_H
#include "native/types.h"

/* cdef begin */
typedef struct pw_topology pw_topology;

#define PW_ROUTE_MAX 1024            /* links of a route, round those that have failed too */
#define PW_WAY_MAX 128               /* of one where none has failed */
#define PW_TOPOLOGY_DIMENSIONS 8     /* of a torus or mesh */
#define PW_TOPOLOGY_LEVELS 8         /* of a fat tree */
#define PW_TOPOLOGY_ROUTERS_MAX 4096 /* of a graph: its table has their square */
#define PW_TOPOLOGY_PLACES_MAX 4194304
#define PW_TOPOLOGY_REASON_BYTES 256

/* Which of a topology's rates and names a link has. */
#define PW_TIER_INSIDE 0  /* between nodes of a QFDB */
#define PW_TIER_BETWEEN 1 /* all others */

typedef struct {
    /* Routers: switches of a fat tree stand behind its places, level by level, places of a
     * dragonfly behind its routers. The same: there is no such link, as at the border of a mesh. */
    uint32_t source, target;
    uint32_t tier;  /* PW_TIER_* */
    uint32_t cable; /* of those between the same two */
} pw_topology_link;

/* text:
 *   qfdb, or qfdb:4x2x2    boards of nodes, joined all to all; a torus of boards [PART 4.1].
 * Without a shape: rings of four boards, a blade each, as square as it goes torus:16x8x8 a router a
 * node; dimension order, the shorter way round mesh:16x16             the same without the ways
 * round fat-tree:L;down;up;cables   D-mod-k: fat-tree:2;4,4;1,2;1,2 has two levels, 4 and 4 below a
 *                          switch, 1 and 2 above, joined by 1 and 2 cables
 *   dragonfly:g,c;k,c;r,c;n     groups, chassis a group, routers a chassis, each with the cables
 *                          between two of them; nodes a router. Then ;minimal, ;valiant or ;ugal
 *   full                   a link from each to each
 *   file:PATH              routers and links of a file: see network/graphs.py
 * num_nodes: that stand in it; nodes_per_board: of qfdb. PW_ERR_INVALID, PW_ERR_NOMEM or
 * PW_ERR_HOST (errno): reason is a sentence. */
int pw_topology_create(const char *text, const char *placement, uint32_t num_nodes,
                       uint32_t nodes_per_board, pw_topology **out,
                       char reason[PW_TOPOLOGY_REASON_BYTES]);
void pw_topology_destroy(pw_topology *topology);
/* Take cables away, once, before anybody asks for a way: both directions of each that is named, and
 * ways go round them. names: as name_of of network/topology.py has it, "2 to 3" or "F0 of QFDB 1 to
 * 2, cable 1"; by routers' numbers in any topology; "router 5": all that it has; between them
 * commas or semicolons. Or the path of a file of such. Errors as above; one too where no way is
 * left between two nodes: the topology is of no use then. */
int pw_topology_fail(pw_topology *topology, const char *names,
                     char reason[PW_TOPOLOGY_REASON_BYTES]);
/* Mark cables that lose packets, in the same way; "router 5": those that lead to it. */
int pw_topology_mark_lossy(pw_topology *topology, const char *names,
                           char reason[PW_TOPOLOGY_REASON_BYTES]);
/* What the settings say of the network, each as above. */
typedef struct {
    const char *topology, *placement, *failed, *lossy;
} pw_network_texts;
/* All of that. A code with the reason, and *out is NULL. */
int pw_topology_make(const pw_network_texts *texts, uint32_t num_nodes, uint32_t nodes_per_board,
                     pw_topology **out, char reason[PW_TOPOLOGY_REASON_BYTES]);
/* link below pw_topology_num_links. */
bool pw_topology_is_failed(const pw_topology *topology, uint32_t link);
/* Links that there are and work: some numbers have none. */
uint32_t pw_topology_num_working(const pw_topology *topology);
bool pw_topology_is_lossy(const pw_topology *topology, uint32_t link);
/* Is there any? */
bool pw_topology_has_lossy(const pw_topology *topology);
uint32_t pw_topology_num_places(const pw_topology *topology);
uint32_t pw_topology_num_routers(const pw_topology *topology);
uint32_t pw_topology_num_links(const pw_topology *topology);
/* Of a torus, a mesh, or the torus of boards of qfdb: places by dimension, and how many those are;
 * 0 for the others. A place's number counts the first dimension fastest. */
uint32_t pw_topology_sides(const pw_topology *topology, uint32_t sides[PW_TOPOLOGY_DIMENSIONS]);
/* So many nodes in a row stand at each place, the first of them where it stands without this: ranks
 * that share a node. num_nodes of the topology then counts places that are taken. */
void pw_topology_set_together(pw_topology *topology, uint32_t num_together);
uint32_t pw_topology_together(const pw_topology *topology);
/* Where a node stands. placement: packed: node i at place i; round-robin: one after the other on
 * each board, switch, router or first dimension; random:SEED; or the path of a file of numbers, a
 * place for each node. */
uint32_t pw_topology_place(const pw_topology *topology, uint32_t node);
/* link below pw_topology_num_links. */
void pw_topology_link_at(const pw_topology *topology, uint32_t link, pw_topology_link *out);
/* Which way of several: variant 0 is the usual one. salt: what draws are made with, where a way is
 * drawn (Valiant, UGAL). There is room for PW_ROUTE_MAX links in `links`. Returns how many there
 * are; 0 from a node to itself. */
uint32_t pw_topology_route(const pw_topology *topology, uint32_t from, uint32_t to,
                           uint32_t variant, uint64_t salt, uint32_t *links);
/* Links of the usual way, or of the one back if there are more: bounds that both ends tell each
 * other rely on one latency of a pair. */
uint32_t pw_topology_hops(const pw_topology *topology, uint32_t from, uint32_t to);
/* The slowest of its links is of this tier. */
uint32_t pw_topology_tier(const pw_topology *topology, uint32_t from, uint32_t to);
/* cdef end */

/* How long a link is busy already, for routes that look at that (UGAL). */
typedef int64_t (*pw_link_backlog)(const void *context, uint32_t link);
uint32_t pw_topology_route_by(const pw_topology *topology, uint32_t from, uint32_t to,
                              uint32_t variant, uint64_t salt, pw_link_backlog backlog,
                              const void *context, uint32_t *links);
#endif
