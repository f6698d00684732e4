#include "replay/many.h"
#include <stdlib.h>
#include <string.h>

#include "native/own_memory.h"
#include "native/status.h"
#include "node/order.h"

#define NOBODY UINT32_MAX
#define FIRST_OUTBOX_BYTES ((uint64_t)1 << 16)
#define LARGE_FROM_NODES 64u /* some 100 KB each: for pages of 4 KB, and for caches */

/* ---- outboxes: what a process that holds a part of the nodes has to tell another one that holds
 * others. Both are of one build: what is told has the form that it has in memory. */

#define PW_LETTER_BURST 0        /* for the node, of the source: its bytes */
#define PW_LETTER_MEETING 1      /* the node has come: a pw_letter_meeting */
#define PW_LETTER_REGISTERED 2   /* by the node: a pw_registration */
#define PW_LETTER_DEREGISTERED 3 /* the same */

/* Before what is told, which is filled up to 8 bytes. */
typedef struct {
    uint32_t kind, node, source, num_bytes;
    int64_t sent_ns; /* a burst */
} pw_letter;

typedef struct {
    uint64_t group, num_members;
    int64_t now_ns;
} pw_letter_meeting;

/* Zero is an empty one. */
typedef struct {
    uint8_t *bytes;
    uint64_t num_bytes, capacity;
} pw_outbox;

static uint64_t filled_up(uint32_t num_bytes) { return ((uint64_t)num_bytes + 7) & ~UINT64_C(7); }

static void outbox_finish(pw_outbox *outbox) { free(outbox->bytes); }

static int outbox_make_room(pw_outbox *outbox, uint64_t num_bytes)
{
    uint64_t capacity = outbox->capacity ? outbox->capacity : FIRST_OUTBOX_BYTES;
    while (capacity < outbox->num_bytes + num_bytes) capacity *= 2;
    if (capacity == outbox->capacity) return PW_OK;
    uint8_t *bytes = realloc(outbox->bytes, capacity);
    if (!bytes) return PW_ERR_NOMEM;
    outbox->bytes = bytes;
    outbox->capacity = capacity;
    return PW_OK;
}

/* PW_ERR_NOMEM: nothing has changed. */
static int outbox_put(pw_outbox *outbox, const pw_letter *letter, const void *what)
{
    const uint64_t wanted = sizeof *letter + filled_up(letter->num_bytes);
    const int code = outbox_make_room(outbox, wanted);
    if (code < 0) return code;
    uint8_t *place = outbox->bytes + outbox->num_bytes;
    memset(place + wanted - sizeof(uint64_t), 0, sizeof(uint64_t));
    memcpy(place, letter, sizeof *letter);
    memcpy(place + sizeof *letter, what, letter->num_bytes);
    outbox->num_bytes += wanted;
    return PW_OK;
}

/* The next one of num_bytes at bytes, which go on behind it: 1; 0: they are over; PW_ERR_MALFORMED.
 */
static int letter_next(const uint8_t **bytes, uint64_t *num_bytes, pw_letter *letter,
                       const void **what)
{
    if (*num_bytes == 0) return 0;
    if (*num_bytes < sizeof *letter) return PW_ERR_MALFORMED;
    memcpy(letter, *bytes, sizeof *letter);
    const uint64_t taken = sizeof *letter + filled_up(letter->num_bytes);
    if (*num_bytes < taken) return PW_ERR_MALFORMED;
    *what = *bytes + sizeof *letter;
    *bytes += taken;
    *num_bytes -= taken;
    return 1;
}

/* ---- its life */

/* A rank, and the meeting that it was the first to come to. */
typedef struct {
    pw_node *node;
    pw_program *program;
    pw_registered registered;   /* of a node in another part */
    bool is_queued, is_waiting; /* the last: as the program's step has left it */
    uint64_t group, num_members, num_come;
    int64_t latest_ns;    /* of those that have come */
    uint32_t next_member; /* who came before, to the same meeting */
    uint32_t last_member;
    uint32_t chain; /* the next meeting of the bucket */
} seat;

