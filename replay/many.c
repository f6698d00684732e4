#include "replay/many.h"
#include <stdlib.h>

#include "native/event_queue.h"
#include "native/own_memory.h"
#include "native/status.h"

/* Kinds of events of the heap. */
enum { RUN, ENGINE, BURST };

#define NOBODY UINT32_MAX
#define HUGE_FROM_NODES 64u /* some 100 KB each */

/* A rank, and the meeting that it was the first to come to. */
typedef struct {
    pw_node *node;
    pw_wire *wire; /* the node's */
    pw_program *program;
    bool is_queued, is_waiting; /* the last: as the program's step has left it */
    int64_t engine_ns;          /* of its event in the heap; PW_NEVER: it has none */
    uint64_t group, num_members, num_come;
    int64_t latest_ns;    /* of those that have come */
    uint32_t next_member; /* who came before, to the same meeting */
    uint32_t last_member;
    uint32_t chain; /* the next meeting of the bucket */
} seat;

struct pw_many {
    uint32_t num_nodes, num_ended, failed;
    const pw_node *first; /* that was opened; NULL: none yet */
    pw_wire **wires;      /* NULL: the node's */
    bool is_ordered;      /* by virtual time; else as the recorded turns say */
    pw_topology *topology;
    pw_links *links; /* NULL: each pair of nodes has one */
    seat *seats;
    uint32_t *meetings; /* by group, num_buckets of them: who came first */
    uint32_t num_buckets;
    pw_event_queue *queue;
    int64_t now_ns;   /* of the step */
    int64_t reach_ns; /* nothing that a node does is felt by another one before */
    uint64_t num_steps;
    pw_sentence reason;
};

/* ---- its life */

/* PW_ERR_NOMEM; the queue never grows, each node is in it once. */
static int make_parts(pw_many *many)
{
    many->num_buckets = 1;
    while (many->num_buckets < many->num_nodes) many->num_buckets *= 2;
    many->wires = calloc(many->num_nodes, sizeof(pw_wire *));
    many->seats = calloc(many->num_nodes, sizeof *many->seats);
    many->meetings = calloc(many->num_buckets, sizeof *many->meetings);
    if (!many->wires || !many->seats || !many->meetings) return PW_ERR_NOMEM;
    for (uint32_t i = 0; i < many->num_buckets; i++) many->meetings[i] = NOBODY;
    const int code = pw_event_queue_create(many->num_nodes, &many->queue);
    return code < 0 ? code : pw_wire_join(many->num_nodes, many->wires);
}

static bool wake(void *context, uint32_t node, const pw_wire_burst *burst);

int pw_many_create(uint32_t num_nodes, pw_many **out)
{
    if (num_nodes == 0 || num_nodes > PW_NODES_MAX) return PW_ERR_INVALID;
    pw_many *many = calloc(1, sizeof *many);
    if (!many) return PW_ERR_NOMEM;
    many->num_nodes = num_nodes;
    const int code = make_parts(many);
    if (code < 0) {
        pw_many_destroy(many);
        return code;
    }
    pw_wire_watch(many->wires[0], wake, many);
    if (num_nodes >= HUGE_FROM_NODES) pw_own_use_huge_pages();
    *out = many;
    return PW_OK;
}

void pw_many_destroy(pw_many *many)
{
    if (!many) return;
    for (uint32_t i = 0; many->seats && many->wires && i < many->num_nodes; i++) {
        pw_program_destroy(many->seats[i].program);
        pw_node_destroy(many->seats[i].node);
        if (many->wires[i]) many->wires[i]->ops->close(many->wires[i]);
    }
    pw_event_queue_destroy(many->queue);
    pw_links_destroy(many->links);
    pw_topology_destroy(many->topology);
    free(many->meetings);
    free(many->seats);
    free(many->wires);
    free(many);
}

/* ---- who is next */

#define LAST UINT16_MAX /* priority of one that lets those of its time go first */

