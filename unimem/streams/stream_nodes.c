/* See stream_nodes.h. */
#include "unimem/streams/stream_nodes.h"
#include "native/array.h"
#include "native/status.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define WRITES 32 /* channels of the engine */
#define REFUSAL_BYTES 384
#define PROBED_PAGES 512
/* What the tables of the last level but one map: an arena that begins there has walks that do not
 * depend on where the host's kernel has put it. */
#define ARENA_ALIGNMENT (UINT64_C(1) << 30)

typedef struct {
    uint32_t source;
    uint64_t word;
    int64_t time_ns;
} message;

typedef struct {
    pagewire_operation *operation; /* NULL: free */
    uint32_t connection;
} write_under_way;

struct pw_node_streams {
    const pw_stream_nodes *all;
    pagewire_node *node;
    unimem *memory;
    pw_streams *streams;
    uint8_t *arena; /* NULL: none */
    write_under_way writes[WRITES];
    uint32_t num_writes;
    /* What the mailbox's callback has left, which may call nothing itself, in the order of time:
     * messages from first to num_messages. */
    message *inbox;
    uint32_t first, num_messages, capacity;
    uint64_t keys[PW_STREAM_SLOTS_MAX]; /* of each slot's ring while it is registered; 0: not */
    char refusal[REFUSAL_BYTES];        /* empty: none */
    bool is_short;                      /* the inbox could not grow: a message is lost */
    int failure;                        /* of a write, for good */
};

struct pw_stream_nodes {
    pagewire_network *network;
    uint32_t num_nodes, num_slots;
    size_t arena_bytes;
    pw_node_streams nodes[];
};

/* ---- what the protocol asks of a node */

static int start_write(void *context, uint32_t peer, uint32_t connection, const uint8_t *source,
                       uint64_t offset, uint32_t num_bytes)
{
    pw_node_streams *self = context;
    const pw_node_streams *there = &self->all->nodes[peer];
    uint64_t slot_bytes = self->all->arena_bytes / self->all->num_slots;
    const pagewire_transfer_options options = {.struct_size = sizeof options,
                                               .key = there->keys[offset / slot_bytes]};
    for (uint32_t i = 0; i < WRITES; i++) {
        write_under_way *entry = &self->writes[i];
        if (entry->operation) continue;
        int code = pagewire_write(self->node, peer, source, (uintptr_t)there->arena + offset,
                                  num_bytes, &options, &entry->operation);
        /* No write of this node is under way: what is full is no table, but a limit of the memory
         * strategy, which stays so. */
        if (code == PW_ERR_FULL && self->num_writes == 0) self->failure = code;
        if (code < 0) return code;
        entry->connection = connection;
        self->num_writes++;
        return PW_OK;
    }
    return PW_ERR_FULL;
}

static int send_message(void *context, uint32_t peer, uint64_t word)
{
    return unimem_send(((pw_node_streams *)context)->memory, peer, word);
}

static void keep_message(void *context, uint32_t source, uint64_t word, int64_t time_ns)
{
    pw_node_streams *self = context;
    if (PW_ARRAY_MAKE_ROOM(self->inbox, self->num_messages, self->capacity, 256) < 0) {
        self->is_short = true;
        return;
    }
    uint32_t at = self->num_messages++;
    for (; at > self->first && self->inbox[at - 1].time_ns > time_ns; at--)
        self->inbox[at] = self->inbox[at - 1];
    self->inbox[at] = (message){source, word, time_ns};
}

/* What run.memory does to a buffer that peers write to is done for as long as one may. */
static int register_ring(void *context, uint32_t slot, uint8_t *ring, uint32_t num_bytes)
{
    pw_node_streams *self = context;
    int code = pagewire_register(self->node, ring, num_bytes, &self->keys[slot]);
    if (code < 0) snprintf(self->refusal, sizeof self->refusal, "%s", pagewire_reason(self->node));
    return code;
}

static void deregister_ring(void *context, uint32_t slot)
{
    pw_node_streams *self = context;
    pagewire_deregister(self->node, self->keys[slot]);
    self->keys[slot] = 0;
}

/* ---- made, and unmade */