struct pw_many {
    uint32_t num_nodes, num_ended, failed;
    const pw_node *first; /* that was opened; NULL: none yet */
    bool is_ordered;      /* by virtual time; else as the recorded turns say */
    seat *seats;
    uint32_t *meetings; /* by group, num_buckets of them: who came first */
    uint32_t num_buckets;
    pw_order *order;
    uint32_t num_parts, own; /* 0: all nodes are here */
    uint32_t *part_ends;
    pw_outbox *outboxes; /* a part's each */
    int64_t told_ns;     /* what they tell is felt from then on */
    int64_t end_ns;      /* of the window */
    uint32_t num_meeting;
    pw_sentence reason;
};

static int make_parts(pw_many *many)
{
    many->num_buckets = 1;
    while (many->num_buckets < many->num_nodes) many->num_buckets *= 2;
    many->seats = calloc(many->num_nodes, sizeof *many->seats);
    many->meetings = calloc(many->num_buckets, sizeof *many->meetings);
    if (!many->seats || !many->meetings) return PW_ERR_NOMEM;
    for (uint32_t i = 0; i < many->num_buckets; i++) many->meetings[i] = NOBODY;
    return pw_order_create(many->num_nodes, &many->order);
}

int pw_many_create(uint32_t num_nodes, pw_many **out)
{
    if (num_nodes == 0 || num_nodes > PW_NODES_MAX) return PW_ERR_INVALID;
    pw_many *many = calloc(1, sizeof *many);
    if (!many) return PW_ERR_NOMEM;
    many->num_nodes = num_nodes;
    many->told_ns = PW_NEVER;
    const int code = make_parts(many);
    if (code < 0) {
        pw_many_destroy(many);
        return code;
    }
    if (num_nodes >= LARGE_FROM_NODES) pw_own_use_huge_pages();
    *out = many;
    return PW_OK;
}

void pw_many_destroy(pw_many *many)
{
    if (!many) return;
    for (uint32_t i = 0; many->seats && i < many->num_nodes; i++) {
        pw_program_destroy(many->seats[i].program);
        pw_node_destroy(many->seats[i].node);
        pw_registered_finish(&many->seats[i].registered);
    }
    pw_order_destroy(many->order);
    for (uint32_t i = 0; many->outboxes && i < many->num_parts; i++)
        outbox_finish(&many->outboxes[i]);
    free(many->outboxes);
    free(many->part_ends);
    free(many->meetings);
    free(many->seats);
    free(many);
}

/* ---- who is next */

static void queue_at(pw_many *many, uint32_t node, int64_t time_ns)
{
    const pw_program *program = many->seats[node].program;
    many->seats[node].is_queued = true;
    pw_order_queue(many->order, node, time_ns, program && pw_program_yields(program));
}

static void queue_running(pw_many *many, uint32_t node)
{
    queue_at(many, node, pw_node_clock(many->seats[node].node)->now_ns);
}

/* Verifying: a burst for it has been sent. */
static bool wake(void *context, uint32_t node, const pw_wire_burst *burst)
{
    pw_many *many = context;
    const seat *self = &many->seats[node];
    (void)burst;
    if (!self->is_queued && self->is_waiting) queue_at(many, node, pw_order_now_ns(many->order));
    return false;
}

static uint64_t key_of(void *context, uint32_t peer, const pw_program_wish *wish)
{
    const pw_many *many = context;
    const seat *asked = &many->seats[peer];
    return asked->program ? pw_program_key(asked->program, wish)
                          : pw_registered_key(&asked->registered, wish);
}

/* ---- parts */

static uint32_t part_of(const pw_many *many, uint32_t node)
{
    uint32_t low = 0, high = many->num_parts - 1;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (node < many->part_ends[middle]) high = middle;
        else low = middle + 1;
    }
    return low;
}

static int tell_burst(void *context, uint32_t node, const pw_wire_burst *burst)
{
    pw_many *many = context;
    const pw_letter letter = {.kind = PW_LETTER_BURST,
                              .node = node,
                              .source = burst->source,
                              .num_bytes = burst->num_bytes,
                              .sent_ns = pw_order_now_ns(many->order)};
    many->told_ns = pw_earlier(many->told_ns, letter.sent_ns + pw_order_reach_ns(many->order));
    return outbox_put(&many->outboxes[part_of(many, node)], &letter, burst->data);
}

