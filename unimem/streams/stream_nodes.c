#include "unimem/streams/stream_nodes.h"
#include "native/status.h"
#include "node/door/door.h"
#include "unimem/streams/node_streams.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PROBED_PAGES 512
/* What the tables of the last level but one map: an arena that begins there has walks that do not
 * depend on where the host's kernel has put it. */
#define ARENA_ALIGNMENT (UINT64_C(1) << 30)

typedef struct {
    pagewire_node *door;
    unimem *memory;
    pw_node_streams *streams;
    uint8_t *arena; /* NULL: none */
    size_t arena_bytes;
} emulated;

struct pw_stream_nodes {
    pagewire_network *network;
    uint32_t num_nodes;
    emulated nodes[];
};

static int create_nodes(pw_stream_nodes *self, const pw_stream_nodes_options *options, char *reason,
                        size_t reason_bytes)
{
    pagewire_options wanted;
    pagewire_options_default(&wanted);
    wanted.network = self->network;
    wanted.reason = reason;
    wanted.reason_bytes = reason_bytes;
    for (uint32_t i = 0; i < self->num_nodes; i++) {
        emulated *node = &self->nodes[i];
        wanted.node = i;
        wanted.settings = options->settings[i];
        int code = pagewire_node_create(&wanted, &node->door);
        if (code < 0) return code;
        code = unimem_create(node->door, NULL, &node->memory);
        if (code < 0) {
            snprintf(reason, reason_bytes, "%s", pagewire_reason(node->door));
            return code;
        }
    }
    return PW_OK;
}

