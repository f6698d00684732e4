/* Processes that are the nodes of a run, forked by a test, and what they tell each other by pipes
 * while their wires are not there yet. */
#ifndef PW_TESTS_WIRE_PROCESSES_H
#define PW_TESTS_WIRE_PROCESSES_H
#include <assert.h>
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

#include "native/frames.h"
#include "tests/c/node/bursts.h"
#include "transport/fabric/wire_fabric.h"

#define NODES_MAX 4
#define SKIPPED 77 /* meson's status for a test that cannot run here */
#define BUFFERS 64

/* pipe[to]: what is told to that process; each record says from whom. */
typedef struct {
    int pipe[NODES_MAX][2];
} exchange;

typedef struct {
    uint32_t source;
    pw_wire_address address;
} record;

static inline void exchange_open(exchange *way)
{
    for (uint32_t i = 0; i < NODES_MAX; i++) assert(pipe(way->pipe[i]) == 0);
}

static inline void exchange_close(exchange *way)
{
    for (uint32_t i = 0; i < NODES_MAX; i++)
        for (int end = 0; end < 2; end++) close(way->pipe[i][end]);
}

static inline void tell(const exchange *way, uint32_t to, uint32_t source,
                        const pw_wire_address *address)
{
    record told;
    memset(&told, 0, sizeof told);
    told.source = source;
    if (address) told.address = *address;
    assert(write(way->pipe[to][1], &told, sizeof told) == sizeof told);
}

static inline record hear(const exchange *way, uint32_t node)
{
    record heard;
    assert(read(way->pipe[node][0], &heard, sizeof heard) == sizeof heard);
    return heard;
}

/* The MPI's, else the system's. */
static inline const char *libfabric_path(void)
{
    const char *path = getenv("PAGEWIRE_TEST_LIBFABRIC");
    return path ? path : "libfabric.so.1";
}

static pw_fabric_library libfabric;

/* Before the first fork: that it looks for all its providers takes longer than a test. */
static inline void load_libfabric(void)
{
    struct fi_info *info = NULL;
    pw_sentence reason;
    void *handle = dlopen(libfabric_path(), RTLD_NOW);
    if (!handle || pw_fabric_library_find(dlsym(handle, "fi_getinfo"), &libfabric, &reason))
        exit(SKIPPED);
    if (!libfabric.getinfo(PW_FABRIC_VERSION, NULL, NULL, 0, NULL, &info)) libfabric.freeinfo(info);
}

static inline pw_wire *open_wire(uint32_t node, uint32_t num_nodes, pw_wire_mode mode)
{
    pw_wire_fabric_options options = {.mode = mode};
    pw_sentence reason;
    pw_wire *wire;
    if (pw_wire_fabric_create(&libfabric, node, num_nodes, &options, &wire, &reason)) {
        fprintf(stderr, "%s\n", reason.text);
        _exit(1);
    }
    return wire;
}

static inline void must_connect(pw_wire *wire, const pw_wire_address *address)
{
    uint32_t node = UINT32_MAX;
    assert(pw_wire_fabric_connect(wire, address, &node) == PW_OK && node == address->node);
}

/* Processes 0 to num_nodes - 1 learn each other's addresses. */
static inline void meet_all(const exchange *way, pw_wire *wire)
{
    for (uint32_t peer = 0; peer < wire->num_nodes; peer++)
        if (peer != wire->node) tell(way, peer, wire->node, pw_wire_fabric_address(wire));
    for (uint32_t i = 1; i < wire->num_nodes; i++) {
        const record from = hear(way, wire->node);
        must_connect(wire, &from.address);
    }
}

/* 8 to PW_BURST_BYTES bytes, each power of two as often as the others. */
static inline uint32_t bytes_of(uint32_t idx)
{
    const uint32_t mixed = (idx + 1) * 2654435761u;
    const uint32_t bound = 16u << (mixed >> 8) % 15;
    const uint32_t num_bytes = 8 + (mixed >> 12) % bound;
    return (idx % 97 == 0 || num_bytes > PW_BURST_BYTES ? PW_BURST_BYTES : num_bytes) & ~7u;
}

typedef struct {
    uint8_t *free[BUFFERS];
    uint32_t num_free, num_made;
} pool;

static inline uint8_t *take_buffer(pool *pool, pw_wire *wire)
{
    if (pool->num_free) return pool->free[--pool->num_free];
    if (pool->num_made == BUFFERS) return NULL;
    /* Every fourth one is not the wire's. */
    uint8_t *data = pool->num_made++ % 4 ? wire->ops->allocate(wire, PW_BURST_BYTES) : NULL;
    return data ? data : malloc(PW_BURST_BYTES);
}

