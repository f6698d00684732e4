/* Nodes joined in one process, for tests of a node: a memory strategy with costs that can be told
 * in a sum, buffers, a transfer from node to node as an MPI message makes it, and calls that must
 * succeed. */
#ifndef PW_TESTS_NODE_PAIR_H
#define PW_TESTS_NODE_PAIR_H
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/c/platform.h"
#include "node/node.h"
#include "node/settings/config.h"
#include "node/wires/wire.h"

#define MEGABYTE (UINT64_C(1) << 20)
#define TOUCH_NS 1000
#define PIN_NS 200
#define UNPIN_NS 70
#define NODES_MAX 4

/* A memory strategy that counts. */
typedef struct {
    uint32_t num_acquired, num_released, num_invalidated;
    uint64_t first_page, num_pages; /* of the last invalidated */
    int fails;                      /* what its calls return */
    pw_strategy_cost release_cost;
} counted;

static inline int counted_acquire(void *self, pw_span span, int access, pw_lease *out)
{
    counted *strategy = self;
    if (strategy->fails) return strategy->fails;
    *out = (pw_lease){.span = span, .cost = {TOUCH_NS, PIN_NS}, .token = (uint64_t)access + 1};
    strategy->num_acquired++;
    return PW_OK;
}

static inline int counted_release(void *self, const pw_lease *lease, pw_strategy_cost *cost)
{
    counted *strategy = self;
    if (strategy->fails) return strategy->fails;
    assert(lease->span.num_bytes > 0 && lease->token > 0);
    *cost = strategy->release_cost;
    strategy->num_released++;
    return PW_OK;
}

static inline int counted_invalidated(void *self, uint64_t first_page, uint64_t num_pages)
{
    counted *strategy = self;
    strategy->num_invalidated++;
    strategy->first_page = first_page;
    strategy->num_pages = num_pages;
    return strategy->fails;
}

static const pw_strategy_ops counted_ops = {
    .name = "counted",
    .summary = "of a test",
    .acquire = counted_acquire,
    .release = counted_release,
    .invalidated = counted_invalidated,
};

typedef struct {
    uint32_t num_nodes;
    pw_wire *wires[NODES_MAX];
    pw_node *nodes[NODES_MAX];
    counted strategies[NODES_MAX];
    pw_node_config config;   /* of all */
    pw_node_opening opening; /* the same */
} joined;

static inline void prepare(joined *all, uint32_t num_nodes)
{
    *all = (joined){.num_nodes = num_nodes, .opening = {.strategy = &counted_ops, .pdid = 1}};
    pw_node_config_default(&all->config);
    all->config.costs = platform_costs;
    all->config.settings = platform_settings;
    all->config.tables = (pw_cost_tables){.table[0].num_points = 1}; /* 0 ns */
    for (int i = 1; i < PW_COST_TABLES; i++)
        all->config.tables.table[i] = all->config.tables.table[0];
    all->config.run.compute = PW_COMPUTE_NONE;
    assert(pw_wire_join(num_nodes, all->wires) == PW_OK);
}

static inline void create(joined *all)
{
    for (uint32_t i = 0; i < all->num_nodes; i++) {
        pw_sentence reason;
        all->strategies[i].release_cost.pin_ns = UNPIN_NS;
        if (all->opening.strategy == &counted_ops) all->opening.strategy_self = &all->strategies[i];
        assert(pw_node_open(&all->config, &all->opening, all->wires[i], &all->nodes[i], &reason) ==
               PW_OK);
    }
}

static inline void begin(joined *all, uint32_t num_nodes)
{
    prepare(all, num_nodes);
    create(all);
}

static inline void end(joined *all)
{
    for (uint32_t i = 0; i < all->num_nodes; i++) pw_node_destroy(all->nodes[i]);
}

/* A test of that many nodes, from their begin to their end. */
static inline void run_joined(uint32_t num_nodes, void (*test)(joined *all))
{
    joined all;
    begin(&all, num_nodes);
    test(&all);
    end(&all);
}