static int map_arena(emulated *node, size_t num_bytes, uint64_t *arena)
{
    size_t mapped_bytes = num_bytes + ARENA_ALIGNMENT;
    uint8_t *mapped = mmap(NULL, mapped_bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return PW_ERR_NOMEM;
    size_t before = -(uintptr_t)mapped & (ARENA_ALIGNMENT - 1);
    if (before) munmap(mapped, before);
    munmap(mapped + before + num_bytes, ARENA_ALIGNMENT - before);
    node->arena = mapped + before;
    node->arena_bytes = num_bytes;
    madvise(node->arena, num_bytes, MADV_NOHUGEPAGE);
    *arena = (uintptr_t)node->arena;
    return PW_OK;
}

static int create_streams(pw_stream_nodes *self, const pw_stream_nodes_options *options,
                          const uint64_t *arenas)
{
    for (uint32_t i = 0; i < self->num_nodes; i++) {
        emulated *node = &self->nodes[i];
        const pw_streams_options rings = {i, self->num_nodes, options->num_slots,
                                          options->ring_bytes, node->arena};
        int code = pw_node_streams_create(node->door, node->memory, &rings, arenas, &node->streams);
        if (code < 0) return code;
    }
    return PW_OK;
}

static int create(pw_stream_nodes *self, const pw_stream_nodes_options *options, char *reason,
                  size_t reason_bytes)
{
    uint64_t *arenas = malloc(self->num_nodes * sizeof *arenas);
    int code = arenas ? pagewire_network_create(self->num_nodes, &self->network) : PW_ERR_NOMEM;
    uint64_t arena_bytes = pw_streams_arena_bytes(options->num_slots, options->ring_bytes);
    for (uint32_t i = 0; code == PW_OK && i < self->num_nodes; i++)
        code = map_arena(&self->nodes[i], arena_bytes, &arenas[i]);
    if (code == PW_OK) code = create_nodes(self, options, reason, reason_bytes);
    if (code == PW_OK) code = create_streams(self, options, arenas);
    free(arenas);
    return code;
}

int pw_stream_nodes_create(const pw_stream_nodes_options *options, char *reason,
                           size_t reason_bytes, pw_stream_nodes **out)
{
    uint32_t num_nodes = options->num_nodes;
    pw_stream_nodes *self = calloc(1, sizeof *self + num_nodes * sizeof *self->nodes);
    if (!self) return PW_ERR_NOMEM;
    self->num_nodes = num_nodes;
    int code = create(self, options, reason, reason_bytes);
    if (code < 0) pw_stream_nodes_destroy(self);
    else *out = self;
    return code;
}

void pw_stream_nodes_destroy(pw_stream_nodes *nodes)
{
    for (uint32_t i = 0; i < nodes->num_nodes; i++) {
        pw_node_streams_destroy(nodes->nodes[i].streams);
        unimem_destroy(nodes->nodes[i].memory);
    }
    for (uint32_t i = 0; i < nodes->num_nodes; i++) pagewire_node_destroy(nodes->nodes[i].door);
    pagewire_network_destroy(nodes->network);
    for (uint32_t i = 0; i < nodes->num_nodes; i++)
        if (nodes->nodes[i].arena) munmap(nodes->nodes[i].arena, nodes->nodes[i].arena_bytes);
    free(nodes);
}

pagewire_node *pw_stream_nodes_door(const pw_stream_nodes *nodes, uint32_t node)
{
    return nodes->nodes[node].door;
}

pw_node_streams *pw_stream_nodes_on_node(const pw_stream_nodes *nodes, uint32_t node)
{
    return nodes->nodes[node].streams;
}

pw_streams *pw_stream_nodes_streams(pw_stream_nodes *nodes, uint32_t node)
{
    return pw_node_streams_of(nodes->nodes[node].streams);
}

/* ---- moving */

/* A node moves up to its clock, and all others without limit: so all of them in a round. What a
 * node has sent without telling of anything is noticed in the round behind. */
static int move_network(pw_stream_nodes *self)
{
    for (int num_idle_rounds = 0; num_idle_rounds < 2;) {
        int moved = 0;
        for (uint32_t i = 0; i < self->num_nodes; i++) {
            int code = pagewire_progress(self->nodes[i].door, 0);
            if (code < 0) return code;
            moved |= code;
        }
        num_idle_rounds = moved ? 0 : num_idle_rounds + 1;
    }
    return PW_OK;
}

int pw_stream_nodes_step(pw_stream_nodes *nodes, uint32_t *node)
{
    int64_t first_ns = PW_NEVER;
    uint32_t chosen = 0;
    int code = PW_OK;
    for (uint32_t i = 0; i < nodes->num_nodes && code >= 0; i++)
        code = pw_streams_move(pw_stream_nodes_streams(nodes, i)); /* what an accept has left */
    if (code >= 0) code = move_network(nodes);
    if (code < 0) return code;
    for (uint32_t i = 0; i < nodes->num_nodes; i++) {
        int64_t next_ns = pw_node_streams_next_ns(nodes->nodes[i].streams);
        if (next_ns == PW_NEVER) continue;
        int64_t free_ns = pagewire_clock_ns(nodes->nodes[i].door);
        if (free_ns > next_ns) next_ns = free_ns;
        if (next_ns >= first_ns) continue;
        first_ns = next_ns;
        chosen = i;
    }
    if (first_ns == PW_NEVER) return 0;
    *node = chosen;
    return pw_node_streams_take(nodes->nodes[chosen].streams);
}

/* ---- the CPU */

/* Copying to or from the ring, with the CPU's own faults there. */
static int pass_copy(pw_stream_nodes *self, uint32_t idx, const uint8_t *ring, uint32_t num_bytes,
                     bool for_write)
{
    pw_node *node = pw_door_node(self->nodes[idx].door);
    pw_memory *memory = pw_node_memory(node);
    const pw_cost_tables *tables = pw_node_tables(node);
    pw_memory_counters before, after;
    uint64_t address = (uintptr_t)ring, first_page = pw_page_of(address), num_absent = 0;
    uint64_t num_pages = pw_page_of(address + num_bytes - 1) - first_page + 1;
    pw_memory_read_counters(memory, &before);
    int code = pw_memory_populate(memory, first_page, num_pages, for_write, &num_absent);
    if (code < 0)
        return pw_door_fail(self->nodes[idx].door, code,
                            "copy of %u bytes: no frame for a page: %s", num_bytes,
                            pw_status_text(code));
    pw_memory_read_counters(memory, &after);
    uint64_t num_major = after.major_faults - before.major_faults;
    pw_node_clock(node)->now_ns += pw_cost_bytes_ns(tables, PW_COST_COPY, num_bytes) +
                                   pw_cost_ns(tables, PW_COST_TOUCH_ABSENT, num_absent) +
                                   (int64_t)num_major * pw_node_costs(node)->major_fault_ns;
    return PW_OK;
}

int64_t pw_stream_nodes_send(pw_stream_nodes *nodes, uint32_t node, uint32_t connection,
                             const void *data, uint32_t num_bytes)
{
    pw_streams *streams = pw_stream_nodes_streams(nodes, node);
    uint8_t *room;
    uint32_t most = pw_streams_room(streams, connection, &room);
    if (num_bytes > most) num_bytes = most;
    if (!num_bytes) return 0;
    int code = pass_copy(nodes, node, room, num_bytes, true);
    if (code < 0) return code;
    memcpy(room, data, num_bytes);
    code = pw_streams_queue(streams, connection, num_bytes);
    return code < 0 ? code : (int64_t)num_bytes;
}

int64_t pw_stream_nodes_receive(pw_stream_nodes *nodes, uint32_t node, uint32_t connection,
                                void *data, uint32_t num_bytes)
{
    const uint8_t *here;
    uint32_t most = pw_node_streams_here(nodes->nodes[node].streams, connection, &here);
    if (num_bytes > most) num_bytes = most;
    if (!num_bytes) return 0;
    int code = pass_copy(nodes, node, here, num_bytes, false);
    if (code < 0) return code;
    memcpy(data, here, num_bytes);
    code = pw_streams_consume(pw_stream_nodes_streams(nodes, node), connection, num_bytes);
    return code < 0 ? code : (int64_t)num_bytes;
}

int64_t pw_stream_nodes_resident(const pw_stream_nodes *nodes, uint32_t node)
{
    const emulated *one = &nodes->nodes[node];
    pw_memory *memory = pw_node_memory(pw_door_node(one->door));
    uint64_t first_page = pw_page_of((uintptr_t)one->arena);
    uint64_t num_pages = pw_page_of((uintptr_t)one->arena + one->arena_bytes - 1) - first_page + 1;
    uint8_t state[PROBED_PAGES];
    int64_t num_resident = 0;
    for (uint64_t done = 0; done < num_pages; done += PROBED_PAGES) {
        uint64_t num_now = num_pages - done < PROBED_PAGES ? num_pages - done : PROBED_PAGES;
        int code = pw_memory_probe(memory, first_page + done, num_now, state);
        if (code < 0) return code;
        for (uint64_t i = 0; i < num_now; i++) num_resident += state[i] == PW_PAGE_PRESENT;
    }
    return num_resident;
}