static int map_arena(pw_node_streams *one, size_t num_bytes)
{
    size_t mapped_bytes = num_bytes + ARENA_ALIGNMENT;
    uint8_t *mapped = mmap(NULL, mapped_bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return PW_ERR_NOMEM;
    size_t before = -(uintptr_t)mapped & (ARENA_ALIGNMENT - 1);
    if (before) munmap(mapped, before);
    munmap(mapped + before + num_bytes, ARENA_ALIGNMENT - before);
    one->arena = mapped + before;
    madvise(one->arena, num_bytes, MADV_NOHUGEPAGE);
    return PW_OK;
}

static int create_streams(pw_node_streams *one, uint32_t number, uint32_t ring_bytes)
{
    const pw_stream_nodes *all = one->all;
    const pw_streams_options rings = {number, all->num_nodes, all->num_slots, ring_bytes,
                                      one->arena};
    const pw_streams_host host = {one, start_write, send_message, register_ring, deregister_ring};
    int code = pw_streams_create(&rings, &host, &one->streams);
    return code < 0 ? code : unimem_register(one->memory, PW_STREAM_OPCODE, keep_message, one);
}

static int create_node(pw_stream_nodes *self, uint32_t number,
                       const pw_stream_nodes_options *options, char *reason, size_t reason_bytes)
{
    pw_node_streams *one = &self->nodes[number];
    pagewire_options wanted;
    one->all = self;
    int code = map_arena(one, self->arena_bytes);
    if (code < 0) return code;
    pagewire_options_default(&wanted);
    wanted.network = self->network;
    wanted.node = number;
    wanted.settings = options->settings[number];
    wanted.reason = reason;
    wanted.reason_bytes = reason_bytes;
    code = pagewire_node_create(&wanted, &one->node);
    if (code < 0) return code;
    code = unimem_create(one->node, NULL, &one->memory);
    if (code == PW_OK) return create_streams(one, number, options->ring_bytes);
    snprintf(reason, reason_bytes, "%s", pagewire_reason(one->node));
    return code;
}

int pw_stream_nodes_create(const pw_stream_nodes_options *options, char *reason,
                           size_t reason_bytes, pw_stream_nodes **out)
{
    uint32_t num_nodes = options->num_nodes;
    pw_stream_nodes *self = calloc(1, sizeof *self + num_nodes * sizeof *self->nodes);
    if (!self) return PW_ERR_NOMEM;
    self->num_nodes = num_nodes;
    self->num_slots = options->num_slots;
    self->arena_bytes = pw_streams_arena_bytes(options->num_slots, options->ring_bytes);
    int code = pagewire_network_create(num_nodes, &self->network);
    for (uint32_t i = 0; code == PW_OK && i < num_nodes; i++)
        code = create_node(self, i, options, reason, reason_bytes);
    if (code < 0) pw_stream_nodes_destroy(self);
    else *out = self;
    return code;
}

static void finish(pw_node_streams *one)
{
    if (one->streams) unimem_unregister(one->memory, PW_STREAM_OPCODE);
    for (uint32_t i = 0; i < WRITES; i++)
        if (one->writes[i].operation) pagewire_forget(one->node, &one->writes[i].operation);
    for (uint32_t slot = 0; slot < PW_STREAM_SLOTS_MAX; slot++)
        if (one->keys[slot]) deregister_ring(one, slot);
    pw_streams_destroy(one->streams);
    free(one->inbox);
    unimem_destroy(one->memory);
}

void pw_stream_nodes_destroy(pw_stream_nodes *nodes)
{
    for (uint32_t i = 0; i < nodes->num_nodes; i++) finish(&nodes->nodes[i]);
    for (uint32_t i = 0; i < nodes->num_nodes; i++) pagewire_node_destroy(nodes->nodes[i].node);
    pagewire_network_destroy(nodes->network);
    for (uint32_t i = 0; i < nodes->num_nodes; i++)
        if (nodes->nodes[i].arena) munmap(nodes->nodes[i].arena, nodes->arena_bytes);
    free(nodes);
}

pagewire_node *pw_stream_nodes_door(const pw_stream_nodes *nodes, uint32_t node)
{
    return nodes->nodes[node].node;
}

pw_node_streams *pw_stream_nodes_on_node(pw_stream_nodes *nodes, uint32_t node)
{
    return &nodes->nodes[node];
}

pw_streams *pw_stream_nodes_streams(const pw_stream_nodes *nodes, uint32_t node)
{
    return nodes->nodes[node].streams;
}

/* ---- a node */

const char *pw_node_streams_refusal(const pw_node_streams *self)
{
    return self->refusal[0] ? self->refusal : NULL;
}

uint32_t pw_node_streams_here(pw_node_streams *self, uint32_t connection, const uint8_t **data)
{
    int64_t time_ns;
    uint32_t num_bytes = pw_streams_here(self->streams, connection, data, &time_ns);
    if (num_bytes) pagewire_clock_observe(self->node, time_ns);
    return num_bytes;
}

/* The write that was over first; NULL: none is. */
static write_under_way *first_over(pw_node_streams *self, int64_t *time_ns)
{
    write_under_way *found = NULL;
    *time_ns = PW_NEVER;
    for (uint32_t i = 0; i < WRITES && self->num_writes; i++) {
        write_under_way *entry = &self->writes[i];
        int64_t over_ns;
        if (!entry->operation || !pw_door_is_over(entry->operation, &over_ns)) continue;
        if (over_ns >= *time_ns) continue;
        *time_ns = over_ns;
        found = entry;
    }
    return found;
}

static int64_t message_ns(const pw_node_streams *self)
{
    return self->first < self->num_messages ? self->inbox[self->first].time_ns : PW_NEVER;
}

/* The answer may bring more messages. */
static int take_message(pw_node_streams *self)
{
    const message one = self->inbox[self->first++];
    if (self->first == self->num_messages) self->first = self->num_messages = 0;
    int code = pagewire_clock_observe(self->node, one.time_ns);
    return code < 0 ? code : pw_streams_arrived(self->streams, one.source, one.word, one.time_ns);
}

static int take_write(pw_node_streams *self, write_under_way *entry)
{
    pagewire_completion completion;
    int code = pagewire_wait(self->node, &entry->operation, &completion, 0);
    if (code < 0) return code;
    self->num_writes--;
    return pw_streams_written(self->streams, entry->connection, completion.error);
}

/* When the first of what is here was here; PW_NEVER: nothing is. */
static int64_t next_ns_of(pw_node_streams *self)
{
    int64_t over_ns;
    (void)first_over(self, &over_ns);
    int64_t arrived_ns = message_ns(self);
    return arrived_ns < over_ns ? arrived_ns : over_ns;
}

/* The first of what is here. 0: nothing is. */
static int take(pw_node_streams *self)
{
    int64_t over_ns;
    if (self->is_short) return PW_ERR_NOMEM;
    write_under_way *entry = first_over(self, &over_ns);
    int64_t arrived_ns = message_ns(self);
    if (arrived_ns == PW_NEVER && !entry) return 0;
    int code = arrived_ns <= over_ns ? take_message(self) : take_write(self, entry);
    if (code >= 0) code = pw_streams_move(self->streams);
    return code < 0 ? code : 1;
}

int pw_node_streams_move(pw_node_streams *self)
{
    int moved = pagewire_progress(self->node, PAGEWIRE_CPU_WAITS | PAGEWIRE_KEEPS_CORE);
    int taken = moved < 0 ? moved : pw_node_streams_take_all(self);
    return taken < 0 ? taken : moved | taken;
}

int pw_node_streams_take_all(pw_node_streams *self)
{
    int taken, had_some = 0;
    while ((taken = take(self)) > 0) had_some = 1;
    if (taken == 0) taken = pw_streams_move(self->streams);
    if (taken == 0) taken = self->failure;
    return taken < 0 ? taken : had_some;
}

/* ---- all of them, in the order of time */

bool pw_stream_nodes_are_quiet(const pw_stream_nodes *nodes)
{
    uint64_t num_sent = 0, num_arrived = 0;
    for (uint32_t i = 0; i < nodes->num_nodes; i++) {
        const pw_node_streams *one = &nodes->nodes[i];
        pw_streams_counters counters;
        if (one->num_writes || pw_streams_is_due(one->streams)) return false;
        pw_streams_read_counters(one->streams, &counters);
        num_sent += counters.messages;
        num_arrived += pw_streams_num_arrived(one->streams);
    }
    return num_sent == num_arrived;
}

/* A node moves up to its clock, and all others without limit: so all of them in a round. What a
 * node has sent without telling of anything is noticed in the round behind. */
static int move_network(pw_stream_nodes *self)
{
    for (int num_idle_rounds = 0; num_idle_rounds < 2;) {
        int moved = 0;
        for (uint32_t i = 0; i < self->num_nodes; i++) {
            int code = pagewire_progress(self->nodes[i].node, 0);
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
        int64_t next_ns = next_ns_of(&nodes->nodes[i]);
        if (next_ns == PW_NEVER) continue;
        int64_t free_ns = pagewire_clock_ns(nodes->nodes[i].node);
        if (free_ns > next_ns) next_ns = free_ns;
        if (next_ns >= first_ns) continue;
        first_ns = next_ns;
        chosen = i;
    }
    if (first_ns == PW_NEVER) return 0;
    *node = chosen;
    return take(&nodes->nodes[chosen]);
}

/* ---- the CPU */

/* Copying to or from the ring, with the CPU's own faults there. */
static int pass_copy(pw_stream_nodes *self, uint32_t idx, const uint8_t *ring, uint32_t num_bytes,
                     bool for_write)
{
    pw_node *node = pw_door_node(self->nodes[idx].node);
    pw_memory *memory = pw_node_memory(node);
    const pw_cost_tables *tables = pw_node_tables(node);
    pw_memory_counters before, after;
    uint64_t address = (uintptr_t)ring, first_page = pw_page_of(address), num_absent = 0;
    uint64_t num_pages = pw_page_of(address + num_bytes - 1) - first_page + 1;
    pw_memory_read_counters(memory, &before);
    int code = pw_memory_populate(memory, first_page, num_pages, for_write, &num_absent);
    if (code < 0)
        return pw_door_fail(self->nodes[idx].node, code,
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
    uint32_t most = pw_node_streams_here(&nodes->nodes[node], connection, &here);
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
    const pw_node_streams *one = &nodes->nodes[node];
    pw_memory *memory = pw_node_memory(pw_door_node(one->node));
    uint64_t first_page = pw_page_of((uintptr_t)one->arena);
    uint64_t num_pages =
        pw_page_of((uintptr_t)one->arena + nodes->arena_bytes - 1) - first_page + 1;
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