int pw_many_divide(pw_many *many, uint32_t num_parts, uint32_t own, const uint32_t *ends)
{
    many->part_ends = calloc(num_parts, sizeof *many->part_ends);
    many->outboxes = calloc(num_parts, sizeof *many->outboxes);
    if (!many->part_ends || !many->outboxes) return PW_ERR_NOMEM;
    memcpy(many->part_ends, ends, num_parts * sizeof *ends);
    many->num_parts = num_parts;
    many->own = own;
    pw_order_let_nodes(many->order, 0, own ? ends[own - 1] : 0, tell_burst, many);
    pw_order_let_nodes(many->order, ends[own], many->num_nodes, tell_burst, many);
    return PW_OK;
}

static void set_end(pw_many *many, int64_t end_ns)
{
    many->end_ns = end_ns;
    pw_order_set_limit(many->order, end_ns);
}

static int tell_all(pw_many *many, const pw_letter *letter, const void *what)
{
    int code = PW_OK;
    for (uint32_t part = 0; part < many->num_parts && code == PW_OK; part++)
        if (part != many->own) code = outbox_put(&many->outboxes[part], letter, what);
    return code;
}

static int tell_registered(void *context, uint32_t node, const pw_registration *made, bool is_gone)
{
    const pw_letter letter = {.kind = is_gone ? PW_LETTER_DEREGISTERED : PW_LETTER_REGISTERED,
                              .node = node,
                              .num_bytes = sizeof *made};
    return tell_all(context, &letter, made);
}

/* What all nodes have in common is that of the first one. */
static int begin(pw_many *many, const pw_node_config *config, uint32_t flags, pw_sentence *reason)
{
    many->is_ordered = !(flags & PW_REPLAY_VERIFIES);
    if (!many->is_ordered && config->run.ranks_per_node > 1)
        return pw_sentence_refuse(reason, PW_ERR_INVALID,
                                  "run.ranks_per_node = %lld: each rank of a recorded run had a "
                                  "node of its own; take 1 to verify it",
                                  (long long)config->run.ranks_per_node);
    const int64_t model = config->settings.network_model;
    if (!many->is_ordered && model != PW_NETWORK_PRIVATE)
        return pw_sentence_refuse(reason, PW_ERR_INVALID,
                                  "network.model = '%s': a recorded run had links of its own "
                                  "between each two nodes; take private to verify it",
                                  model == PW_NETWORK_LINKS ? "links" : "packets");
    if (!many->is_ordered) pw_order_let_bursts(many->order, wake, many);
    pw_topology *topology;
    int code = pw_node_config_topology(config, many->num_nodes, &topology, reason);
    if (code < 0) return code;
    code = pw_order_set_network(many->order, topology, &config->costs, &config->settings);
    return code < 0 ? pw_sentence_refuse(reason, code, "no memory for %u links",
                                         pw_topology_num_links(topology))
                    : PW_OK;
}

/* A rank of the same node that is open already; NULL: there is none. */
static pw_node *neighbour_of(const pw_many *many, uint32_t rank)
{
    const uint32_t together = pw_topology_together(pw_order_topology(many->order));
    const uint32_t first = rank - rank % together;
    for (uint32_t other = first; other < first + together && other < many->num_nodes; other++)
        if (many->seats[other].node) return many->seats[other].node;
    return NULL;
}