/* Time, then node: the queue has 16 bits for the last. What has no room is missed at the next step.
 */
static void push(pw_many *many, uint32_t node, int64_t time_ns, uint32_t kind, uint32_t source,
                 uint64_t token)
{
    const pw_program *program = many->seats[node].program;
    const bool is_last = kind == RUN && program && pw_program_yields(program);
    const pw_event event = {.time_ns = time_ns,
                            .priority = is_last ? LAST : (uint16_t)(node >> 16),
                            .source = (uint16_t)node,
                            .kind = kind,
                            .subject = (uint64_t)source << 32 | node,
                            .detail = token};
    (void)pw_event_queue_push(many->queue, &event);
}

static uint32_t node_of(const pw_event *event) { return (uint32_t)event->subject; }

static void queue_at(pw_many *many, uint32_t node, int64_t time_ns)
{
    many->seats[node].is_queued = true;
    push(many, node, time_ns, RUN, 0, 0);
}

static void queue_running(pw_many *many, uint32_t node)
{
    queue_at(many, node, pw_node_clock(many->seats[node].node)->now_ns);
}

/* A burst for it has been sent. It comes when it arrives; messages of one source in their order. */
static bool wake(void *context, uint32_t node, const pw_wire_burst *burst)
{
    pw_many *many = context;
    const seat *self = &many->seats[node];
    bool keeps_order;
    if (!many->is_ordered) {
        if (!self->is_queued && self->is_waiting) queue_at(many, node, many->now_ns);
        return false;
    }
    const int64_t arrival_ns = pw_ni_arrival_ns(burst->data, burst->num_bytes, &keeps_order);
    push(many, node, pw_later(arrival_ns, many->now_ns), BURST, burst->source,
         keeps_order ? 0 : burst->token);
    return keeps_order;
}

/* What its NI will do of itself. */
static void queue_engine(pw_many *many, uint32_t node)
{
    seat *self = &many->seats[node];
    const int64_t next_ns = pw_ni_next_ns(pw_node_ni(self->node));
    if (next_ns == self->engine_ns) return;
    self->engine_ns = next_ns;
    if (next_ns != PW_NEVER) push(many, node, next_ns, ENGINE, 0, 0);
}

static uint64_t key_of(void *context, uint32_t peer, const pw_program_wish *wish)
{
    const pw_many *many = context;
    return pw_program_key(many->seats[peer].program, wish);
}

/* What all nodes have in common is that of the first one. */
static int begin(pw_many *many, const pw_node_config *config, uint32_t flags, pw_sentence *reason)
{
    const pw_settings *settings = &config->settings;
    many->is_ordered = !(flags & PW_REPLAY_VERIFIES);
    int code = pw_node_config_topology(config, many->num_nodes, &many->topology, reason);
    if (code < 0) return code;
    many->reach_ns = config->costs.ni_send_ns + config->costs.hop_ns + config->costs.ni_receive_ns;
    if (many->reach_ns < 1) many->reach_ns = 1;
    if (settings->network_model != PW_NETWORK_LINKS) return PW_OK;
    if (!many->is_ordered)
        return pw_sentence_refuse(reason, PW_ERR_INVALID,
                                  "network.model = 'links': a recorded run had links of its own "
                                  "between each two nodes; take private to verify it");
    code = pw_links_create(many->topology, &config->costs, settings->network_wait_limit_ns,
                           &many->links);
    return code < 0 ? pw_sentence_refuse(reason, code, "no memory for %u links",
                                         pw_topology_num_links(many->topology))
                    : PW_OK;
}

