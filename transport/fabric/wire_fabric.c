#include "transport/fabric/wire_fabric.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "node/clock.h"
#include "node/waiting_list.h"
#include "node/wires/shared_bursts.h"
#include "node/wires/shared_segment.h"
#include "transport/fabric/core_messages.h"

/* A look at a tcp endpoint is a system call and costs as much as some tens of looks at shared
 * memory: so while bursts arrive there, or nobody has been met by tcp, every so many polls only. */
#define POLLS_PER_TCP_POLL 32
#define REST_WITH_MESSAGES_NS 50000 /* the kernel adds about as much again */
#define FLUSH_NS INT64_C(1000000000)

#define HELLO_MAGIC 0x48575057u /* "PWWH" */

typedef struct {
    uint32_t magic;
    uint8_t can_map; /* the sender has mapped the receiver's segment */
    uint8_t reserved[3];
    pw_wire_address address;
} wire_hello;
_Static_assert(sizeof(wire_hello) <= PW_SHARED_SHORT_BYTES && sizeof(wire_hello) <= PW_HELLO_BYTES,
               "one burst, which can be read before its sender is met");

enum way { WAY_NONE = 0, WAY_SHARED, WAY_MESSAGES };

typedef struct {
    uint8_t way;      /* of all bursts, from when both hellos are there */
    bool is_known;    /* there is an address */
    bool has_greeted; /* the peer was sent a hello */
    bool has_heard;   /* the peer's hello is here */
    bool can_map, can_they_map;
    pw_core_messages *messages; /* that reach it, NULL: none do */
    pw_waiting_list waiting;    /* bursts, for its hello */
} wire_peer;

typedef struct {
    pw_wire base;
    uint8_t *is_owner;           /* a page that reads 0 in a forked child */
    pw_shared_bursts *shared;    /* NULL: none in this mode, or the kernel refuses it */
    pw_core_messages *shm, *tcp; /* NULL: not in this mode, or not there */
    wire_peer *peers;
    pw_wire_address *addresses; /* of the peers that are known; apart, they are seldom read */
    wire_hello hello;           /* that goes through shared memory */
    uint32_t num_polls;         /* since tcp was looked at */
    uint32_t num_by_tcp;        /* peers that were sent something by it */
    uint32_t num_near, num_far; /* known peers on this host and on others */
    uint32_t num_waiting;       /* bursts, and those of `gone` */
    pw_waiting_pool pool;
    pw_waiting_list gone; /* waited and were copied or given up; to be given back */
    pw_wire_fabric_counters counters;
    pw_sentence reason;
    pw_sentence no_tcp; /* why, without tcp */
} wire_fabric;

static wire_fabric *self_of(pw_wire *wire) { return (wire_fabric *)wire; }

const pw_wire_address *pw_wire_fabric_address(const pw_wire *wire)
{
    return &((const wire_fabric *)wire)->hello.address;
}

/* A burst to a peer whose way is settled. */
static int put(wire_fabric *self, uint32_t number, uint8_t *data, uint32_t num_bytes, bool *is_free)
{
    const wire_peer *peer = &self->peers[number];
    if (peer->way == WAY_SHARED)
        return pw_shared_send(self->shared, number, data, num_bytes, is_free);
    return pw_core_messages_send(peer->messages, number, data, num_bytes, is_free, &self->reason);
}

/* ---- how two nodes get to know each other, and which way their bursts take */

/* Both ends choose alike: it depends on the two addresses only. */
static pw_core_messages *choose_messages(const wire_fabric *self, const pw_wire_address *theirs)
{
    const pw_wire_address *mine = pw_wire_fabric_address(&self->base);
    if (mine->shm_name_bytes && theirs->shm_name_bytes && pw_wire_address_is_near(mine, theirs))
        return self->shm;
    return mine->tcp_name_bytes && theirs->tcp_name_bytes ? self->tcp : NULL;
}

/* An address is there, checked. PW_ERR_INVALID and a sentence: the number is another node's. */
static int introduce(wire_fabric *self, const pw_wire_address *address)
{
    wire_peer *peer = &self->peers[address->node];
    pw_wire_address *known = &self->addresses[address->node];
    if (address->node == self->base.node) known = &self->hello.address;
    if (peer->is_known || address->node == self->base.node) {
        if (pw_wire_address_is_same(known, address)) {
            if (address->segment.boot_id[0] && address->node != self->base.node) *known = *address;
            return PW_OK;
        }
        return pw_sentence_refuse(&self->reason, PW_ERR_INVALID,
                                  "two processes say that they are node %u: %d and %d; give each "
                                  "node of a run a number of its own",
                                  address->node, known->segment.pid, address->segment.pid);
    }
    *known = *address;
    if (pw_wire_address_is_near(address, pw_wire_fabric_address(&self->base))) self->num_near++;
    else self->num_far++;
    peer->messages = choose_messages(self, address);
    peer->is_known = true;
    return PW_OK;
}