/* Aligned pages that are not there yet, none of them huge. */
static inline uint8_t *make_buffer(uint64_t num_bytes)
{
    uint8_t *pages = mmap(NULL, num_bytes + PW_BLOCK_BYTES, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(pages != MAP_FAILED);
    madvise(pages, num_bytes + PW_BLOCK_BYTES, MADV_NOHUGEPAGE);
    return pages + (-(uintptr_t)pages & (PW_BLOCK_BYTES - 1));
}

static inline uint8_t *make_pattern(uint64_t num_bytes)
{
    uint8_t *buffer = make_buffer(num_bytes);
    for (uint64_t i = 0; i < num_bytes; i++) buffer[i] = (uint8_t)(i * 7 % 251);
    return buffer;
}

static inline uint64_t address_of(const uint8_t *data) { return (uint64_t)(uintptr_t)data; }

/* A turn of every node, or the first code. */
static inline int turn_all(joined *all)
{
    int moved = 0;
    for (uint32_t i = 0; i < all->num_nodes; i++) {
        int code = pw_node_turn(all->nodes[i], true);
        if (code < 0) return code;
        moved |= code;
    }
    return moved;
}

/* Until a handle is done. */
static inline void finish(joined *all, const pw_handle *handle)
{
    for (int turns = 0; !handle->done; turns++) {
        int code = turn_all(all);
        if (code < 0) fprintf(stderr, "turn: %d\n", code);
        assert(code >= 0 && turns < 1000000);
    }
}

/* A send and its receive, posted and matched, under way. */
typedef struct {
    pw_handle *exposed, *fetched;
    uint8_t *source, *destination;
    uint64_t num_bytes;
} message;

static inline message start_message(joined *all, uint32_t from, uint32_t to, uint64_t num_bytes,
                                    bool is_resident)
{
    message sent = {.num_bytes = num_bytes,
                    .source = make_pattern(num_bytes),
                    .destination = make_buffer(num_bytes)};
    if (is_resident) memset(sent.destination, 1, num_bytes);
    pw_node *source = all->nodes[from], *destination = all->nodes[to];
    pw_envelope envelope;
    pw_lease lease;
    pw_clock_enter(pw_node_clock(source), true);
    assert(pw_node_expose(source, to, address_of(sent.source), num_bytes, &sent.exposed) == PW_OK);
    assert(pw_node_write_message(source, to, PW_MESSAGE_RENDEZVOUS, address_of(sent.source),
                                 num_bytes, sent.exposed->key,
                                 (uint8_t *)&envelope) == PW_ENVELOPE_BYTES);
    if (from != to) pw_clock_enter(pw_node_clock(destination), true);
    assert(pw_node_acquire(destination, (pw_span){address_of(sent.destination), num_bytes},
                           PW_ACCESS_WRITE, &lease) == PW_OK);
    int64_t posted_ns = pw_node_clock(destination)->now_ns;
    assert(pw_ni_message_check(pw_node_ni(destination), (uint8_t *)&envelope, sizeof envelope) ==
           PW_OK);
    int64_t match_ns = pw_later(posted_ns, envelope.arrival_ns);
    assert(pw_node_fetch(destination, envelope.source_node, envelope.address, envelope.key,
                         address_of(sent.destination), envelope.num_bytes, match_ns, &lease,
                         &sent.fetched) == PW_OK);
    return sent;
}

/* Wait for both ends of a message; its bytes are compared. */
static inline void finish_message(joined *all, message *sent, uint32_t from, uint32_t to)
{
    finish(all, sent->exposed);
    finish(all, sent->fetched);
    assert(sent->exposed->error == PW_OK && sent->fetched->error == PW_OK);
    assert(memcmp(sent->source, sent->destination, sent->num_bytes) == 0);
    pw_clock *clock = pw_node_clock(all->nodes[from]);
    pw_clock_completed(clock, sent->exposed->complete_ns);
    pw_clock_leave(clock);
    if (from == to) return;
    clock = pw_node_clock(all->nodes[to]);
    pw_clock_completed(clock, sent->fetched->complete_ns);
    pw_clock_leave(clock);
}

/* Return the handles; the message's buffers stay until the process ends. */
static inline void forget_message(joined *all, message *sent, uint32_t from, uint32_t to)
{
    pw_node_free_handle(all->nodes[from], sent->exposed);
    pw_node_free_handle(all->nodes[to], sent->fetched);
}
#endif