int pw_many_open(pw_many *many, uint32_t node, const pw_node_config *config,
                 const pw_node_opening *opening, const pw_chunk_source *source, uint32_t flags,
                 pw_sentence *reason)
{
    if (node >= many->num_nodes || !many->wires[node])
        return pw_sentence_refuse(reason, PW_ERR_INVALID, "node %u: nodes 0 to %u are made once",
                                  node, many->num_nodes - 1);
    seat *self = &many->seats[node];
    pw_wire *wire = many->wires[node];
    many->wires[node] = NULL;
    pw_node_opening own = *opening;
    int code = many->first ? PW_OK : begin(many, config, flags, reason);
    own.like = many->first;
    own.topology = many->topology;
    own.links = many->links;
    if (code < 0) wire->ops->close(wire);
    else code = pw_node_open(config, &own, wire, &self->node, reason);
    if (code < 0) return code;
    if (!many->first) many->first = self->node;
    self->engine_ns = PW_NEVER;
    self->wire = wire;
    if (many->is_ordered) (void)pw_wire_expect(wire, NULL, 0);
    const pw_program_options options = {
        .node = self->node,
        .source = *source,
        .eager_limit_bytes = (uint64_t)config->settings.eager_limit_bytes,
        .matches_freely = flags & PW_REPLAY_FREELY,
        .verifies = flags & PW_REPLAY_VERIFIES,
        .touch = flags / PW_REPLAY_TOUCH,
        .wire = wire,
        .key_of = key_of,
        .context = many,
    };
    code = pw_program_create(&options, &self->program, reason);
    if (code == PW_OK) queue_running(many, node);
    return code;
}

/* ---- meetings */

static uint32_t *bucket_of(pw_many *many, uint64_t group)
{
    const uint64_t hash = group * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    return &many->meetings[hash & (many->num_buckets - 1)];
}

/* All have come. */
static void end_meeting(pw_many *many, uint32_t first)
{
    seat *meeting = &many->seats[first];
    uint32_t *link = bucket_of(many, meeting->group);
    while (*link != first) link = &many->seats[*link].chain;
    *link = meeting->chain;
    for (uint32_t next, node = meeting->last_member; node != NOBODY; node = next) {
        seat *member = &many->seats[node];
        next = member->next_member;
        pw_program_meet(member->program, meeting->latest_ns);
        member->is_waiting = false;
        if (!member->is_queued) queue_running(many, node);
    }
}

static int come_to_meeting(pw_many *many, uint32_t node)
{
    seat *self = &many->seats[node];
    uint64_t num_members;
    const uint64_t group = pw_program_group(self->program, &num_members);
    uint32_t *bucket = bucket_of(many, group), first = *bucket;
    while (first != NOBODY && many->seats[first].group != group) first = many->seats[first].chain;
    if (first == NOBODY) {
        first = node;
        self->group = group;
        self->num_members = num_members;
        self->num_come = 0;
        self->latest_ns = 0;
        self->last_member = NOBODY;
        self->chain = *bucket;
        *bucket = first;
    }
    seat *meeting = &many->seats[first];
    if (meeting->num_members != num_members)
        return pw_sentence_refuse(&many->reason, PW_ERR_MALFORMED,
                                  "rank %u meets %llu ranks in group %llu, rank %u meets %llu",
                                  node, (unsigned long long)num_members, (unsigned long long)group,
                                  first, (unsigned long long)meeting->num_members);
    self->next_member = meeting->last_member;
    meeting->last_member = node;
    meeting->latest_ns = pw_later(meeting->latest_ns, pw_node_clock(self->node)->now_ns);
    if (++meeting->num_come >= num_members) end_meeting(many, first);
    return PW_OK;
}

/* ---- steps */

static int fail(pw_many *many, uint32_t node, int code)
{
    const char *why = pw_program_reason(many->seats[node].program);
    many->failed = node;
    if (*why) pw_sentence_refuse(&many->reason, code, "%s", why);
    else if (!many->reason.length)
        pw_sentence_refuse(&many->reason, code, "rank %u: %s", node, pw_status_text(code));
    return code;
}