static inline void take_back(pool *pool, pw_wire *wire)
{
    for (uint8_t *data; (data = wire->ops->sent(wire));) pool->free[pool->num_free++] = data;
}

/* Sends burst idx to the peer, false: no buffer is free. */
static inline bool send_one(pool *pool, pw_wire *wire, uint32_t peer, uint32_t idx)
{
    bool is_free = false;
    uint8_t *data = take_buffer(pool, wire);
    if (!data) return false;
    fill_burst(data, wire->node, idx, bytes_of(idx));
    const int code = wire->ops->send(wire, peer, data, bytes_of(idx), &is_free);
    if (code) fprintf(stderr, "%s\n", pw_wire_fabric_reason(wire));
    assert(code == PW_OK);
    if (is_free) pool->free[pool->num_free++] = data;
    return true;
}

/* The next burst is this one. */
static inline void receive_one(pw_wire *wire, uint32_t source, uint32_t idx)
{
    pw_wire_burst burst;
    int code;
    while ((code = wire->ops->poll(wire, &burst)) == 0) sched_yield();
    assert(code == 1 && burst.source == source);
    check_burst(&burst, idx, bytes_of(idx));
    wire->ops->taken(wire, &burst);
}

/* Sends each of the peers num_bursts more and takes as many of each. A peer that is done may be a
 * round ahead: bursts are counted from the first one on. */
static inline void exchange_bursts(pw_wire *wire, const uint32_t *peers, uint32_t num_peers,
                                   uint32_t num_bursts)
{
    static uint32_t num_sent[NODES_MAX], num_here[NODES_MAX], goal[NODES_MAX];
    pool own = {.num_free = 0};
    bool is_open = true;
    for (uint32_t i = 0; i < num_peers; i++) goal[peers[i]] += num_bursts;
    while (is_open || wire->ops->num_pending(wire)) {
        bool is_busy = false;
        is_open = false;
        for (uint32_t i = 0; i < num_peers; i++) {
            const uint32_t peer = peers[i];
            is_open = is_open || num_sent[peer] < goal[peer] || num_here[peer] < goal[peer];
            if (num_sent[peer] == goal[peer] || !send_one(&own, wire, peer, num_sent[peer]))
                continue;
            num_sent[peer]++;
            is_busy = true;
        }
        pw_wire_burst burst;
        int code;
        while ((code = wire->ops->poll(wire, &burst)) == 1) {
            const uint32_t idx = num_here[burst.source]++;
            check_burst(&burst, idx, bytes_of(idx));
            wire->ops->taken(wire, &burst);
            is_busy = true;
        }
        assert(code == 0);
        take_back(&own, wire);
        if (!is_busy) sched_yield();
    }
    assert(own.num_free == own.num_made);
}

/* Another process says when this one may go on; until then peers need its polls. */
static inline void poll_until_told(pw_wire *wire, const exchange *way, uint32_t number)
{
    pw_wire_burst burst;
    fd_set readable;
    struct timeval at_once;
    do {
        assert(wire->ops->poll(wire, &burst) == 0);
        at_once = (struct timeval){0};
        FD_ZERO(&readable);
        FD_SET(way->pipe[number][0], &readable);
    } while (!select(way->pipe[number][0] + 1, &readable, NULL, NULL, &at_once));
    hear(way, number);
}

static inline pid_t start(void (*run)(const exchange *, uint32_t), const exchange *way,
                          uint32_t number)
{
    fflush(NULL);
    pid_t child = fork();
    assert(child >= 0);
    if (child) return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* the test has failed */
    alarm(60);                        /* not for ever, should one wait for another in vain */
    run(way, number);
    _exit(0);
}

static inline void end(pid_t child, int expected)
{
    int status;
    const pid_t ended = waitpid(child, &status, 0);
    assert(child == -1 ? ended > 0 : ended == child);
    assert(status == expected);
}

/* Processes 0 to num_processes - 1 each run this. */
static inline void run_all(void (*run)(const exchange *, uint32_t), uint32_t num_processes)
{
    exchange way;
    exchange_open(&way);
    for (uint32_t i = 0; i < num_processes; i++) start(run, &way, i);
    for (uint32_t i = 0; i < num_processes; i++) end(-1, 0); /* the first that fails */
    exchange_close(&way);
}
#endif
