/* Two nodes of the C interface with real pages, for its tests: joined, or by wires of a host. */
#ifndef TESTS_C_TWO_NODES_H
#define TESTS_C_TWO_NODES_H
#include "include/pagewire.h"
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define TABLE_BYTES 2097152 /* what a page table of the last level maps */
#define GIGABYTE 1073741824 /* and what one of the level above does */
#define WIRE_BURSTS 256

static const char *const none[] = {"run.compute=none", NULL};

/* Each begins a table, and all are in one GB, so that no walk depends on the run. */
static inline uint8_t *fresh_pages(size_t num_bytes)
{
    static uint8_t *next;
    if (!next) {
        next = mmap(NULL, (size_t)2 * GIGABYTE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        assert((void *)next != MAP_FAILED &&
               madvise(next, (size_t)2 * GIGABYTE, MADV_NOHUGEPAGE) == 0);
        next += (GIGABYTE - (uintptr_t)next % GIGABYTE) % GIGABYTE;
    }
    uint8_t *pages = next;
    next += (num_bytes / TABLE_BYTES + 2) * TABLE_BYTES;
    return pages;
}

static inline void fill(uint8_t *bytes, size_t num_bytes, unsigned seed)
{
    for (size_t i = 0; i < num_bytes; i++) {
        seed = seed * 1103515245u + 12345u;
        bytes[i] = (uint8_t)(seed >> 16);
    }
}

typedef struct {
    pagewire_network *network;
    pagewire_node *nodes[2];
} pair;

static inline pair joined(const char *const *settings)
{
    pair made;
    char reason[512] = "";
    pagewire_options options;
    pagewire_options_default(&options);
    assert(pagewire_network_create(2, &made.network) == PAGEWIRE_OK);
    options.network = made.network;
    options.settings = settings;
    options.reason = reason;
    options.reason_bytes = sizeof reason;
    for (options.node = 0; options.node < 2; options.node++)
        assert(pagewire_node_create(&options, &made.nodes[options.node]) == PAGEWIRE_OK);
    assert(reason[0] == 0);
    return made;
}

static inline void end(pair *made)
{
    pagewire_node_destroy(made->nodes[0]);
    pagewire_node_destroy(made->nodes[1]);
    pagewire_network_destroy(made->network);
}

static inline uint64_t counter(pagewire_node *node, const char *name)
{
    uint64_t value;
    assert(pagewire_read_counter(node, name, &value) == PAGEWIRE_OK);
    return value;
}

static inline pagewire_completion finish(pagewire_node *node, pagewire_operation *operation)
{
    pagewire_completion completion;
    assert(pagewire_wait(node, &operation, &completion, -1) == 1 && operation == NULL);
    return completion;
}

/* Writes, and waits for its end. */
static inline pagewire_completion put(pair *p, const void *source, const void *destination,
                                      uint64_t num_bytes)
{
    pagewire_operation *operation;
    assert(pagewire_write(p->nodes[0], 1, source, (uintptr_t)destination, num_bytes, NULL,
                          &operation) == PAGEWIRE_OK);
    return finish(p->nodes[0], operation);
}

static inline pagewire_completion get(pair *p, const void *source, uint64_t key, void *destination,
                                      uint64_t num_bytes)
{
    pagewire_operation *operation;
    assert(pagewire_read(p->nodes[0], 1, (uintptr_t)source, key, destination, num_bytes, NULL,
                         &operation) == PAGEWIRE_OK);
    return finish(p->nodes[0], operation);
}

/* A wire of the host's: a ring of copies for each direction, behind one mutex. */
typedef struct {
    pthread_mutex_t mutex;
    struct {
        uint32_t first, count, num_bytes[WIRE_BURSTS];
        uint8_t *bursts[WIRE_BURSTS];
    } inboxes[2];
} host_network;

typedef struct {
    host_network *network;
    uint32_t node;
    uint8_t *held; /* until the next poll */
    int closed;
} host_end;

static inline int host_send(void *context, uint32_t peer, const void *data, uint32_t num_bytes)
{
    host_end *self = context;
    uint8_t *copy = aligned_alloc(64, (num_bytes + 63) / 64 * 64);
    assert(copy && peer == 1 - self->node && num_bytes <= PAGEWIRE_BURST_MAX_BYTES);
    memcpy(copy, data, num_bytes);
    pthread_mutex_lock(&self->network->mutex);
    uint32_t *first = &self->network->inboxes[peer].first;
    uint32_t at = (*first + self->network->inboxes[peer].count++) % WIRE_BURSTS;
    assert(self->network->inboxes[peer].count <= WIRE_BURSTS);
    self->network->inboxes[peer].bursts[at] = copy;
    self->network->inboxes[peer].num_bytes[at] = num_bytes;
    pthread_mutex_unlock(&self->network->mutex);
    return 0;
}

static inline int host_poll(void *context, uint32_t *peer, const void **data, uint32_t *num_bytes)
{
    host_end *self = context;
    free(self->held);
    self->held = NULL;
    pthread_mutex_lock(&self->network->mutex);
    int is_here = self->network->inboxes[self->node].count > 0;
    if (is_here) {
        uint32_t *first = &self->network->inboxes[self->node].first;
        *data = self->held = self->network->inboxes[self->node].bursts[*first];
        *num_bytes = self->network->inboxes[self->node].num_bytes[*first];
        *peer = 1 - self->node;
        *first = (*first + 1) % WIRE_BURSTS;
        self->network->inboxes[self->node].count--;
    }
    pthread_mutex_unlock(&self->network->mutex);
    return is_here;
}

static inline void host_close(void *context)
{
    host_end *self = context;
    free(self->held);
    self->closed++;
}

/* Once both nodes are gone: what nobody has polled. */
static inline void end_network(host_network *network)
{
    for (int node = 0; node < 2; node++)
        for (uint32_t i = 0; i < network->inboxes[node].count; i++)
            free(network->inboxes[node].bursts[(network->inboxes[node].first + i) % WIRE_BURSTS]);
}

static inline pagewire_node *hosted(host_end *self, const char *const *settings)
{
    pagewire_node *node;
    const pagewire_wire wire = {.struct_size = sizeof wire,
                                .context = self,
                                .send = host_send,
                                .poll = host_poll,
                                .close = host_close};
    pagewire_options options;
    pagewire_options_default(&options);
    options.node = self->node;
    options.num_nodes = 2;
    options.wire = &wire;
    options.settings = settings;
    assert(pagewire_node_create(&options, &node) == PAGEWIRE_OK);
    return node;
}
#endif
