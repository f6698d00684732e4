/* The text of a topology, where nodes stand, and what all kinds have in common. */
#include "network/topology_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "native/status.h"

static const struct {
    const char *name;
    const pw_topology_kind *kind;
} kinds[] = {
    {"qfdb", &pw_topology_qfdb},           {"torus", &pw_topology_torus},
    {"mesh", &pw_topology_mesh},           {"fat-tree", &pw_topology_fat_tree},
    {"dragonfly", &pw_topology_dragonfly}, {"full", &pw_topology_full},
    {"file", &pw_topology_file},
};

bool pw_topology_refuse(pw_topology *topology, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(topology->reason, PW_TOPOLOGY_REASON_BYTES, format, arguments);
    va_end(arguments);
    return false;
}

uint32_t pw_topology_numbers(const char **text, char separator, uint32_t *out, uint32_t max)
{
    uint32_t count = 0;
    do {
        char *end;
        if (**text < '0' || **text > '9' || count == max) return 0;
        errno = 0;
        const unsigned long long number = strtoull(*text, &end, 10);
        if (errno || number == 0 || number > PW_TOPOLOGY_PLACES_MAX) return 0;
        out[count++] = (uint32_t)number;
        *text = end;
    } while (**text == separator && ++*text);
    return count;
}

uint32_t pw_topology_product(const uint32_t *factors, uint32_t num_factors)
{
    uint64_t product = 1;
    for (uint32_t i = 0; i < num_factors; i++) {
        product *= factors[i];
        if (product > PW_TOPOLOGY_PLACES_MAX) return UINT32_MAX;
    }
    return (uint32_t)product;
}

/* ---- where nodes stand */

static void place_in_turn(pw_topology *topology)
{
    const uint32_t size = topology->per_board;
    const uint32_t boards = (topology->num_places + size - 1) / size;
    uint32_t node = 0;
    for (uint32_t slot = 0; slot < size; slot++)
        for (uint32_t board = 0; board < boards && node < topology->num_nodes; board++) {
            const uint32_t place = board * size + slot;
            if (place < topology->num_places) topology->place_of[node++] = place;
        }
}

/* The first num_nodes of a shuffled deck. False: no memory. */
static bool place_at_random(pw_topology *topology, uint64_t seed)
{
    uint32_t *deck = malloc(topology->num_places * sizeof *deck);
    if (!deck) return false;
    for (uint32_t i = 0; i < topology->num_places; i++) deck[i] = i;
    for (uint32_t i = 0; i < topology->num_nodes; i++) {
        seed = pw_topology_mix(seed + i);
        const uint32_t other = i + (uint32_t)(seed % (topology->num_places - i));
        const uint32_t drawn = deck[other];
        deck[other] = deck[i];
        topology->place_of[i] = drawn;
    }
    free(deck);
    return true;
}

/* PW_OK, or a code with the reason. */
static int place_by_file(pw_topology *topology, const char *path)
{
    FILE *file = fopen(path, "r");
    unsigned char *taken = calloc(topology->num_places, 1);
    uint32_t node = 0;
    int code = file && taken ? PW_OK : file ? PW_ERR_NOMEM : PW_ERR_HOST;
    if (!file) pw_topology_refuse(topology, "placement '%s': %s", path, strerror(errno));
    while (code == PW_OK && node < topology->num_nodes) {
        uint64_t place;
        if (fscanf(file, "%" SCNu64, &place) != 1) {
            pw_topology_refuse(topology,
                               "placement '%s' has %u numbers: one is needed for each of "
                               "%u nodes",
                               path, node, topology->num_nodes);
            code = PW_ERR_INVALID;
        } else if (place >= topology->num_places || taken[place]) {
            pw_topology_refuse(
                topology, "placement '%s', node %u: place %" PRIu64 " is taken, or not below %u",
                path, node, place, topology->num_places);
            code = PW_ERR_INVALID;
        } else {
            taken[place] = 1;
            topology->place_of[node++] = (uint32_t)place;
        }
    }
    if (file) fclose(file);
    free(taken);
    return code;
}

static int place(pw_topology *topology, const char *placement)
{
    uint64_t seed;
    char behind;
    if (!*placement || !strcmp(placement, "packed")) return PW_OK;
    topology->place_of = calloc(topology->num_nodes, sizeof *topology->place_of);
    if (!topology->place_of) return PW_ERR_NOMEM;
    if (!strcmp(placement, "round-robin")) {
        place_in_turn(topology);
        return PW_OK;
    }
    if (sscanf(placement, "random:%" SCNu64 "%c", &seed, &behind) == 1)
        return place_at_random(topology, seed) ? PW_OK : PW_ERR_NOMEM;
    if (!strncmp(placement, "random", 6)) {
        pw_topology_refuse(topology, "placement '%s': a seed follows, as in random:1", placement);
        return PW_ERR_INVALID;
    }
    return place_by_file(topology, placement);
}

