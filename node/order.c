#include "node/order.h"
#include <stdlib.h>

#include "native/event_queue.h"
#include "native/status.h"

#define NO_TURN (INT64_MIN / 2) /* what a host sends then comes at its arrival */
#define LAST UINT16_MAX         /* priority of one that lets those of its time go first */
#define FIRST_CAPACITY 16u
#define PUSHED_BITS 40 /* of a sequence, below a node's 24 */
#define PUSHED_MASK ((UINT64_C(1) << PUSHED_BITS) - 1)
#define OWN ((UINT64_C(1) << (64 - PUSHED_BITS)) - 1)

_Static_assert(PW_NODES_MAX <= OWN, "a node's number fits into a sequence");

typedef struct {
    pw_ni *ni;
    pw_wire *wire;
    bool owns_wire; /* nobody has taken it */
    int64_t
        engine_ns; /* of its earliest event in the heap, which may be too early; PW_NEVER: none */
} place;

struct pw_order {
    uint32_t num_nodes;
    bool is_ordered; /* bursts are */
    pw_topology *topology;
    pw_links *links;           /* NULL: each pair of nodes has one */
    pw_forwarding *forwarding; /* NULL: blocks pass them as a whole */
    place *places;
    pw_event_queue *queue;
    int64_t now_ns;   /* of the turn; NO_TURN: none is left */
    int64_t reach_ns; /* nothing that a node does is felt by another one before */
    int64_t end_ns;   /* nor what happens to a packet by any */
    int64_t limit_ns; /* no turn at it or behind; PW_NEVER: there is none */
    uint64_t num_turns, num_pushed;
};

/* Time, node (the queue has 16 bits for its low part), then bursts by their sources before the
 * node's own events: whoever pushes first, also in another process, the order is the same. What has
 * no room is missed at the next turn. */
static void push(pw_order *order, int64_t time_ns, bool is_last, pw_event event)
{
    const uint32_t node = (uint32_t)event.subject;
    const uint64_t source = event.kind == PW_TURN_BURST ? event.subject >> 32 : OWN;
    event.time_ns = time_ns;
    event.priority = is_last ? LAST : (uint16_t)(node >> 16);
    event.source = (uint16_t)node;
    event.sequence = source << PUSHED_BITS | (order->num_pushed++ & PUSHED_MASK);
    (void)pw_event_queue_push_as_is(order->queue, &event);
}

static uint32_t node_of(const pw_event *event) { return (uint32_t)event->subject; }

/* Of a burst, or a piece of one, that is sent in this turn: when is it its destination's turn? When
 * it arrives. What tells another node something early, or is late, comes as soon as anything can:
 * so that what a node feels of others in a window is known before. What comes out of the packets'
 * network is there. */
static int64_t comes_ns(pw_order *order, uint32_t node, const pw_wire_burst *burst,
                        bool *keeps_order)
{
    const uint32_t together = order->topology ? pw_topology_together(order->topology) : 1;
    const bool is_there = order->forwarding || node / together == burst->source / together;
    const int64_t arrival_ns = pw_ni_arrival_ns(burst->data, burst->num_bytes, keeps_order);
    return pw_later(arrival_ns, order->now_ns + (is_there ? 0 : order->reach_ns));
}

/* A burst for it has been sent; messages of one source come in their order. */
static bool note_burst(void *context, uint32_t node, const pw_wire_burst *burst)
{
    pw_order *order = context;
    bool keeps_order;
    const int64_t time_ns = comes_ns(order, node, burst, &keeps_order);
    push(order, time_ns, false,
         (pw_event){.kind = PW_TURN_BURST,
                    .subject = (uint64_t)burst->source << 32 | node,
                    .detail = keeps_order ? 0 : burst->token});
    return keeps_order;
}

/* ---- its life */

static int make_wires(pw_order *order)
{
    pw_wire **wires = calloc(order->num_nodes, sizeof *wires);
    if (!wires) return PW_ERR_NOMEM;
    const int code = pw_wire_join(order->num_nodes, wires);
    for (uint32_t i = 0; code == PW_OK && i < order->num_nodes; i++)
        order->places[i] = (place){.wire = wires[i], .owns_wire = true, .engine_ns = PW_NEVER};
    free(wires);
    return code;
}