static int reach_by_messages(wire_fabric *self, uint32_t number)
{
    wire_peer *peer = &self->peers[number];
    const pw_wire_address *theirs = &self->addresses[number];
    const uint32_t key = pw_wire_address_key(theirs);
    if (!peer->messages)
        return pw_sentence_refuse(
            &self->reason, PW_ERR_HOST,
            "node %u shares no memory with node %u, and one of them has no tcp: %s", number,
            self->base.node, self->no_tcp.length ? self->no_tcp.text : "see its report");
    if (pw_wire_address_is_out_of_reach(theirs, pw_wire_fabric_address(&self->base)))
        return pw_sentence_refuse(&self->reason, PW_ERR_HOST,
                                  "node %u is on another host and has no network address but the "
                                  "loopback's: is its interface up? run.wire_interface names "
                                  "the one to use",
                                  number);
    if (peer->messages == self->shm)
        return pw_core_messages_add(self->shm, number, theirs->shm_name, theirs->shm_name_bytes,
                                    key, &self->reason);
    return pw_core_messages_add(self->tcp, number, theirs->tcp_name, theirs->tcp_name_bytes, key,
                                &self->reason);
}

static bool greet_in_shared_memory(wire_fabric *self, uint32_t number)
{
    const pw_wire_address *theirs = &self->addresses[number];
    bool is_free = false;
    if (!self->shared || !pw_wire_address_is_near(theirs, pw_wire_fabric_address(&self->base)) ||
        pw_shared_meet(self->shared, number, &theirs->segment) != 1)
        return false;
    const int code =
        pw_shared_send(self->shared, number, (uint8_t *)&self->hello, sizeof self->hello, &is_free);
    if (!code && is_free) return true;
    /* Somebody has used up the slots that are this node's. */
    pw_shared_part(self->shared, number);
    return false;
}

static int flush_waiting(wire_fabric *self, uint32_t number)
{
    pw_waiting_list *waiting = &self->peers[number].waiting;
    int code = PW_OK;
    while (waiting->first && !code) {
        bool is_free = true;
        const pw_waiting *burst = waiting->first;
        code = put(self, number, burst->data, burst->num_bytes, &is_free);
        if (is_free) {
            pw_waiting_move(waiting, &self->gone);
        } else {
            pw_waiting_take(&self->pool, waiting);
            self->num_waiting--;
        }
    }
    return code;
}

/* Both hellos are there: the same facts lead both ends to the same way. */
static int settle(wire_fabric *self, uint32_t number)
{
    wire_peer *peer = &self->peers[number];
    if (peer->way || !peer->has_greeted || !peer->has_heard) return PW_OK;
    if (peer->can_map && peer->can_they_map) {
        peer->way = WAY_SHARED;
        self->counters.num_shared++;
        return flush_waiting(self, number);
    }
    const int code = reach_by_messages(self, number);
    if (code) return code;
    if (peer->can_map) {
        pw_shared_part(self->shared, number);
        self->num_by_tcp += peer->messages == self->tcp;
    }
    pw_core_messages_open_source(peer->messages, number);
    peer->way = WAY_MESSAGES;
    self->counters.num_messages++;
    self->counters.num_near_unmapped +=
        self->shared &&
        pw_wire_address_is_near(&self->addresses[number], pw_wire_fabric_address(&self->base));
    return flush_waiting(self, number);
}

/* Say hello to a known peer, once; after both hellos its way is settled, and what waited goes out.
 * PW_ERR_HOST and a sentence: there is no way. */
static int greet(wire_fabric *self, uint32_t number)
{
    wire_peer *peer = &self->peers[number];
    if (!peer->has_greeted) {
        peer->can_map = greet_in_shared_memory(self, number);
        if (!peer->can_map) {
            int code = reach_by_messages(self, number);
            if (!code) code = pw_core_messages_greet(peer->messages, number, &self->reason);
            if (code) return code;
            self->num_by_tcp += peer->messages == self->tcp;
        }
        peer->has_greeted = true;
    }
    return settle(self, number);
}

static bool is_hello_of(const wire_fabric *self, uint32_t number, const wire_hello *hello)
{
    pw_sentence ignored;
    return hello->magic == HELLO_MAGIC && hello->address.node == number &&
           number != self->base.node &&
           !pw_wire_address_check(&hello->address, self->base.num_nodes, &ignored);
}