uint32_t pw_topology_place(const pw_topology *topology, uint32_t node)
{
    const uint32_t number = node / topology->together;
    return topology->place_of ? topology->place_of[number] : number;
}

void pw_topology_set_together(pw_topology *topology, uint32_t num_together)
{
    topology->together = num_together;
}

uint32_t pw_topology_together(const pw_topology *topology) { return topology->together; }

/* ---- its life */

static bool read_kind(pw_topology *topology, const char *text)
{
    const size_t length = strcspn(text, ":");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strlen(kinds[i].name) != length || strncmp(kinds[i].name, text, length)) continue;
        topology->kind = kinds[i].kind;
        if (topology->kind->read(topology, text[length] ? text + length + 1 : "")) return true;
        if (*topology->reason) return false;
        return pw_topology_refuse(topology, "topology '%s': it is %s", text, topology->kind->form);
    }
    return pw_topology_refuse(topology,
                              "topology '%s': allowed is one of qfdb, torus, mesh, "
                              "fat-tree, dragonfly, full, file",
                              text);
}

static int make(pw_topology *topology, const char *text, const char *placement)
{
    errno = 0;
    if (!read_kind(topology, text)) return errno == ENOMEM ? PW_ERR_NOMEM : PW_ERR_INVALID;
    if (topology->num_places < topology->num_nodes) {
        pw_topology_refuse(topology, "topology '%s' has %u places for %u nodes; take a larger one",
                           text, topology->num_places, topology->num_nodes);
        return PW_ERR_INVALID;
    }
    return place(topology, placement);
}

int pw_topology_create(const char *text, const char *placement, uint32_t num_nodes,
                       uint32_t nodes_per_board, pw_topology **out,
                       char reason[PW_TOPOLOGY_REASON_BYTES])
{
    *out = NULL;
    *reason = '\0';
    pw_topology *topology = calloc(1, sizeof *topology);
    if (!topology) return PW_ERR_NOMEM;
    topology->reason = reason;
    topology->num_nodes = num_nodes;
    topology->per_board = nodes_per_board;
    topology->together = 1;
    topology->num_ways = 1;
    const int code = make(topology, text, placement);
    if (code < 0) {
        if (!*reason) snprintf(reason, PW_TOPOLOGY_REASON_BYTES, "no memory for a topology");
        pw_topology_destroy(topology);
        return code;
    }
    topology->reason = NULL;
    *out = topology;
    return PW_OK;
}

void pw_topology_destroy(pw_topology *topology)
{
    if (!topology) return;
    if (topology->kind == &pw_topology_file) {
        free(topology->graph.next);
        free(topology->graph.places);
        free(topology->graph.links);
    }
    pw_failures_finish(&topology->failures);
    free(topology->lossy);
    free(topology->place_of);
    free(topology);
}

uint32_t pw_topology_num_places(const pw_topology *topology) { return topology->num_places; }
uint32_t pw_topology_num_routers(const pw_topology *topology) { return topology->num_routers; }
uint32_t pw_topology_num_links(const pw_topology *topology) { return topology->num_links; }

void pw_topology_link_at(const pw_topology *topology, uint32_t link, pw_topology_link *out)
{
    topology->kind->link_at(topology, link, out);
}

uint32_t pw_topology_num_vertices(const pw_topology *topology)
{
    return topology->num_routers +
           (topology->kind == &pw_topology_dragonfly ? topology->num_places : 0);
}

uint32_t pw_topology_vertex_of(const pw_topology *topology, uint32_t place)
{
    if (topology->kind == &pw_topology_file) return topology->graph.places[place];
    return topology->kind == &pw_topology_dragonfly ? topology->num_routers + place : place;
}

/* ---- links that fail or lose */

static int code_of(pw_topology *topology, bool is_good, char *reason)
{
    topology->reason = NULL;
    if (is_good) return PW_OK;
    if (*reason) return PW_ERR_INVALID;
    snprintf(reason, PW_TOPOLOGY_REASON_BYTES, "no memory for the links of a topology");
    return PW_ERR_NOMEM;
}

