/* Ways round failed links. A usual way that meets one leaves it at the router before, takes the
 * shortest way to the next router of the usual one that can be reached, and goes on; what it would
 * pass twice is cut out. Those short ways are found once, from each router at a failed link to the
 * others there, so that the table grows with the failures and not with the machine. */
#include "network/topology_state.h"

#include <stdlib.h>
#include <string.h>

#include "native/array.h"

#define NONE UINT32_MAX
#define DETOURS_MAX 4194304u
#define SHOWN 100 /* characters of the names */

/* While it is found. */
typedef struct {
    pw_topology *topology;
    uint32_t num_vertices;
    uint32_t *starts, *order; /* links by the vertex that they leave */
    uint32_t *came_by;        /* the link by which a search came to a vertex; NONE: it did not */
    uint32_t *queue;
    uint32_t *part; /* of a vertex that cannot be reached: number of what hangs together */
} search;

static void finish(search *self)
{
    free(self->starts);
    free(self->order);
    free(self->came_by);
    free(self->queue);
    free(self->part);
}

static void link_at(const search *self, uint32_t link, pw_topology_link *out)
{
    pw_topology_link_at(self->topology, link, out);
}

static bool begin(search *self)
{
    const uint32_t num_links = self->topology->num_links, num_vertices = self->num_vertices;
    pw_topology_link link;
    self->starts = calloc((size_t)num_vertices + 2, sizeof *self->starts);
    self->order = calloc((size_t)num_links + 1, sizeof *self->order);
    self->came_by = malloc(num_vertices * sizeof *self->came_by);
    self->queue = malloc(num_vertices * sizeof *self->queue);
    self->part = malloc(num_vertices * sizeof *self->part);
    self->topology->failures.reached = calloc(num_vertices / 64 + 1, sizeof(uint64_t));
    if (!self->starts || !self->order || !self->came_by || !self->queue || !self->part ||
        !self->topology->failures.reached)
        return false;
    memset(self->came_by, 0xff, num_vertices * sizeof *self->came_by);
    memset(self->part, 0xff, num_vertices * sizeof *self->part);
    for (uint32_t i = 0; i < num_links; i++) {
        link_at(self, i, &link);
        self->starts[link.source + 2]++;
    }
    for (uint32_t v = 0; v < num_vertices; v++) self->starts[v + 2] += self->starts[v + 1];
    for (uint32_t i = 0; i < num_links; i++) {
        link_at(self, i, &link);
        self->order[self->starts[link.source + 1]++] = i;
    }
    return true;
}

/* Search from a vertex until `num_wanted` others of those with a bit are found; how many vertices
 * stand in the queue then. came_by of those has to be cleared. */
static uint32_t spread(search *self, uint32_t from, const uint64_t *wanted, uint32_t num_wanted)
{
    uint32_t head = 0, tail = 0;
    self->came_by[from] = NONE - 1;
    self->queue[tail++] = from;
    while (head < tail && num_wanted) {
        const uint32_t at = self->queue[head++];
        for (uint32_t i = self->starts[at]; i < self->starts[at + 1] && num_wanted; i++) {
            pw_topology_link link;
            if (pw_topology_is_failed(self->topology, self->order[i])) continue;
            link_at(self, self->order[i], &link);
            if (self->came_by[link.target] != NONE) continue;
            self->came_by[link.target] = self->order[i];
            self->queue[tail++] = link.target;
            num_wanted -= pw_topology_bit(wanted, link.target);
        }
    }
    return tail;
}

static void forget(search *self, uint32_t num_queued)
{
    for (uint32_t i = 0; i < num_queued; i++) self->came_by[self->queue[i]] = NONE;
}

/* Which vertices the first node reaches. False: not all nodes stand there. */
static bool find_reached(search *self, const char *names)
{
    pw_topology *topology = self->topology;
    const uint32_t first = pw_topology_vertex_of(topology, pw_topology_place(topology, 0));
    const uint32_t num_queued = spread(self, first, NULL, NONE);
    for (uint32_t i = 0; i < num_queued; i++)
        pw_topology_set_bit(topology->failures.reached, self->queue[i]);
    forget(self, num_queued);
    for (uint32_t node = 1; node < topology->num_nodes; node++) {
        const uint32_t at = pw_topology_vertex_of(topology, pw_topology_place(topology, node));
        if (!pw_topology_bit(topology->failures.reached, at))
            return pw_topology_refuse(topology,
                                      "no way is left from node 0 to node %u: failed are '%.*s'; "
                                      "let some work, or place nodes elsewhere",
                                      node, SHOWN, names);
    }
    return true;
}