/* What may be a hello came from the peer: what is none is dropped and counted. */
static void hear(wire_fabric *self, uint32_t number, const uint8_t *data, uint32_t num_bytes)
{
    wire_peer *peer = &self->peers[number];
    wire_hello hello = {0}; /* that is none */
    if (num_bytes == sizeof hello) memcpy(&hello, data, sizeof hello);
    if (!is_hello_of(self, number, &hello) || peer->has_heard || introduce(self, &hello.address)) {
        self->counters.num_hellos_refused++;
        return;
    }
    peer->has_heard = true;
    peer->can_they_map = hello.can_map;
    /* Should there be no way back, whoever sends to the peer is told so. */
    (void)greet(self, number);
}

/* ---- bursts */

static int send_unsettled(wire_fabric *self, uint32_t number, uint8_t *data, uint32_t num_bytes,
                          bool *is_free)
{
    wire_peer *peer = &self->peers[number];
    if (!peer->is_known)
        return pw_sentence_refuse(&self->reason, PW_ERR_INVALID,
                                  "the address of node %u is not known; insert it first", number);
    const int code = greet(self, number);
    if (code) return code;
    if (peer->way) return put(self, number, data, num_bytes, is_free);
    if (pw_waiting_append(&self->pool, &peer->waiting, data, num_bytes))
        return pw_sentence_refuse(&self->reason, PW_ERR_NOMEM,
                                  "no memory for one more burst that waits for node %u", number);
    self->num_waiting++;
    *is_free = false;
    return PW_OK;
}

static int wire_send(pw_wire *wire, uint32_t peer, uint8_t *data, uint32_t num_bytes, bool *is_free)
{
    wire_fabric *self = self_of(wire);
    if (peer >= wire->num_nodes || peer == wire->node || !num_bytes || num_bytes > PW_BURST_BYTES ||
        !*self->is_owner)
        return pw_sentence_refuse(&self->reason, PW_ERR_INVALID,
                                  "a burst of %u bytes to node %u of %u: at most %u bytes go to "
                                  "another node, and none from a forked process",
                                  num_bytes, peer, wire->num_nodes, PW_BURST_BYTES);
    if (!self->peers[peer].way) return send_unsettled(self, peer, data, num_bytes, is_free);
    return put(self, peer, data, num_bytes, is_free);
}

static uint8_t *wire_sent(pw_wire *wire)
{
    wire_fabric *self = self_of(wire);
    uint8_t *data;
    if (!*self->is_owner) return NULL;
    if (self->shared) {
        do data = pw_shared_sent(self->shared);
        while (data == (uint8_t *)&self->hello); /* is not the node's */
        if (data) return data;
    }
    if (self->shm && (data = pw_core_messages_sent(self->shm))) return data;
    if (self->tcp && (data = pw_core_messages_sent(self->tcp))) return data;
    data = pw_waiting_take(&self->pool, &self->gone);
    self->num_waiting -= data != NULL;
    return data;
}

static int poll_shared(wire_fabric *self, pw_wire_burst *out)
{
    int code;
    while ((code = pw_shared_poll(self->shared, out)) == 1) {
        if (self->peers[out->source].has_heard) return 1;
        hear(self, out->source, out->data, out->num_bytes);
        pw_shared_taken(self->shared, out);
    }
    if (code == PW_ERR_MALFORMED)
        pw_sentence_refuse(&self->reason, code,
                           "a process of this host wrote a burst in node %u's shared memory that "
                           "lies outside its own; same pagewire on all ranks?",
                           self->base.node);
    return code;
}

static int poll_messages(wire_fabric *self, pw_core_messages *messages, pw_wire_burst *out)
{
    int code, kind;
    while ((code = pw_core_messages_poll(messages, out, &kind, &self->reason)) == 1) {
        if (kind == PW_CORE_BURST) return 1;
        hear(self, out->source, out->data, out->num_bytes);
        pw_core_messages_taken(out);
    }
    return code;
}

static int poll_near(wire_fabric *self, pw_wire_burst *out)
{
    const int code = self->shared ? poll_shared(self, out) : 0;
    return code || !self->shm ? code : poll_messages(self, self->shm, out);
}

static int wire_poll(pw_wire *wire, pw_wire_burst *out)
{
    wire_fabric *self = self_of(wire);
    const bool is_tcps_turn = self->tcp && ++self->num_polls >= POLLS_PER_TCP_POLL;
    if (!*self->is_owner)
        return pw_sentence_refuse(&self->reason, PW_ERR_INVALID,
                                  "a forked process cannot receive for its parent");
    if (!is_tcps_turn) {
        const int code = poll_near(self, out);
        if (code || !self->num_by_tcp) return code;
    }
    self->num_polls = 0;
    const int code = poll_messages(self, self->tcp, out);
    return code || !is_tcps_turn ? code : poll_near(self, out);
}