int pw_topology_fail(pw_topology *topology, const char *names,
                     char reason[PW_TOPOLOGY_REASON_BYTES])
{
    *reason = '\0';
    if (!*names) return PW_OK;
    topology->reason = reason;
    const bool is_good =
        pw_topology_read_names(topology, names, false, &topology->failures.failed) &&
        pw_failures_find(topology, names) &&
        (!topology->kind->find_ways || topology->kind->find_ways(topology));
    return code_of(topology, is_good, reason);
}

int pw_topology_mark_lossy(pw_topology *topology, const char *names,
                           char reason[PW_TOPOLOGY_REASON_BYTES])
{
    *reason = '\0';
    if (!*names) return PW_OK;
    topology->reason = reason;
    return code_of(topology, pw_topology_read_names(topology, names, true, &topology->lossy),
                   reason);
}

int pw_topology_make(const pw_network_texts *texts, uint32_t num_nodes, uint32_t nodes_per_board,
                     pw_topology **out, char reason[PW_TOPOLOGY_REASON_BYTES])
{
    int code = pw_topology_create(texts->topology, texts->placement, num_nodes, nodes_per_board,
                                  out, reason);
    if (code == PW_OK) code = pw_topology_fail(*out, texts->failed, reason);
    if (code == PW_OK) code = pw_topology_mark_lossy(*out, texts->lossy, reason);
    if (code == PW_OK) return PW_OK;
    pw_topology_destroy(*out);
    *out = NULL;
    return code;
}

bool pw_topology_is_failed(const pw_topology *topology, uint32_t link)
{
    return pw_topology_bit(topology->failures.failed, link);
}

uint32_t pw_topology_num_working(const pw_topology *topology)
{
    uint32_t num_working = 0;
    for (uint32_t i = 0; i < pw_topology_num_links(topology); i++) {
        pw_topology_link link;
        pw_topology_link_at(topology, i, &link);
        num_working += link.source != link.target && !pw_topology_is_failed(topology, i);
    }
    return num_working;
}

bool pw_topology_is_lossy(const pw_topology *topology, uint32_t link)
{
    return pw_topology_bit(topology->lossy, link);
}

bool pw_topology_has_lossy(const pw_topology *topology) { return topology->lossy != NULL; }

/* ---- ways */

/* Of the usual ways the first, from the wished one on, that meets no failed link; else that one,
 * round them. */
static uint32_t route(const pw_topology *topology, pw_route_wish *wish, uint32_t *links)
{
    const uint32_t first = wish->variant;
    uint32_t num_links = topology->kind->route(topology, wish, links);
    if (!topology->failures.failed || pw_failures_is_clean(topology, links, num_links))
        return num_links;
    for (uint32_t i = 1; i < topology->num_ways; i++) {
        wish->variant = first + i;
        num_links = topology->kind->route(topology, wish, links);
        if (pw_failures_is_clean(topology, links, num_links)) return num_links;
    }
    wish->variant = first;
    return pw_failures_go_round(topology, topology->kind->route(topology, wish, links), links);
}

uint32_t pw_topology_route_by(const pw_topology *topology, uint32_t from, uint32_t to,
                              uint32_t variant, uint64_t salt, pw_link_backlog backlog,
                              const void *context, uint32_t *links)
{
    pw_route_wish wish = {.from = pw_topology_place(topology, from),
                          .to = pw_topology_place(topology, to),
                          .variant = variant,
                          .salt = salt,
                          .backlog = backlog,
                          .context = context};
    return wish.from == wish.to ? 0 : route(topology, &wish, links);
}

uint32_t pw_topology_route(const pw_topology *topology, uint32_t from, uint32_t to,
                           uint32_t variant, uint64_t salt, uint32_t *links)
{
    return pw_topology_route_by(topology, from, to, variant, salt, NULL, NULL, links);
}

uint32_t pw_topology_hops(const pw_topology *topology, uint32_t from, uint32_t to)
{
    uint32_t links[PW_ROUTE_MAX];
    const uint32_t there = pw_topology_route(topology, from, to, 0, 0, links);
    const uint32_t back = pw_topology_route(topology, to, from, 0, 0, links);
    return there > back ? there : back;
}

uint32_t pw_topology_tier(const pw_topology *topology, uint32_t from, uint32_t to)
{
    uint32_t links[PW_ROUTE_MAX], tier = PW_TIER_INSIDE;
    const uint32_t num_links = pw_topology_route(topology, from, to, 0, 0, links);
    for (uint32_t i = 0; i < num_links; i++) {
        pw_topology_link link;
        pw_topology_link_at(topology, links[i], &link);
        if (link.tier > tier) tier = link.tier;
    }
    return tier;
}
