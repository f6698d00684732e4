#include "transport/fabric/wire_fabric.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "transport/fabric/wire_fabric_state.h"
#include "transport/node/owner_page.h"

/* A look at a tcp endpoint is a system call and costs as much as some tens of looks at shared
 * memory: so while bursts arrive there, or nobody has been met by tcp, every so many polls only. */
#define POLLS_PER_TCP_POLL 32
#define REST_WITH_MESSAGES_NS 50000 /* the kernel adds about as much again */
#define FLUSH_NS INT64_C(1000000000)

static wire_fabric *self_of(pw_wire *wire) { return (wire_fabric *)wire; }

int pw_wire_put(wire_fabric *self, uint32_t number, uint8_t *data, uint32_t num_bytes,
                bool *is_free)
{
    const wire_peer *peer = &self->peers[number];
    if (peer->way == WAY_SHARED)
        return pw_shared_send(self->shared, number, data, num_bytes, is_free);
    return pw_core_messages_send(peer->messages, number, data, num_bytes, is_free, &self->reason);
}

static int send_unsettled(wire_fabric *self, uint32_t number, uint8_t *data, uint32_t num_bytes,
                          bool *is_free)
{
    wire_peer *peer = &self->peers[number];
    if (!peer->is_known)
        return pw_sentence_refuse(&self->reason, PW_ERR_INVALID,
                                  "the address of node %u is not known; insert it first", number);
    const int code = pw_wire_greet(self, number);
    if (code) return code;
    if (peer->way) return pw_wire_put(self, number, data, num_bytes, is_free);
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
    return pw_wire_put(self, peer, data, num_bytes, is_free);
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
        pw_wire_hear(self, out->source, out->data, out->num_bytes);
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
        pw_wire_hear(self, out->source, out->data, out->num_bytes);
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

static void wire_count(const pw_wire *wire, pw_wire_counts *out)
{
    const wire_fabric *self = (const wire_fabric *)wire;
    pw_shared_counters shared = {0};
    pw_core_messages_counters shm = {0}, tcp = {0};
    if (self->shared) pw_shared_read_counters(self->shared, &shared);
    if (self->shm) pw_core_messages_read_counters(self->shm, &shm);
    if (self->tcp) pw_core_messages_read_counters(self->tcp, &tcp);
    *out = (pw_wire_counts){.num_short = shared.num_short,
                            .num_in_place = shared.num_in_place,
                            .num_copied = shared.num_copied,
                            .num_by_message = shm.num_sent + tcp.num_sent};
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

static int64_t wall_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
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
    const int64_t end_ns = wall_ns() + FLUSH_NS;
    pw_wire_burst late;
    while (wire_sent(wire)) continue;
    while (has_unsent(self) && wall_ns() < end_ns) {
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
    pw_waiting_finish(&self->pool);
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
    .rest = wire_rest,
    .count = wire_count,
    .reason = pw_wire_fabric_reason,
    .close = wire_close,
};

static int open_messages(const wire_fabric *self, const pw_fabric_library *library,
                         const char *provider, const char *interface, uint8_t *name,
                         size_t room_bytes, uint8_t *name_bytes, pw_core_messages **out,
                         pw_sentence *reason)
{
    const pw_core_messages_options options = {.node = self->base.node,
                                              .num_nodes = self->base.num_nodes,
                                              .key = pw_wire_address_key(&self->hello.address)};
    size_t num_bytes = room_bytes;
    pw_core_messages *messages;
    int code = pw_core_messages_open(library, provider, interface, &options, &messages, reason);
    if (code) return code;
    code = pw_core_messages_name(messages, name, &num_bytes, reason);
    if (code) {
        pw_core_messages_close(messages, true);
        return code;
    }
    *name_bytes = (uint8_t)num_bytes;
    *out = messages;
    return PW_OK;
}

/* A run on one host needs no network, and one without shared memory has tcp: only when nothing is
 * left of what the mode allows is that an error. */
static int open_ways(wire_fabric *self, const pw_fabric_library *library,
                     const pw_wire_fabric_options *options, pw_sentence *reason)
{
    pw_wire_address *mine = &self->hello.address;
    if (options->mode == PW_WIRE_AUTO)
        (void)pw_shared_create(self->base.node, self->base.num_nodes, &self->shared,
                               &mine->segment);
    if (options->mode == PW_WIRE_SHM) {
        const int code =
            open_messages(self, library, "shm", NULL, mine->shm_name, sizeof mine->shm_name,
                          &mine->shm_name_bytes, &self->shm, reason);
        if (code) return code;
    }
    const int code =
        open_messages(self, library, "tcp", options->interface, mine->tcp_name,
                      sizeof mine->tcp_name, &mine->tcp_name_bytes, &self->tcp, &self->no_tcp);
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
    self->hello.magic = PW_HELLO_MAGIC;
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

const pw_wire_address *pw_wire_fabric_address(const pw_wire *wire)
{
    return &((const wire_fabric *)wire)->hello.address;
}

int pw_wire_fabric_connect(pw_wire *wire, const pw_wire_address *address, uint32_t *node)
{
    wire_fabric *self = self_of(wire);
    int code = pw_wire_address_check(address, wire->num_nodes, &self->reason);
    if (!code) code = pw_wire_introduce(self, address);
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
    pw_core_messages_counters shm = {0}, tcp = {0};
    if (self->shm) pw_core_messages_read_counters(self->shm, &shm);
    if (self->tcp) pw_core_messages_read_counters(self->tcp, &tcp);
    *out = self->counters;
    out->num_lost = shm.num_lost + tcp.num_lost;
    out->num_dropped = shm.num_dropped + tcp.num_dropped;
}
