#include "lab/joined.h"
#include <stdlib.h>
#include <string.h>

#include "native/status.h"

#define AT_ONCE INT64_MIN /* when an NI goes on that waits for a decision */

typedef struct {
    pw_ni *ni;
    pw_wire *wire;
    uint64_t entered;    /* during which run its program ran last */
    uint32_t next_moved; /* of the list */
    bool has_moved;
} member;

struct pw_joined {
    uint32_t num_nodes;
    bool is_over;    /* nothing is left to do */
    bool is_in_turn; /* an NI has told something, and may have more to do before the next turn */
    pw_order_turn turn;
    pw_order *order;
    uint64_t num_runs;
    uint32_t moved, num_moved; /* a list, the last one first */
    member members[];
};

static int make_network(pw_joined *joined, const pw_costs *costs, const pw_settings *settings,
                        const pw_network_texts *network, char *reason)
{
    pw_topology *made;
    int code = pw_topology_make(network, joined->num_nodes, (uint32_t)costs->nodes_per_qfdb, &made,
                                reason);
    return code < 0 ? code : pw_order_set_network(joined->order, made, costs, settings);
}

int pw_joined_create(uint32_t num_nodes, const pw_costs *costs, const pw_settings *settings,
                     const pw_network_texts *network, pw_joined **out,
                     char reason[PW_TOPOLOGY_REASON_BYTES])
{
    *out = NULL;
    strcpy(reason, "no memory for so many nodes and links");
    if (num_nodes == 0 || num_nodes > PW_NODES_MAX) return PW_ERR_INVALID;
    pw_joined *joined = calloc(1, sizeof *joined + num_nodes * sizeof *joined->members);
    if (!joined) return PW_ERR_NOMEM;
    joined->num_nodes = num_nodes;
    int code = pw_order_create(num_nodes, &joined->order);
    if (code == PW_OK) code = make_network(joined, costs, settings, network, reason);
    if (code < 0) pw_joined_destroy(joined);
    else *out = joined;
    return code;
}

void pw_joined_destroy(pw_joined *joined)
{
    if (!joined) return;
    for (uint32_t i = 0; i < joined->num_nodes; i++)
        if (joined->members[i].wire) joined->members[i].wire->ops->close(joined->members[i].wire);
    pw_order_destroy(joined->order);
    free(joined);
}

int pw_joined_add(pw_joined *joined, uint32_t node, pw_ni *ni)
{
    member *self = &joined->members[node];
    self->wire = pw_order_take_wire(joined->order, node);
    if (!self->wire) return PW_ERR_INVALID;
    self->ni = ni;
    pw_ni_set_network(ni, pw_order_topology(joined->order), pw_order_links(joined->order),
                      pw_order_forwarding(joined->order));
    pw_ni_set_unsealed(ni, true); /* bursts stay where they were written */
    pw_order_add(joined->order, node, ni);
    return PW_OK;
}

void pw_joined_enter(pw_joined *joined) { joined->num_runs++; }

static bool wants_decision(const member *self) { return pw_ni_next_ns(self->ni) == AT_ONCE; }

static void note_move(pw_joined *joined, uint32_t node)
{
    member *self = &joined->members[node];
    if (self->has_moved) return;
    self->has_moved = true;
    self->next_moved = joined->moved;
    joined->moved = node;
    joined->num_moved++;
}

uint32_t pw_joined_take_moved(pw_joined *joined, uint32_t *nodes, uint32_t capacity)
{
    uint32_t count = 0;
    for (; joined->num_moved && count < capacity; joined->num_moved--) {
        member *self = &joined->members[nodes[count++] = joined->moved];
        joined->moved = self->next_moved;
        self->has_moved = false;
    }
    return count;
}

/* Everything that waits leaves. */
static int flush(member *self)
{
    const pw_wire_ops *ops = self->wire->ops;
    pw_burst burst;
    int code = PW_OK;
    while (code >= 0 && pw_ni_tx_burst(self->ni, &burst)) {
        bool is_free = true;
        code = ops->send(self->wire, burst.peer, burst.data, burst.num_bytes, &is_free);
        if (is_free) pw_ni_tx_release(self->ni, burst.data);
    }
    for (uint8_t *data; (data = ops->sent(self->wire));) pw_ni_tx_release(self->ni, data);
    return code;
}

int pw_joined_note(pw_joined *joined, uint32_t node)
{
    member *self = &joined->members[node];
    note_move(joined, node);
    if (joined->is_in_turn && joined->turn.node == node) return PW_OK; /* at its end */
    const int code = flush(self);
    pw_order_look(joined->order, node);
    return code;
}

static int receive(member *self)
{
    const pw_wire_ops *ops = self->wire->ops;
    pw_wire_burst burst;
    int code = PW_OK;
    while (code >= 0 && ops->poll(self->wire, &burst) > 0) {
        code = pw_ni_rx_burst(self->ni, burst.source, burst.data, burst.num_bytes);
        ops->taken(self->wire, &burst);
    }
    return code;
}

/* 1: a node's turn is under way; 0: none is left; or a code. */
static int begin_turn(pw_joined *joined)
{
    int code = joined->is_in_turn ? 1 : pw_order_next(joined->order, &joined->turn);
    if (joined->is_in_turn || code <= 0) return code;
    member *self = &joined->members[joined->turn.node];
    joined->is_in_turn = true;
    note_move(joined, joined->turn.node);
    if (self->entered != joined->num_runs) pw_ni_enter(self->ni);
    self->entered = joined->num_runs;
    code = receive(self);
    return code < 0 ? code : 1;
}

static int64_t until_ns(const pw_joined *joined)
{
    return pw_order_until_ns(joined->order, joined->turn.node);
}

/* How many events there are; 0: the turn is over. Before anything is sent the host decides; and
 * answers leave by themselves, for a block behind them would hold them up. */
static int go_on(pw_joined *joined, pw_host_event *events, int max_events)
{
    member *self = &joined->members[joined->turn.node];
    int code = PW_OK, count;
    do {
        if (wants_decision(self)) {
            count = pw_ni_run(self->ni, AT_ONCE, events, max_events);
            return count ? count : PW_ERR_HOST;
        }
        if ((code = flush(self)) < 0) return code;
        count = pw_ni_run(self->ni, until_ns(joined), events, max_events);
        if (count == 0) code = flush(self);
    } while (code >= 0 && count == 0 && pw_ni_next_ns(self->ni) <= until_ns(joined));
    return code < 0 ? code : count;
}

int pw_joined_run(pw_joined *joined, uint64_t max_turns, pw_host_event *events, int max_events,
                  uint32_t *node)
{
    for (uint64_t i = 0; i < max_turns; i++) {
        int code = begin_turn(joined);
        *node = joined->turn.node;
        joined->is_over = code == 0;
        if (code <= 0) return code;
        if ((code = go_on(joined, events, max_events)) != 0) return code;
        joined->is_in_turn = false;
        pw_order_look(joined->order, *node);
    }
    return 0;
}

bool pw_joined_is_over(const pw_joined *joined) { return joined->is_over; }

uint64_t pw_joined_num_turns(const pw_joined *joined) { return pw_order_num_turns(joined->order); }