int pw_order_create(uint32_t num_nodes, pw_order **out)
{
    if (num_nodes == 0 || num_nodes > PW_NODES_MAX) return PW_ERR_INVALID;
    pw_order *order = calloc(1, sizeof *order);
    if (!order) return PW_ERR_NOMEM;
    order->num_nodes = num_nodes;
    order->is_ordered = true;
    order->limit_ns = PW_NEVER;
    order->places = calloc(num_nodes, sizeof *order->places);
    int code = order->places ? pw_event_queue_create(FIRST_CAPACITY, &order->queue) : PW_ERR_NOMEM;
    if (code == PW_OK) code = make_wires(order);
    if (code < 0) {
        pw_order_destroy(order);
        return code;
    }
    pw_wire_watch(order->places[0].wire, note_burst, pw_ni_arrives_first, order);
    *out = order;
    return PW_OK;
}

void pw_order_destroy(pw_order *order)
{
    if (!order) return;
    for (uint32_t i = 0; order->places && i < order->num_nodes; i++)
        if (order->places[i].owns_wire) order->places[i].wire->ops->close(order->places[i].wire);
    pw_event_queue_destroy(order->queue);
    pw_forwarding_destroy(order->forwarding);
    pw_links_destroy(order->links);
    pw_topology_destroy(order->topology);
    free(order->places);
    free(order);
}

int pw_order_set_network(pw_order *order, pw_topology *topology, const pw_costs *costs,
                         const pw_settings *settings)
{
    order->topology = topology;
    const int64_t hop_ns = pw_topology_together(topology) > 1 ? 0 : costs->hop_ns;
    order->reach_ns = pw_later(costs->ni_send_ns + hop_ns + costs->ni_receive_ns, 1);
    order->end_ns = pw_later(costs->hop_ns + costs->ni_receive_ns, 1);
    if (settings->network_model == PW_NETWORK_PRIVATE) return PW_OK;
    const int code =
        pw_links_create(topology, costs, settings->network_wait_limit_ns, &order->links);
    if (code < 0 || settings->network_model == PW_NETWORK_LINKS) return code;
    return pw_forwarding_create(order->links, &order->forwarding);
}

const pw_topology *pw_order_topology(const pw_order *order) { return order->topology; }

pw_links *pw_order_links(const pw_order *order) { return order->links; }

pw_forwarding *pw_order_forwarding(const pw_order *order) { return order->forwarding; }

pw_wire *pw_order_take_wire(pw_order *order, uint32_t node)
{
    if (node >= order->num_nodes || !order->places[node].owns_wire) return NULL;
    order->places[node].owns_wire = false;
    return order->places[node].wire;
}

void pw_order_add(pw_order *order, uint32_t node, pw_ni *ni)
{
    order->places[node].ni = ni;
    if (!order->is_ordered) return;
    pw_ni_set_in_order(ni);
    (void)pw_wire_expect(order->places[node].wire, NULL, 0);
}

void pw_order_let_bursts(pw_order *order,
                         bool (*sent)(void *context, uint32_t node, const pw_wire_burst *burst),
                         void *context)
{
    order->is_ordered = false;
    pw_wire_watch(order->places[0].wire, sent, NULL, context);
}

/* ---- nodes elsewhere */

void pw_order_let_nodes(pw_order *order, uint32_t first, uint32_t end,
                        int (*carry)(void *context, uint32_t node, const pw_wire_burst *burst),
                        void *context)
{
    for (uint32_t node = first; node < end; node++)
        pw_wire_set_away(order->places[node].wire, carry, context);
}

int pw_order_bring(pw_order *order, uint32_t node, const pw_wire_burst *burst, int64_t sent_ns)
{
    if (node >= order->num_nodes) return PW_ERR_INVALID;
    order->now_ns = sent_ns;
    return pw_wire_bring(order->places[node].wire, burst);
}

void pw_order_set_limit(pw_order *order, int64_t limit_ns) { order->limit_ns = limit_ns; }

int64_t pw_order_next_ns(const pw_order *order) { return pw_event_queue_next_ns(order->queue); }

int64_t pw_order_reach_ns(const pw_order *order) { return order->reach_ns; }

/* ---- who is next */

void pw_order_queue(pw_order *order, uint32_t node, int64_t time_ns, bool is_last)
{
    push(order, time_ns, is_last, (pw_event){.kind = PW_TURN_HOST, .subject = node});
}