static void wire_taken(pw_wire *wire, const pw_wire_burst *burst)
{
    if (burst->token & PW_CORE_MESSAGES_TOKEN) pw_core_messages_taken(burst);
    else pw_shared_taken(self_of(wire)->shared, burst);
}

static uint32_t num_in_messages(const wire_fabric *self)
{
    return (self->shm ? pw_core_messages_num_pending(self->shm) : 0) +
           (self->tcp ? pw_core_messages_num_pending(self->tcp) : 0);
}

static uint32_t wire_num_pending(const pw_wire *wire)
{
    const wire_fabric *self = (const wire_fabric *)wire;
    return (self->shared ? pw_shared_num_pending(self->shared) : 0) + num_in_messages(self) +
           self->num_waiting;
}

static uint8_t *wire_allocate(pw_wire *wire, size_t num_bytes)
{
    wire_fabric *self = self_of(wire);
    return self->shared ? pw_shared_allocate(self->shared, num_bytes) : NULL;
}

static pw_promise_place *wire_promises(const pw_wire *wire, uint32_t node, uint32_t peer)
{
    const wire_fabric *self = (const wire_fabric *)wire;
    const uint32_t other = node == wire->node ? peer : node;
    return self->peers[other].way == WAY_SHARED ? pw_shared_promises(self->shared, node, peer)
                                                : NULL;
}

static void wire_count(const pw_wire *wire, pw_wire_counts *out)
{
    const wire_fabric *self = (const wire_fabric *)wire;
    pw_shared_counters shared = {0};
    pw_core_messages_counters messages = {0};
    if (self->shared) pw_shared_read_counters(self->shared, &shared);
    pw_core_messages_add_counters(self->shm, &messages);
    pw_core_messages_add_counters(self->tcp, &messages);
    *out = (pw_wire_counts){.num_short = shared.num_short,
                            .num_in_place = shared.num_in_place,
                            .num_copied = shared.num_copied,
                            .num_by_message = messages.num_sent};
}

/* What comes by libfabric does not ring. */
static bool wire_rest(const pw_wire *wire, pw_wire_rest *out)
{
    const wire_fabric *self = (const wire_fabric *)wire;
    if (!self->shared || !pw_shared_rest(self->shared, out)) return false;
    out->num_near = self->num_near;
    const bool has_messages = self->num_far || self->num_by_tcp || num_in_messages(self);
    if (has_messages && out->limit_ns > REST_WITH_MESSAGES_NS)
        out->limit_ns = REST_WITH_MESSAGES_NS;
    return true;
}

/* What lies in shared memory already, peers read without this process. */
static bool has_unsent(const wire_fabric *self)
{
    return self->num_waiting || num_in_messages(self) ||
           (self->shared && pw_shared_is_waiting(self->shared));
}

static void flush(wire_fabric *self)
{
    pw_wire *wire = &self->base;
    const int64_t end_ns = pw_clock_wall_ns() + FLUSH_NS;
    pw_wire_burst late;
    while (wire_sent(wire)) continue;
    while (has_unsent(self) && pw_clock_wall_ns() < end_ns) {
        const int code = wire_poll(wire, &late);
        if (code < 0) return;
        if (code) wire_taken(wire, &late);
        else sched_yield();
        while (wire_sent(wire)) continue;
    }
}

static void destroy(wire_fabric *self)
{
    const bool is_owner = self->is_owner && *self->is_owner;
    const int saved = errno;
    pw_core_messages_close(self->shm, is_owner);
    pw_core_messages_close(self->tcp, is_owner);
    pw_shared_destroy(self->shared);
    pw_owner_page_destroy(self->is_owner);
    pw_pool_finish(&self->pool);
    free(self->addresses);
    free(self->peers);
    free(self);
    errno = saved;
}

static void wire_close(pw_wire *wire)
{
    wire_fabric *self = self_of(wire);
    if (*self->is_owner) flush(self);
    destroy(self);
}

static const pw_wire_ops ops = {
    .send = wire_send,
    .sent = wire_sent,
    .poll = wire_poll,
    .taken = wire_taken,
    .num_pending = wire_num_pending,
    .allocate = wire_allocate,
    .promises = wire_promises,
    .rest = wire_rest,
    .count = wire_count,
    .reason = pw_wire_fabric_reason,
    .close = wire_close,
};