/* ---- between whom */

static bool is_reached(const search *self, uint32_t vertex)
{
    return pw_topology_bit(self->topology->failures.reached, vertex);
}

static bool want(search *self, uint32_t from, uint32_t to)
{
    pw_failures *failures = &self->topology->failures;
    if (from == to) return true;
    if (failures->num_detours == DETOURS_MAX)
        return pw_topology_refuse(
            self->topology, "failed links: more than %u ways round them; name fewer", DETOURS_MAX);
    if (PW_ARRAY_MAKE_ROOM(failures->detours, failures->num_detours, failures->capacity, 16) < 0)
        return false;
    failures->detours[failures->num_detours++] = (pw_detour){.ends = (uint64_t)from << 32 | to};
    return true;
}

/* All that hangs together with a vertex out of reach. Its rim, the vertices in reach at it, stands
 * in the queue: a way may come in at any of it and go out at any other. */
static uint32_t find_rim(search *self, uint32_t from)
{
    uint32_t head = 0, tail = 0, num_rim = 0;
    self->part[from] = from;
    self->queue[tail++] = from;
    while (head < tail) {
        const uint32_t at = self->queue[head++];
        for (uint32_t i = self->starts[at]; i < self->starts[at + 1]; i++) {
            pw_topology_link link;
            link_at(self, self->order[i], &link);
            if (self->part[link.target] == from) continue;
            self->part[link.target] = from;
            if (is_reached(self, link.target)) self->came_by[num_rim++] = link.target;
            else self->queue[tail++] = link.target;
        }
    }
    for (uint32_t i = 0; i < num_rim; i++) self->queue[i] = self->came_by[i];
    memset(self->came_by, 0xff, num_rim * sizeof *self->came_by);
    return num_rim;
}

static bool want_across(search *self, uint32_t vertex)
{
    const uint32_t num_rim = find_rim(self, vertex);
    for (uint32_t i = 0; i < num_rim; i++)
        for (uint32_t j = 0; j < num_rim; j++)
            if (!want(self, self->queue[i], self->queue[j])) return false;
    return true;
}

static bool want_all(search *self)
{
    for (uint32_t i = 0; i < self->topology->num_links; i++) {
        pw_topology_link link;
        if (!pw_topology_is_failed(self->topology, i)) continue;
        link_at(self, i, &link);
        const bool is_out = !is_reached(self, link.target);
        if (is_reached(self, link.source) && !is_out && !want(self, link.source, link.target))
            return false;
        if (is_out && self->part[link.target] == NONE && !want_across(self, link.target))
            return false;
    }
    return true;
}

/* ---- their ways */

static int compare(const void *one, const void *other)
{
    const uint64_t a = ((const pw_detour *)one)->ends, b = ((const pw_detour *)other)->ends;
    return (a > b) - (a < b);
}

static void sort(pw_failures *failures)
{
    uint32_t kept = 0;
    if (!failures->num_detours) return;
    qsort(failures->detours, failures->num_detours, sizeof *failures->detours, compare);
    for (uint32_t i = 1; i < failures->num_detours; i++)
        if (failures->detours[i].ends != failures->detours[kept].ends)
            failures->detours[++kept] = failures->detours[i];
    failures->num_detours = kept + 1;
}

/* The way by which the search came to where the detour ends. */
static bool trace(search *self, pw_detour *detour)
{
    pw_failures *failures = &self->topology->failures;
    const uint32_t from = (uint32_t)(detour->ends >> 32);
    pw_topology_link link;
    detour->first = failures->num_links;
    for (uint32_t at = (uint32_t)detour->ends; at != from; at = link.source) {
        link_at(self, self->came_by[at], &link);
        detour->num_links++;
        if (PW_ARRAY_MAKE_ROOM(failures->links, failures->num_links, failures->links_capacity, 64) <
            0)
            return false;
        failures->links[failures->num_links++] = self->came_by[at];
    }
    for (uint32_t i = 0; i < detour->num_links / 2; i++) { /* it was found backwards */
        uint32_t *low = &failures->links[detour->first + i];
        uint32_t *high = &failures->links[failures->num_links - 1 - i], link_there = *low;
        *low = *high;
        *high = link_there;
    }
    return true;
}