/* A time that moves back and back is found at the earliest one. */
void pw_order_look(pw_order *order, uint32_t node)
{
    place *self = &order->places[node];
    const int64_t next_ns = pw_ni_next_ns(self->ni);
    if (next_ns >= self->engine_ns) return;
    self->engine_ns = next_ns;
    push(order, next_ns, false, (pw_event){.kind = PW_TURN_ENGINE, .subject = node});
}

/* Is the event still right? One that came too early is put where it belongs. */
static bool is_due(pw_order *order, const pw_event *event)
{
    if (event->kind != PW_TURN_ENGINE) return true;
    place *self = &order->places[node_of(event)];
    if (event->time_ns != self->engine_ns) return false;
    self->engine_ns = PW_NEVER;
    if (pw_ni_next_ns(self->ni) <= event->time_ns) return true;
    pw_order_look(order, node_of(event));
    return false;
}

/* Before what is under way now can be felt. */
static int64_t reach_until_ns(const pw_order *order)
{
    if (!order->is_ordered) return PW_NEVER;
    const int64_t own_ns = order->now_ns + order->reach_ns - 1;
    const int64_t reach_ns = own_ns < order->limit_ns ? own_ns : order->limit_ns - 1;
    const int64_t passes_ns =
        order->forwarding ? pw_forwarding_next_ns(order->forwarding) : PW_NEVER;
    return passes_ns < reach_ns - order->end_ns ? passes_ns + order->end_ns - 1 : reach_ns;
}

int64_t pw_order_until_ns(const pw_order *order, uint32_t node)
{
    const pw_event *next = pw_event_queue_first(order->queue);
    const int64_t reach_ns = reach_until_ns(order);
    if (!next) return reach_ns;
    const int64_t until_ns = next->time_ns - (node_of(next) < node && next->priority != LAST);
    return until_ns < reach_ns ? until_ns : reach_ns;
}

/* A block has come out of the network: it goes to its destination, where it is with its last
 * packet. */
static int bring(pw_order *order, const pw_forwarding_out *passed)
{
    const place *self = &order->places[passed->from];
    pw_burst burst;
    bool is_free;
    const int64_t last_ns = pw_ni_passed(self->ni, passed, &burst);
    if (last_ns == PW_NEVER) return PW_OK;
    order->now_ns = last_ns;
    const int code =
        self->wire->ops->send(self->wire, burst.peer, burst.data, burst.num_bytes, &is_free);
    pw_order_look(order, passed->from);
    return code;
}

/* All that comes out before the next turn. */
static int pass(pw_order *order)
{
    pw_forwarding_out passed;
    int code = 1, sent = PW_OK;
    while (code > 0 && sent == PW_OK) {
        const int64_t until_ns = pw_event_queue_next_ns(order->queue);
        code = pw_forwarding_run(order->forwarding, until_ns, &passed);
        if (code > 0) sent = bring(order, &passed);
    }
    return sent < 0 ? sent : code;
}

int pw_order_next(pw_order *order, pw_order_turn *out)
{
    pw_event next;
    do {
        const int code = order->forwarding ? pass(order) : PW_OK;
        if (code < 0) return code;
        if (pw_event_queue_lost_event(order->queue)) return PW_ERR_NOMEM;
        if (!pw_event_queue_length(order->queue)) order->now_ns = NO_TURN;
        if (pw_event_queue_next_ns(order->queue) >= order->limit_ns) return 0;
        if (!pw_event_queue_pop(order->queue, &next)) return 0;
    } while (!is_due(order, &next));
    *out = (pw_order_turn){.node = node_of(&next), .kind = next.kind};
    order->now_ns = next.time_ns;
    order->num_turns++;
    if (order->is_ordered) pw_ni_set_now(order->places[out->node].ni, next.time_ns);
    if (next.kind == PW_TURN_BURST)
        pw_wire_hand(order->places[out->node].wire, (uint32_t)(next.subject >> 32), next.detail);
    return 1;
}

bool pw_order_coming(const pw_order *order, uint32_t *node)
{
    const pw_event *next = pw_event_queue_first(order->queue);
    if (next) *node = node_of(next);
    return next != NULL;
}

int64_t pw_order_now_ns(const pw_order *order) { return order->now_ns; }

uint64_t pw_order_num_turns(const pw_order *order) { return order->num_turns; }