/* A run on one host needs no network, and one without shared memory has tcp: only when nothing is
 * left of what the mode allows is that an error. */
static int open_ways(wire_fabric *self, const pw_fabric_library *library,
                     const pw_wire_fabric_options *options, pw_sentence *reason)
{
    pw_wire_address *mine = &self->hello.address;
    if (options->mode == PW_WIRE_AUTO)
        (void)pw_shared_create(self->base.node, self->base.num_nodes, &self->shared,
                               &mine->segment);
    pw_core_messages_options messages = {.provider = "shm",
                                         .node = self->base.node,
                                         .num_nodes = self->base.num_nodes,
                                         .key = pw_wire_address_key(mine)};
    int code = PW_OK;
    if (options->mode == PW_WIRE_SHM)
        code = pw_core_messages_open(library, &messages, mine->shm_name, sizeof mine->shm_name,
                                     &mine->shm_name_bytes, &self->shm, reason);
    if (code) return code;
    messages.provider = "tcp";
    messages.interface = options->interface;
    code = pw_core_messages_open(library, &messages, mine->tcp_name, sizeof mine->tcp_name,
                                 &mine->tcp_name_bytes, &self->tcp, &self->no_tcp);
    if (!code || (!options->interface && (self->shared || self->shm))) return PW_OK;
    *reason = self->no_tcp;
    return code;
}

static void set_hellos(wire_fabric *self)
{
    wire_hello unmapped = self->hello;
    if (self->shm) pw_core_messages_set_hello(self->shm, &unmapped, sizeof unmapped);
    if (self->tcp) pw_core_messages_set_hello(self->tcp, &unmapped, sizeof unmapped);
    self->hello.can_map = true;
}

int pw_wire_fabric_create(const pw_fabric_library *library, uint32_t node, uint32_t num_nodes,
                          const pw_wire_fabric_options *options, pw_wire **out, pw_sentence *reason)
{
    int code = PW_ERR_NOMEM;
    if (!num_nodes || num_nodes > PW_SHARED_NODES_MAX || node >= num_nodes ||
        options->mode > PW_WIRE_TCP)
        return pw_sentence_refuse(reason, PW_ERR_INVALID,
                                  "node %u of %u with wire mode %u: nodes count from 0 up to %u, "
                                  "modes are auto (0), shm (1) and tcp (2)",
                                  node, num_nodes, options->mode, PW_SHARED_NODES_MAX - 1);
    wire_fabric *self = calloc(1, sizeof *self);
    if (!self) return pw_sentence_refuse(reason, code, "no memory for a wire");
    self->base = (pw_wire){&ops, node, num_nodes};
    self->peers = calloc(num_nodes, sizeof *self->peers);
    self->addresses = calloc(num_nodes, sizeof *self->addresses);
    if (!self->peers || !self->addresses) {
        pw_sentence_refuse(reason, code, "no memory for the addresses of %u nodes", num_nodes);
        goto failed;
    }
    code = PW_ERR_HOST;
    self->hello.magic = HELLO_MAGIC;
    self->is_owner = pw_owner_page_create();
    if (!self->is_owner || pw_wire_address_make(node, num_nodes, &self->hello.address)) {
        pw_sentence_refuse(reason, code, "the kernel does not tell who this process is: %s",
                           strerror(errno));
        goto failed;
    }
    code = open_ways(self, library, options, reason);
    if (code) goto failed;
    set_hellos(self);
    *out = &self->base;
    return PW_OK;
failed:
    destroy(self);
    return code;
}

int pw_wire_fabric_connect(pw_wire *wire, const pw_wire_address *address, uint32_t *node)
{
    wire_fabric *self = self_of(wire);
    int code = pw_wire_address_check(address, wire->num_nodes, &self->reason);
    if (!code) code = introduce(self, address);
    if (!code) *node = address->node;
    return code;
}

bool pw_wire_fabric_has_far(const pw_wire *wire)
{
    return ((const wire_fabric *)wire)->num_far > 0;
}

const char *pw_wire_fabric_reason(const pw_wire *wire)
{
    return ((const wire_fabric *)wire)->reason.text;
}

void pw_wire_fabric_read_counters(const pw_wire *wire, pw_wire_fabric_counters *out)
{
    const wire_fabric *self = (const wire_fabric *)wire;
    pw_core_messages_counters messages = {0};
    pw_core_messages_add_counters(self->shm, &messages);
    pw_core_messages_add_counters(self->tcp, &messages);
    *out = self->counters;
    out->num_lost = messages.num_lost;
    out->num_dropped = messages.num_dropped;
}