/* A usual way is left and taken up again at each of its links at most. */
static bool is_short(const search *self)
{
    const pw_failures *failures = &self->topology->failures;
    const uint32_t times = failures->num_detours < PW_WAY_MAX ? failures->num_detours : PW_WAY_MAX;
    for (uint32_t i = 0; i < failures->num_detours; i++)
        if (PW_WAY_MAX + (uint64_t)times * failures->detours[i].num_links > PW_ROUTE_MAX)
            return pw_topology_refuse(
                self->topology,
                "failed links: from router %u to %u it is %u links now; with "
                "%u such ways one could have more than %d",
                (uint32_t)(failures->detours[i].ends >> 32), (uint32_t)failures->detours[i].ends,
                failures->detours[i].num_links, failures->num_detours, PW_ROUTE_MAX);
    return true;
}

static bool find_detours(search *self, uint64_t *wanted)
{
    pw_failures *failures = &self->topology->failures;
    bool is_good = true;
    for (uint32_t i = 0, end; is_good && i < failures->num_detours; i = end) {
        const uint32_t from = (uint32_t)(failures->detours[i].ends >> 32);
        for (end = i; end < failures->num_detours && failures->detours[end].ends >> 32 == from;)
            pw_topology_set_bit(wanted, (uint32_t)failures->detours[end++].ends);
        const uint32_t num_queued = spread(self, from, wanted, end - i);
        for (uint32_t j = i; is_good && j < end; j++) is_good = trace(self, &failures->detours[j]);
        forget(self, num_queued);
        for (uint32_t j = i; j < end; j++) wanted[(uint32_t)failures->detours[j].ends / 64] = 0;
    }
    return is_good && is_short(self);
}

bool pw_failures_find(pw_topology *topology, const char *names)
{
    search self = {.topology = topology, .num_vertices = pw_topology_num_vertices(topology)};
    uint64_t *wanted = calloc(self.num_vertices / 64 + 1, sizeof *wanted);
    bool is_good = wanted && begin(&self) && find_reached(&self, names);
    if (is_good && !topology->kind->find_ways) {
        is_good = want_all(&self);
        sort(&topology->failures);
        is_good = is_good && find_detours(&self, wanted);
    }
    free(wanted);
    finish(&self);
    return is_good;
}

void pw_failures_finish(pw_failures *failures)
{
    free(failures->failed);
    free(failures->reached);
    free(failures->detours);
    free(failures->links);
}

/* ---- a way */

bool pw_failures_is_clean(const pw_topology *topology, const uint32_t *links, uint32_t num_links)
{
    for (uint32_t i = 0; i < num_links; i++)
        if (pw_topology_is_failed(topology, links[i])) return false;
    return true;
}

typedef struct {
    const pw_topology *topology;
    uint32_t num_links, *links;
    uint32_t at[PW_ROUTE_MAX + 1]; /* before each link, and behind the last */
} way;

/* Where it comes to a vertex a second time it did not have to leave it. */
static void append(way *self, uint32_t number)
{
    pw_topology_link link;
    pw_topology_link_at(self->topology, number, &link);
    self->at[self->num_links] = link.source;
    for (uint32_t i = 0; i <= self->num_links; i++)
        if (self->at[i] == link.target) {
            self->num_links = i;
            return;
        }
    self->links[self->num_links++] = number;
    self->at[self->num_links] = link.target;
}

static const pw_detour *detour_between(const pw_failures *failures, uint32_t from, uint32_t to)
{
    const pw_detour wanted = {.ends = (uint64_t)from << 32 | to};
    return bsearch(&wanted, failures->detours, failures->num_detours, sizeof wanted, compare);
}

uint32_t pw_failures_go_round(const pw_topology *topology, uint32_t num_links, uint32_t *links)
{
    const pw_failures *failures = &topology->failures;
    uint32_t usual[PW_WAY_MAX];
    way self = {.topology = topology, .links = links};
    memcpy(usual, links, num_links * sizeof *usual);
    for (uint32_t i = 0; i < num_links; i++) {
        pw_topology_link link;
        if (!pw_topology_is_failed(topology, usual[i])) {
            append(&self, usual[i]);
            continue;
        }
        pw_topology_link_at(topology, usual[i], &link);
        const uint32_t from = link.source;
        while (!pw_topology_bit(failures->reached, link.target))
            pw_topology_link_at(topology, usual[++i], &link);
        const pw_detour *detour = detour_between(failures, from, link.target);
        for (uint32_t j = 0; detour && j < detour->num_links; j++)
            append(&self, failures->links[detour->first + j]);
    }
    return self.num_links;
}
