/* How two nodes get to know each other, and which way their bursts take. */
#include <string.h>

#include "transport/fabric/wire_fabric_state.h"

/* Both ends choose alike: it depends on the two addresses only. */
static pw_core_messages *choose_messages(const wire_fabric *self, const pw_wire_address *theirs)
{
    const pw_wire_address *mine = pw_wire_fabric_address(&self->base);
    if (mine->shm_name_bytes && theirs->shm_name_bytes && pw_wire_address_is_near(mine, theirs))
        return self->shm;
    return mine->tcp_name_bytes && theirs->tcp_name_bytes ? self->tcp : NULL;
}

int pw_wire_introduce(wire_fabric *self, const pw_wire_address *address)
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
        code = pw_wire_put(self, number, burst->data, burst->num_bytes, &is_free);
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

int pw_wire_greet(wire_fabric *self, uint32_t number)
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
    return hello->magic == PW_HELLO_MAGIC && hello->address.node == number &&
           number != self->base.node &&
           !pw_wire_address_check(&hello->address, self->base.num_nodes, &ignored);
}

void pw_wire_hear(wire_fabric *self, uint32_t number, const uint8_t *data, uint32_t num_bytes)
{
    wire_peer *peer = &self->peers[number];
    wire_hello hello;
    if (num_bytes != sizeof hello) {
        self->counters.num_hellos_refused++;
        return;
    }
    memcpy(&hello, data, sizeof hello);
    if (!is_hello_of(self, number, &hello) || peer->has_heard ||
        pw_wire_introduce(self, &hello.address)) {
        self->counters.num_hellos_refused++;
        return;
    }
    peer->has_heard = true;
    peer->can_they_map = hello.can_map;
    /* Should there be no way back, whoever sends to the peer is told so. */
    (void)pw_wire_greet(self, number);
}