int pw_many_open(pw_many *many, uint32_t node, const pw_node_config *config,
                 const pw_node_opening *opening, const pw_chunk_source *source, uint32_t flags,
                 pw_sentence *reason)
{
    pw_wire *wire = pw_order_take_wire(many->order, node);
    if (!wire)
        return pw_sentence_refuse(reason, PW_ERR_INVALID, "node %u: nodes 0 to %u are made once",
                                  node, many->num_nodes - 1);
    seat *self = &many->seats[node];
    pw_node_opening own = *opening;
    int code = many->first ? PW_OK : begin(many, config, flags, reason);
    own.like = many->first;
    own.topology = pw_order_topology(many->order);
    own.links = pw_order_links(many->order);
    own.forwarding = pw_order_forwarding(many->order);
    if (code == PW_OK) own.neighbour = neighbour_of(many, node);
    if (code == PW_OK) code = pw_node_open(config, &own, wire, &self->node, reason);
    if (code < 0) {
        wire->ops->close(wire);
        return code;
    }
    if (!many->first) many->first = self->node;
    pw_order_add(many->order, node, pw_node_ni(self->node));
    const pw_program_options options = {
        .node = self->node,
        .source = *source,
        .eager_limit_bytes = (uint64_t)config->settings.eager_limit_bytes,
        .matches_freely = flags & PW_REPLAY_FREELY,
        .verifies = flags & PW_REPLAY_VERIFIES,
        .touch = flags / PW_REPLAY_TOUCH,
        .wire = wire,
        .key_of = key_of,
        .registered = many->num_parts ? tell_registered : NULL,
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

/* All have come; those that are here go on. */
static void end_meeting(pw_many *many, uint32_t first)
{
    seat *meeting = &many->seats[first];
    uint32_t *link = bucket_of(many, meeting->group);
    while (*link != first) link = &many->seats[*link].chain;
    *link = meeting->chain;
    many->num_meeting--;
    for (uint32_t next, node = meeting->last_member; node != NOBODY; node = next) {
        seat *member = &many->seats[node];
        next = member->next_member;
        if (!member->program) continue;
        pw_program_meet(member->program, meeting->latest_ns);
        member->is_waiting = false;
        if (!member->is_queued) queue_running(many, node);
    }
}

/* *is_over: it was the last one. */
static int come(pw_many *many, uint32_t node, const pw_letter_meeting *asked, bool *is_over)
{
    seat *self = &many->seats[node];
    const uint64_t group = asked->group;
    uint32_t *bucket = bucket_of(many, group), first = *bucket;
    while (first != NOBODY && many->seats[first].group != group) first = many->seats[first].chain;
    if (first == NOBODY) {
        first = node;
        self->group = group;
        self->num_members = asked->num_members;
        self->num_come = 0;
        self->latest_ns = 0;
        self->last_member = NOBODY;
        self->chain = *bucket;
        *bucket = first;
        many->num_meeting++;
    }
    seat *meeting = &many->seats[first];
    if (meeting->num_members != asked->num_members)
        return pw_sentence_refuse(&many->reason, PW_ERR_MALFORMED,
                                  "rank %u meets %llu ranks in group %llu, rank %u meets %llu",
                                  node, (unsigned long long)asked->num_members,
                                  (unsigned long long)group, first,
                                  (unsigned long long)meeting->num_members);
    self->next_member = meeting->last_member;
    meeting->last_member = node;
    meeting->latest_ns = pw_later(meeting->latest_ns, asked->now_ns);
    *is_over = ++meeting->num_come >= meeting->num_members;
    if (*is_over) end_meeting(many, first);
    return PW_OK;
}

/* Others may come to it in other parts, at this time already. */
static int come_to_meeting(pw_many *many, uint32_t node)
{
    const seat *self = &many->seats[node];
    pw_letter_meeting asked = {.now_ns = pw_node_clock(self->node)->now_ns};
    asked.group = pw_program_group(self->program, &asked.num_members);
    bool is_over;
    int code = come(many, node, &asked, &is_over);
    if (code < 0 || !many->num_parts) return code;
    const pw_letter letter = {.kind = PW_LETTER_MEETING, .node = node, .num_bytes = sizeof asked};
    many->told_ns = pw_earlier(many->told_ns, asked.now_ns);
    if (!is_over && asked.now_ns + 1 < many->end_ns) set_end(many, asked.now_ns + 1);
    return tell_all(many, &letter, &asked);
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

/* A program that runs goes on at its own events alone; the NI at any. */
static int step(pw_many *many, const pw_order_turn *turn)
{
    const uint32_t node = turn->node;
    pw_program *program = many->seats[node].program;
    const uint32_t waited = pw_program_waits(program);
    const bool runs = !waited && turn->kind == PW_TURN_HOST;
    const int64_t until_ns = pw_order_until_ns(many->order, node);
    int code = PW_OK;
    if (many->is_ordered) pw_node_set_horizon(many->seats[node].node, until_ns);
    if (runs) code = pw_program_go(program, until_ns);
    if (code >= 0 && runs && pw_program_waits(program) == PW_PROGRAM_WAITS_GROUP)
        code = come_to_meeting(many, node);
    if (code >= 0 && pw_program_waits(program)) code = pw_program_turn(program);
    else if (code >= 0 && many->is_ordered) code = pw_program_serve(program);
    if (code < 0) return fail(many, node, code);
    if (many->is_ordered) pw_order_look(many->order, node);
    const uint32_t waits = pw_program_waits(program);
    many->seats[node].is_waiting = waits != PW_PROGRAM_RUNS;
    many->num_ended += waits == PW_PROGRAM_ENDED && waited != PW_PROGRAM_ENDED;
    if (!waits && !many->seats[node].is_queued) queue_running(many, node);
    return PW_OK;
}

/* Whose turn is likely to be the next one: what it uses is fetched meanwhile. */
static void warm_next(const pw_many *many)
{
    uint32_t node;
    if (!pw_order_coming(many->order, &node) || !many->seats[node].program) return;
    pw_program_warm(many->seats[node].program);
    pw_node_warm(many->seats[node].node);
}

/* 1; 0: nothing can go on; or a code. */
static int turn(pw_many *many)
{
    pw_order_turn turn;
    const int code = pw_order_next(many->order, &turn);
    if (code < 0) return pw_sentence_refuse(&many->reason, code, "no memory for events");
    if (code == 0) return 0;
    if (turn.kind == PW_TURN_HOST) many->seats[turn.node].is_queued = false;
    if (many->num_nodes >= LARGE_FROM_NODES) warm_next(many);
    const int done = step(many, &turn);
    return done < 0 ? done : 1;
}

int pw_many_run(pw_many *many, uint64_t max_steps)
{
    int code = 1;
    for (uint64_t i = 0; code > 0 && i < max_steps; i++) code = turn(many);
    return code;
}

/* ---- windows of a replay in parts */

void pw_many_window_read(const pw_many *many, pw_many_window *out)
{
    *out = (pw_many_window){
        .next_ns = pw_earlier(pw_order_next_ns(many->order), many->told_ns),
        .reach_ns = pw_order_reach_ns(many->order),
        .num_meeting = many->num_meeting,
    };
}

int pw_many_run_window(pw_many *many, int64_t end_ns)
{
    int code = 1;
    set_end(many, end_ns);
    while (code > 0) code = turn(many);
    return code;
}

const uint8_t *pw_many_tells(const pw_many *many, uint32_t part, uint64_t *num_bytes)
{
    *num_bytes = many->outboxes[part].num_bytes;
    return many->outboxes[part].bytes;
}

void pw_many_has_told(pw_many *many)
{
    for (uint32_t part = 0; part < many->num_parts; part++) many->outboxes[part].num_bytes = 0;
    many->told_ns = PW_NEVER;
}

static int hear_of(pw_many *many, const pw_letter *letter, const void *what)
{
    seat *self = &many->seats[letter->node];
    const pw_wire_burst burst = {
        .source = letter->source, .num_bytes = letter->num_bytes, .data = what};
    pw_registration gone;
    bool is_over;
    switch (letter->kind) {
    case PW_LETTER_BURST: return pw_order_bring(many->order, letter->node, &burst, letter->sent_ns);
    case PW_LETTER_MEETING: return come(many, letter->node, what, &is_over);
    case PW_LETTER_REGISTERED: return pw_registered_add(&self->registered, what);
    default:
        (void)pw_registered_remove(&self->registered, ((const pw_registration *)what)->number,
                                   &gone);
        return PW_OK;
    }
}

int pw_many_hear(pw_many *many, const uint8_t *bytes, uint64_t num_bytes)
{
    pw_letter letter;
    const void *what;
    int code;
    while ((code = letter_next(&bytes, &num_bytes, &letter, &what)) > 0) {
        code = letter.node < many->num_nodes ? hear_of(many, &letter, what) : PW_ERR_MALFORMED;
        if (code < 0) break;
    }
    if (code < 0 && !many->reason.length)
        pw_sentence_refuse(&many->reason, code, "what another part of the replay tells: %s",
                           pw_status_text(code));
    return code;
}

/* ---- what can be seen of it */

const char *pw_many_reason(const pw_many *many) { return many->reason.text; }

void pw_many_read_counts(const pw_many *many, pw_many_counts *out)
{
    *out = (pw_many_counts){
        .steps = pw_order_num_turns(many->order), .ended = many->num_ended, .failed = many->failed};
    for (uint32_t i = 0; i < many->num_nodes; i++) {
        if (!many->seats[i].program) continue;
        out->records += pw_program_num_records(many->seats[i].program);
        out->events += pw_ni_num_events(pw_node_ni(many->seats[i].node));
    }
}

const pw_links *pw_many_links(const pw_many *many) { return pw_order_links(many->order); }

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