/* Until when it is this node's turn: others may answer to what it does. */
static int64_t last_ns(const pw_many *many, uint32_t node)
{
    const pw_event *next = pw_event_queue_first(many->queue);
    const int64_t reach_ns = many->is_ordered ? many->now_ns + many->reach_ns - 1 : PW_NEVER;
    if (!next) return reach_ns;
    const int64_t until_ns = next->time_ns - (node_of(next) < node && next->priority != LAST);
    return until_ns < reach_ns ? until_ns : reach_ns;
}

/* A program that runs goes on at its own events alone; the NI at any. */
static int step(pw_many *many, uint32_t node, uint32_t kind)
{
    pw_program *program = many->seats[node].program;
    const uint32_t waited = pw_program_waits(program);
    const bool runs = !waited && kind == RUN;
    const int64_t until_ns = last_ns(many, node);
    int code = PW_OK;
    if (many->is_ordered) pw_node_set_horizon(many->seats[node].node, until_ns);
    if (runs) code = pw_program_go(program, until_ns);
    if (code >= 0 && runs && pw_program_waits(program) == PW_PROGRAM_WAITS_GROUP)
        code = come_to_meeting(many, node);
    if (code >= 0 && pw_program_waits(program)) code = pw_program_turn(program);
    else if (code >= 0 && many->is_ordered) code = pw_program_serve(program);
    if (code < 0) return fail(many, node, code);
    if (many->is_ordered) queue_engine(many, node);
    const uint32_t waits = pw_program_waits(program);
    many->seats[node].is_waiting = waits != PW_PROGRAM_RUNS;
    many->num_ended += waits == PW_PROGRAM_ENDED && waited != PW_PROGRAM_ENDED;
    if (!waits && !many->seats[node].is_queued) queue_running(many, node);
    return PW_OK;
}

int pw_many_run(pw_many *many, uint64_t max_steps)
{
    pw_event next;
    for (uint64_t i = 0; i < max_steps; i++) {
        if (!pw_event_queue_pop(many->queue, &next)) return 0;
        const uint32_t node = node_of(&next);
        seat *self = &many->seats[node];
        if (next.kind == ENGINE && next.time_ns != self->engine_ns) continue;
        many->now_ns = next.time_ns;
        many->num_steps++;
        if (next.kind == RUN) self->is_queued = false;
        else if (next.kind == ENGINE) self->engine_ns = PW_NEVER;
        else pw_wire_hand(self->wire, (uint32_t)(next.subject >> 32), next.detail);
        const int code = step(many, node, next.kind);
        if (code < 0) return code;
        if (pw_event_queue_lost_event(many->queue))
            return pw_sentence_refuse(&many->reason, PW_ERR_NOMEM, "no memory for events");
    }
    return 1;
}

/* ---- what can be seen of it */

const char *pw_many_reason(const pw_many *many) { return many->reason.text; }

void pw_many_read_counts(const pw_many *many, pw_many_counts *out)
{
    *out = (pw_many_counts){
        .steps = many->num_steps, .ended = many->num_ended, .failed = many->failed};
    for (uint32_t i = 0; i < many->num_nodes; i++) {
        if (!many->seats[i].program) continue;
        out->records += pw_program_num_records(many->seats[i].program);
        out->events += pw_ni_num_events(pw_node_ni(many->seats[i].node));
    }
}

const pw_links *pw_many_links(const pw_many *many) { return many->links; }

pw_node *pw_many_node(const pw_many *many, uint32_t node) { return many->seats[node].node; }

void pw_many_place(const pw_many *many, uint32_t node, pw_program_place *out)
{
    pw_program_read_place(many->seats[node].program, out);
}

void pw_many_difference(const pw_many *many, uint32_t node, pw_program_difference *out)
{
    pw_program_read_difference(many->seats[node].program, out);
}

uint32_t pw_many_unmatched(const pw_many *many, uint32_t node, pw_program_unmatched *out,
                           uint32_t capacity)
{
    return pw_program_read_unmatched(many->seats[node].program, out, capacity);
}
